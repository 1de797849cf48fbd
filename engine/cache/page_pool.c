/* Pools of pages: see page_pool_internal.h. */
#include "engine/cache/page_pool_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SYSTEM_PAGE = 4096 };

size_t tr__page_stride(size_t page_bytes)
{
    return TR_ROUND_UP(page_bytes, (size_t)SYSTEM_PAGE);
}

void tr__page_budget_init(struct tr_page_budget *b, uint64_t limit, struct tr_page_pool *one,
                          struct tr_page_pool *other)
{
    *b = (struct tr_page_budget){.limit = limit, .pools = {one, other}};
    for (int c = 0; c < TR_EVICT_CLASSES; c++)
        tr_list_init(&b->evictable[c]);
}

/* Address space for the whole budget; memory comes when pages are touched. */
static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* refused where huge pages are off */
    return p;
}

int tr__page_pool_init(struct tr_page_pool *p, struct tr_page_budget *b, size_t page_bytes,
                       int page_tokens, struct tr_err *err)
{
    *p = (struct tr_page_pool){.budget = b, .page_bytes = page_bytes, .page_tokens = page_tokens};
    tr_list_init(&p->free);
    tr_list_init(&p->idle);
    if (!page_bytes)
        return 0;
    p->stride = tr__page_stride(page_bytes);
    uint64_t n = TR_MIN(b->limit / p->stride, (uint64_t)INT32_MAX / 2);
    size_t buckets = 64;
    while (buckets < n)
        buckets *= 2;
    p->n_pages = (int)n;
    p->index_mask = buckets - 1;
    p->index = calloc(buckets, sizeof(struct tr_page *));
    p->pages = calloc(n + 1, sizeof *p->pages);
    p->ids = calloc(n + 1, (size_t)page_tokens * sizeof *p->ids);
    p->memory = n ? map_pages((size_t)n * p->stride) : NULL;
    if (p->index && p->pages && p->ids && (p->memory || !n))
        return 0;
    tr__page_pool_done(p);
    return tr_err_set(err, TR_ENOMEM, "kv_cache", "cannot map %llu bytes for the KV cache",
                      (unsigned long long)(n * p->stride));
}

void tr__page_pool_done(struct tr_page_pool *p)
{
    if (p->memory)
        munmap(p->memory, (size_t)p->n_pages * p->stride);
    free(p->index);
    free(p->pages);
    free(p->ids);
    *p = (struct tr_page_pool){0};
}

void *tr__page_data(const struct tr_page *page)
{
    const struct tr_page_pool *p = page->pool;
    return p->memory + (size_t)(page - p->pages) * p->stride;
}

/* The page's ids [page_tokens]. */
static int32_t *ids_of(const struct tr_page *page)
{
    const struct tr_page_pool *p = page->pool;
    return p->ids + (size_t)(page - p->pages) * (size_t)p->page_tokens;
}

/* ---- the index ---- */

static struct tr_page **bucket_of(struct tr_page_pool *p, struct tr_hash key)
{
    return &p->index[key.lo & p->index_mask];
}

static bool same_identity(const struct tr_page *page, struct tr_hash key, int64_t start,
                          const int32_t *ids)
{
    return tr_hash_equal(page->key, key) && page->start == start &&
           memcmp(ids_of(page), ids, (size_t)page->pool->page_tokens * sizeof *ids) == 0;
}

static struct tr_page *lookup(struct tr_page_pool *p, struct tr_hash key, int64_t start,
                              const int32_t *ids)
{
    struct tr_page *page = *bucket_of(p, key);
    while (page && !same_identity(page, key, start, ids))
        page = page->bucket;
    return page;
}

/* Counts a page as held or cached, or no longer as that. */
static void count(const struct tr_page *page, int used, int cached)
{
    struct tr_page_pool *p = page->pool;
    struct tr_page_cell *cell = &p->map.cells[(page - p->pages) >> p->map.shift];
    p->used += used;
    p->cached += cached;
    cell->used += used;
    cell->cached += cached;
}

static struct tr_hash checksum(const struct tr_page *page)
{
    return tr_hash(tr__page_data(page), page->pool->page_bytes);
}

static void release_free(struct tr_page *page)
{
    struct tr_page_pool *p = page->pool;
    page->keep = false;
    if (p->poison) /* all ones is a NaN in every float type */
        memset(tr__page_data(page), 0xFF, p->stride);
    tr_list_insert(&p->free, &page->link);
}

/* Takes a page out of the index; if nobody holds it, it becomes free. */
static void forget(struct tr_page *page)
{
    struct tr_page_pool *p = page->pool;
    struct tr_page **at = bucket_of(p, page->key);
    while (*at != page)
        at = &(*at)->bucket;
    *at = page->bucket;
    page->bucket = NULL;
    page->sealed = false;
    if (page->refs == 0) {
        tr_list_remove(&page->link);
        count(page, 0, -1);
        release_free(page);
    }
}

void tr__page_seal(struct tr_page *page, struct tr_hash key, int64_t start, const int32_t *ids,
                   bool compare)
{
    struct tr_page_pool *p = page->pool;
    struct tr_page *twin = lookup(p, key, start, ids);
    if (twin) {
        if (!compare)
            return;
        if (memcmp(tr__page_data(twin), tr__page_data(page), p->page_bytes) == 0) {
            p->verified++;
            return;
        }
        p->mismatches++;
        forget(twin);
    }
    page->key = key;
    page->start = start;
    memcpy(ids_of(page), ids, (size_t)p->page_tokens * sizeof *ids);
    if (p->verify)
        page->checksum = checksum(page);
    page->bucket = *bucket_of(p, key);
    *bucket_of(p, key) = page;
    page->sealed = true;
}

struct tr_page *tr__page_find(struct tr_page_pool *p, struct tr_hash key, int64_t start,
                              const int32_t *ids)
{
    struct tr_page *page = lookup(p, key, start, ids);
    if (page && p->verify && !tr_hash_equal(checksum(page), page->checksum)) {
        forget(page);
        p->mismatches++;
        return NULL;
    }
    return page;
}

bool tr__page_is_gone(const struct tr_page_pool *p, struct tr_hash key)
{
    return p->gone[key.lo % TR_GONE_PAGES] == key.hi;
}

static void evict(struct tr_page *page)
{
    struct tr_page_pool *p = page->pool;
    p->evicted++;
    p->gone[page->key.lo % TR_GONE_PAGES] = page->key.hi;
    forget(page);
}

/* ---- references and memory ---- */

/* Gives a free page's memory back to the system. The pool then stops asking for huge pages, since
 * the kernel would fill the holes again behind our back. */
static void give_back(struct tr_page *page)
{
    struct tr_page_pool *p = page->pool;
    tr_list_remove(&page->link);
    (void)madvise(p->memory, (size_t)p->n_pages * p->stride, MADV_NOHUGEPAGE);
    (void)madvise(tr__page_data(page), p->stride, MADV_DONTNEED);
    tr_list_insert(&p->idle, &page->link);
    p->budget->committed -= p->stride;
}

/* The cached page that is worth least: the one that has aged most. */
static struct tr_page *cheapest(struct tr_page_budget *b)
{
    /* Measured on chats, edited documents, shared prefixes and stale documents in caches that hold
     * a quarter of them to all: 4 is best or close to it everywhere, 16 and more is worse, as
     * is any order that lets one kind outlive the other. */
    static const uint64_t speed[TR_EVICT_CLASSES] = {4, 1};
    struct tr_page *best = NULL;
    uint64_t most = 0;
    for (int c = 0; c < TR_EVICT_CLASSES; c++) {
        struct tr_page *page = TR_LIST_AT(struct tr_page, b->evictable[c].next);
        uint64_t age =
            tr_list_empty(&b->evictable[c]) ? 0 : (b->clock - page->released + 1) * speed[c];
        if (age > most) {
            most = age;
            best = page;
        }
    }
    return best;
}

/* Lowers what is committed by at least one page: a free page of the other pool first, then the
 * cheapest cached one of either. Returns false if everything is held. */
static bool reclaim(struct tr_page_budget *b, const struct tr_page_pool *wanted)
{
    for (int i = 0; i < 2; i++) {
        struct tr_page_pool *other = b->pools[i];
        if (other != wanted && !tr_list_empty(&other->free)) {
            give_back(TR_LIST_AT(struct tr_page, other->free.next));
            return true;
        }
    }
    struct tr_page *oldest = cheapest(b);
    if (oldest)
        evict(oldest);
    return oldest != NULL;
}

/* The next page that was never used. Where the map is full, each two cells become one. */
static struct tr_page *touch(struct tr_page_pool *p)
{
    struct tr_page_map *m = &p->map;
    struct tr_page *page = &p->pages[m->touched++];
    page->pool = p;
    if ((m->touched - 1) >> m->shift < TR_PAGE_CELLS)
        return page;
    m->shift++;
    for (int i = 0; i < TR_PAGE_CELLS / 2; i++)
        m->cells[i] = (struct tr_page_cell){m->cells[2 * i].used + m->cells[2 * i + 1].used,
                                            m->cells[2 * i].cached + m->cells[2 * i + 1].cached};
    memset(m->cells + TR_PAGE_CELLS / 2, 0, sizeof m->cells / 2);
    return page;
}

struct tr_page *tr__page_take(struct tr_page_pool *p)
{
    struct tr_page_budget *b = p->budget;
    struct tr_page *page;
    while (tr_list_empty(&p->free) && b->committed + p->stride > b->limit)
        if (!reclaim(b, p))
            return NULL;
    if (!tr_list_empty(&p->free)) {
        page = TR_LIST_AT(struct tr_page, p->free.next);
        tr_list_remove(&page->link);
    } else {
        if (!tr_list_empty(&p->idle)) {
            page = TR_LIST_AT(struct tr_page, p->idle.next);
            tr_list_remove(&page->link);
        } else {
            page = touch(p);
        }
        b->committed += p->stride;
    }
    b->clock++;
    page->refs = 1;
    count(page, 1, 0);
    return page;
}

void tr__page_ref(struct tr_page *page)
{
    if (page->refs++ == 0) {
        tr_list_remove(&page->link);
        count(page, 1, -1);
    }
}

void tr__page_unref(struct tr_page *page)
{
    struct tr_page_pool *p = page->pool;
    if (--page->refs)
        return;
    count(page, -1, page->sealed);
    if (page->sealed) {
        page->released = p->budget->clock;
        tr_list_append(&p->budget->evictable[page->keep ? TR_EVICT_LATE : p->evict], &page->link);
    } else {
        release_free(page);
    }
}
