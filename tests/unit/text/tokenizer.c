/* Encoding and decoding, held against Hugging Face tokenizers' results. */
#include "engine/text/tokenizer.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/json.h"
#include "engine/text/detokenizer.h"

#define DEMO       "config/demo"
#define DEMO_SIZE  1024
#define SMALL      "tests/golden/plain"
#define SMALL_SIZE 285

static struct tr_tokenizer *load(const char *dir, int vocab_size)
{
    struct tr_tokenizer *t = NULL;
    struct tr_err err = {0};

    if (tr_tokenizer_load(&t, dir, vocab_size, &err))
        fail_msg("%s: %s", dir, err.msg);
    return t;
}

static char *show(const int32_t *ids, size_t n)
{
    static struct tr_buf b;

    tr_buf_clear(&b);
    for (size_t i = 0; i < n && i < 64; i++)
        tr_buf_addf(&b, " %d", ids[i]);
    tr_buf_addf(&b, " (%zu)", n);
    return b.data;
}

static void check_ids(const struct tr_tokenizer *t, const char *text, size_t n, unsigned flags,
                      const int32_t *expected, size_t n_expected)
{
    struct tr_ids ids = {0};

    assert_int_equal(tr_tokenizer_encode(t, text, n, flags, 0, &ids), TR_OK);
    if (ids.n != n_expected || memcmp(ids.ids, expected, n_expected * sizeof(*expected)) != 0) {
        print_error("\"%.*s\"\n found   %s\n", (int)TR_MIN(n, 100), text, show(ids.ids, ids.n));
        fail_msg(" expected%s", show(expected, n_expected));
    }
    free(ids.ids);
}

#define CHECK(t, text, flags, ...)                                                                 \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        check_ids(t, text, sizeof(text) - 1, flags, ids_, TR_ARRAY_LEN(ids_));                     \
    } while (0)

struct row {
    const char *text, *decoded;
    size_t n_text, n_decoded;
    int32_t *ids;
    size_t n_ids;
};

static size_t read_rows(const char *file, struct json_t **doc, struct row **ret)
{
    struct tr_err err = {0};
    struct tr_json root;
    struct row *rows;

    if (tr_json_read(doc, file, 1 << 24, &err))
        fail_msg("%s", err.msg);
    root = tr_json_root(*doc, file);
    rows = calloc(tr_json_size(&root), sizeof(*rows));
    assert_non_null(rows);
    for (size_t i = 0; i < tr_json_size(&root); i++) {
        struct tr_json row = tr_json_at(&root, i), ids = tr_json_get(&row, "ids");

        assert_int_equal(tr_json_string(&row, "text", &rows[i].text, &rows[i].n_text, &err), 0);
        assert_int_equal(
            tr_json_string(&row, "decoded", &rows[i].decoded, &rows[i].n_decoded, &err), 0);
        rows[i].n_ids = tr_json_size(&ids);
        rows[i].ids = malloc((rows[i].n_ids + 1) * sizeof(*rows[i].ids));
        for (size_t j = 0; j < rows[i].n_ids; j++) {
            struct tr_json id = tr_json_at(&ids, j);
            int64_t value;

            assert_int_equal(tr_json_as_int(&id, 0, INT32_MAX, &value, &err), 0);
            rows[i].ids[j] = (int32_t)value;
        }
    }
    *ret = rows;
    return tr_json_size(&root);
}

static void check_golden(const char *dir, int vocab_size, const char *file)
{
    struct tr_tokenizer *t = load(dir, vocab_size);
    struct tr_buf text = {0};
    struct json_t *doc;
    struct row *rows;
    size_t n = read_rows(file, &doc, &rows);

    assert_int_equal(n, 613);
    for (size_t i = 0; i < n; i++) {
        struct tr_detok d = {0};

        check_ids(t, rows[i].text, rows[i].n_text, TR_ENCODE_SPECIAL, rows[i].ids, rows[i].n_ids);
        tr_buf_clear(&text);
        for (size_t j = 0; j < rows[i].n_ids; j++)
            tr_detok_token(&d, t, rows[i].ids[j], false, &text);
        tr_detok_end(&d, false, &text);
        assert_int_equal(text.len, rows[i].n_decoded);
        assert_memory_equal(text.len ? text.data : "", rows[i].decoded, text.len);
        free(rows[i].ids);
    }
    free(rows);
    tr_json_free(doc);
    tr_buf_done(&text);
    tr_tokenizer_free(t);
}

static void test_golden_demo(void **state)
{
    (void)state;
    check_golden(DEMO, DEMO_SIZE, "tests/golden/tokens-demo.json");
}

static void test_golden_small(void **state)
{
    (void)state;
    check_golden(SMALL, SMALL_SIZE, "tests/golden/tokens-small.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_demo),
        cmocka_unit_test(test_golden_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
