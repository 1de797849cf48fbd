/*
 * The longest of a sorted list of texts that begins at a place: with each byte of the text, the
 * range of those that agree so far gets narrower.
 */
#include "engine/text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "engine/text/unicode.h"

int tr_added_add(struct tr_added_set *s, const char *text, size_t n, int32_t id, unsigned flags)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct tr_added_token *p = realloc(s->tokens, cap * sizeof(*p));

        if (!p)
            return TR_ENOMEM;
        s->tokens = p;
        s->cap = cap;
    }
    s->tokens[s->n++] = (struct tr_added_token){s->text.len, n, id, flags};
    s->first[(unsigned char)text[0]] = true;
    tr_buf_add(&s->text, text, n);
    return s->text.oom ? TR_ENOMEM : TR_OK;
}

void tr_added_done(struct tr_added_set *s)
{
    free(s->tokens);
    tr_buf_done(&s->text);
    *s = (struct tr_added_set){0};
}

static int compare(const void *a, const void *b, void *arg)
{
    const struct tr_added_token *x = a, *y = b;
    const char *text = arg;
    int order = memcmp(text + x->at, text + y->at, TR_MIN(x->n, y->n));

    return order ? order : (x->n > y->n) - (x->n < y->n);
}

int tr_added_finish(struct tr_added_set *s)
{
    if (s->n > 1)
        qsort_r(s->tokens, s->n, sizeof(*s->tokens), compare, s->text.data);
    for (size_t i = 1; i < s->n; i++) {
        if (compare(&s->tokens[i - 1], &s->tokens[i], s->text.data) == 0)
            return TR_EFORMAT;
    }
    return TR_OK;
}

/* The first token in [low, high) whose byte at `depth` is not below c. */
static size_t lower_bound(const struct tr_added_set *s, size_t low, size_t high, size_t depth,
                          int c)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct tr_added_token *t = &s->tokens[middle];

        if ((unsigned char)s->text.data[t->at + depth] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct tr_added_token *longest(const struct tr_added_set *s, const char *text,
                                            size_t n)
{
    const struct tr_added_token *best = NULL;
    size_t low = 0, high = s->n;

    for (size_t depth = 0; depth < n && low < high; depth++) {
        int c = (unsigned char)text[depth];

        low = lower_bound(s, low, high, depth, c);
        high = lower_bound(s, low, high, depth, c + 1);
        if (low < high && s->tokens[low].n == depth + 1)
            best = &s->tokens[low++];
    }
    return best;
}

static bool word_at(const char *text, size_t i)
{
    size_t k;

    return tr_char_is_word(tr_utf8_at(text + i, &k));
}

static bool space_at(const char *text, size_t i, size_t *ret_n)
{
    return tr_char_class(tr_utf8_at(text + i, ret_n)) & TR_CHAR_SPACE;
}

/* The end of the text in which a token may be that begins at scan->at; a plain range there is
 * passed first. */
static size_t free_until(struct tr_added_scan *scan)
{
    while (scan->n_plain > 0) {
        size_t at = scan->base + scan->at;

        if (at < scan->plain->begin)
            return TR_MIN(scan->n, scan->plain->begin - scan->base);
        if (at < scan->plain->end)
            scan->at = TR_MIN(scan->n, scan->plain->end - scan->base);
        scan->plain++;
        scan->n_plain--;
    }
    return scan->n;
}

bool tr_added_next(struct tr_added_scan *scan, size_t *ret_begin, int32_t *ret_id)
{
    const char *text = scan->text;
    size_t n = scan->n;

    while (scan->at < n) {
        size_t limit = free_until(scan), begin = scan->at, end, k;
        const struct tr_added_token *t =
            begin < limit && scan->set->first[(unsigned char)text[begin]]
                ? longest(scan->set, text + begin, limit - begin)
                : NULL;

        if (!t) {
            scan->at++;
            continue;
        }
        scan->at = end = begin + t->n;
        if ((t->flags & TR_ADDED_SINGLE_WORD) &&
            ((begin > 0 && word_at(text, tr_utf8_before(text, begin))) ||
             (end < n && word_at(text, end))))
            continue;
        if (t->flags & TR_ADDED_LSTRIP) {
            while (begin > scan->done && space_at(text, tr_utf8_before(text, begin), &k))
                begin = tr_utf8_before(text, begin);
            begin = TR_MAX(begin, scan->done);
        }
        if (t->flags & TR_ADDED_RSTRIP) {
            end = TR_MAX(end, scan->done);
            while (end < n && space_at(text, end, &k))
                end += k;
        }
        /* White space that the token before has taken is no token itself. */
        if (begin >= end)
            continue;
        *ret_begin = begin;
        *ret_id = t->id;
        scan->done = end;
        return true;
    }
    *ret_begin = n;
    return false;
}
