/*
 * Loaded weights as the forward pass meets them: layout, packing, lifetime. What the values are is
 * checked against other people's readers in tests/checkpoint.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/hash.h"
#include "engine/checkpoint/bind.h"
#include "engine/checkpoint/gguf.h"
#include "engine/checkpoint/weights.h"

static struct tr_weights *open_as(const char *path, struct tr_weights_options o, int threads)
{
    struct tr_weights *w = NULL;
    struct tr_err err;
    assert_int_equal(tr_pool_open(&o.pool, threads, &err), 0);
    struct tr_checkpoint *checkpoint = NULL;
    if (tr_checkpoint_open(&checkpoint, path, &err) || tr_weights_open(&w, checkpoint, &o, &err))
        fail_msg("%s", err.msg);
    tr_checkpoint_close(checkpoint);
    tr_pool_close(o.pool);
    return w;
}

static struct tr_weights *open_with(const char *path, enum tr_weights_choice choice, bool use_mmap,
                                    int threads)
{
    struct tr_weights_options o = {.choice = choice, .use_mmap = use_mmap};
    return open_as(path, o, threads);
}

static const char *bytes_of(const struct tr_matrix *m)
{
    return m->data;
}

static size_t rounded(const struct tr_matrix *m)
{
    return TR_ROUND_UP(tr_packed_bytes(m->type, m->n, m->k), (size_t)64);
}

static void an_expert_is_one_run_of_memory(void **state)
{
    static const char *const paths[] = {"tests/golden/plain-bf16", "tests/golden/gguf/q4_k_m.gguf",
                                        "tests/golden/gguf/q8_0.gguf"};
    (void)state;
    for (size_t p = 0; p < TR_ARRAY_LEN(paths); p++) {
        struct tr_weights *w = open_with(paths[p], TR_WEIGHTS_AUTO, true, 2);
        const struct tr_model_config *c = &w->config;
        for (int i = c->n_dense; i < c->n_layers; i++) {
            const struct tr_mlp *x = w->layers[i].experts;
            const char *at = bytes_of(&x[0].gate);
            for (int e = 0; e < c->n_experts; e++) {
                const struct tr_matrix *m[] = {&x[e].gate, &x[e].up, &x[e].down};
                for (int j = 0; j < 3; j++) {
                    assert_ptr_equal(bytes_of(m[j]), at);
                    assert_int_equal((uintptr_t)at % 64, 0);
                    at += rounded(m[j]);
                }
            }
        }
        tr_weights_close(w);
    }
}

/* The tensor's rows from the file, packed in one call on one thread. */
static void check_packed(const struct tr_source *s, const char *name, uint64_t row0,
                         const struct tr_matrix *m)
{
    struct tr_err err;
    const struct tr_tensor *t = tr__source_find(s, name);
    assert_non_null(t);
    assert_int_equal(t->type, m->type);
    size_t row = tr_file_row_bytes(m->type, m->k), bytes = tr_packed_bytes(m->type, m->n, m->k);
    char *src = malloc(row * (size_t)m->n), *want = calloc(1, bytes);
    assert_true(src && want);
    assert_int_equal(
        tr__file_read(&s->files[t->file], t->offset + row0 * row, src, row * (size_t)m->n, &err),
        0);
    tr_pack_rows(m->type, src, 0, m->n, m->n, m->k, want);
    assert_memory_equal(m->data, want, bytes);
    free(want);
    free(src);
}

static void matrices_are_packed_whole(void **state)
{
    static const char *const types[] = {"bf16", "q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k"};
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(types); i++) {
        char path[64];
        struct tr_source s;
        struct tr_gguf *g;
        struct tr_err err;
        snprintf(path, sizeof path, "tests/golden/gguf/%s.gguf", types[i]);
        assert_int_equal(tr__source_init(&s, &err), 0);
        assert_int_equal(tr__gguf_open(&g, &s, path, &err), 0);
        struct tr_weights *w = open_with(path, TR_WEIGHTS_AUTO, true, 3);
        const struct tr_layer *l = &w->layers[1];
        check_packed(&s, "output.weight", 0, &w->head);
        check_packed(&s, "blk.1.attn_v.weight", 0, &l->v);
        check_packed(&s, "blk.0.ffn_down.weight", 0, &w->layers[0].mlp.down);
        for (int e = 0; e < w->config.n_experts; e++) {
            const struct tr_mlp *x = &l->experts[e];
            check_packed(&s, "blk.1.ffn_gate_exps.weight", (uint64_t)(e * x->gate.n), &x->gate);
            check_packed(&s, "blk.1.ffn_down_exps.weight", (uint64_t)(e * x->down.n), &x->down);
        }
        tr_weights_close(w);
        tr__gguf_close(g);
        tr__source_done(&s);
    }
}

static uint64_t sum_of_f32(const struct tr_weights *w)
{
    uint64_t sum = 0;
    for (int i = 0; i < w->config.n_layers; i++) {
        const struct tr_matrix *q = &w->layers[i].q;
        const uint32_t *bits = q->data;
        for (size_t k = 0; k < (size_t)q->n * (size_t)q->k; k++)
            sum = sum * 31 + bits[k];
    }
    for (size_t k = 0; k < (size_t)w->head.n * (size_t)w->head.k; k++)
        sum = sum * 31 + ((const uint32_t *)w->head.data)[k];
    float row[1024];
    for (int id = 0; id < w->config.vocab_size; id++) {
        tr_weights_embed(w, id, row);
        for (int k = 0; k < w->config.hidden_size; k++)
            sum = sum * 31 + (uint64_t)(int64_t)(row[k] * 1e6F);
    }
    return sum;
}

/* B54: without mmap nothing depends on the files any more. */
static void unmapped_weights_outlive_their_file(void **state)
{
    char command[256], folder[] = "/tmp/weights-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "cp tests/golden/plain/* %s", folder);
    assert_int_equal(system(command), 0);
    struct tr_weights *w = open_with(folder, TR_WEIGHTS_AUTO, false, 2);
    uint64_t before = sum_of_f32(w);
    snprintf(command, sizeof command, "%s/model.safetensors", folder);
    assert_int_equal(truncate(command, 0), 0);
    assert_true(sum_of_f32(w) == before);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_true(sum_of_f32(w) == before);
    tr_weights_close(w);
}

static void mapped_and_read_weights_are_the_same(void **state)
{
    (void)state;
    struct tr_weights *a = open_with("tests/golden/irregular", TR_WEIGHTS_AUTO, true, 1);
    struct tr_weights *b = open_with("tests/golden/irregular", TR_WEIGHTS_AUTO, false, 2);
    assert_true(sum_of_f32(a) == sum_of_f32(b));
    assert_memory_equal(a->fingerprint, b->fingerprint, sizeof a->fingerprint);
    tr_weights_close(a);
    tr_weights_close(b);
}

static void a_router_is_kept_in_bf16_only_without_loss(void **state)
{
    (void)state;
    struct tr_weights *exact = open_with("tests/golden/plain-bf16", TR_WEIGHTS_AUTO, true, 1);
    struct tr_weights *full = open_with("tests/golden/plain", TR_WEIGHTS_AUTO, true, 1);
    for (int i = exact->config.n_dense; i < exact->config.n_layers; i++) {
        assert_true(exact->layers[i].router_bf16 && !exact->layers[i].router_f32);
        assert_true(full->layers[i].router_f32 && !full->layers[i].router_bf16);
    }
    tr_weights_close(exact);
    tr_weights_close(full);
}

/* ---- the packed cache ---- */

struct end {
    atomic_int n; /* times that the writer has told */
    bool well;
};

static void on_packed(void *arg, double seconds, const struct tr_err *err)
{
    struct end *end = arg;
    assert_true(seconds >= 0);
    end->well = !err;
    atomic_fetch_add(&end->n, 1);
}

/* The demo checkpoint, its packed form written to `folder` beside its use. */
static struct tr_weights_options demo_kept_in(const char *folder, enum tr_weights_choice choice,
                                              struct end *end)
{
    return (struct tr_weights_options){.choice = choice,
                                       .use_mmap = true,
                                       .packed_cache = folder,
                                       .on_packed = on_packed,
                                       .on_packed_arg = end};
}

static struct tr_hash hash_of_matrices(const struct tr_weights *w)
{
    const struct tr_matrix *head = &w->head;
    struct tr_hash h = tr_hash(head->data, tr_packed_bytes(head->type, head->n, head->k));
    for (int i = 0; i < w->config.n_layers; i++) {
        const struct tr_layer *l = &w->layers[i];
        const struct tr_matrix *m[] = {&l->q, &l->k, &l->v, &l->gate, &l->o, &l->mlp.gate};
        for (size_t j = 0; j < TR_ARRAY_LEN(m); j++)
            h = tr_hash_link(h, m[j]->data, tr_packed_bytes(m[j]->type, m[j]->n, m[j]->k));
        h = tr_hash_link(h, l->input_norm, (size_t)w->config.hidden_size * sizeof(float));
    }
    return h;
}

static int count_files(const char *folder, const char *ending)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        size_t len = strlen(d->d_name);
        n += len > strlen(ending) && strcmp(d->d_name + len - strlen(ending), ending) == 0;
    }
    closedir(dir);
    return n;
}

static void remove_folder(const char *folder)
{
    char command[256];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* Loaded, mapped, read: three kinds of memory with the same bytes. */
static void packed_weights_are_the_same(void **state)
{
    char folder[] = "/tmp/weights-XXXXXX";
    struct end end = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    struct tr_weights_options o = demo_kept_in(folder, TR_WEIGHTS_Q8_0, &end);
    struct tr_weights *first = open_as("config/demo", o, 2);
    assert_false(first->from_packed);
    assert_int_equal(first->cached_bytes, 0);
    while (!atomic_load(&end.n))
        pause_ms(1);
    assert_true(end.well);
    assert_int_equal(count_files(folder, ".packed"), 1);
    struct tr_weights *mapped = open_as("config/demo", o, 3);
    o.use_mmap = false;
    o.packed_cache = NULL;
    struct tr_weights *plain = open_as("config/demo", o, 1);
    o.packed_cache = folder;
    struct tr_weights *made_again =
        open_as("config/demo", o, 2); /* another plan: the embedding is in it */
    tr_weights_close(made_again);
    o.on_packed = NULL;
    tr_weights_close(open_as("config/demo", o, 2));
    struct tr_weights *read = open_as("config/demo", o, 2);
    struct tr_weights *all[] = {first, mapped, plain, read};
    assert_true(mapped->from_packed && read->from_packed && !plain->from_packed);
    assert_true(mapped->cached_bytes > 0 && read->cached_bytes == 0);
    remove_folder(folder);
    struct tr_hash want = hash_of_matrices(first);
    for (size_t i = 0; i < TR_ARRAY_LEN(all); i++) {
        struct tr_hash got = hash_of_matrices(all[i]);
        assert_true(tr_hash_equal(got, want));
        assert_memory_equal(all[i]->fingerprint, first->fingerprint, sizeof first->fingerprint);
    }
    for (size_t i = 0; i < TR_ARRAY_LEN(all); i++)
        tr_weights_close(all[i]);
}

/* A writer that is cut short leaves nothing behind; one that had ended leaves a whole file. */
static void closing_cuts_writing_short(void **state)
{
    char folder[] = "/tmp/weights-XXXXXX";
    struct end end = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    struct tr_weights_options o = demo_kept_in(folder, TR_WEIGHTS_BF16, &end);
    for (int i = 0; i < 8; i++) {
        char command[256];
        struct tr_weights *w = open_as("config/demo", o, 2);
        assert_false(w->from_packed);
        pause_ms(i);
        tr_weights_close(w);
        assert_int_equal(count_files(folder, ".part"), 0);
        if (count_files(folder, ".packed")) {
            w = open_as("config/demo", o, 2);
            assert_true(w->from_packed);
            tr_weights_close(w);
        }
        snprintf(command, sizeof command, "rm -f %s/*", folder);
        assert_int_equal(system(command), 0);
    }
    remove_folder(folder);
}

static void a_failure_leaves_the_result_alone(void **state)
{
    struct tr_checkpoint *checkpoint = (struct tr_checkpoint *)state;
    struct tr_err err = {0};
    assert_int_equal(tr_checkpoint_open(&checkpoint, "tests/golden", &err), TR_EIO);
    assert_non_null(strstr(err.msg, "config.json"));
    assert_ptr_equal(checkpoint, state);
    assert_null(tr_checkpoint_close(NULL));
    assert_null(tr_weights_close(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expert_is_one_run_of_memory),
        cmocka_unit_test(matrices_are_packed_whole),
        cmocka_unit_test(unmapped_weights_outlive_their_file),
        cmocka_unit_test(mapped_and_read_weights_are_the_same),
        cmocka_unit_test(a_router_is_kept_in_bf16_only_without_loss),
        cmocka_unit_test(packed_weights_are_the_same),
        cmocka_unit_test(closing_cuts_writing_short),
        cmocka_unit_test(a_failure_leaves_the_result_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
