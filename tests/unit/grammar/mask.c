/* Masks against the plain truth: every id advanced alone. A toy vocabulary with parts of characters, duplicates, a
 * control token, ids without bytes; and the demo checkpoint's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/grammar/grammar.h"
#include "engine/text/tokenizer.h"

enum { TOY_IDS = 310 };

static const char *const words[] = {
    "{\"",
    "\":",
    "\":\"",
    "\",\"",
    "\"}",
    "},",
    "],",
    "[[",
    "]]",
    "}}",
    "true",
    "false",
    "null",
    "ab",
    "abc",
    "abcdef",
    "\xC3",
    "\xA9",
    "\xC3\xA9",
    "\xF0\x9F",
    "\x98\x80",
    "\xE2\x82",
    "\xAC",
    "\\u00",
    "\\n",
    "\\\"",
    "0.",
    "00",
    "12",
    "-1",
    "e+",
    "ab",
    "ab",
    "\n ",
    "  ",
    "aaaaaaaaaaaaaaaaaaaaaaaa",
    "\xC3\xA9\xC3\xA9\xC3\xA9",
    "x\"",
    "xyz\":",
    "cat",
    "",
    "a\":1,\"a\":",
    "\":1,\"a",
    ",\"a\":1",
    "1,\"",
    "\":1,",
    "1,\"a",
};

/* Ids 0..255 are the bytes, then the words; the last has no bytes, the one before is a control token. */
static const char *toy_piece(const void *arg, int32_t id, size_t *ret_n, bool *ret_special)
{
    static char bytes[256];

    (void)arg;
    *ret_special = id == TOY_IDS - 2;
    if (id < 256) {
        bytes[id] = (char)id;
        *ret_n = 1;
        return &bytes[id];
    }
    const char *s = (size_t)id - 256 < TR_ARRAY_LEN(words) ? words[id - 256]
                    : id == TOY_IDS - 2                    ? "ab"
                                                           : NULL;
    *ret_n = s ? strlen(s) : 0;
    return s;
}

static const char *demo_piece(const void *arg, int32_t id, size_t *ret_n, bool *ret_special)
{
    return tr_tokenizer_piece(arg, id, ret_n, ret_special);
}

struct vocabulary {
    struct tr_grammar_vocab *v;
    tr_grammar_piece_fn *piece;
    const void *arg;
    int n;
};

static struct tr_tokenizer *tokenizer;
static struct vocabulary toy, demo;

static int open_all(void **state)
{
    (void)state;
    toy = (struct vocabulary){NULL, toy_piece, NULL, TOY_IDS};
    assert_int_equal(tr_grammar_vocab_open(&toy.v, toy.n, toy.piece, toy.arg), 0);
    assert_int_equal(tr_tokenizer_load(&tokenizer, "config/demo", 1024, NULL), 0);
    demo = (struct vocabulary){NULL, demo_piece, tokenizer, 1024};
    assert_int_equal(tr_grammar_vocab_open(&demo.v, demo.n, demo.piece, demo.arg), 0);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    toy.v = tr_grammar_vocab_close(toy.v);
    demo.v = tr_grammar_vocab_close(demo.v);
    tokenizer = tr_tokenizer_free(tokenizer);
    return 0;
}

static struct tr_grammar *compile(const struct vocabulary *voc, enum tr_grammar_kind kind,
                                  const char *text)
{
    struct tr_grammar_source source = {.kind = kind, .text = {text, strlen(text)}, .indent = 4};
    struct tr_grammar *g = NULL;
    struct tr_err err = {0};
    if (tr_grammar_compile(&g, &source, voc->v, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return g;
}

static struct tr_grammar_mask *new_mask(const struct vocabulary *voc)
{
    struct tr_grammar_mask *m = calloc(1, sizeof(*m));
    m->bits = calloc((size_t)tr_grammar_vocab_words(voc->v), sizeof(*m->bits));
    return m;
}

static void free_mask(struct tr_grammar_mask *m)
{
    free(m->bits);
    free(m);
}

static bool allowed(const struct tr_grammar_mask *m, int32_t id)
{
    if (!m->listed)
        return m->bits[id / 64] >> (id % 64) & 1;
    for (int i = 0; i < m->n; i++)
        if (m->ids[i] == id)
            return true;
    return false;
}

/* Compares the mask of s with what each id does alone; returns an id that fits, chosen by `chance`, or -1. */
static int32_t check_mask(const struct vocabulary *voc, struct tr_grammar_state *s,
                          struct tr_grammar_mask *m, unsigned chance)
{
    int32_t fits[1024];
    int n = 0;

    assert_int_equal(tr_grammar_mask(s, m), 0);
    for (int32_t id = 0; id < voc->n; id++) {
        size_t k;
        bool special = false, fit = false;
        const char *bytes = voc->piece(voc->arg, id, &k, &special);
        if (bytes && k > 0 && !special) {
            int r = tr_grammar_advance(s, bytes, k);
            fit = r == 0;
            if (fit)
                assert_int_equal(tr_grammar_rollback(s, 1), 0);
            else
                assert_int_equal(r, TR_EINVAL);
        }
        if (fit != allowed(m, id))
            fail_msg("id %d: mask %d, alone %d", id, !fit, fit);
        if (fit)
            fits[n++] = id;
    }
    assert_int_equal(n, m->n);
    assert_int_equal(m->listed, n <= TR_GRAMMAR_LIST_MAX);
    assert_int_equal(m->may_end, tr_grammar_may_end(s));
    assert_int_equal(tr_grammar_mask_forced(m), n == 1 && !m->may_end ? fits[0] : -1);
    return n > 0 ? fits[chance % (unsigned)n] : -1;
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void walk(const struct vocabulary *voc, enum tr_grammar_kind kind, const char *text,
                 int walks, int steps)
{
    struct tr_grammar *g = compile(voc, kind, text);
    struct tr_grammar_mask *m = new_mask(voc);
    unsigned seed = 7;

    for (int w = 0; w < walks; w++) {
        struct tr_grammar_state *s = NULL;
        assert_int_equal(tr_grammar_state_open(&s, g), 0);
        for (int i = 0; i < steps; i++) {
            size_t k;
            bool special;
            int32_t id = check_mask(voc, s, m, next_random(&seed));
            if (id < 0) {
                assert_true(m->may_end);
                break;
            }
            const char *bytes = voc->piece(voc->arg, id, &k, &special);
            assert_int_equal(tr_grammar_advance(s, bytes, k), 0);
        }
        tr_grammar_state_free(s);
    }
    free_mask(m);
    tr_grammar_unref(g);
}

static const char *const patterns[] = {
    "[a-c]{2,5}",
    "(ab|abc)*x",
    "[^\"\\\\\\x00-\\x1f]*",
    "\"[^\"\\\\\\x00-\\x1f]{0,300}\"",
    "\"[^\"\\\\\\x00-\\x1f]{3,7}\"",
    "(a{1,3}|[b-d]{2})+",
    ".{0,40}x",
    "\xC3\xA9{1,3}\xE2\x82\xAC?",
    "(a|ab)(c|bcd)*",
    "((a?b?){0,30}c){2,40}",
    "[a-z]{200,300}1",
    "(.|\\n)*\xF0\x9F\x98\x80",
    "-?(0|[1-9][0-9]*)(\\.[0-9]+)?",
};

static void masks_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(patterns); i++) {
        walk(&toy, TR_GRAMMAR_REGEX, patterns[i], 4, 25);
        walk(&demo, TR_GRAMMAR_REGEX, patterns[i], 1, 25);
    }
}

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"string\",\"maxLength\":300},\"abc\":{"
    "\"type\":\"integer\"},"
    "\"x\":{\"enum\":[\"cat\",\"ab\",null,true,12]}},\"required\":[\"abc\"]}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":3},\"minItems\":2,"
    "\"maxItems\":500}",
    "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":-1,\"maximum\":120},"
    "\"minItems\":300}",
    "{\"type\":\"string\",\"pattern\":\"^(a|\\\\u00e9){2,}x?$\",\"maxLength\":400}",
    "{\"type\":\"string\",\"minLength\":200}",
    "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"maxProperties\":2},"
    "\"properties\":{\"xyz\":{}}}",
    "{\"anyOf\":[{\"type\":\"string\",\"maxLength\":20},{\"type\":\"string\",\"pattern\":\"^ab\"},{"
    "\"type\":\"array\"}]}",
    "true",
    /* Names that come once: a few, by several languages, some of which have no others behind. */
    "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"ab\",\",\"]},"
    "\"additionalProperties\":{"
    "\"const\":1}}",
    "{\"type\":\"object\",\"patternProperties\":{\"^[ab]$\":{\"const\":1},\"^,a*$\":{\"const\":1}},"
    "\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"b\":{\"const\":1}},\"propertyNames\":{\"pattern\":\"^["
    "ab,]{0,2}$\"},"
    "\"additionalProperties\":{\"const\":1},\"maxProperties\":5}",
    "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^([ab,]*|x\\u001f)$\"},"
    "\"additionalProperties\":{"
    "\"enum\":[1,\",\",{\"a\":1}]}}",
    "{\"type\":\"object\",\"propertyNames\":{\"maxLength\":1},\"additionalProperties\":{\"$ref\":"
    "\"#\"}}",
    /* Items that come once. */
    "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}",
    "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\",\"pattern\":\"^[ab,]{"
    "0,2}$\"}"
    ",\"minItems\":3,\"maxItems\":12}",
};

static void masks_of_schemas_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(schemas); i++) {
        walk(&toy, TR_GRAMMAR_JSON_SCHEMA, schemas[i], 6, 40);
        walk(&demo, TR_GRAMMAR_JSON_SCHEMA, schemas[i], 1, 25);
    }
}

static void a_choice_is_spelled_out(void **state)
{
    struct tr_grammar_text choices[] = {
        {"abc", 3}, {"ab", 2}, {"true", 4}, {"abcdef", 6}, {"ab", 2}};
    struct tr_grammar_source source = {
        .kind = TR_GRAMMAR_CHOICE, .choices = choices, .n_choices = 5};
    struct tr_grammar_mask *m = new_mask(&toy);
    struct tr_grammar_state *s = NULL;
    struct tr_grammar *g = NULL;

    (void)state;
    assert_int_equal(tr_grammar_compile(&g, &source, toy.v, NULL), 0);
    assert_int_equal(tr_grammar_state_open(&s, g), 0);
    check_mask(&toy, s, m, 0);
    assert_false(m->may_end);
    assert_int_equal(tr_grammar_advance(s, "ab", 2), 0);
    check_mask(&toy, s, m, 0);
    assert_true(m->may_end);
    assert_int_equal(m->n, 1); /* c; "cdef" is no token */
    assert_int_equal(m->ids[0], 'c');
    assert_int_equal(tr_grammar_mask_forced(m), -1);
    assert_int_equal(tr_grammar_advance(s, "t", 1), TR_EINVAL);
    assert_int_equal(tr_grammar_advance(s, "cdef", 4), 0);
    check_mask(&toy, s, m, 0);
    assert_true(m->may_end);
    assert_int_equal(m->n, 0);
    tr_grammar_state_free(s);
    tr_grammar_unref(g);
    free_mask(m);
}

static void forced_bytes_are_known(void **state)
{
    struct tr_grammar *g = compile(&toy, TR_GRAMMAR_REGEX, "(xyz|xyab)(12){3}(3|4)");
    struct tr_grammar_state *s = NULL;
    char bytes[16];
    size_t n;

    (void)state;
    assert_int_equal(tr_grammar_state_open(&s, g), 0);
    assert_int_equal(tr_grammar_forced_bytes(s, bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 2);
    assert_memory_equal(bytes, "xy", 2);
    assert_int_equal(tr_grammar_advance(s, "xya", 3), 0);
    assert_int_equal(tr_grammar_forced_bytes(s, bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 7);
    assert_memory_equal(bytes, "b121212", 7);
    assert_int_equal(tr_grammar_forced_bytes(s, bytes, 3, &n), 0);
    assert_int_equal(n, 3);
    tr_grammar_state_free(s);
    tr_grammar_unref(g);
}

static void steps_are_taken_back(void **state)
{
    struct tr_grammar *g = compile(&toy, TR_GRAMMAR_REGEX, "(a{1,3}b)*");
    struct tr_grammar_state *s = NULL, *copy = NULL;

    (void)state;
    assert_int_equal(tr_grammar_state_open(&s, g), 0);
    assert_int_equal(tr_grammar_rollback(s, 1), TR_EINVAL);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tr_grammar_advance(s, "aaa", 3), 0);
        assert_int_equal(tr_grammar_advance(s, "a", 1), TR_EINVAL);
        assert_int_equal(tr_grammar_advance(s, "b", 1), 0);
    }
    assert_true(tr_grammar_may_end(s));
    assert_int_equal(tr_grammar_state_copy(&copy, s), 0);
    assert_int_equal(tr_grammar_rollback(s, 1), 0);
    assert_false(tr_grammar_may_end(s));
    assert_true(tr_grammar_may_end(copy));
    assert_int_equal(tr_grammar_rollback(s, TR_GRAMMAR_ROLLBACK), TR_EINVAL);
    assert_int_equal(tr_grammar_rollback(s, TR_GRAMMAR_ROLLBACK - 1), 0);
    assert_int_equal(tr_grammar_rollback(s, 1), TR_EINVAL);
    assert_true(tr_grammar_may_end(s));
    assert_int_equal(tr_grammar_rollback(copy, 2), 0);
    assert_int_equal(tr_grammar_advance(copy, "b", 1), TR_EINVAL);
    tr_grammar_state_reset(copy);
    assert_true(tr_grammar_may_end(copy));
    tr_grammar_unref(g); /* the states keep it */
    tr_grammar_state_free(s);
    assert_int_equal(tr_grammar_advance(copy, "ab", 2), 0);
    tr_grammar_state_free(copy);
}

/* However deep a text may go, from its deepest place there is a way back. */
static void depth_is_bounded_and_closes(void **state)
{
    static const char *const kinds[] = {
        "true",
        "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"array\",\"items\":{\"anyOf\":"
        "[{\"$ref\":\"#/$defs/a\"},{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":"
        "false,\"maxItems\":0},\"minItems\":1}]},\"minItems\":1}}}"};
    struct tr_grammar_mask *m = new_mask(&toy);

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(kinds); i++) {
        struct tr_grammar *g = compile(&toy, TR_GRAMMAR_JSON_SCHEMA, kinds[i]);
        struct tr_grammar_state *s = NULL;
        int depth = 0;
        assert_int_equal(tr_grammar_state_open(&s, g), 0);
        while (tr_grammar_advance(s, "[", 1) == 0)
            depth++;
        assert_in_range(depth, 60, 300);
        check_mask(&toy, s, m, 0);
        for (; depth > 0; depth--) {
            assert_int_equal(tr_grammar_advance(s, "]", 1), 0);
            if (depth % 16 == 0)
                check_mask(&toy, s, m, 0);
        }
        assert_true(tr_grammar_may_end(s));
        tr_grammar_state_free(s);
        tr_grammar_unref(g);
    }
    free_mask(m);
}

/* So ambiguous that the store fills many times over: what the states need must survive. */
static void a_full_store_is_collected(void **state)
{
    struct tr_grammar *g = compile(&toy, TR_GRAMMAR_REGEX, "((a|aa|b){0,3000}c){0,50}");
    struct tr_grammar_mask *m = new_mask(&toy);
    struct tr_grammar_state *s = NULL, *early = NULL;

    (void)state;
    assert_int_equal(tr_grammar_state_open(&s, g), 0);
    assert_int_equal(tr_grammar_advance(s, "aab", 3), 0);
    assert_int_equal(tr_grammar_state_copy(&early, s), 0);
    for (int i = 0; i < 1500; i++)
        assert_int_equal(tr_grammar_advance(s, i % 3 ? "a" : "ab", i % 3 ? 1 : 2), 0);
    check_mask(&toy, s, m, 0);
    assert_int_equal(tr_grammar_rollback(s, 20), 0);
    check_mask(&toy, s, m, 0);
    assert_false(tr_grammar_may_end(s));
    assert_int_equal(tr_grammar_advance(s, "c", 1), 0);
    assert_true(tr_grammar_may_end(s));
    assert_int_equal(tr_grammar_advance(early, "aac", 3), 0);
    assert_true(tr_grammar_may_end(early));
    tr_grammar_state_free(s);
    tr_grammar_state_free(early);
    tr_grammar_unref(g);
    free_mask(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_exact),
        cmocka_unit_test(masks_of_schemas_are_exact),
        cmocka_unit_test(a_choice_is_spelled_out),
        cmocka_unit_test(forced_bytes_are_known),
        cmocka_unit_test(steps_are_taken_back),
        cmocka_unit_test(a_full_store_is_collected),
        cmocka_unit_test(depth_is_bounded_and_closes),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
