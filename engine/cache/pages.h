/*
 * The two typed page pools, and what sequences do with them: grow, drop, fork, share.
 *
 * A local page can't get into a global table or pool: they are different types, and no function
 * takes either with a flag. What both have in common lies in page_pool_internal.h.
 *
 * Pages that are full of computed tokens are sealed: from then on they are found by content (a
 * 128-bit chain over fingerprint, kind, salt and all token ids up to the page's end) and never
 * change. All functions run on the engine thread. A kind of which the model has no layer has an
 * inert pool: its tables stay empty and every call succeeds.
 */
#ifndef TR_ENGINE_CACHE_PAGES_H
#define TR_ENGINE_CACHE_PAGES_H

#include "config/hash.h"
#include "engine/cache/global.h"
#include "engine/cache/local.h"

struct tr_pages; /* both pools and their one budget */

struct tr_pages_options {
    const struct tr_kv_layout *local; /* borrowed; n_layers 0 = the kind does not exist */
    const struct tr_kv_layout *global;
    uint64_t budget_bytes;
    bool verify; /* checksum pages when sealed, compare at each reuse */
    bool poison; /* fill freed pages with NaN: tests show that nobody reads them */
};

TR_NODISCARD int tr_pages_open(struct tr_pages **ret, const struct tr_pages_options *options,
                               struct tr_err *err);
struct tr_pages *tr_pages_close(struct tr_pages *p); /* NULL ok; returns NULL */

/* Bytes that a page of the kind costs; 0 = no such layers. */
size_t tr_local_page_cost(const struct tr_kv_layout *local);
size_t tr_global_page_cost(const struct tr_kv_layout *global);

struct tr_page_counts {
    int used;                 /* held by sequences */
    int cached;               /* held by nobody, reusable, evictable */
    int total;                /* most the whole budget could hold of this kind */
    uint64_t evicted, reused; /* since the start: cached pages given up; found and held again */
};
struct tr_page_counts tr_local_counts(const struct tr_pages *p);
struct tr_page_counts tr_global_counts(const struct tr_pages *p);
/* Where in the pool they lie (types.h). */
const struct tr_page_map *tr_local_map(const struct tr_pages *p);
const struct tr_page_map *tr_global_map(const struct tr_pages *p);
/* Contents compared so far: reuses refused because a check failed, and twins found equal. */
void tr_pages_checks(const struct tr_pages *p, uint64_t *ret_mismatches, uint64_t *ret_verified);

/* Room for n_pages pages in all; the table, which may be all zero, keeps what it has. TR_ENOMEM. */
TR_NODISCARD int tr_local_table_reserve(struct tr_local_table *t, int n_pages);
TR_NODISCARD int tr_global_table_reserve(struct tr_global_table *t, int n_pages);
void tr_local_table_done(struct tr_local_table *t); /* the table must be empty */
void tr_global_table_done(struct tr_global_table *t);

/* Covers the positions [begin, end) / [0, end), taking pages as needed; a local table that is empty
 * starts at begin's page. False: no page is left; what was taken stays in the table. */
TR_NODISCARD bool tr_local_extend(struct tr_pages *p, struct tr_local_table *t, int64_t begin,
                                  int64_t end);
TR_NODISCARD bool tr_global_extend(struct tr_pages *p, struct tr_global_table *t, int64_t end);
/* Drops the pages that lie wholly before position `first`. */
void tr_local_drop(struct tr_pages *p, struct tr_local_table *t, int64_t first);
/* Drops the pages numbered n_pages and up. */
void tr_local_truncate(struct tr_local_table *t, int64_t n_pages);
void tr_global_truncate(struct tr_global_table *t, int64_t n_pages);
/* Makes the empty table `to` equal to `from`, which holds `end` tokens: full pages are shared, a
 * partial last page is copied. False: no page is left, `to` is empty again. */
TR_NODISCARD bool tr_local_fork(struct tr_pages *p, struct tr_local_table *to,
                                const struct tr_local_table *from, int64_t end);
TR_NODISCARD bool tr_global_fork(struct tr_pages *p, struct tr_global_table *to,
                                 const struct tr_global_table *from, int64_t end);

/* The start of a chain of keys: different for kinds, fingerprints and salts. */
struct tr_hash tr__local_root(struct tr_hash fingerprint, const uint64_t salt[2]);
struct tr_hash tr__global_root(struct tr_hash fingerprint, const uint64_t salt[2]);

/* Seals page number `page` of the table, if it is there: `ids` are its page_tokens ids, `key` the
 * chain up to its end. compare: if another page has this identity already, compare the bytes. */
void tr__local_seal(struct tr_pages *p, const struct tr_local_table *t, int64_t page,
                    struct tr_hash key, const int32_t *ids, bool compare);
void tr__global_seal(struct tr_pages *p, const struct tr_global_table *t, int64_t page,
                     struct tr_hash key, const int32_t *ids, bool compare);
/* Marks a page of the table as worth keeping: a later request may resume right behind it. */
void tr__local_keep(const struct tr_local_table *t, int64_t page);

/* The sealed page of that identity, or NULL: key, absolute start and ids are compared (and the
 * checksum, with `verify`). The page may go away with the next call that takes pages. */
struct tr_local_page *tr__local_find(struct tr_pages *p, int64_t page, struct tr_hash key,
                                     const int32_t *ids);
struct tr_global_page *tr__global_find(struct tr_pages *p, int64_t page, struct tr_hash key,
                                       const int32_t *ids);
/* Whether a page of that key was evicted of late: the pool remembers some thousands. */
bool tr__global_is_gone(const struct tr_pages *p, struct tr_hash key);
/* Appends a found page to the table and holds it; it must be the table's next page number, or any
 * for an empty local table. */
void tr__local_adopt(struct tr_local_table *t, int64_t page, struct tr_local_page *found);
void tr__global_adopt(struct tr_global_table *t, struct tr_global_page *found);

#endif
