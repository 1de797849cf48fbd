/*
 * Which computed prefix of a token sequence can be taken from the pages of others.
 *
 * A sequence may resume at length P (a multiple of the page size) if every global page before P is
 * there, and the local pages that cover the window before P: nothing else is ever read by what
 * comes after P. Keys are chained, so a page found for ids[0, P) was computed from exactly those
 * ids, at those positions, by this checkpoint, under this salt.
 */
#ifndef TR_ENGINE_CACHE_PREFIX_H
#define TR_ENGINE_CACHE_PREFIX_H

#include "engine/cache/pages.h"

/* What the cache looks like to a sequence; fixed at open. */
struct tr_prefix_shape {
    int page_tokens;
    int window;
    bool has_local, has_global; /* the model has layers of the kind */
};

/* Pages in the tail that a resume point needs: ceil((window - 1) / page_tokens), 0 without local
 * layers. */
int64_t tr_prefix_tail(const struct tr_prefix_shape *s);

/* The chain of one sequence after its first `pages` full pages. */
struct tr_prefix {
    struct tr_hash local, global;
    int64_t pages;
};
void tr_prefix_init(struct tr_prefix *x, struct tr_hash fingerprint, const uint64_t salt[2]);
/* Takes the chain over one more page of the sequence's ids. */
void tr__prefix_advance(struct tr_prefix *x, int page_tokens, const int32_t *ids);

/* One sequence's side of a lookup: its chain, tables and ids, of which n_computed are computed. */
struct tr_prefix_use {
    struct tr_prefix *chain;
    struct tr_local_table *local;
    struct tr_global_table *global;
    const int32_t *ids;
};

/* What a lookup came to, whatever could be used of it. */
struct tr_prefix_match {
    int64_t tokens; /* for which all global pages were there, local tail or not: a branch point,
                     * worth keeping the tail of next time */
    bool evicted;   /* the next global page was there, not long ago */
};

/* Extends the computed prefix by pages of others, to at most n_max tokens; the sequence's own pages
 * at and behind the first adopted position are released. Returns the new number of computed tokens
 * (n_computed if nothing is gained). ret: NULL ok. */
int64_t tr_prefix_adopt(struct tr_pages *p, const struct tr_prefix_shape *s,
                        const struct tr_prefix_use *use, int64_t n_computed, int64_t n_max,
                        struct tr_prefix_match *ret);

/* Seals the pages that n_computed tokens fill and that are not sealed yet. resume [n_resume]:
 * points at which a later request may resume; their tails are kept longer. compare: see
 * tr__local_seal. */
void tr_prefix_seal(struct tr_pages *p, const struct tr_prefix_shape *s,
                    const struct tr_prefix_use *use, int64_t n_computed, const int64_t *resume,
                    int n_resume, bool compare);
/* Marks the tail before the last full page of n_computed tokens: a turn ends here. */
void tr_prefix_keep_end(const struct tr_prefix_shape *s, const struct tr_local_table *local,
                        int64_t n_computed);

#endif
