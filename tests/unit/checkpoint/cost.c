/* The cost of a model small enough to count by hand. */
#include "engine/checkpoint/cost.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct tr_matrix matrix(int n, int k)
{
    return (struct tr_matrix){.type = TR_W_F32, .n = n, .k = k};
}

static struct tr_mlp mlp(int width, int d)
{
    return (struct tr_mlp){matrix(width, d), matrix(width, d), matrix(d, width)};
}

static struct tr_layer attention(void)
{
    return (struct tr_layer){.q = matrix(32, 64),
                             .k = matrix(16, 64),
                             .v = matrix(16, 64),
                             .gate = matrix(32, 64),
                             .o = matrix(64, 32)};
}

/* A dense layer and one with four experts, two of them active; F32, 4 bytes a weight. */
static void test_counts(void **state)
{
    (void)state;
    const float router[4 * 64] = {0};
    struct tr_mlp experts[4] = {mlp(16, 64), mlp(16, 64), mlp(16, 64), mlp(16, 64)};
    struct tr_layer layers[2] = {attention(), attention()};
    layers[0].mlp = mlp(48, 64);
    layers[1].experts = experts;
    layers[1].router_f32 = router;
    struct tr_weights w = {.layers = layers, .head = matrix(100, 64)};
    w.config.n_layers = 2;
    w.config.hidden_size = 64;
    w.config.n_experts = 4;
    w.config.n_active = 2;
    struct tr_cost cost = tr_weights_cost(&w);
    /* attention 8192 twice, dense MLP 9216, router 256, head 6400; an expert 3072 */
    assert_int_equal(cost.step_bytes, 4 * (2 * 8192 + 9216 + 256 + 6400));
    assert_int_equal(cost.expert_bytes, 4 * 4 * 3072);
    assert_int_equal(cost.token_flops, 2 * (2 * 8192 + 9216 + 256 + 2 * 3072));

    /* A shared expert is read by every step; a router in bf16 takes half. */
    const uint16_t router_bf16[4 * 64] = {0};
    layers[1].mlp = mlp(16, 64);
    layers[1].router_f32 = NULL;
    layers[1].router_bf16 = router_bf16;
    cost = tr_weights_cost(&w);
    assert_int_equal(cost.step_bytes, 4 * (2 * 8192 + 9216 + 128 + 6400 + 3072));
    assert_int_equal(cost.token_flops, 2 * (2 * 8192 + 9216 + 256 + 3 * 3072));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
