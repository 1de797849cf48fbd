/* Tokenizer files that are refused, with the reason, and the forms that are taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/tokenizer_internal.h"

#define MODEL(members) "\"model\":{\"type\":\"BPE\"," members "}"
#define VOCAB          "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\u0120\":3,\"\u0120a\":4}"
#define BYTES                                                                                      \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define GOOD MODEL(VOCAB ",\"merges\":[[\"a\",\"b\"],\"\u0120 a\"]")
#define BOS                                                                                        \
    "\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true,\"normalized\":false}],"

static int load(struct tr_tokenizer **ret, const char *tokenizer, const char *config,
                const char *generation, struct tr_err *err)
{
    const char *const texts[] = {tokenizer, config, generation};
    const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                 "generation_config.json"};
    struct tr_json roots[3];
    struct json_t *docs[3];
    struct tr_tokenizer_files files;
    int code;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(tr_json_parse(&docs[i], texts[i], strlen(texts[i]), err), TR_OK);
        roots[i] = tr_json_root(docs[i], names[i]);
    }
    files = (struct tr_tokenizer_files){
        .tokenizer = roots[0], .config = roots[1], .generation = roots[2]};
    code = tr_tokenizer_from_json(ret, &files, 8, err);
    for (int i = 0; i < 3; i++)
        tr_json_free(docs[i]);
    return code;
}

static void test_refused(void **state)
{
    static const struct {
        const char *tokenizer, *message;
    } cases[] = {
        {"[]", "expected"},
        {"{}", "model"},
        {"{" BYTES ",\"model\":{\"type\":\"Unigram\"}}", "Unigram"},
        {"{" BYTES "," MODEL("\"dropout\":0.1") "}", "dropout"},
        {"{" BYTES "," MODEL("\"end_of_word_suffix\":\"</w>\"") "}", "end_of_word_suffix"},
        {"{" BYTES "," MODEL("\"merges\":[]") "}", "vocab"},
        {"{" BYTES "," MODEL(VOCAB) "}", "merges"},
        {"{" BYTES "," MODEL("\"unk_token\":\"a\"," VOCAB ",\"merges\":[]") "}", "unk_token"},
        {"{" BYTES "," MODEL("\"byte_fallback\":true," VOCAB ",\"merges\":[]") "}",
         "byte_fallback"},
        {"{" BYTES "," MODEL("\"vocab\":{\"a\":8},\"merges\":[]") "}",
         "has 9 tokens, the model's vocabulary 8"},
        {"{" BYTES "," MODEL("\"vocab\":{\"a\":-1},\"merges\":[]") "}", "vocab"},
        {"{" BYTES "," MODEL("\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]") "}", "twice"},
        {"{" BYTES "," MODEL("\"vocab\":{\"\":1},\"merges\":[]") "}", "twice"},
        {"{" BYTES "," MODEL(VOCAB ",\"merges\":[[\"a\",\"x\"]]") "}", "merges[0]"},
        {"{" BYTES "," MODEL(VOCAB ",\"merges\":[[\"b\",\"a\"]]") "}", "merges[0]"},
        {"{" BYTES "," MODEL(VOCAB ",\"merges\":[\"ab\"]") "}", "merges[0]"},
        {"{" BYTES "," MODEL(VOCAB ",\"merges\":[\"a b a\"]") "}", "merges[0]"},
        {"{" BYTES "," MODEL(VOCAB ",\"merges\":[[\"a\"]]") "}", "merges[0]"},
        {"{" BYTES "," MODEL(VOCAB ",\"merges\":[1]") "}", "merges[0]"},
        {"{\"normalizer\":{\"type\":\"Lowercase\"}," BYTES "," GOOD "}", "Lowercase"},
        {"{\"decoder\":{\"type\":\"Metaspace\"}," BYTES "," GOOD "}", "Metaspace"},
        {"{\"post_processor\":{\"type\":\"BertProcessing\"}," BYTES "," GOOD "}", "BertProcessing"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}," BYTES "," GOOD "}",
         "no place"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":\"x\"}]," BYTES "," GOOD "}", "added_tokens[0]"},
        {"{\"added_tokens\":[{\"id\":5,\"content\":\"a\"}]," BYTES "," GOOD "}", "added_tokens[0]"},
        {"{\"added_tokens\":[{\"id\":9,\"content\":\"x\"}]," BYTES "," GOOD "}", "has 10 tokens"},
        {"{\"added_tokens\":[{\"id\":5}]," BYTES "," GOOD "}", "content"},
    };

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_tokenizer *t = NULL;
        struct tr_err err = {0};

        if (load(&t, cases[i].tokenizer, "{}", "{}", &err) != TR_EFORMAT)
            fail_msg("%s is not refused", cases[i].tokenizer);
        assert_null(t);
        if (!strstr(err.msg, cases[i].message) || !strstr(err.msg, "tokenizer.json"))
            fail_msg("%s: \"%s\" has no \"%s\"", cases[i].tokenizer, err.msg, cases[i].message);
    }
}

static void check(const char *tokenizer, const char *config, const char *text, unsigned flags,
                  const char *expected)
{
    struct tr_tokenizer *t = NULL;
    struct tr_ids ids = {0};
    struct tr_buf out = {0};
    struct tr_err err = {0};

    if (load(&t, tokenizer, config, "{}", &err))
        fail_msg("%s: %s", tokenizer, err.msg);
    assert_int_equal(tr_tokenizer_encode(t, text, strlen(text), flags, 0, &ids), TR_OK);
    for (size_t i = 0; i < ids.n; i++)
        tr_buf_addf(&out, "%d ", ids.ids[i]);
    assert_string_equal(out.data ? out.data : "", expected);
    free(ids.ids);
    tr_buf_done(&out);
    tr_tokenizer_free(t);
}

static void test_forms_of_merges(void **state)
{
    (void)state;
    check("{" BYTES "," GOOD "}", "{}", "ab a", 0, "2 4 ");
    check("{" BYTES "," MODEL(VOCAB ",\"merges\":[\"#version: 0.2\",\"a b\"]") "}", "{}", "ab a", 0,
          "2 3 0 ");
}

/* Without ByteLevel the symbols are characters of the vocabulary; others vanish. */
static void test_no_pre_tokenizer(void **state)
{
    (void)state;
    check("{\"pre_tokenizer\":null," GOOD "}", "{}", "ab xa\u0120a", 0, "2 0 4 ");
    check("{" MODEL("\"ignore_merges\":true," VOCAB ",\"merges\":[]") "}", "{}", "ab", 0, "2 ");
}

static void test_begin_of_text(void **state)
{
    static const char template[] =
        "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},"
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
        "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[5]}}}]}," BOS BYTES
        "," GOOD "}";
    static const char plain[] = "{" BOS BYTES "," GOOD "}";
    static const char add[] = "{\"bos_token\":{\"content\":\"<s>\"},\"add_bos_token\":true}";
    static const char add_not[] = "{\"bos_token\":\"<s>\",\"add_bos_token\":false}";

    (void)state;
    check(plain, "{}", "ab", TR_ENCODE_BOS, "2 ");
    check(plain, add, "ab", TR_ENCODE_BOS, "5 2 ");
    check(plain, add, "ab", 0, "2 ");
    check(plain, add, "", TR_ENCODE_BOS, "5 ");
    check(plain, add, "<s>ab", TR_ENCODE_BOS | TR_ENCODE_SPECIAL, "5 2 ");
    check(plain, add_not, "<s>ab", TR_ENCODE_BOS | TR_ENCODE_SPECIAL, "5 2 ");
    check(template, "{}", "ab", TR_ENCODE_BOS, "5 2 ");
    check(template, add, "ab", TR_ENCODE_BOS, "5 2 ");
    check(template, add_not, "ab", TR_ENCODE_BOS, "2 ");
    check(template, "{}", "<s>ab", TR_ENCODE_BOS | TR_ENCODE_SPECIAL, "5 2 ");
}

static void test_ends(void **state)
{
    struct tr_tokenizer *t = NULL;
    struct tr_err err;
    const int32_t *eog;
    int n;

    (void)state;
    assert_int_equal(
        load(&t, "{" BOS BYTES "," GOOD "}", "{\"eos_token\":\"b\",\"pad_token\":\"gone\"}",
             "{\"eos_token_id\":[4,0,4,7],\"bos_token_id\":5,\"pad_token_id\":6}", &err),
        TR_OK);
    assert_int_equal(tr_tokenizer_bos(t), 5);
    assert_int_equal(tr_tokenizer_eos(t), 1);
    assert_int_equal(tr_tokenizer_pad(t), -1);
    eog = tr_tokenizer_eog(t, &n);
    assert_int_equal(n, 3);
    assert_int_equal(eog[0], 0);
    assert_int_equal(eog[1], 1);
    assert_int_equal(eog[2], 4);
    tr_tokenizer_free(t);
}

static void test_missing_file(void **state)
{
    struct tr_tokenizer *t = NULL;
    struct tr_err err = {0};

    (void)state;
    assert_int_equal(tr_tokenizer_load(&t, "tests/golden/none", 8, &err), TR_EIO);
    assert_null(t);
    assert_non_null(strstr(err.msg, "tests/golden/none/tokenizer.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_forms_of_merges),
        cmocka_unit_test(test_no_pre_tokenizer),
        cmocka_unit_test(test_begin_of_text),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_missing_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
