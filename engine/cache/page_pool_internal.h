/*
 * The mechanics of a page pool: memory, references, eviction, the content index. It knows no kind
 * and no layer; pages.h puts the two typed pools on top of it, and only pages.c includes this.
 *
 * Both pools draw on one budget of bytes, so that neither many short requests (local pages) nor a
 * few long ones (global pages) are refused while the other kind's memory lies idle. Each pool
 * reserves address space for the whole budget and touches it as needed; memory moves from one pool
 * to the other by giving pages back to the system.
 *
 * A page is free (no contents), held (refs > 0), or cached (no reference, but indexed by content
 * and evictable, least recently used first).
 */
#ifndef TR_ENGINE_CACHE_PAGE_POOL_INTERNAL_H
#define TR_ENGINE_CACHE_PAGE_POOL_INTERNAL_H

#include "config/err.h"
#include "config/hash.h"
#include "config/list.h"
#include "engine/types.h"

struct tr_page_pool;

/* What a page knows of itself beside its kind, which is its pool's. */
struct tr_page {
    struct tr_list link; /* free list, or the list of evictable pages */
    struct tr_page_pool *pool;
    struct tr_page *bucket; /* next in the index */
    struct tr_hash key; /* chain over fingerprint, kind, salt and all ids up to the page's end */
    struct tr_hash checksum; /* of the data, when sealed and the pool verifies */
    int64_t start;           /* absolute position of the first slot, set when sealed */
    int refs;                /* sequences that hold it */
    bool sealed;             /* complete, and in the index */
    bool keep;               /* a later request may resume right behind it */
    uint64_t released;       /* the clock when it was held last */
};

/* How fast a cached page ages: local pages that no resume point needs, faster than tails and global
 * pages. */
enum tr_evict { TR_EVICT_SOON, TR_EVICT_LATE, TR_EVICT_CLASSES };

struct tr_page_budget {
    uint64_t limit;                             /* bytes of page memory in both pools */
    uint64_t committed;                         /* bytes in use, cached or free but touched */
    struct tr_list evictable[TR_EVICT_CLASSES]; /* list heads, least recently held first */
    uint64_t clock;                             /* pages taken so far: what ages are measured in */
    struct tr_page_pool *pools[2];
};

enum { TR_GONE_PAGES = 4096 }; /* evicted pages that a pool remembers, about */

struct tr_page_pool {
    struct tr_page_budget *budget;
    size_t page_bytes; /* of data; 0 = the model has no layer of the kind: the pool is inert */
    size_t stride;     /* bytes a page costs: page_bytes rounded up to the system's page */
    int page_tokens;
    enum tr_evict evict;    /* class of its pages, those to `keep` excepted */
    int n_pages;            /* most it can ever hold */
    int used, cached;       /* pages held; pages evictable */
    struct tr_page_map map; /* of both, and how many pages were ever used */
    char *memory;           /* [n_pages] of stride; mapped, touched as needed */
    struct tr_page *pages;  /* [n_pages] */
    int32_t *ids;           /* [n_pages][page_tokens], valid when sealed */
    struct tr_list free;    /* list head: memory committed */
    struct tr_list idle;    /* list head: memory given back */
    struct tr_page **index;
    size_t index_mask;
    uint64_t mismatches, verified; /* comparisons of contents that failed; that a twin passed */
    uint64_t evicted, reused;      /* cached pages given up for others; found and held once more */
    uint64_t gone[TR_GONE_PAGES];  /* of keys evicted of late: hi, at lo */
    bool verify;                   /* keep checksums and compare them at each reuse */
    bool poison;                   /* fill freed pages with NaN: for tests */
};

size_t tr__page_stride(size_t page_bytes);
/* The two pools that draw on it, which tr__page_pool_init makes. */
void tr__page_budget_init(struct tr_page_budget *b, uint64_t limit, struct tr_page_pool *one,
                          struct tr_page_pool *other);
TR_NODISCARD int tr__page_pool_init(struct tr_page_pool *p, struct tr_page_budget *b,
                                    size_t page_bytes, int page_tokens, struct tr_err *err);
void tr__page_pool_done(struct tr_page_pool *p);

/* A page with one reference and undefined contents; evicts if it must. NULL: all memory is held. */
struct tr_page *tr__page_take(struct tr_page_pool *p);
void tr__page_ref(struct tr_page *page);
void tr__page_unref(struct tr_page *page);
void *tr__page_data(const struct tr_page *page);

/* Makes a complete held page findable by content, unless a twin already is. compare: the twin's
 * bytes are compared; a twin that differs is forgotten. */
void tr__page_seal(struct tr_page *page, struct tr_hash key, int64_t start, const int32_t *ids,
                   bool compare);
/* The sealed page of that identity: key, start and ids are all compared, with `verify` the checksum
 * too; a page that fails that is forgotten. NULL if there is none. */
struct tr_page *tr__page_find(struct tr_page_pool *p, struct tr_hash key, int64_t start,
                              const int32_t *ids);
/* Whether a page of that key was evicted of late. */
bool tr__page_is_gone(const struct tr_page_pool *p, struct tr_hash key);

#endif
