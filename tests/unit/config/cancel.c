/* Work that is called off ends with an error of its own, wherever it is. */
#include "config/cancel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/json.h"
#include "engine/text/tokenizer.h"

static atomic_bool asked;

static int setup(void **state)
{
    (void)state;
    atomic_store(&asked, true);
    tr_cancel_watch(&asked);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tr_cancel_watch(NULL);
    return 0;
}

static void test_flag(void **state)
{
    (void)state;
    assert_true(tr_cancel_asked());
    atomic_store(&asked, false);
    assert_false(tr_cancel_asked());
    atomic_store(&asked, true);
    tr_cancel_watch(NULL);
    assert_false(tr_cancel_asked());
}

/* One piece that is merged for long, and many short ones. */
static void test_tokenizer(void **state)
{
    (void)state;
    struct tr_tokenizer *t = NULL;
    struct tr_err err;
    struct tr_ids ids = {0};
    enum { BYTES = 1 << 20 };
    tr_cancel_watch(NULL);
    assert_int_equal(tr_tokenizer_load(&t, "config/demo", 4096, &err), 0);
    char *text = malloc(BYTES);
    assert_non_null(text);
    tr_cancel_watch(&asked);
    memset(text, 'a', BYTES);
    assert_int_equal(tr_tokenizer_encode(t, text, BYTES, 0, 0, &ids), TR_ECANCELED);
    for (size_t i = 0; i < BYTES; i += 3)
        text[i] = ' ';
    assert_int_equal(tr_tokenizer_encode(t, text, BYTES, 0, 0, &ids), TR_ECANCELED);
    assert_int_equal(ids.n, 0);
    tr_cancel_watch(NULL);
    assert_int_equal(tr_tokenizer_encode(t, text, 100, 0, 0, &ids), 0);
    assert_true(ids.n > 0);
    free(ids.ids);
    free(text);
    tr_tokenizer_free(t);
}

static void test_json(void **state)
{
    (void)state;
    enum { BYTES = 2 << 20 };
    struct json_t *doc = NULL;
    struct tr_err err;
    char *text = malloc(BYTES);
    assert_non_null(text);
    memset(text, ' ', BYTES);
    text[0] = '[';
    text[BYTES - 1] = ']';
    assert_int_equal(tr_json_parse(&doc, text, BYTES, &err), TR_ECANCELED);
    tr_cancel_watch(NULL);
    assert_int_equal(tr_json_parse(&doc, text, BYTES, &err), 0);
    tr_json_free(doc);
    /* what is wrong with a long text is told as of a short one */
    text[BYTES - 1] = '}';
    assert_int_equal(tr_json_parse(&doc, text, BYTES, &err), TR_EINVAL);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_flag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tokenizer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
