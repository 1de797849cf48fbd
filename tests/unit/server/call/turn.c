/* Turns: which steps of which parts are told, in what order, and what stands in them at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/call/call.h"

struct fixture {
    struct srv_call call;
    struct srv_choice choice;
};

static struct tr_buf told; /* every step as text */

static void note(struct srv_choice *ch, const struct srv_part_event *e)
{
    static const char *const kinds[] = {"reasoning", "content", "call"};
    (void)ch;
    tr_buf_addf(&told, "%d %s", e->index, kinds[e->part->kind]);
    if (e->step == SRV_PART_BEGIN)
        tr_buf_addf(&told, " begins %s\n", e->part->name.len ? e->part->name.data : "");
    else if (e->step == SRV_PART_DELTA)
        tr_buf_addf(&told, " + %.*s\n", (int)e->n, e->text);
    else
        tr_buf_addf(&told, " ends: %s\n", e->part->text.data);
}

static struct srv_choice *begin(struct fixture *f, struct srv_turn_rules rules)
{
    *f = (struct fixture){.call.rules = rules};
    f->choice.call = &f->call;
    tr_buf_clear(&told);
    return &f->choice;
}

/* A token with this text. */
static void say(struct srv_choice *ch, const char *text)
{
    ch->n_tokens++;
    tr_buf_adds(&ch->text, text);
    assert_true(srv_turn_take(ch, note));
    assert_int_equal(ch->text.len, 0);
}

/* The answer is over; *told holds all steps. */
static void finish(struct srv_choice *ch, enum srv_stop_kind why)
{
    ch->stop = why;
    assert_true(srv_turn_take(ch, note));
}

static void done(struct srv_choice *ch)
{
    srv_turn_done(&ch->turn);
    tr_buf_done(&ch->text);
    tr_buf_done(&told);
}

static const struct srv_turn_rules hermes = {
    .parse = true, .parallel = true, .format = TR_TOOL_HERMES};

static void test_all_kinds_in_order(void **state)
{
    (void)state;
    struct fixture f;
    struct srv_choice *ch = begin(&f, hermes);
    say(ch, "<think>");
    say(ch, "hm");
    say(ch, "</think>ok ");
    say(ch, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
    finish(ch, SRV_STOP_END);
    assert_string_equal(told.data, "0 reasoning begins \n"
                                   "0 reasoning + hm\n"
                                   "0 reasoning ends: hm\n"
                                   "1 content begins \n"
                                   "1 content + ok\n"
                                   "1 content ends: ok\n"
                                   "2 call begins f\n"
                                   "2 call + {}\n"
                                   "2 call ends: {}\n");
    assert_int_equal(ch->turn.n_calls, 1);
    assert_int_equal(ch->turn.reasoning_tokens, 3);
    done(ch);
}

static void test_an_empty_answer_has_no_parts(void **state)
{
    (void)state;
    struct fixture f;
    struct srv_choice *ch = begin(&f, hermes);
    say(ch, "");
    finish(ch, SRV_STOP_END);
    assert_int_equal(told.len, 0);
    assert_int_equal(ch->turn.n_parts, 0);
    done(ch);
}

static void test_what_is_hidden_is_not_told(void **state)
{
    (void)state;
    struct fixture f;
    struct srv_turn_rules rules = hermes;
    rules.reasoning_open = rules.hide_reasoning = rules.hide_calls = true;
    struct srv_choice *ch = begin(&f, rules);
    say(ch, "hm");
    say(ch, "</think>");
    say(ch, "ok<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
    finish(ch, SRV_STOP_END);
    assert_string_equal(told.data, "0 content begins \n0 content + ok\n0 content ends: ok\n");
    assert_int_equal(ch->turn.n_calls, 0);
    assert_int_equal(ch->turn.reasoning_tokens, 2);
    done(ch);
}

static void test_a_cut_call_leaves_no_trace(void **state)
{
    (void)state;
    static const enum srv_stop_kind cuts[] = {SRV_STOP_LENGTH, SRV_STOP_STRING};
    for (size_t i = 0; i < TR_ARRAY_LEN(cuts); i++) {
        struct fixture f;
        struct srv_choice *ch = begin(&f, hermes);
        say(ch, "ok<tool_call>{\"name\":\"f\",\"argu");
        finish(ch, cuts[i]);
        assert_string_equal(told.data, "0 content begins \n0 content + ok\n0 content ends: ok\n");
        assert_int_equal(ch->turn.n_calls, 0);
        done(ch);
    }
}

static void test_texts_of_a_kind_are_joined(void **state)
{
    (void)state;
    struct fixture f;
    struct srv_choice *ch = begin(&f, hermes);
    struct tr_buf text = {0};
    say(ch, "a<tool_call>{\"name\":\"f\"}</tool_call>b");
    finish(ch, SRV_STOP_END);
    srv_turn_text(&ch->turn, SRV_PART_CONTENT, &text);
    assert_string_equal(text.data, "ab");
    tr_buf_done(&text);
    done(ch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds_in_order),
        cmocka_unit_test(test_an_empty_answer_has_no_parts),
        cmocka_unit_test(test_what_is_hidden_is_not_told),
        cmocka_unit_test(test_a_cut_call_leaves_no_trace),
        cmocka_unit_test(test_texts_of_a_kind_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
