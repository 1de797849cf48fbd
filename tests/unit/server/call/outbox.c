/* The outbox: every event once, in order, with few wake-ups; nothing is lost when memory is. */
#include "server/call/outbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_EVENTS 50000

struct fixture {
    uv_loop_t loop;
    struct srv_outbox box;
    struct srv_sink sink;
    int seen, wakes;
    bool over;
};

static void check_event(struct fixture *f, const struct srv_event *ev)
{
    assert_ptr_equal(ev->e.user, &f->sink);
    if (ev->e.kind == TR_EVENT_DONE) {
        assert_ptr_equal(ev, &f->sink.done);
        assert_int_equal(f->seen, N_EVENTS);
        assert_int_equal(ev->e.usage->completion_tokens, N_EVENTS);
        f->over = true;
        return;
    }
    assert_int_equal(ev->e.position, f->seen);
    assert_int_equal(ev->e.n_top, f->seen % 5);
    for (int i = 0; i < ev->e.n_top; i++)
        assert_int_equal(ev->e.top[i].id, f->seen + i);
    f->seen++;
}

static void on_wake(uv_async_t *async)
{
    struct fixture *f = async->data;
    struct srv_event *used = NULL;
    f->wakes++;
    for (struct srv_event *next, *ev = srv_outbox_take(&f->box); ev; ev = next) {
        next = ev->next;
        check_event(f, ev);
        if (ev != &f->sink.done) {
            ev->next = used;
            used = ev;
        }
    }
    srv_outbox_recycle(&f->box, used);
    if (f->over)
        uv_close((uv_handle_t *)async, NULL);
}

static void push_all(void *arg)
{
    struct fixture *f = arg;
    for (int i = 0; i < N_EVENTS; i++) {
        struct tr_top top[5];
        for (int k = 0; k < 5; k++)
            top[k] = (struct tr_top){.id = i + k};
        struct tr_event e = {
            .kind = TR_EVENT_TOKEN, .user = &f->sink, .position = i, .top = top, .n_top = i % 5};
        srv_outbox_push(&f->box, &e);
        memset(top, 0xff, sizeof top); /* what an event points to is gone after the call */
    }
    struct tr_usage usage = {.completion_tokens = N_EVENTS};
    struct tr_event done = {.kind = TR_EVENT_DONE, .user = &f->sink, .usage = &usage};
    srv_outbox_push(&f->box, &done);
}

static void test_order(void **state)
{
    (void)state;
    struct fixture *f = calloc(1, sizeof *f);
    uv_thread_t thread;
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(srv_outbox_init(&f->box, &f->loop, on_wake, f), 0);
    assert_int_equal(uv_thread_create(&thread, push_all, f), 0);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    uv_thread_join(&thread);
    assert_true(f->over);
    assert_true(f->wakes <= N_EVENTS + 1);
    assert_null(srv_outbox_take(&f->box));
    srv_outbox_done(&f->box);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
}

static void never(uv_async_t *async)
{
    (void)async;
}

static void test_more_alternatives_than_fit_are_cut(void **state)
{
    (void)state;
    struct fixture *f = calloc(1, sizeof *f);
    struct tr_top top[SRV_MAX_LOGPROBS + 4] = {{0}};
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(srv_outbox_init(&f->box, &f->loop, never, f), 0);
    struct tr_event e = {
        .kind = TR_EVENT_TOKEN, .user = &f->sink, .top = top, .n_top = SRV_MAX_LOGPROBS + 4};
    srv_outbox_push(&f->box, &e);
    struct srv_event *ev = srv_outbox_take(&f->box);
    assert_int_equal(ev->e.n_top, SRV_MAX_LOGPROBS);
    assert_null(ev->next);
    srv_outbox_recycle(&f->box, ev);
    uv_close((uv_handle_t *)&f->box.async, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    srv_outbox_done(&f->box);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_more_alternatives_than_fit_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
