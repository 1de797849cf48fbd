/* Strings: see text.h. Bytes are shared between a string and its parts; only joining copies. */
#include "engine/text/template/text.h"

#include <string.h>

#include "engine/text/template/unicode.h"

/* Block that a joined string may grow into: the string whose end is `used` can be continued in
 * place by whoever appends to it first. */
struct tpl_room {
    char *used, *end;
};

enum { ROOM_FROM = 512 }; /* bytes from which a joined string gets room to grow */

struct tpl_value tr_tpl_str(struct tpl_vm *vm, const char *s, size_t n, enum tpl_origin origin)
{
    if (n > UINT32_MAX / 2)
        tr_tpl_fail(vm, "template limit: string length");
    struct tpl_str *str = tr_tpl_alloc(vm, sizeof *str);
    *str = (struct tpl_str){.s = s, .n = (uint32_t)n, .chars = -1, .origin = (uint16_t)origin};
    return tpl_of_str(str);
}

struct tpl_value tr_tpl_literal(struct tpl_vm *vm, const char *s)
{
    return tr_tpl_str(vm, s, strlen(s), TPL_TEMPLATE);
}

size_t tr_tpl_chars(struct tpl_str *s)
{
    if (s->chars < 0)
        s->chars = (int32_t)tr_uni_count(s->s, s->n);
    return (size_t)s->chars;
}

size_t tr_tpl_offset(struct tpl_str *s, size_t i)
{
    return tr_tpl_chars(s) == s->n ? TR_MIN(i, (size_t)s->n) : tr_uni_skip(s->s, s->n, i);
}

/* The piece that holds a byte; n_pieces if it is the end. */
static uint32_t piece_at(const struct tpl_str *s, size_t byte)
{
    uint32_t lo = 0, hi = s->n_pieces;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->pieces[mid].end <= byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

enum tpl_origin tr_tpl_origin_at(const struct tpl_str *s, size_t byte)
{
    if (!s->pieces)
        return s->origin;
    return s->pieces[TR_MIN(piece_at(s, byte), s->n_pieces - 1)].origin;
}

void tr_tpl_put_part(struct tpl_vm *vm, const struct tpl_str *s, size_t from, size_t to)
{
    if (!s->pieces) {
        tr_tpl_put(vm, s->s + from, to - from, s->origin);
        return;
    }
    for (uint32_t p = piece_at(s, from); from < to; p++) {
        size_t end = TR_MIN(to, (size_t)s->pieces[p].end);
        tr_tpl_put(vm, s->s + from, end - from, s->pieces[p].origin);
        from = end;
    }
}

void tr_tpl_put_str(struct tpl_vm *vm, const struct tpl_str *s)
{
    tr_tpl_put_part(vm, s, 0, s->n);
}

/* Gives str the pieces that cover from..to, counted from `base` on. */
static void take_pieces(struct tpl_vm *vm, struct tpl_str *str, const struct tpl_piece *pieces,
                        uint32_t n_pieces, size_t from, size_t to)
{
    uint32_t first = 0;
    while (first < n_pieces && pieces[first].end <= from)
        first++;
    uint32_t last = first;
    while (last < n_pieces && pieces[last].end < to)
        last++;
    if (first >= n_pieces || first == last) {
        str->origin = first < n_pieces ? (uint16_t)pieces[first].origin : TPL_TEMPLATE;
        return;
    }
    str->n_pieces = last - first + 1;
    str->pieces = tr_tpl_alloc_n(vm, str->n_pieces, sizeof *str->pieces);
    for (uint32_t i = first; i <= last; i++)
        str->pieces[i - first] =
            (struct tpl_piece){.end = (uint32_t)(TR_MIN((size_t)pieces[i].end, to) - from),
                               .origin = pieces[i].origin};
    tr_tpl_spend(vm, str->n_pieces / 8);
}

struct tpl_value tr_tpl_cut(struct tpl_vm *vm, size_t mark)
{
    size_t n = vm->text.len - mark;
    char *copy = tr_tpl_alloc(vm, n);
    if (n)
        memcpy(copy, vm->text.data + mark, n);
    struct tpl_value v = tr_tpl_str(vm, copy, n, TPL_TEMPLATE);
    if (n) {
        /* The pieces above the mark are the last ones: search from the end. */
        uint32_t first = vm->n_pieces - 1;
        while (first > 0 && vm->pieces[first - 1].end > mark)
            first--;
        take_pieces(vm, v.u.str, vm->pieces + first, vm->n_pieces - first, mark, mark + n);
    }
    tr_tpl_rewind(vm, mark);
    return v;
}

struct tpl_value tr_tpl_part(struct tpl_vm *vm, const struct tpl_str *s, size_t from, size_t to)
{
    struct tpl_value v = tr_tpl_str(vm, s->s + from, to - from, s->origin);
    v.u.str->markup = s->markup;
    if (s->pieces && to > from) {
        uint32_t first = piece_at(s, from);
        take_pieces(vm, v.u.str, s->pieces + first, s->n_pieces - first, from, to);
    }
    return v;
}

struct tpl_value tr_tpl_with_markup(struct tpl_vm *vm, struct tpl_value s, bool markup)
{
    if (s.u.str->markup == markup)
        return s;
    struct tpl_str *copy = tr_tpl_alloc(vm, sizeof *copy);
    *copy = *s.u.str;
    copy->markup = markup;
    return tpl_of_str(copy);
}

static void append_pieces(struct tpl_str *to, const struct tpl_str *s, size_t base)
{
    uint32_t n = s->pieces ? s->n_pieces : 1;
    for (uint32_t i = 0; i < n; i++) {
        struct tpl_piece piece = s->pieces ? s->pieces[i] : (struct tpl_piece){s->n, s->origin};
        piece.end += (uint32_t)base;
        if (to->n_pieces && to->pieces[to->n_pieces - 1].origin == piece.origin)
            to->pieces[to->n_pieces - 1].end = piece.end;
        else
            to->pieces[to->n_pieces++] = piece;
    }
}

struct tpl_value tr_tpl_concat(struct tpl_vm *vm, struct tpl_value left, struct tpl_value right)
{
    const struct tpl_str *a = left.u.str, *b = right.u.str;
    if (a->n == 0 && !a->markup && !b->markup)
        return right;
    if (b->n == 0)
        return left;
    size_t n = (size_t)a->n + b->n;
    if (n > TPL_MAX_OUTPUT)
        tr_tpl_fail(vm, "template limit: output");
    struct tpl_str *joined = tr_tpl_str(vm, a->s, n, a->origin).u.str;
    joined->markup = a->markup;
    struct tpl_room *room = a->room;
    if (room && a->s + a->n == room->used && (size_t)(room->end - room->used) >= b->n) {
        tr_tpl_spend(vm, b->n / 64);
        joined->room = room;
    } else {
        tr_tpl_spend(vm, n / 64);
        size_t cap = n >= ROOM_FROM ? 2 * n : n;
        char *bytes = tr_tpl_alloc(vm, cap);
        memcpy(bytes, a->s, a->n);
        joined->s = bytes;
        if (cap > n) {
            joined->room = tr_tpl_alloc(vm, sizeof *room);
            *joined->room = (struct tpl_room){.used = bytes + a->n, .end = bytes + cap};
        }
        room = joined->room;
        if (!room)
            memcpy(bytes + a->n, b->s, b->n);
    }
    if (room) {
        memcpy(room->used, b->s, b->n);
        room->used += b->n;
    }
    if (a->pieces || b->pieces || a->origin != b->origin) {
        size_t max = (size_t)(a->pieces ? a->n_pieces : 1) + (b->pieces ? b->n_pieces : 1);
        tr_tpl_spend(vm, max / 8);
        joined->pieces = tr_tpl_alloc_n(vm, max, sizeof *joined->pieces);
        append_pieces(joined, a, 0);
        append_pieces(joined, b, a->n);
    }
    return tpl_of_str(joined);
}

int64_t tr_tpl_find(struct tpl_vm *vm, const struct tpl_str *s, size_t from, size_t to,
                    const struct tpl_str *what)
{
    const char *p = memmem(s->s + from, to - from, what->s, what->n);
    tr_tpl_spend(vm, (p ? (size_t)(p - s->s) - from : to - from) / 64);
    return p ? p - s->s : -1;
}

int64_t tr_tpl_rfind(struct tpl_vm *vm, const struct tpl_str *s, size_t from, size_t to,
                     const struct tpl_str *what)
{
    if (what->n > to - from)
        return -1;
    size_t at = to - what->n;
    while (memcmp(s->s + at, what->s, what->n) != 0) {
        tr_tpl_spend(vm, what->n / 64);
        if (at == from)
            return -1;
        at--;
    }
    tr_tpl_spend(vm, (to - at) / 64);
    return (int64_t)at;
}

bool tr_tpl_read(struct tpl_reader *r, uint32_t *ret_c, enum tpl_origin *ret_origin)
{
    if (r->at >= r->s->n)
        return false;
    size_t n;
    *ret_c = tr_uni_decode(r->s->s + r->at, &n);
    if (r->s->pieces) {
        while (r->s->pieces[r->piece].end <= r->at)
            r->piece++;
        *ret_origin = r->s->pieces[r->piece].origin;
    } else {
        *ret_origin = r->s->origin;
    }
    r->at += n;
    return true;
}
