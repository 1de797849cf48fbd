/*
 * Token texts in one buffer, found through two hash tables.
 */
#include "engine/text/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "engine/text/unicode.h"

uint32_t tr_alphabet_char(unsigned char b)
{
    if (b < 33)
        return 256u + b;
    if (b >= 127 && b <= 160)
        return 256u + 33 + (b - 127u);
    return b == 173 ? 256u + 67 : b;
}

static int alphabet_byte(uint32_t c)
{
    if (c < 256)
        return tr_alphabet_char((unsigned char)c) == c ? (int)c : -1;
    if (c < 256 + 33)
        return (int)c - 256;
    if (c < 256 + 67)
        return (int)c - 256 - 33 + 127;
    return c == 256 + 67 ? 173 : -1;
}

/* Appends the bytes that a text of the alphabet stands for; false, and nothing appended, if the
 * text has other characters. */
static bool alphabet_decode(const char *text, size_t n, struct tr_buf *out)
{
    size_t begin = out->len;

    for (size_t i = 0, k; i < n; i += k) {
        int byte = alphabet_byte(tr_utf8_at(text + i, &k));

        if (byte < 0) {
            out->len = begin;
            return false;
        }
        tr_buf_addc(out, (char)byte);
    }
    return true;
}

/* Multiply and fold, eight bytes a round: texts are short, and nobody outside can choose which of
 * them are in the table. */
static size_t hash(const char *text, size_t n)
{
    const uint64_t odd = 0x9E3779B97F4A7C15u;
    uint64_t h = n * odd, word;

    for (; n >= sizeof(word); text += sizeof(word), n -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        h = (h ^ word) * odd;
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, text, n);
    h = (h ^ word) * odd;
    return (size_t)(h ^ h >> 29);
}

static int index_init(struct tr_token_index *x, int size)
{
    size_t n = 16;

    while (n < (size_t)size * 2)
        n *= 2;
    x->slots = calloc(n, sizeof(*x->slots));
    x->mask = n - 1;
    return x->slots ? TR_OK : TR_ENOMEM;
}

int tr_vocab_init(struct tr_vocab *v, int size)
{
    *v = (struct tr_vocab){.size = size};
    v->tokens = calloc((size_t)size, sizeof(*v->tokens));
    if (!v->tokens || index_init(&v->by_text, size) || index_init(&v->by_bytes, size)) {
        tr_vocab_done(v);
        return TR_ENOMEM;
    }
    return TR_OK;
}

void tr_vocab_done(struct tr_vocab *v)
{
    free(v->tokens);
    free(v->by_text.slots);
    free(v->by_bytes.slots);
    tr_buf_done(&v->text);
    *v = (struct tr_vocab){0};
}

static struct tr_slice key(const struct tr_vocab *v, const struct tr_token_index *x, uint32_t id)
{
    return x == &v->by_text ? v->tokens[id].text : v->tokens[id].bytes;
}

static int32_t find(const struct tr_vocab *v, const struct tr_token_index *x, const char *text,
                    size_t n)
{
    for (size_t i = hash(text, n) & x->mask; x->slots[i]; i = (i + 1) & x->mask) {
        struct tr_slice k = key(v, x, x->slots[i] - 1);

        if (k.n == n && memcmp(tr_vocab_text(v, k), text, n) == 0)
            return (int32_t)(x->slots[i] - 1);
    }
    return -1;
}

static void insert(struct tr_vocab *v, struct tr_token_index *x, int32_t id)
{
    struct tr_slice k = key(v, x, (uint32_t)id);
    size_t i = hash(tr_vocab_text(v, k), k.n) & x->mask;

    while (x->slots[i])
        i = (i + 1) & x->mask;
    x->slots[i] = (uint32_t)id + 1;
}

int32_t tr_vocab_find(const struct tr_vocab *v, const char *text, size_t n)
{
    return find(v, &v->by_text, text, n);
}

int32_t tr_vocab_find_bytes(const struct tr_vocab *v, const char *bytes, size_t n)
{
    return find(v, &v->by_bytes, bytes, n);
}

void tr_vocab_index_bytes(struct tr_vocab *v, int32_t id)
{
    insert(v, &v->by_bytes, id);
}

/* Writes the text of a new token and the bytes it stands for. */
static int write_token(struct tr_vocab *v, struct tr_token *t, const char *text, size_t n)
{
    uint32_t at = (uint32_t)v->text.len, bytes;

    tr_buf_add(&v->text, text, n);
    tr_buf_addc(&v->text, '\0');
    bytes = (uint32_t)v->text.len;
    if (alphabet_decode(text, n, &v->text)) {
        t->bytes = (struct tr_slice){bytes, (uint32_t)v->text.len - bytes};
        tr_buf_addc(&v->text, '\0');
    } else {
        t->bytes = (struct tr_slice){at, (uint32_t)n};
    }
    if (v->text.oom)
        return TR_ENOMEM;
    t->text = (struct tr_slice){at, (uint32_t)n};
    return TR_OK;
}

int tr_vocab_add(struct tr_vocab *v, int64_t id, const char *text, size_t n, unsigned flags)
{
    struct tr_token *t;

    if (id < 0 || id >= v->size || n == 0 || n > (UINT32_MAX - v->text.len) / 2 - 1 ||
        !tr_utf8_valid(text, n))
        return TR_EINVAL;
    t = &v->tokens[id];
    if (tr_vocab_find(v, text, n) != (t->text.n > 0 ? (int32_t)id : -1))
        return TR_EINVAL;
    if (t->text.n == 0) {
        if (write_token(v, t, text, n))
            return TR_ENOMEM;
        insert(v, &v->by_text, (int32_t)id);
    }
    t->flags |= flags;
    if (t->flags & TR_TOKEN_ADDED)
        t->bytes = t->text;
    return TR_OK;
}

const struct tr_token *tr_vocab_token(const struct tr_vocab *v, int32_t id)
{
    return id >= 0 && id < v->size && v->tokens[id].text.n > 0 ? &v->tokens[id] : NULL;
}
