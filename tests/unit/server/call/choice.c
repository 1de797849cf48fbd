/* A choice's text: whatever the tokens and stop strings, what comes out in pieces is what a search in the whole text
 * would leave, and no piece ever has to be taken back. */
#include "server/api/completions.h"
#include "server/call/call.h"
#include "server/call/read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS     3000
#define MAX_TOKENS 40

static struct tr_tokenizer *tokenizer;

static uint64_t rng_state = 11;

static unsigned rnd(unsigned n)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(rng_state >> 33) % n;
}

static struct srv_call *make_call(const char *json)
{
    struct srv_call *c = calloc(1, sizeof *c);
    assert_non_null(c);
    struct srv_req req = {.route = &srv_completions_route};
    tr_buf_adds(&req.body, json);
    c->req = &req;
    c->api = req.route->api;
    c->context = (struct srv_context){.tokenizer = tokenizer,
                                      .model = "m",
                                      .context_length = 4096,
                                      .max_choices = 8,
                                      .max_queue = 8};
    srv_call_read(&c->work);
    c->req = NULL;
    tr_buf_done(&req.body);
    if (c->err.code)
        fail_msg("%s: %s", json, c->err.msg);
    assert_int_equal(srv_choices_make(c), 0);
    return c;
}

static void free_call(struct srv_call *c)
{
    srv_call_done(c);
    free(c);
}

/* The bytes before the first match: the one that ends earliest, and of those that end together the longest. The text's
 * length if there is none. */
static size_t first_stop(const char *text, size_t n, const char *const *stops, int n_stops)
{
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (int i = 0; i < n_stops; i++) {
            size_t m = strlen(stops[i]);
            if (m > longest && m <= end && memcmp(text + end - m, stops[i], m) == 0)
                longest = m;
        }
        if (longest > 0)
            return end - longest;
    }
    return n;
}

/* Texts over a small alphabet, so that stop strings occur, overlap and almost occur. */
static void random_text(char *out, int n)
{
    static const char *const parts[] = {"a", "b", "ab", "\xc3\xa9", "\xf0\x9f\x98\x80", " "};
    out[0] = '\0';
    for (int i = 0; i < n; i++)
        strcat(out, parts[rnd(TR_ARRAY_LEN(parts))]);
}

static void test_pieces_equal_the_whole(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        char stop1[64], stop2[64], text[512], json[512];
        random_text(stop1, 1 + (int)rnd(4));
        random_text(stop2, 1 + (int)rnd(4));
        random_text(text, 1 + (int)rnd(MAX_TOKENS));
        snprintf(json, sizeof json,
                 "{\"prompt\":\"x\",\"stream\":true,\"stop\":[\"%s\",\"%s\"],"
                 "\"max_tokens\":4000}",
                 stop1, stop2);
        const char *const stops[] = {stop1, stop2};
        struct srv_call *c = make_call(json);
        struct srv_choice *ch = &c->choices[0];
        struct tr_ids ids = {0};
        struct tr_buf got = {0};
        assert_int_equal(tr_tokenizer_encode(tokenizer, text, strlen(text), 0, 0, &ids), 0);
        for (size_t i = 0; i < ids.n && ch->stop == SRV_STOP_NONE; i++) {
            struct tr_event e = {
                .kind = TR_EVENT_TOKEN, .token = ids.ids[i], .position = (int)i, .stop_id = -1};
            srv_choice_token(ch, &e);
            tr_buf_add(&got, ch->text.data, ch->text.len);
            srv_choice_written(ch);
        }
        size_t want = first_stop(text, strlen(text), stops, 2);
        if (ch->stop == SRV_STOP_NONE) {
            assert_int_equal(want, strlen(text));
            srv_choice_end(ch, TR_FINISH_EOS, 0);
            tr_buf_add(&got, ch->text.data, ch->text.len);
        } else {
            assert_int_equal(ch->stop, SRV_STOP_STRING);
        }
        assert_int_equal(got.len, want);
        assert_memory_equal(got.data ? got.data : "", text, want);
        free(ids.ids);
        tr_buf_done(&got);
        free_call(c);
    }
}

static enum srv_stop_kind feed(struct srv_choice *ch, int32_t id, enum tr_finish finish)
{
    bool stopped = finish == TR_FINISH_EOS || finish == TR_FINISH_STOP_ID;
    struct tr_event e = {
        .kind = TR_EVENT_TOKEN, .token = id, .finish = finish, .stop_id = stopped ? id : -1};
    srv_choice_token(ch, &e);
    return ch->stop;
}

/* The engine says how a token ends the answer, and nothing else does. */
static void test_ends(void **state)
{
    (void)state;
    int32_t eos = tr_tokenizer_eos(tokenizer), a = tr_tokenizer_find(tokenizer, "a", 1);
    struct srv_call *c = make_call("{\"prompt\":\"x\",\"max_tokens\":2}");
    for (int i = 0; i < 3; i++)
        assert_int_equal(feed(&c->choices[0], i == 1 ? eos : a, TR_FINISH_NONE), SRV_STOP_NONE);
    assert_int_equal(feed(&c->choices[0], a, TR_FINISH_LENGTH), SRV_STOP_LENGTH);
    assert_string_equal(srv_choice_reason(&c->choices[0]), "length");
    free_call(c);
    c = make_call("{\"prompt\":\"x\",\"max_tokens\":5}");
    assert_int_equal(feed(&c->choices[0], eos, TR_FINISH_EOS), SRV_STOP_END);
    assert_string_equal(srv_choice_reason(&c->choices[0]), "stop");
    assert_int_equal(c->choices[0].text.len, 0);
    free_call(c);
    c = make_call("{\"prompt\":\"x\",\"max_tokens\":5,\"stop_token_ids\":[9,4]}");
    assert_int_equal(feed(&c->choices[0], a, TR_FINISH_STOP_ID), SRV_STOP_ID);
    assert_int_equal(c->choices[0].stop_value, a);
    assert_int_equal(c->choices[0].text.len, 0);
    free_call(c);
}

static int load(void **state)
{
    (void)state;
    struct tr_err err;
    return tr_tokenizer_load(&tokenizer, "config/demo", 4096, &err);
}

static int unload(void **state)
{
    (void)state;
    tokenizer = tr_tokenizer_free(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_equal_the_whole),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
