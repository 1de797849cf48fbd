/* A request's bytes to its jobs. */
#include "server/call/read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/tokenizer.h"
#include "server/api/completions.h"
#include "server/call/call.h"

/* Lists that hold for every prompt are read once and not copied for each. */
static void test_lists_are_shared(void **state)
{
    (void)state;
    static char body[] = "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":2,\"logit_bias\":{\"7\":1},"
                         "\"bad_words\":[\"x\"],\"stop_token_ids\":[9],"
                         "\"allowed_token_ids\":[5,6,7],\"max_tokens\":3}";
    struct tr_tokenizer *t = NULL;
    struct tr_err err;
    assert_int_equal(tr_tokenizer_load(&t, "config/demo", 4096, &err), 0);
    struct srv_req req = {.route = &srv_completions_route,
                          .body = {.data = body, .len = sizeof body - 1}};
    struct srv_call c = {.req = &req,
                         .api = req.route->api,
                         .context = {.tokenizer = t,
                                     .model = "demo",
                                     .context_length = 64,
                                     .max_choices = 8,
                                     .max_queue = 8,
                                     .random = 17}};
    srv_call_read(&c.work);
    assert_int_equal(c.err.code, 0);
    assert_int_equal(c.n_jobs, 3);
    assert_int_equal(c.n_answers, 6);
    assert_int_equal(c.n_choices, 0); /* they are made when the first job is admitted */
    const struct tr_job *first = c.jobs[0].job;
    assert_int_equal(first->sampling.n_bias, 1);
    assert_int_equal(first->sampling.n_allowed, 3);
    assert_int_equal(first->stop_ids[0], 9);
    for (int i = 0; i < c.n_jobs; i++) {
        const struct tr_job *job = c.jobs[i].job;
        assert_ptr_equal(job->sampling.bias, first->sampling.bias);
        assert_ptr_equal(job->sampling.bad_words, first->sampling.bad_words);
        assert_ptr_equal(job->sampling.allowed, first->sampling.allowed);
        assert_ptr_equal(job->stop_ids, first->stop_ids);
        assert_true(i == 0 || job->sampling.seed != first->sampling.seed); /* nobody gave one */
        assert_int_equal(job->max_tokens, 3);
        assert_int_equal(job->n, 2);
        assert_true(i == 0 || job->prompt != first->prompt);
    }
    srv_call_done(&c);
    tr_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists_are_shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
