/*
 * The incremental UTF-8 decoder of an answer, and names of tokens.
 */
#include "engine/text/detokenizer.h"

#include <string.h>

#include "engine/text/unicode.h"

#define REPLACEMENT "\xEF\xBF\xBD"

static void put_char(struct tr_detok *d, const char *bytes, size_t n, struct tr_buf *out)
{
    tr_buf_add(out, bytes, n);
    d->n_chars++;
}

/* Tries the waiting bytes together with the first of the new ones. Returns how many of the new ones
 * went into that character; whatever happens, the tail is empty afterwards or the new bytes are
 * used up. */
static size_t finish_tail(struct tr_detok *d, const char *bytes, size_t n, struct tr_buf *out)
{
    char both[4];
    size_t take = TR_MIN(n, sizeof(both) - d->n_tail);
    int k;

    memcpy(both, d->tail, d->n_tail);
    memcpy(both + d->n_tail, bytes, take);
    k = tr_utf8_scan(both, d->n_tail + take, NULL);
    if (k == 0) {
        memcpy(d->tail + d->n_tail, bytes, take);
        d->n_tail += (unsigned)take;
        return take;
    }
    if (k > 0) {
        put_char(d, both, (size_t)k, out);
    } else {
        put_char(d, REPLACEMENT, 3, out);
        k = -k;
    }
    take = (size_t)k - d->n_tail;
    d->n_tail = 0;
    return take;
}

size_t tr_detok_bytes(struct tr_detok *d, const char *bytes, size_t n, struct tr_buf *out)
{
    size_t i = 0, place = d->n_chars;

    if (n > 0 && d->n_tail > 0) {
        i = finish_tail(d, bytes, n, out);
        if (i == 0)
            place = d->n_chars;
    }
    while (i < n) {
        int k = tr_utf8_scan(bytes + i, n - i, NULL);

        if (k == 0) {
            d->n_tail = (unsigned)(n - i);
            memcpy(d->tail, bytes + i, d->n_tail);
            break;
        }
        if (k > 0) {
            put_char(d, bytes + i, (size_t)k, out);
        } else {
            put_char(d, REPLACEMENT, 3, out);
            k = -k;
        }
        i += (size_t)k;
    }
    return place;
}

size_t tr_detok_token(struct tr_detok *d, const struct tr_tokenizer *t, int32_t id,
                      bool skip_special, struct tr_buf *out)
{
    bool special = false;
    size_t n = 0;
    const char *piece = tr_tokenizer_piece(t, id, &n, &special);

    if (!piece || (special && skip_special))
        return d->n_chars;
    return tr_detok_bytes(d, piece, n, out);
}

void tr_detok_end(struct tr_detok *d, bool cut, struct tr_buf *out)
{
    if (d->n_tail > 0 && !cut)
        put_char(d, REPLACEMENT, 3, out);
    d->n_tail = 0;
}

void tr_detok_name(const struct tr_tokenizer *t, int32_t id, bool as_bytes, struct tr_buf *out)
{
    size_t n = 0;
    const char *piece = tr_tokenizer_piece(t, id, &n, NULL);

    if (!piece)
        return;
    if (!as_bytes && tr_utf8_valid(piece, n)) {
        tr_buf_add(out, piece, n);
        return;
    }
    tr_buf_adds(out, "bytes:");
    for (size_t i = 0; i < n; i++)
        tr_buf_addf(out, "\\x%02x", (unsigned char)piece[i]);
}
