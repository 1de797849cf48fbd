/*
 * Stop strings, looked for in an answer's text while it grows.
 *
 * The first match in the text wins: the one that ends earliest, and of those that end together the
 * one that begins earliest. Text that may still become part of a match is held back, and nothing
 * else is.
 */
#ifndef TR_ENGINE_TEXT_STOPS_H
#define TR_ENGINE_TEXT_STOPS_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"

/* A set of stop strings: immutable, may be shared by scans on any thread. */
struct tr_stops;

/* Copies n >= 1 strings of the given lengths. include: a match ends after the stop string, not
 * before it. TR_EINVAL: a string is empty. TR_ENOMEM. */
TR_NODISCARD int tr_stops_new(struct tr_stops **ret, const char *const *strings,
                              const size_t *lengths, int n, bool include);
struct tr_stops *tr_stops_free(struct tr_stops *s); /* NULL ok; returns NULL */

/* One text's state. */
struct tr_stop_scan {
    const struct tr_stops *set; /* borrowed; NULL = no stop strings, all is released at once */
    size_t *matched;            /* owned; per string: how many of its bytes the text ends with */
    int held_by;                /* the string that the held text is the beginning of */
    size_t n_held;              /* bytes held back */
    int stop;                   /* the string that was found; -1 before */
};

/* set may be NULL. On success the scan is owned by the caller: tr_stop_scan_done. */
TR_NODISCARD int tr_stop_scan_init(struct tr_stop_scan *s, const struct tr_stops *set);
void tr_stop_scan_done(struct tr_stop_scan *s); /* a zeroed scan is fine */

/* Takes the next bytes of the text and appends to out what may be released now. Returns the index
 * of the stop string found, after which the text is complete and further bytes are ignored; else
 * -1. Given whole characters it releases whole characters. */
int tr_stop_scan_add(struct tr_stop_scan *s, const char *text, size_t n, struct tr_buf *out);

/* The text ended without a match: releases what is held. */
void tr_stop_scan_end(struct tr_stop_scan *s, struct tr_buf *out);

#endif
