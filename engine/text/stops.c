/*
 * Stop strings by Knuth, Morris and Pratt, one automaton a string.
 *
 * The text held back is always the beginning of one of the strings (of the one that has matched
 * most), so no scan needs a buffer of its own.
 */
#include "engine/text/stops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct stop {
    const char *text; /* in tr_stops.text */
    size_t n;
    const size_t *border; /* border[i]: length of the longest proper prefix that ends text[0..i] */
};

struct tr_stops {
    bool include;
    int n;
    struct stop *stops;
    char *text;
    size_t *borders;
};

static void find_borders(const char *text, size_t n, size_t *border)
{
    size_t k = 0;

    border[0] = 0;
    for (size_t i = 1; i < n; i++) {
        while (k > 0 && text[i] != text[k])
            k = border[k - 1];
        if (text[i] == text[k])
            k++;
        border[i] = k;
    }
}

int tr_stops_new(struct tr_stops **ret, const char *const *strings, const size_t *lengths, int n,
                 bool include)
{
    struct tr_stops *s;
    size_t total = 0;

    assert(n > 0);
    for (int i = 0; i < n; i++) {
        if (lengths[i] == 0 || __builtin_add_overflow(total, lengths[i], &total))
            return TR_EINVAL;
    }
    s = calloc(1, sizeof(*s));
    if (!s)
        return TR_ENOMEM;
    s->include = include;
    s->n = n;
    s->stops = calloc((size_t)n, sizeof(*s->stops));
    s->text = malloc(total);
    s->borders = calloc(total, sizeof(*s->borders));
    if (!s->stops || !s->text || !s->borders) {
        tr_stops_free(s);
        return TR_ENOMEM;
    }
    total = 0;
    for (int i = 0; i < n; i++) {
        memcpy(s->text + total, strings[i], lengths[i]);
        find_borders(strings[i], lengths[i], s->borders + total);
        s->stops[i] = (struct stop){s->text + total, lengths[i], s->borders + total};
        total += lengths[i];
    }
    *ret = s;
    return TR_OK;
}

struct tr_stops *tr_stops_free(struct tr_stops *s)
{
    if (s) {
        free(s->stops);
        free(s->text);
        free(s->borders);
        free(s);
    }
    return NULL;
}

int tr_stop_scan_init(struct tr_stop_scan *s, const struct tr_stops *set)
{
    size_t *matched = NULL;

    if (set) {
        matched = calloc((size_t)set->n, sizeof(*matched));
        if (!matched)
            return TR_ENOMEM;
    }
    *s = (struct tr_stop_scan){.set = set, .matched = matched, .stop = -1};
    return TR_OK;
}

void tr_stop_scan_done(struct tr_stop_scan *s)
{
    free(s->matched);
    *s = (struct tr_stop_scan){0};
}

/* Appends the first `keep` bytes of the held text followed by text. */
static void release(const struct tr_stop_scan *s, const char *text, size_t keep, struct tr_buf *out)
{
    size_t held = TR_MIN(keep, s->n_held);

    if (held > 0)
        tr_buf_add(out, s->set->stops[s->held_by].text, held);
    tr_buf_add(out, text, keep - held);
}

int tr_stop_scan_add(struct tr_stop_scan *s, const char *text, size_t n, struct tr_buf *out)
{
    int held_by = 0;
    size_t n_held = 0;

    if (!s->set) {
        tr_buf_add(out, text, n);
        return -1;
    }
    if (s->stop >= 0)
        return s->stop;
    for (size_t i = 0; i < n; i++) {
        for (int j = 0; j < s->set->n; j++) {
            const struct stop *stop = &s->set->stops[j];
            size_t k = s->matched[j];

            while (k > 0 && text[i] != stop->text[k])
                k = stop->border[k - 1];
            if (text[i] == stop->text[k])
                k++;
            s->matched[j] = k;
            if (k == stop->n && (s->stop < 0 || k > s->set->stops[s->stop].n))
                s->stop = j;
        }
        if (s->stop >= 0) {
            size_t end = s->n_held + i + 1;

            release(s, text, s->set->include ? end : end - s->set->stops[s->stop].n, out);
            s->n_held = 0;
            return s->stop;
        }
    }
    for (int j = 0; j < s->set->n; j++) {
        if (s->matched[j] > n_held) {
            n_held = s->matched[j];
            held_by = j;
        }
    }
    release(s, text, s->n_held + n - n_held, out);
    s->held_by = held_by;
    s->n_held = n_held;
    return -1;
}

void tr_stop_scan_end(struct tr_stop_scan *s, struct tr_buf *out)
{
    release(s, NULL, s->n_held, out);
    s->n_held = 0;
}
