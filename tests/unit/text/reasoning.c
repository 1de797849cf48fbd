/* Reasoning and content of an answer, cut in every way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/reasoning.h"

struct row {
    const char *text;
    bool opened; /* by the prompt */
    const char *reasoning, *content;
};

static const struct row rows[] = {
    {"<think>ab</think>cd", false, "ab", "cd"},
    {"<think>a<b</thin>c</think>d", false, "a<b</thin>c", "d"},
    {"x <think>", false, "", "x <think>"},
    {"<thin", false, "", "<thin"},
    {"<think>ab", false, "ab", ""},
    {"", false, "", ""},
    {"\n <think>\nab\n\n</think>\n\ncd\n", false, "ab", "cd\n"},
    {" \nab", false, "", " \nab"},
    {" \n", false, "", " \n"},
    {"<think></think>", false, "", ""},
    {"<think>a\nb</think>c<think>d</think>", false, "a\nb", "c<think>d</think>"},
    {"<think>a</think></think>b", false, "a", "</think>b"},
    {"<think>ab\n", false, "ab\n", ""},
    {"<think>a\n</thi", false, "a\n</thi", ""},
    {"ab</think>cd", false, "", "ab</think>cd"},
    {"ab</think>cd", true, "ab", "cd"},
    {"\nab\n</think>\n<tool_call>", true, "ab", "<tool_call>"},
    {"<think>\nab</think>cd", true, "ab", "cd"},
    {"\n<thi", true, "\n<thi", ""},
    {"  ab", true, "  ab", ""},
    {"</think>", true, "", ""},
};

/* Feeds text in parts of the given length, the first of them cut at `first`. */
static void parse(const struct row *row, size_t first, size_t part, struct tr_buf *reasoning,
                  struct tr_buf *content)
{
    struct tr_reasoning r;
    size_t n = strlen(row->text), at = first;
    tr_reasoning_init(&r, row->opened);
    assert_int_equal(tr_reasoning_add(&r, row->text, first, reasoning, content), 0);
    while (at < n) {
        size_t end = TR_MIN(at + part, n);
        assert_int_equal(tr_reasoning_add(&r, row->text + at, end - at, reasoning, content), 0);
        at = end;
    }
    assert_int_equal(tr_reasoning_end(&r, reasoning, content), 0);
    tr_reasoning_done(&r);
}

static void every_cut_gives_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].text);
        for (size_t first = 0; first <= n; first++) {
            for (size_t part = 1; part <= 4; part++) {
                struct tr_buf reasoning = {0}, content = {0};
                parse(&rows[i], first, part == 4 ? n + 1 : part, &reasoning, &content);
                assert_string_equal(reasoning.len ? reasoning.data : "", rows[i].reasoning);
                assert_string_equal(content.len ? content.data : "", rows[i].content);
                tr_buf_done(&reasoning);
                tr_buf_done(&content);
            }
        }
    }
}

/* What is decided comes out at once; what may be a tag does not. */
static void only_what_may_be_a_tag_is_held(void **state)
{
    (void)state;
    struct tr_reasoning r;
    struct tr_buf reasoning = {0}, content = {0};
    tr_reasoning_init(&r, true);
    assert_int_equal(tr_reasoning_add(&r, "ab</th", 6, &reasoning, &content), 0);
    assert_string_equal(reasoning.data, "ab");
    assert_int_equal(tr_reasoning_add(&r, "en", 2, &reasoning, &content), 0);
    assert_string_equal(reasoning.data, "ab</then");
    assert_int_equal(content.len, 0);
    tr_reasoning_done(&r);
    tr_buf_done(&reasoning);
    tr_buf_done(&content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same),
        cmocka_unit_test(only_what_may_be_a_tag_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
