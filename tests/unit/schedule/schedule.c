/*
 * The schedule and the page pools against a model that is too simple to be wrong.
 *
 * Instead of keys and values, each "computed" row leaves in its slot a hash of everything before
 * it. Before a row is computed, all slots that attention would read are checked: the whole prefix
 * on the global side, the window on the local side. Freed pages are poisoned. So a page that was
 * given away too early, shared wrongly, taken from another salt, or shifted by a position is found
 * at once. Requests come at random, fork, are paused and cancelled in every state and pushed out by
 * older ones; nobody who is not paused waits for long while others run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/schedule/schedule.h"

enum { MAX_LIVE = 48, MAX_TEXT = 700, TEXTS = 6 };

struct setup {
    int window, page, max_rows, max_sequences, overcommit, open_percent, budget_pages;
    bool has_local, has_global, verify;
    int requests;
};

/* Of a request and its forks. */
struct shared {
    struct tr_group group;
    int32_t prompt[MAX_TEXT];
    int users;
};

struct live {
    struct tr_seq seq;
    struct shared *shared;
    int idle; /* steps without rows, while it ran and was not paused */
    bool used, forked, ran_paused;
    int preempted_before;
    uint64_t salt[2];
    uint64_t h[MAX_TEXT + 1]; /* h[p]: hash of the salt and ids[0, p) */
    int n_h;
    int forks_left;
};

struct world {
    struct setup setup;
    struct tr_kv_layout local, global;
    struct tr_pages *pages;
    struct tr_schedule *schedule;
    struct live live[MAX_LIVE];
    struct shared shared[MAX_LIVE];
    int32_t texts[TEXTS][MAX_TEXT];
    uint64_t random;
    int finished, cancelled, hits;
};

static uint64_t next_random(struct world *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static int below(struct world *w, int n)
{
    return (int)(next_random(w) % (uint64_t)n);
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15U;
    return h ^ (h >> 29);
}

static void extend_hashes(struct live *l)
{
    for (; l->n_h < l->seq.n_ids; l->n_h++)
        l->h[l->n_h + 1] = mix(l->h[l->n_h], (uint64_t)l->seq.ids[l->n_h]);
}

static uint64_t *local_slot(const struct world *w, const struct live *l, int64_t pos)
{
    int64_t page = pos / w->setup.page - l->seq.local.table.first;
    assert_true(page >= 0 && page < l->seq.local.table.n);
    return (uint64_t *)l->seq.local.table.data[page] + pos % w->setup.page * 2;
}

static uint64_t *global_slot(const struct world *w, const struct live *l, int64_t pos)
{
    assert_true(pos / w->setup.page < l->seq.global.table.n);
    return (uint64_t *)l->seq.global.table.data[pos / w->setup.page] + pos % w->setup.page * 2;
}

/* "Computes" one row: everything that it sees must be there. */
static void compute_row(const struct world *w, struct live *l, int64_t pos)
{
    int64_t from = pos - w->setup.window + 1;
    for (int64_t p = from < 0 ? 0 : from; w->setup.has_local && p < pos; p++)
        assert_int_equal(*local_slot(w, l, p), l->h[p + 1]);
    for (int64_t p = 0; w->setup.has_global && p < pos; p++)
        assert_int_equal(*global_slot(w, l, p), ~l->h[p + 1]);
    for (int k = 0; k < 2; k++) { /* both halves of a slot, so that whole pages compare equal */
        if (w->setup.has_local)
            local_slot(w, l, pos)[k] = l->h[pos + 1];
        if (w->setup.has_global)
            global_slot(w, l, pos)[k] = ~l->h[pos + 1];
    }
}

static void open_world(struct world *w, struct setup setup)
{
    memset(w, 0, sizeof *w);
    w->setup = setup;
    w->random = 88172645463325252U + (uint64_t)setup.window * 977 + (uint64_t)setup.page;
    /* Key and value of two floats each: a slot has room for two hashes. */
    tr_kv_layout_init(&w->local, TR_KV_F32, setup.page, setup.has_local ? 1 : 0, 1, 2);
    tr_kv_layout_init(&w->global, TR_KV_F32, setup.page, setup.has_global ? 1 : 0, 1, 2);
    struct tr_schedule_options o = {
        .shape = {setup.page, setup.window, setup.has_local, setup.has_global},
        .fingerprint = {1, 2},
        .local_page_cost = tr_local_page_cost(&w->local),
        .global_page_cost = tr_global_page_cost(&w->global),
        .overcommit_percent = setup.overcommit,
        .max_rows = setup.max_rows,
        .max_sequences = setup.max_sequences,
        .prefix_cache = true,
        .verify = setup.verify,
    };
    uint64_t least = tr_schedule_need(&o, MAX_TEXT / 2, MAX_TEXT, 3);
    o.budget_bytes = least + (uint64_t)setup.budget_pages * 4096;
    struct tr_pages_options po = {.local = &w->local,
                                  .global = &w->global,
                                  .budget_bytes = o.budget_bytes,
                                  .verify = setup.verify,
                                  .poison = true};
    struct tr_err err;
    assert_int_equal(tr_pages_open(&w->pages, &po, &err), 0);
    o.pages = w->pages;
    assert_int_equal(tr_schedule_open(&w->schedule, &o), 0);
    tr_schedule_expect(w->schedule, 1 + below(w, 40));
    for (int t = 0; t < TEXTS; t++)
        for (int i = 0; i < MAX_TEXT; i++)
            w->texts[t][i] = below(w, 3);
}

static struct live *free_slot(struct world *w)
{
    for (int i = 0; i < MAX_LIVE; i++)
        if (!w->live[i].used)
            return &w->live[i];
    return NULL;
}

static struct shared *free_shared(struct world *w)
{
    int i = 0;
    while (w->shared[i].users)
        i++;
    return &w->shared[i];
}

/* A prompt that shares a random part of a known text; sometimes exactly one that was there. */
static bool submit(struct world *w)
{
    struct live *l = free_slot(w);
    if (!l)
        return false;
    struct shared *shared = free_shared(w);
    int32_t *prompt = shared->prompt;
    int n = 1 + below(w, MAX_TEXT / 2);
    memcpy(prompt, w->texts[below(w, TEXTS)], (size_t)n * sizeof *prompt);
    if (below(w, 2))
        prompt[below(w, n)] = 3;
    int answer = 1 + below(w, below(w, 8) ? 40 : MAX_TEXT / 2);
    memset(l, 0, sizeof *l);
    tr_seq_init(&l->seq, prompt, n, n + answer);
    l->seq.open_ended = below(w, 100) < w->setup.open_percent;
    l->used = true;
    l->shared = shared;
    l->shared->users = 1;
    l->shared->group = (struct tr_group){0};
    l->seq.group = below(w, 2) ? &l->shared->group : NULL;
    l->salt[0] = below(w, 8) == 0;
    l->h[0] = l->salt[0];
    l->seq.tenant = (uint64_t)below(w, 3);
    l->seq.priority = below(w, 10) == 0 ? -1 : 0;
    l->seq.across = below(w, 4) == 0;
    l->seq.share = below(w, 10) != 0;
    l->seq.n_forks = l->forks_left = below(w, 6) == 0 ? 2 : 0;
    tr_schedule_add(w->schedule, &l->seq, l->salt);
    return true;
}

static void leave(struct world *w, struct live *l)
{
    tr_schedule_remove(w->schedule, &l->seq);
    l->seq = (struct tr_seq){0};
    l->shared->users--;
    l->used = false;
}

/* Takes in a "sampled" id. */
static void append(struct world *w, struct live *l, int32_t id)
{
    assert_true(l->seq.n_ids < l->seq.room);
    l->seq.ids[l->seq.n_ids++] = id;
    if (l->seq.n_ids == l->seq.max_ids) {
        leave(w, l);
        w->finished++;
    }
}

static void fork_all(struct world *w, struct live *l)
{
    for (; l->forks_left; l->forks_left--) {
        struct live *f = free_slot(w);
        if (!f) { /* a sample that was cancelled before it began */
            l->seq.n_forks--;
            continue;
        }
        memcpy(f, l, sizeof *f);
        f->forks_left = 0;
        f->shared->users++;
        tr_seq_init(&f->seq, l->seq.prompt, l->seq.n_prompt, l->seq.max_ids);
        f->seq.open_ended = l->seq.open_ended;
        f->seq.tenant = l->seq.tenant;
        f->seq.priority = l->seq.priority;
        f->seq.across = l->seq.across;
        f->seq.group = l->seq.group;
        f->seq.share = l->seq.share;
        tr_schedule_fork(w->schedule, &l->seq, &f->seq);
        if (f->seq.running)
            append(w, f, 10 + below(w, 3));
    }
}

/* Whoever runs has rows once in a while, and keeps its pages unless it is paused or more was
 * promised than there is. */
static void check_turns(struct world *w)
{
    for (int i = 0; i < MAX_LIVE; i++) {
        struct live *l = &w->live[i];
        bool waits = l->used && l->seq.running && !l->seq.paused && l->seq.planned == 0;
        l->idle = waits && !l->seq.deferred ? l->idle + 1 : 0;
        assert_in_range(l->idle, 0, 8 * MAX_LIVE);
        if (l->used && !l->ran_paused && !l->seq.open_ended && w->setup.overcommit == 0)
            assert_int_equal(l->seq.n_preempted, l->preempted_before);
    }
}

static void step(struct world *w)
{
    const struct setup *s = &w->setup;
    for (int i = 0; i < MAX_LIVE; i++) {
        struct live *l = &w->live[i];
        l->ran_paused = l->seq.running && l->seq.paused;
        l->preempted_before = l->seq.n_preempted;
    }
    const struct tr_plan *plan = tr_schedule_plan(w->schedule);
    check_turns(w);
    int n = plan->n;
    struct live *planned[64];
    assert_true(n <= s->max_sequences && plan->rows <= s->max_rows);
    int64_t bound = TR_CEIL_DIV(s->window - 1 + s->max_rows, s->page) + 1;
    for (int i = 0; i < n; i++) {
        planned[i] = TR_CONTAINER_OF(plan->seqs[i], struct live, seq);
        assert_true(planned[i]->seq.local.table.n <= bound);
    }
    for (int i = 0; i < n; i++) {
        struct live *l = planned[i];
        extend_hashes(l);
        assert_true(l->seq.planned >= 1);
        for (int k = 0; k < l->seq.planned; k++)
            compute_row(w, l, l->seq.n_computed + k);
    }
    for (int i = 0; i < n; i++) {
        struct live *l = planned[i];
        tr_schedule_advance(w->schedule, &l->seq, l->seq.planned);
        if (l->seq.n_computed < l->seq.n_ids)
            continue;
        w->hits += l->seq.n_cached > 0;
        if (l->seq.n_computed == l->seq.n_prompt)
            fork_all(w, l);
        append(w, l, (int32_t)(l->h[l->n_h] % 3));
    }
}

/* Counts the pages that sequences hold, each once, and compares with the pools. */
static void check_counts(const struct world *w)
{
    static void *seen[4096];
    int n = 0;
    int kinds[2] = {0, 0};
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < MAX_LIVE; i++) {
            const struct live *l = &w->live[i];
            if (!l->used)
                continue;
            int pages = kind ? l->seq.global.table.n : l->seq.local.table.n;
            for (int k = 0; k < pages; k++) {
                void *data = kind ? l->seq.global.table.data[k] : l->seq.local.table.data[k];
                int at = 0;
                while (at < n && seen[at] != data)
                    at++;
                if (at < n)
                    continue;
                assert_true(n < (int)TR_ARRAY_LEN(seen));
                seen[n++] = data;
                kinds[kind]++;
            }
        }
    assert_int_equal(tr_local_counts(w->pages).used, kinds[0]);
    assert_int_equal(tr_global_counts(w->pages).used, kinds[1]);
}

static int n_live(const struct world *w)
{
    int n = 0;
    for (int i = 0; i < MAX_LIVE; i++)
        n += w->live[i].used;
    return n;
}

static void run_world(struct setup setup)
{
    static struct world w;
    open_world(&w, setup);
    int submitted = 0;
    for (int turn = 0; submitted < setup.requests || n_live(&w); turn++) {
        assert_true(turn < 2000 * setup.requests); /* no livelock */
        if (submitted < setup.requests && below(&w, 3) == 0)
            submitted += submit(&w);
        if (submitted > w.cancelled * 8 + 8) {
            struct live *l = &w.live[below(&w, MAX_LIVE)];
            if (l->used) {
                leave(&w, l);
                w.cancelled++;
            }
        }
        struct live *l = &w.live[below(&w, MAX_LIVE)];
        if (l->used)
            l->seq.paused = submitted < setup.requests && below(&w, 10) == 0;
        for (int i = 0; submitted == setup.requests && i < MAX_LIVE; i++)
            w.live[i].seq.paused = false;
        step(&w);
        if (turn % 16 == 0)
            check_counts(&w);
    }
    struct tr_schedule_counts c = tr_schedule_counts(w.schedule);
    assert_int_equal(c.waiting + c.running + c.paused, 0);
    assert_int_equal(c.buffer_bytes, 0);
    assert_int_equal(tr_local_counts(w.pages).used, 0);
    assert_int_equal(tr_global_counts(w.pages).used, 0);
    assert_int_equal(tr_local_counts(w.pages).used + tr_global_counts(w.pages).used, 0);
    assert_true(w.finished > setup.requests / 2 && w.cancelled > 0 && w.hits > 0);
    uint64_t mismatches;
    uint64_t verified;
    tr_pages_checks(w.pages, &mismatches, &verified);
    assert_int_equal(mismatches, 0);
    assert_true(!setup.verify || verified > 0);
    tr_schedule_close(w.schedule);
    tr_pages_close(w.pages);
}

static void random_requests(void **state)
{
    (void)state;
    static const int windows[] = {1, 5, 15, 16, 17, 64, 200};
    static const int pages[] = {16, 32, 256};
    int k = 0;
    for (size_t i = 0; i < TR_ARRAY_LEN(windows); i++)
        for (size_t j = 0; j < TR_ARRAY_LEN(pages); j++, k++)
            run_world((struct setup){.window = windows[i],
                                     .page = pages[j],
                                     .max_rows = 1 + 37 * (k % 5),
                                     .max_sequences = 1 + k % 9,
                                     .overcommit = 0,
                                     .budget_pages = 10 * k,
                                     .has_local = true,
                                     .has_global = true,
                                     .verify = k % 3 == 0,
                                     .requests = 400});
}

static void overcommitted(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++)
        run_world((struct setup){.window = 5 + 20 * k,
                                 .page = k % 2 ? 16 : 32,
                                 .max_rows = 64,
                                 .max_sequences = 16,
                                 .overcommit = 100 + 50 * k,
                                 .budget_pages = 20,
                                 .has_local = true,
                                 .has_global = true,
                                 .requests = 300});
}

/* Answers whose end is not known, beside others. */
static void open_ended(void **state)
{
    (void)state;
    for (int k = 0; k < 10; k++)
        run_world((struct setup){.window = 5 + 20 * k,
                                 .page = k % 2 ? 16 : 32,
                                 .max_rows = 64,
                                 .max_sequences = 2 + 3 * k,
                                 .overcommit = k % 3 ? 0 : 100,
                                 .open_percent = 10 + 10 * k,
                                 .budget_pages = 4 * k,
                                 .has_local = k != 8,
                                 .has_global = k != 9,
                                 .requests = 300});
}

static void one_kind_only(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        run_world((struct setup){.window = 40,
                                 .page = 16,
                                 .max_rows = 48,
                                 .max_sequences = 8,
                                 .overcommit = 50,
                                 .budget_pages = 30,
                                 .has_local = k == 0,
                                 .has_global = k == 1,
                                 .requests = 300});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_requests),
        cmocka_unit_test(overcommitted),
        cmocka_unit_test(open_ended),
        cmocka_unit_test(one_kind_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
