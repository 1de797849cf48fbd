/* Tool calls in an answer, cut in every way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/tools.h"

struct call {
    const char *name, *arguments;
};

struct row {
    enum tr_tool_format format;
    const char *text;
    bool stopped, parallel; /* how the answer ended; parallel_tool_calls */
    const char *content;
    struct call calls[3];
};

/* The types of the parameters of f. */
static const char tools_json[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"g\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
    "\"object\","
    "  \"properties\": {\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"},"
    "   \"n\": {\"type\": \"number\"}, \"b\": {\"type\": \"boolean\"}, \"o\": {\"type\": "
    "\"object\"},"
    "   \"a\": {\"type\": \"array\"}, \"sn\": {\"type\": [\"string\", \"null\"]},"
    "   \"in\": {\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"null\"}]}, \"any\": {}}}}}]";

#define H TR_TOOL_HERMES
#define X TR_TOOL_XML

static const struct row rows[] = {
    /* Two calls, closing tags and brackets in strings. */
    {H,
     "ok\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"q\": \"a </tool b\", \"n\": [1, {\"x\": "
     "\"}\"}]}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {\"u\": "
     "\"\\u00e9\xf0\x9f\x98\x80\"}}\n</tool_call>",
     true,
     true,
     "ok",
     {{"f", "{\"q\": \"a </tool b\", \"n\": [1, {\"x\": \"}\"}]}"},
      {"g", "{\"u\": \"\\u00e9\xf0\x9f\x98\x80\"}"}}},
    /* Whatever white space there is; text behind a call, which is trimmed at the end; a closing tag in a string. */
    {H,
     "<tool_call>{\"arguments\":{\"a\":\"</tool_call>\\\"}\"},\"name\":\"f\"}</tool_call>\n\nthen "
     "\n",
     true,
     true,
     "\n\nthen",
     {{"f", "{\"a\":\"</tool_call>\\\"}\"}"}}},
    {H, "plain <b> text\n", true, true, "plain <b> text\n", {{0}}},
    {H, " \n", true, true, " \n", {{0}}},
    {H, "a <tool_cal", true, true, "a <tool_cal", {{0}}},
    /* No arguments; arguments in a string; null. */
    {H, "<tool_call>{\"name\": \"f\"}</tool_call>", true, true, "", {{"f", "{}"}}},
    {H,
     "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>\n",
     true,
     true,
     "",
     {{"f", "{\"a\": 1}"}}},
    {H,
     "<tool_call>{\"name\":\"f\",\"arguments\":null}</tool_call>",
     true,
     true,
     "",
     {{"f", "{}"}}},
    /* Cut by max_tokens: half a call is none, and leaves no trace. */
    {H, "ok <tool_call>\n{\"name\": \"f\", \"argum", false, true, "ok", {{0}}},
    {H, "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool", false, true, "", {{0}}},
    {H, "<to", false, true, "", {{0}}},
    {H,
     "<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"na",
     false,
     true,
     "",
     {{"f", "{}"}}},
    /* Ended by the model with only the closing tag missing. */
    {H, "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n", true, true, "", {{"f", "{}"}}},
    /* Malformed: text. */
    {H, "a <tool_call>b</tool_call> c", true, true, "a <tool_call>b</tool_call> c", {{0}}},
    {H,
     "<tool_call>{\"name\": }</tool_call>",
     true,
     true,
     "<tool_call>{\"name\": }</tool_call>",
     {{0}}},
    {H, "<tool_call>{\"name\": \"f\"", true, true, "<tool_call>{\"name\": \"f\"", {{0}}},
    {H,
     "<tool_call>{\"name\": 5}</tool_call>",
     true,
     true,
     "<tool_call>{\"name\": 5}</tool_call>",
     {{0}}},
    {H,
     "<tool_call>{\"name\":\"f\",\"arguments\":5}</tool_call>",
     true,
     true,
     "<tool_call>{\"name\":\"f\",\"arguments\":5}</tool_call>",
     {{0}}},
    {H,
     "<tool_call>{\"name\":\"f\"} x<tool_call>{\"name\":\"g\"}</tool_call>",
     true,
     true,
     "<tool_call>{\"name\":\"f\"} x",
     {{"g", "{}"}}},
    /* One call only. */
    {H,
     "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"g\"}</tool_call>",
     true,
     false,
     "",
     {{"f", "{}"}}},
    /* Every type. */
    {X,
     "ok\n<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=i>\n12\n</"
     "parameter>\n"
     "<parameter=n>\n1.5\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n<parameter=o>\n{\"k\": "
     "[1]}\n</parameter>\n<parameter=a>\n[\"x\"]\n</parameter>\n</function>\n</tool_call>",
     true,
     true,
     "ok",
     {{"f", "{\"s\": \"12\", \"i\": 12, \"n\": 1.5, \"b\": true, \"o\": {\"k\": [1]}, \"a\": "
            "[\"x\"]}"}}},
    /* null; what is not of its type stays text; a parameter nobody declared. */
    {X,
     "<tool_call>\n<function=f>\n<parameter=s>\nnull\n</parameter>\n<parameter=sn>\nnull\n</"
     "parameter>\n"
     "<parameter=in>\nnull\n</parameter>\n<parameter=i>\nseven\n</parameter>\n<parameter=zz>\n5\n"
     "</parameter>\n<parameter=any>\n{}\n</parameter>\n</function>\n</tool_call>",
     true,
     true,
     "",
     {{"f",
       "{\"s\": \"null\", \"sn\": null, \"in\": null, \"i\": \"seven\", \"zz\": \"5\", \"any\": "
       "\"{}\"}"}}},
    /* Line breaks and tags inside values; an empty one; no parameters. */
    {X,
     "<tool_call>\n<function=f>\n<parameter=s>\n\n a\n</parameter> b \"\n\n</parameter>\n"
     "</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>\n"
     "<tool_call><function=f><parameter=s></parameter></function></tool_call>",
     true,
     true,
     "",
     {{"f", "{\"s\": \"\\n a\\n</parameter> b \\\"\\n\"}"}, {"g", "{}"}, {"f", "{\"s\": \"\"}"}}},
    /* The last of two parameters of one name. */
    {X,
     "<tool_call><function=f><parameter=i>1</parameter><parameter=i>2</parameter></function>"
     "</tool_call>",
     true,
     true,
     "",
     {{"f", "{\"i\": 2}"}}},
    /* A value that spells another parameter's tag. */
    {X,
     "<tool_call><function=f><parameter=i>1</parameter><parameter=s>see <parameter=i> there"
     "</parameter></function></tool_call>",
     true,
     true,
     "",
     {{"f", "{\"i\": 1, \"s\": \"see <parameter=i> there\"}"}}},
    {X, "<tool_call>\n<function=f>\n<parameter=s>\na", false, true, "", {{0}}},
    {X, "x <tool_call>\n<functio", true, true, "x <tool_call>\n<functio", {{0}}},
    {X, "<tool_call>hi</tool_call>", true, true, "<tool_call>hi</tool_call>", {{0}}},
    {X,
     "<tool_call><function=f>x</parameter></tool_call>y",
     true,
     true,
     "<tool_call><function=f>x</parameter></tool_call>y",
     {{0}}},
    {TR_TOOL_NONE, "a <tool_call>", true, true, "a <tool_call>", {{0}}},
};

/* What came out. */
struct record {
    struct tr_buf content;
    struct tr_buf name[4], arguments[4];
    int n_calls, n_ended;
};

static int note(void *arg, const struct tr_tool_event *e)
{
    struct record *r = arg;
    switch (e->kind) {
    case TR_TOOL_CONTENT:
        assert_true(e->n > 0);
        tr_buf_add(&r->content, e->text, e->n);
        break;
    case TR_TOOL_CALL:
        assert_int_equal(e->index, r->n_calls);
        assert_int_equal(r->n_ended, r->n_calls);
        tr_buf_add(&r->name[r->n_calls++], e->text, e->n);
        break;
    case TR_TOOL_ARGUMENTS:
        assert_int_equal(e->index, r->n_calls - 1);
        assert_true(e->n > 0);
        assert_true(((unsigned char)e->text[0] & 0xc0) != 0x80);
        tr_buf_add(&r->arguments[e->index], e->text, e->n);
        break;
    case TR_TOOL_CALL_END:
        assert_int_equal(e->index, r->n_calls - 1);
        r->n_ended++;
        break;
    }
    return 0;
}

static const char *text_of(const struct tr_buf *b)
{
    return b->len ? b->data : "";
}

static void check(const struct row *row, const struct tr_json *tools, size_t first, size_t part)
{
    struct record r = {0};
    struct tr_tool_parser p = {
        .format = row->format, .tools = tools, .parallel = row->parallel, .fn = note, .arg = &r};
    size_t n = strlen(row->text), at = first;
    assert_int_equal(tr_tool_parser_add(&p, row->text, first), 0);
    while (at < n) {
        size_t end = TR_MIN(at + part, n);
        assert_int_equal(tr_tool_parser_add(&p, row->text + at, end - at), 0);
        at = end;
    }
    assert_int_equal(tr_tool_parser_end(&p, row->stopped), 0);
    tr_tool_parser_done(&p);
    assert_string_equal(text_of(&r.content), row->content);
    assert_int_equal(r.n_ended, r.n_calls);
    int want = 0;
    while (want < 3 && row->calls[want].name)
        want++;
    assert_int_equal(r.n_calls, want);
    for (int i = 0; i < want; i++) {
        assert_string_equal(text_of(&r.name[i]), row->calls[i].name);
        assert_string_equal(text_of(&r.arguments[i]), row->calls[i].arguments);
        tr_buf_done(&r.name[i]);
        tr_buf_done(&r.arguments[i]);
    }
    tr_buf_done(&r.content);
}

static void every_cut_gives_the_same(void **state)
{
    (void)state;
    struct json_t *doc;
    assert_int_equal(tr_json_parse(&doc, tools_json, sizeof tools_json - 1, NULL), 0);
    struct tr_json tools = tr_json_root(doc, NULL);
    for (size_t i = 0; i < TR_ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].text);
        for (size_t first = 0; first <= n; first++)
            for (size_t part = 1; part <= 4; part++)
                check(&rows[i], &tools, first, part == 4 ? n + 1 : part);
    }
    tr_json_free(doc);
}

/* Many parameters, each of them twice: quadratic work would take minutes. */
static void many_parameters(void **state)
{
    (void)state;
    enum { N = 200000 };
    struct record r = {0};
    struct tr_buf text = {0}, want = {0};
    tr_buf_adds(&text, "<tool_call><function=f>");
    for (int i = 0; i < 2 * N; i++)
        tr_buf_addf(&text, "<parameter=k%d>%d</parameter>", i % N, i);
    tr_buf_adds(&text, "</function></tool_call>");
    for (int i = 0; i < N; i++)
        tr_buf_addf(&want, "%s\"k%d\": \"%d\"", i ? ", " : "{", i, i + N);
    tr_buf_addc(&want, '}');
    struct tr_tool_parser p = {.format = X, .parallel = true, .fn = note, .arg = &r};
    assert_int_equal(tr_tool_parser_add(&p, text.data, text.len), 0);
    assert_int_equal(tr_tool_parser_end(&p, true), 0);
    tr_tool_parser_done(&p);
    assert_int_equal(r.n_calls, 1);
    assert_true(r.arguments[0].len == want.len &&
                memcmp(r.arguments[0].data, want.data, want.len) == 0);
    tr_buf_done(&r.name[0]);
    tr_buf_done(&r.arguments[0]);
    tr_buf_done(&text);
    tr_buf_done(&want);
}

/* Beginnings of calls that never end: looking through the rest again behind each would take
 * minutes. */
static void many_malformed(void **state)
{
    (void)state;
    static const struct {
        enum tr_tool_format format;
        const char *piece;
    } cases[] = {{H, "<tool_call>{"}, {X, "<tool_call><function=f>"}};
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct record r = {0};
        struct tr_buf text = {0};
        for (int k = 0; k < 200000; k++)
            tr_buf_adds(&text, cases[i].piece);
        struct tr_tool_parser p = {
            .format = cases[i].format, .parallel = true, .fn = note, .arg = &r};
        assert_int_equal(tr_tool_parser_add(&p, text.data, text.len), 0);
        assert_int_equal(tr_tool_parser_end(&p, true), 0);
        tr_tool_parser_done(&p);
        assert_int_equal(r.n_calls, 0);
        assert_true(r.content.len == text.len && memcmp(r.content.data, text.data, text.len) == 0);
        tr_buf_done(&r.content);
        tr_buf_done(&text);
    }
}

static int refuse(void *arg, const struct tr_tool_event *e)
{
    (void)arg;
    (void)e;
    return TR_ECANCELED;
}

static void an_error_of_the_receiver_comes_out(void **state)
{
    (void)state;
    static const char text[] = "<tool_call>{\"name\":\"f\"}</tool_call>";
    struct tr_tool_parser p = {.format = TR_TOOL_HERMES, .parallel = true, .fn = refuse};
    assert_int_equal(tr_tool_parser_add(&p, text, sizeof text - 1), TR_ECANCELED);
    tr_tool_parser_done(&p);
}

static void the_template_tells_the_format(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        enum tr_tool_format format;
    } sources[] = {{"{{ messages }}", TR_TOOL_NONE},
                   {"'<tool_call>\\n{\"name\": '", TR_TOOL_HERMES},
                   {"<tool_call>\n<function=a>\n<parameter=b>", TR_TOOL_XML}};
    for (size_t i = 0; i < TR_ARRAY_LEN(sources); i++)
        assert_int_equal(tr_tool_format_of(sources[i].source, strlen(sources[i].source)),
                         sources[i].format);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same),
        cmocka_unit_test(many_parameters),
        cmocka_unit_test(many_malformed),
        cmocka_unit_test(an_error_of_the_receiver_comes_out),
        cmocka_unit_test(the_template_tells_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
