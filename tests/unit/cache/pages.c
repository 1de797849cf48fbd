/*
 * Page pools: one budget for two kinds, eviction order, identities that are compared in full.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/cache/prefix.h"

enum { PAGE = 16 };

static struct tr_kv_layout local_layout, global_layout;

/* Both kinds cost one system page here, so a budget is a number of pages. */
static struct tr_pages *open_pages(int n, bool verify)
{
    struct tr_pages *p = NULL;
    struct tr_err err;
    tr_kv_layout_init(&local_layout, TR_KV_F32, PAGE, 1, 1, 2);
    tr_kv_layout_init(&global_layout, TR_KV_F32, PAGE, 1, 1, 2);
    struct tr_pages_options o = {.local = &local_layout,
                                 .global = &global_layout,
                                 .budget_bytes = (uint64_t)n * tr_local_page_cost(&local_layout),
                                 .verify = verify,
                                 .poison = true};
    assert_int_equal(tr_pages_open(&p, &o, &err), 0);
    return p;
}

static void open_tables(struct tr_local_table *l, struct tr_global_table *g)
{
    *l = (struct tr_local_table){0};
    *g = (struct tr_global_table){0};
    assert_int_equal(tr_local_table_reserve(l, 64), 0);
    assert_int_equal(tr_global_table_reserve(g, 64), 0);
}

static void close_tables(struct tr_local_table *l, struct tr_global_table *g)
{
    tr_local_truncate(l, 0);
    tr_global_truncate(g, 0);
    tr_local_table_done(l);
    tr_global_table_done(g);
}

/* Memory goes to whichever kind needs it, and back. */
static void one_budget(void **state)
{
    (void)state;
    struct tr_pages *p = open_pages(8, false);
    struct tr_local_table l;
    struct tr_global_table g;
    open_tables(&l, &g);
    for (int round = 0; round < 3; round++) {
        assert_true(tr_local_extend(p, &l, 0, 8 * PAGE));
        assert_false(tr_global_extend(p, &g, 1));
        tr_local_truncate(&l, 3);
        assert_true(tr_global_extend(p, &g, 5 * PAGE));
        assert_false(tr_global_extend(p, &g, 6 * PAGE));
        assert_false(tr_local_extend(p, &l, 0, 4 * PAGE));
        assert_int_equal(tr_local_counts(p).used, 3);
        assert_int_equal(tr_global_counts(p).used, 5);
        tr_local_truncate(&l, 0);
        tr_global_truncate(&g, 0);
    }
    close_tables(&l, &g);
    tr_pages_close(p);
}

/* A window that moves on: the front goes, the numbering stays. */
static void sliding(void **state)
{
    (void)state;
    struct tr_pages *p = open_pages(4, false);
    struct tr_local_table l;
    struct tr_global_table g;
    open_tables(&l, &g);
    for (int64_t n = 0; n < 1000; n += 7) {
        assert_true(tr_local_extend(p, &l, n, n + 20));
        assert_true(l.table.first * PAGE <= n && (l.table.first + l.table.n) * PAGE >= n + 20);
        tr_local_drop(p, &l, n + 7);
        assert_true(l.table.n <= 2);
    }
    close_tables(&l, &g);
    tr_pages_close(p);
}

static void check_map(const struct tr_page_map *m, struct tr_page_counts counts)
{
    int used = 0, cached = 0;
    for (int i = 0; i < TR_PAGE_CELLS; i++) {
        const struct tr_page_cell *c = &m->cells[i];
        int pages = TR_MIN(TR_MAX(m->touched - (i << m->shift), 0), 1 << m->shift);
        assert_in_range(c->used, 0, pages);
        assert_in_range(c->cached, 0, pages - c->used);
        used += c->used;
        cached += c->cached;
    }
    assert_int_equal(used, counts.used);
    assert_int_equal(cached, counts.cached);
}

/* The map counts what the pool counts, while pages come, go and stay cached, and while its cells
 * become fewer. */
static void map(void **state)
{
    (void)state;
    enum { PAGES = 5000 };
    struct tr_pages *p = open_pages(PAGES, false);
    struct tr_local_table l;
    struct tr_global_table g;
    open_tables(&l, &g);
    assert_int_equal(tr_global_table_reserve(&g, PAGES), 0);
    for (int n = 1; n < PAGES - 64; n += 97) {
        int32_t ids[PAGE] = {n};
        assert_true(tr_global_extend(p, &g, (int64_t)n * PAGE));
        tr__global_seal(p, &g, n - 1, (struct tr_hash){(uint64_t)n, 1}, ids, false);
        tr_global_truncate(&g, n - n % 5);
        assert_true(tr_local_extend(p, &l, 0, n % 50 * PAGE + 1));
        check_map(tr_global_map(p), tr_global_counts(p));
        check_map(tr_local_map(p), tr_local_counts(p));
        tr_local_truncate(&l, n % 3);
    }
    assert_int_equal(tr_global_map(p)->shift, 3); /* 1024 << 3 pages and no less hold them */
    assert_true(tr_global_map(p)->touched > TR_PAGE_CELLS << 2);
    assert_int_equal(tr_local_map(p)->shift, 0);
    assert_true(tr_global_counts(p).cached > 0);
    close_tables(&l, &g);
    check_map(tr_global_map(p), tr_global_counts(p));
    tr_pages_close(p);
}

static void fill(struct tr_local_table *l, int64_t page, int byte)
{
    memset(l->table.data[page - l->table.first], byte, local_layout.page_bytes);
}

/* Equal keys are not enough: ids and the absolute start are compared, too. */
static void forced_collisions(void **state)
{
    (void)state;
    struct tr_pages *p = open_pages(8, true);
    struct tr_local_table l;
    struct tr_global_table g;
    int32_t ids[PAGE] = {1, 2, 3};
    int32_t others[PAGE] = {1, 2, 4};
    const struct tr_hash key = {5, 6};
    open_tables(&l, &g);
    assert_true(tr_local_extend(p, &l, 0, 2 * PAGE));
    fill(&l, 0, 1);
    fill(&l, 1, 2);
    tr__local_seal(p, &l, 0, key, ids, false);
    assert_non_null(tr__local_find(p, 0, key, ids));
    assert_null(tr__local_find(p, 0, key, others));
    assert_null(tr__local_find(p, 1, key, ids));
    assert_null(tr__global_find(p, 0, key, ids));
    /* The same key for another content: both are found, each by its own ids. */
    tr__local_seal(p, &l, 1, key, others, false);
    assert_ptr_equal(tr__local_find(p, 0, key, ids), l.table.pages[0]);
    assert_ptr_equal(tr__local_find(p, 1, key, others), l.table.pages[1]);
    /* A byte that changes after sealing: a miss, and counted. */
    uint64_t mismatches;
    uint64_t verified;
    fill(&l, 0, 9);
    assert_null(tr__local_find(p, 0, key, ids));
    tr_pages_checks(p, &mismatches, &verified);
    assert_int_equal(mismatches, 1);
    assert_null(tr__local_find(p, 0, key, ids));
    close_tables(&l, &g);
    assert_int_equal(tr_local_counts(p).cached, 1);
    tr_pages_close(p);
}

/* A twin with other bytes is found when contents are compared, and nobody gets it any more. */
static void twins(void **state)
{
    (void)state;
    struct tr_pages *p = open_pages(8, false);
    struct tr_local_table l;
    struct tr_local_table m;
    struct tr_global_table g;
    struct tr_global_table h;
    int32_t ids[PAGE] = {7};
    const struct tr_hash key = {1, 1};
    uint64_t mismatches;
    uint64_t verified;
    open_tables(&l, &g);
    open_tables(&m, &h);
    assert_true(tr_local_extend(p, &l, 0, PAGE) && tr_local_extend(p, &m, 0, PAGE));
    fill(&l, 0, 1);
    fill(&m, 0, 1);
    tr__local_seal(p, &l, 0, key, ids, true);
    tr__local_seal(p, &m, 0, key, ids, true);
    tr_pages_checks(p, &mismatches, &verified);
    assert_int_equal(mismatches, 0);
    assert_int_equal(verified, 1);
    assert_ptr_equal(tr__local_find(p, 0, key, ids), l.table.pages[0]);
    fill(&m, 0, 2);
    tr__local_seal(p, &m, 0, key, ids, true);
    tr_pages_checks(p, &mismatches, &verified);
    assert_int_equal(mismatches, 1);
    assert_ptr_equal(tr__local_find(p, 0, key, ids), m.table.pages[0]);
    close_tables(&l, &g);
    close_tables(&m, &h);
    tr_pages_close(p);
}

/* Seals n full pages of one text and lets them go. */
static void leave_prefix(struct tr_pages *p, const struct tr_prefix_shape *s, const int32_t *ids,
                         int64_t n_pages, int64_t resume)
{
    const uint64_t salt[2] = {0};
    struct tr_prefix chain;
    struct tr_local_table l;
    struct tr_global_table g;
    open_tables(&l, &g);
    tr_prefix_init(&chain, (struct tr_hash){1, 2}, salt);
    struct tr_prefix_use use = {&chain, &l, &g, ids};
    assert_true(tr_local_extend(p, &l, 0, n_pages * PAGE));
    assert_true(tr_global_extend(p, &g, n_pages * PAGE));
    tr_prefix_seal(p, s, &use, n_pages * PAGE, &resume, 1, false);
    close_tables(&l, &g);
}

static int64_t hit(struct tr_pages *p, const struct tr_prefix_shape *s, const int32_t *ids,
                   int64_t n_ids, int64_t *matched)
{
    const uint64_t salt[2] = {0};
    struct tr_prefix chain;
    struct tr_local_table l;
    struct tr_global_table g;
    open_tables(&l, &g);
    tr_prefix_init(&chain, (struct tr_hash){1, 2}, salt);
    struct tr_prefix_use use = {&chain, &l, &g, ids};
    struct tr_prefix_match match;
    int64_t n = tr_prefix_adopt(p, s, &use, 0, n_ids, &match);
    *matched = match.tokens;
    close_tables(&l, &g);
    return n;
}

/* Under pressure the local pages that no resume point needs go first, then the oldest; what is left
 * is used up to the last point whose tail is still there. */
static void eviction_order(void **state)
{
    (void)state;
    const struct tr_prefix_shape s = {PAGE, 20, true, true}; /* a tail has two pages */
    struct tr_pages *p = open_pages(24, false);
    int32_t ids[10 * PAGE];
    int64_t matched;
    for (int i = 0; i < 10 * PAGE; i++)
        ids[i] = i * i % 97;
    leave_prefix(p, &s, ids, 10, 10 * PAGE);
    assert_int_equal(hit(p, &s, ids, 10 * PAGE, &matched), 10 * PAGE);
    assert_int_equal(hit(p, &s, ids, 7 * PAGE + 5, &matched), 7 * PAGE);

    /* Four free pages are left, then eight local ones that are cheap. */
    struct tr_local_table l;
    struct tr_global_table g;
    open_tables(&l, &g);
    assert_true(tr_global_extend(p, &g, 8 * PAGE));
    assert_int_equal(tr_global_counts(p).cached, 10);
    assert_true(tr_local_counts(p).cached >= 4);
    assert_int_equal(hit(p, &s, ids, 10 * PAGE, &matched), 10 * PAGE);
    assert_true(tr_global_extend(p, &g, 14 * PAGE));
    assert_true(hit(p, &s, ids, 10 * PAGE, &matched) < 10 * PAGE);
    close_tables(&l, &g);
    tr_pages_close(p);
}

/* No local tail, no hit; but it is told how far the global pages go. */
static void branch_point(void **state)
{
    (void)state;
    const struct tr_prefix_shape s = {PAGE, 20, true, true};
    struct tr_pages *p = open_pages(40, false);
    int32_t ids[10 * PAGE];
    int64_t matched;
    memset(ids, 0, sizeof ids);
    leave_prefix(p, &s, ids, 6, 0);
    ids[5 * PAGE + 3] = 9;
    assert_int_equal(hit(p, &s, ids, 10 * PAGE, &matched), 5 * PAGE);
    assert_int_equal(matched, 5 * PAGE);
    ids[3] = 9;
    assert_int_equal(hit(p, &s, ids, 10 * PAGE, &matched), 0);
    assert_int_equal(matched, 0);
    tr_pages_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_budget),   cmocka_unit_test(sliding),
        cmocka_unit_test(map),          cmocka_unit_test(forced_collisions),
        cmocka_unit_test(twins),        cmocka_unit_test(eviction_order),
        cmocka_unit_test(branch_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
