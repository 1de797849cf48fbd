/* The vocabulary as a GGUF file gives it: the same ids as from tokenizer.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/json.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/text/rows.h"

#define SIZE       320 /* ids from 285 on are padding */
#define MAX_MERGES 64

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 };

/* What the converter writes for tests/golden/plain. */
struct fixture {
    struct json_t *doc;
    struct tr_buf merges_text;
    const char *tokens[SIZE], *merges[MAX_MERGES];
    uint32_t token_bytes[SIZE], merge_bytes[MAX_MERGES];
    int32_t types[SIZE];
    struct tr_vocab_source src;
};

static void read_tokens(struct fixture *f, const struct tr_json *root)
{
    struct tr_json model = tr_json_get(root, "model"), vocab = tr_json_get(&model, "vocab"), item;
    struct tr_json added = tr_json_get(root, "added_tokens");
    struct tr_err err;
    void *iter = NULL;
    int64_t id;

    for (int i = 0; i < SIZE; i++) {
        f->tokens[i] = "[PAD]";
        f->token_bytes[i] = 5;
        f->types[i] = UNUSED;
    }
    while (tr_json_next(&vocab, &iter, &item)) {
        assert_int_equal(tr_json_as_int(&item, 0, SIZE - 1, &id, &err), TR_OK);
        f->tokens[id] = item.key;
        f->token_bytes[id] = (uint32_t)item.key_bytes;
        f->types[id] = NORMAL;
    }
    for (size_t i = 0; i < tr_json_size(&added); i++) {
        size_t n;
        bool special;

        item = tr_json_at(&added, i);
        assert_int_equal(tr_json_int(&item, "id", 0, SIZE - 1, &id, &err), TR_OK);
        assert_int_equal(tr_json_string(&item, "content", &f->tokens[id], &n, &err), TR_OK);
        assert_int_equal(tr_json_bool(&item, "special", &special, &err), TR_OK);
        f->token_bytes[id] = (uint32_t)n;
        f->types[id] = special ? CONTROL : USER_DEFINED;
    }
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct tr_json root, model, merges;
    struct tr_err err;
    size_t n, at = 0;

    assert_non_null(f);
    assert_int_equal(tr_json_read(&f->doc, "tests/golden/plain/tokenizer.json", 1 << 20, &err),
                     TR_OK);
    root = tr_json_root(f->doc, NULL);
    read_tokens(f, &root);
    model = tr_json_get(&root, "model");
    merges = tr_json_get(&model, "merges");
    n = tr_json_size(&merges);
    assert_in_range(n, 1, MAX_MERGES);
    for (size_t i = 0; i < n; i++) {
        struct tr_json merge = tr_json_at(&merges, i);
        struct tr_json left = tr_json_at(&merge, 0), right = tr_json_at(&merge, 1);
        const char *a, *b;

        assert_int_equal(tr_json_as_string(&left, &a, NULL, &err), TR_OK);
        assert_int_equal(tr_json_as_string(&right, &b, NULL, &err), TR_OK);
        f->merge_bytes[i] = (uint32_t)(strlen(a) + 1 + strlen(b));
        tr_buf_addf(&f->merges_text, "%s %s", a, b);
    }
    for (size_t i = 0; i < n; at += f->merge_bytes[i++])
        f->merges[i] = f->merges_text.data + at;
    f->src = (struct tr_vocab_source){
        .tokens = f->tokens,
        .token_bytes = f->token_bytes,
        .types = f->types,
        .n_tokens = SIZE,
        .merges = f->merges,
        .merge_bytes = f->merge_bytes,
        .n_merges = (int)n,
        .pre = "afmoe",
        .bos_id = 0,
        .eos_id = 3,
        .pad_id = 1,
        .eot_id = -1,
    };
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    tr_json_free(f->doc);
    tr_buf_done(&f->merges_text);
    free(f);
    return 0;
}

static void test_golden(void **state)
{
    const struct fixture *f = *state;
    struct rows rows = read_rows("tests/golden/tokens-small.json");
    struct tr_tokenizer *t = NULL;
    struct tr_ids ids = {0};
    struct tr_err err = {0};

    if (tr_tokenizer_from_vocab(&t, &f->src, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < rows.n; i++) {
        const struct row *r = &rows.rows[i];

        ids.n = 0;
        assert_int_equal(tr_tokenizer_encode(t, r->text, r->n_text, TR_ENCODE_SPECIAL, 0, &ids),
                         TR_OK);
        assert_int_equal(ids.n, r->n_ids);
        if (ids.n > 0)
            assert_memory_equal(ids.ids, r->ids, ids.n * sizeof(*ids.ids));
    }
    assert_int_equal(tr_tokenizer_size(t), SIZE);
    assert_true(tr_tokenizer_has_id(t, 284));
    assert_false(tr_tokenizer_has_id(t, 285));
    assert_int_equal(tr_tokenizer_bos(t), 0);
    assert_int_equal(tr_tokenizer_eos(t), 3);
    assert_int_equal(tr_tokenizer_pad(t), 1);
    assert_false(tr_tokenizer_adds_bos(t));
    free(ids.ids);
    free_rows(&rows);
    tr_tokenizer_free(t);
}

static void test_begin_of_text(void **state)
{
    struct tr_vocab_source src = ((const struct fixture *)*state)->src;
    struct tr_tokenizer *t = NULL;
    struct tr_ids ids = {0};
    struct tr_err err;

    src.add_bos = true;
    assert_int_equal(tr_tokenizer_from_vocab(&t, &src, &err), TR_OK);
    assert_true(tr_tokenizer_adds_bos(t));
    assert_int_equal(tr_tokenizer_encode(t, "hello", 5, TR_ENCODE_BOS, 0, &ids), TR_OK);
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.ids[0], 0);
    assert_int_equal(ids.ids[1], 268);
    free(ids.ids);
    tr_tokenizer_free(t);
}

static void test_refused(void **state)
{
    const struct fixture *f = *state;
    const char *merges[] = {"noseparator"}, *tokens[] = {"a", "a"};
    uint32_t bytes[] = {11, 1};
    struct tr_vocab_source src = f->src;
    struct tr_tokenizer *t = NULL;
    struct tr_err err = {0};

    src.pre = "frobnicate";
    assert_int_equal(tr_tokenizer_from_vocab(&t, &src, &err), TR_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "frobnicate"));
    src.pre = NULL;
    assert_int_equal(tr_tokenizer_from_vocab(&t, &src, &err), TR_EUNSUPPORTED);

    src = f->src;
    src.merges = merges;
    src.merge_bytes = bytes;
    src.n_merges = 1;
    assert_int_equal(tr_tokenizer_from_vocab(&t, &src, &err), TR_EFORMAT);
    assert_non_null(strstr(err.msg, "merge 0"));

    bytes[0] = 1;
    src = (struct tr_vocab_source){
        .tokens = tokens, .token_bytes = bytes, .n_tokens = 2, .pre = "afmoe"};
    assert_int_equal(tr_tokenizer_from_vocab(&t, &src, &err), TR_EFORMAT);
    assert_non_null(strstr(err.msg, "token 1"));
    src.n_tokens = 0;
    assert_int_equal(tr_tokenizer_from_vocab(&t, &src, &err), TR_EFORMAT);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_begin_of_text),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
