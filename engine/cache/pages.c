#include "engine/cache/pages.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cache/page_pool_internal.h"

struct tr_local_page {
    struct tr_page base;
};
struct tr_global_page {
    struct tr_page base;
};

struct tr_pages {
    struct tr_page_budget budget;
    struct tr_page_pool local, global;
};

int tr_pages_open(struct tr_pages **ret, const struct tr_pages_options *o, struct tr_err *err)
{
    const struct tr_kv_layout *l = o->local;
    const struct tr_kv_layout *g = o->global;
    struct tr_pages *p = calloc(1, sizeof *p);
    if (!p)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    tr__page_budget_init(&p->budget, o->budget_bytes, &p->local, &p->global);
    int r = tr__page_pool_init(&p->local, &p->budget, l->n_layers ? l->page_bytes : 0,
                               l->page_tokens, err);
    if (!r)
        r = tr__page_pool_init(&p->global, &p->budget, g->n_layers ? g->page_bytes : 0,
                               g->page_tokens, err);
    if (r) {
        tr_pages_close(p);
        return r;
    }
    p->local.evict = TR_EVICT_SOON;
    p->global.evict = TR_EVICT_LATE;
    p->local.verify = p->global.verify = o->verify;
    p->local.poison = p->global.poison = o->poison;
    *ret = p;
    return 0;
}

struct tr_pages *tr_pages_close(struct tr_pages *p)
{
    if (p) {
        tr__page_pool_done(&p->local);
        tr__page_pool_done(&p->global);
        free(p);
    }
    return NULL;
}

size_t tr_local_page_cost(const struct tr_kv_layout *local)
{
    return local->n_layers ? tr__page_stride(local->page_bytes) : 0;
}

size_t tr_global_page_cost(const struct tr_kv_layout *global)
{
    return global->n_layers ? tr__page_stride(global->page_bytes) : 0;
}

static struct tr_page_counts counts(const struct tr_page_pool *p)
{
    return (struct tr_page_counts){.used = p->used,
                                   .cached = p->cached,
                                   .total = p->n_pages,
                                   .evicted = p->evicted,
                                   .reused = p->reused};
}

struct tr_page_counts tr_local_counts(const struct tr_pages *p)
{
    return counts(&p->local);
}

struct tr_page_counts tr_global_counts(const struct tr_pages *p)
{
    return counts(&p->global);
}

const struct tr_page_map *tr_local_map(const struct tr_pages *p)
{
    return &p->local.map;
}

const struct tr_page_map *tr_global_map(const struct tr_pages *p)
{
    return &p->global.map;
}

void tr_pages_checks(const struct tr_pages *p, uint64_t *ret_mismatches, uint64_t *ret_verified)
{
    *ret_mismatches = p->local.mismatches + p->global.mismatches;
    *ret_verified = p->local.verified + p->global.verified;
}

/* ---- tables of either kind ---- */

static int reserve(struct tr_page_table *t, int n_pages)
{
    if (n_pages <= t->cap)
        return 0;
    struct tr_page **pages = realloc(t->pages, (size_t)n_pages * sizeof *pages);
    t->pages = pages ? pages : t->pages;
    void **data = realloc(t->data, (size_t)n_pages * sizeof *data);
    t->data = data ? data : t->data;
    if (!pages || !data)
        return TR_ENOMEM;
    t->cap = n_pages;
    return 0;
}

static void done(struct tr_page_table *t)
{
    free(t->pages);
    free(t->data);
    *t = (struct tr_page_table){0};
}

static void append(struct tr_page_table *t, struct tr_page *page)
{
    t->pages[t->n] = page;
    t->data[t->n] = tr__page_data(page);
    t->n++;
}

static bool take(struct tr_page_pool *p, struct tr_page_table *t)
{
    struct tr_page *page = tr__page_take(p);
    if (page)
        append(t, page);
    return page != NULL;
}

static bool extend(struct tr_page_pool *p, struct tr_page_table *t, int64_t begin, int64_t end)
{
    if (!p->page_bytes)
        return true;
    if (t->n == 0)
        t->first = begin / p->page_tokens;
    while ((t->first + t->n) * p->page_tokens < end)
        if (!take(p, t))
            return false;
    return true;
}

/* Last page first: pages deep in a sequence are worth less than those that they build on. */
static void truncate_to(struct tr_page_table *t, int64_t n_pages)
{
    while (t->n && t->first + t->n > n_pages)
        tr__page_unref(t->pages[--t->n]);
}

static bool fork_table(struct tr_page_pool *p, struct tr_page_table *to,
                       const struct tr_page_table *from, int64_t end)
{
    to->first = from->first;
    for (int i = 0; i < from->n && (from->first + i) * p->page_tokens < end; i++) {
        if ((from->first + i + 1) * p->page_tokens <= end) {
            tr__page_ref(from->pages[i]);
            append(to, from->pages[i]);
        } else if (take(p, to)) {
            memcpy(to->data[i], from->data[i], p->page_bytes);
        } else {
            truncate_to(to, 0);
            return false;
        }
    }
    return true;
}

static struct tr_hash root(struct tr_hash fingerprint, const uint64_t salt[2], const char *kind)
{
    return tr_hash_link(tr_hash_link(fingerprint, salt, 2 * sizeof *salt), kind, strlen(kind) + 1);
}

static struct tr_page *at(const struct tr_page_table *t, int64_t page)
{
    return page >= t->first && page < t->first + t->n ? t->pages[page - t->first] : NULL;
}

static void seal(const struct tr_page_pool *p, const struct tr_page_table *t, int64_t page,
                 struct tr_hash key, const int32_t *ids, bool compare)
{
    struct tr_page *held = at(t, page);
    if (held)
        tr__page_seal(held, key, page * p->page_tokens, ids, compare);
}

static void adopt(struct tr_page_table *t, int64_t page, struct tr_page *found)
{
    if (t->n == 0)
        t->first = page;
    tr__page_ref(found);
    found->pool->reused++;
    append(t, found);
}

/* ---- tables of local pages ---- */

int tr_local_table_reserve(struct tr_local_table *t, int n_pages)
{
    return reserve(&t->table, n_pages);
}

void tr_local_table_done(struct tr_local_table *t)
{
    done(&t->table);
}

bool tr_local_extend(struct tr_pages *p, struct tr_local_table *t, int64_t begin, int64_t end)
{
    return extend(&p->local, &t->table, begin, end);
}

void tr_local_drop(struct tr_pages *p, struct tr_local_table *local, int64_t first)
{
    struct tr_page_table *t = &local->table;
    int n = 0;
    while (n < t->n && (t->first + n + 1) * p->local.page_tokens <= first)
        tr__page_unref(t->pages[n++]);
    if (n == 0)
        return;
    t->n -= n;
    t->first += n;
    memmove(t->pages, t->pages + n, (size_t)t->n * sizeof *t->pages);
    memmove(t->data, t->data + n, (size_t)t->n * sizeof *t->data);
}

void tr_local_truncate(struct tr_local_table *t, int64_t n_pages)
{
    truncate_to(&t->table, n_pages);
}

bool tr_local_fork(struct tr_pages *p, struct tr_local_table *to, const struct tr_local_table *from,
                   int64_t end)
{
    return fork_table(&p->local, &to->table, &from->table, end);
}

struct tr_hash tr__local_root(struct tr_hash fingerprint, const uint64_t salt[2])
{
    return root(fingerprint, salt, "local, rotated at absolute positions");
}

void tr__local_seal(struct tr_pages *p, const struct tr_local_table *t, int64_t page,
                    struct tr_hash key, const int32_t *ids, bool compare)
{
    seal(&p->local, &t->table, page, key, ids, compare);
}

void tr__local_keep(const struct tr_local_table *t, int64_t page)
{
    struct tr_page *held = at(&t->table, page);
    if (held)
        held->keep = true;
}

struct tr_local_page *tr__local_find(struct tr_pages *p, int64_t page, struct tr_hash key,
                                     const int32_t *ids)
{
    return (struct tr_local_page *)tr__page_find(&p->local, key, page * p->local.page_tokens, ids);
}

void tr__local_adopt(struct tr_local_table *t, int64_t page, struct tr_local_page *found)
{
    adopt(&t->table, page, &found->base);
}

/* ---- tables of global pages ---- */

int tr_global_table_reserve(struct tr_global_table *t, int n_pages)
{
    return reserve(&t->table, n_pages);
}

void tr_global_table_done(struct tr_global_table *t)
{
    done(&t->table);
}

bool tr_global_extend(struct tr_pages *p, struct tr_global_table *t, int64_t end)
{
    return extend(&p->global, &t->table, 0, end);
}

void tr_global_truncate(struct tr_global_table *t, int64_t n_pages)
{
    truncate_to(&t->table, n_pages);
}

bool tr_global_fork(struct tr_pages *p, struct tr_global_table *to,
                    const struct tr_global_table *from, int64_t end)
{
    return fork_table(&p->global, &to->table, &from->table, end);
}

struct tr_hash tr__global_root(struct tr_hash fingerprint, const uint64_t salt[2])
{
    return root(fingerprint, salt, "global, unrotated");
}

void tr__global_seal(struct tr_pages *p, const struct tr_global_table *t, int64_t page,
                     struct tr_hash key, const int32_t *ids, bool compare)
{
    seal(&p->global, &t->table, page, key, ids, compare);
}

struct tr_global_page *tr__global_find(struct tr_pages *p, int64_t page, struct tr_hash key,
                                       const int32_t *ids)
{
    return (struct tr_global_page *)tr__page_find(&p->global, key, page * p->global.page_tokens,
                                                  ids);
}

bool tr__global_is_gone(const struct tr_pages *p, struct tr_hash key)
{
    return tr__page_is_gone(&p->global, key);
}

void tr__global_adopt(struct tr_global_table *t, struct tr_global_page *found)
{
    adopt(&t->table, 0, &found->base);
}
