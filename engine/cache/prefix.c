#include "engine/cache/prefix.h"

int64_t tr_prefix_tail(const struct tr_prefix_shape *s)
{
    return s->has_local ? TR_CEIL_DIV((int64_t)s->window - 1, s->page_tokens) : 0;
}

void tr_prefix_init(struct tr_prefix *x, struct tr_hash fingerprint, const uint64_t salt[2])
{
    *x = (struct tr_prefix){.local = tr__local_root(fingerprint, salt),
                            .global = tr__global_root(fingerprint, salt)};
}

void tr__prefix_advance(struct tr_prefix *x, int page_tokens, const int32_t *ids)
{
    const int32_t *page = ids + x->pages * page_tokens;
    size_t bytes = (size_t)page_tokens * sizeof *page;
    x->local = tr_hash_link(x->local, page, bytes);
    x->global = tr_hash_link(x->global, page, bytes);
    x->pages++;
}

/* The greatest number of pages at which a sequence that has `first` full pages may resume. */
static int64_t longest_match(struct tr_pages *p, const struct tr_prefix_shape *s,
                             struct tr_prefix x, const int32_t *ids, int64_t n_pages,
                             struct tr_prefix_match *ret)
{
    int64_t first = x.pages;
    int64_t best = first;
    int64_t run = 0; /* local pages found in a row, up to here */
    int64_t i = first;
    for (; i < n_pages; i++) {
        const int32_t *page = ids + i * s->page_tokens;
        tr__prefix_advance(&x, s->page_tokens, ids);
        if (s->has_global && !tr__global_find(p, i, x.global, page)) {
            ret->evicted = tr__global_is_gone(p, x.global);
            break;
        }
        run = s->has_local && tr__local_find(p, i, x.local, page) ? run + 1 : 0;
        if (run >= TR_MIN(tr_prefix_tail(s), i + 1 - first))
            best = i + 1;
    }
    ret->tokens = i * s->page_tokens;
    return best;
}

int64_t tr_prefix_adopt(struct tr_pages *p, const struct tr_prefix_shape *s,
                        const struct tr_prefix_use *use, int64_t n_computed, int64_t n_max,
                        struct tr_prefix_match *ret)
{
    int64_t first = use->chain->pages;
    struct tr_prefix_match match = {0};
    int64_t best = longest_match(p, s, *use->chain, use->ids, n_max / s->page_tokens, &match);
    if (ret)
        *ret = match;
    if (best * s->page_tokens <= n_computed)
        return n_computed;

    int64_t tail = TR_MAX(best - tr_prefix_tail(s), 0);
    tr_global_truncate(use->global, first);
    tr_local_truncate(use->local, first);
    tr_local_drop(p, use->local, tail * s->page_tokens);
    for (int64_t i = first; i < best; i++) {
        const int32_t *page = use->ids + i * s->page_tokens;
        tr__prefix_advance(use->chain, s->page_tokens, use->ids);
        if (s->has_global)
            tr__global_adopt(use->global, tr__global_find(p, i, use->chain->global, page));
        if (s->has_local && i >= tail) {
            tr__local_adopt(use->local, i, tr__local_find(p, i, use->chain->local, page));
            tr__local_keep(use->local, i); /* it served once */
        }
    }
    return best * s->page_tokens;
}

/* Whether the page lies in the tail of a resume point. (Tails at regular distances, too, were
 * measured: they push out more than they save.) */
static bool in_tail(const struct tr_prefix_shape *s, int64_t page, const int64_t *resume,
                    int n_resume)
{
    int64_t tail = tr_prefix_tail(s);
    for (int r = 0; r < n_resume; r++) {
        int64_t end = resume[r] / s->page_tokens;
        if (page < end && page >= end - tail)
            return true;
    }
    return false;
}

void tr_prefix_seal(struct tr_pages *p, const struct tr_prefix_shape *s,
                    const struct tr_prefix_use *use, int64_t n_computed, const int64_t *resume,
                    int n_resume, bool compare)
{
    while ((use->chain->pages + 1) * s->page_tokens <= n_computed) {
        int64_t i = use->chain->pages;
        const int32_t *page = use->ids + i * s->page_tokens;
        tr__prefix_advance(use->chain, s->page_tokens, use->ids);
        tr__local_seal(p, use->local, i, use->chain->local, page, compare);
        tr__global_seal(p, use->global, i, use->chain->global, page, compare);
        if (in_tail(s, i, resume, n_resume))
            tr__local_keep(use->local, i);
    }
}

void tr_prefix_keep_end(const struct tr_prefix_shape *s, const struct tr_local_table *local,
                        int64_t n_computed)
{
    int64_t end = n_computed / s->page_tokens;
    for (int64_t i = TR_MAX(end - tr_prefix_tail(s), 0); i < end; i++)
        tr__local_keep(local, i);
}
