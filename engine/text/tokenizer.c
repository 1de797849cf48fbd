/*
 * From text to ids, and what else one asks a tokenizer.
 *
 * The order of things is that of Hugging Face tokenizers: added tokens in the text as it is; what
 * is between them is normalized; added tokens in the normalized text; what is between them is cut
 * into pieces; each piece is encoded.
 */
#include "engine/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "config/cancel.h"
#include "engine/text/tokenizer_internal.h"
#include "engine/text/unicode.h"

struct encoding {
    const struct tr_tokenizer *t;
    const char *text;             /* all of it */
    const struct tr_range *plain; /* where no added token may be */
    size_t n_plain;
    unsigned flags;
    size_t max; /* ids in out at most */
    struct tr_ids *out;
    struct tr_bpe_space bpe;
    struct tr_match_space match;
    struct tr_buf normal;
};

static int check_length(const struct encoding *e)
{
    return e->out->n > e->max ? TR_ETOOLONG : TR_OK;
}

static int put_id(struct encoding *e, int32_t id)
{
    if (tr_cancel_asked())
        return TR_ECANCELED;
    return tr_ids_add(e->out, id) ? TR_ENOMEM : check_length(e);
}

static int encode_piece(void *arg, const char *piece, size_t n)
{
    struct encoding *e = arg;
    int code =
        tr_cancel_asked() ? TR_ECANCELED : tr_bpe_encode(&e->t->bpe, &e->bpe, piece, n, e->out);

    return code ? code : check_length(e);
}

static int encode_pieces(struct encoding *e, const char *text, size_t n)
{
    return tr_pretokenizer_run(e->t->pretokenizer, &e->match, text, n, encode_piece, e);
}

typedef int (*encode_fn)(struct encoding *e, const char *text, size_t n);

/* The first plain range that ends after byte `at` of the whole text. */
static size_t plain_after(const struct encoding *e, size_t at)
{
    size_t low = 0, high = e->n_plain;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (e->plain[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The added tokens of a set become ids, fn takes what is between them. */
static int encode_added(struct encoding *e, const struct tr_added_set *set, const char *text,
                        size_t n, encode_fn fn)
{
    struct tr_added_scan scan = {.set = set, .text = text, .n = n};
    size_t from, begin;
    int32_t id;
    bool found;

    if (e->n_plain > 0 && text != e->normal.data) {
        size_t first = plain_after(e, (size_t)(text - e->text));

        scan.plain = e->plain + first;
        scan.n_plain = e->n_plain - first;
        scan.base = (size_t)(text - e->text);
    }
    do {
        int code;

        from = scan.done;
        found = tr_added_next(&scan, &begin, &id);
        code = begin > from ? fn(e, text + from, begin - from) : TR_OK;
        if (!code && found)
            code = put_id(e, id);
        if (code)
            return code;
    } while (found);
    return TR_OK;
}

static int encode_between(struct encoding *e, const char *text, size_t n)
{
    const struct tr_added_set *set = &e->t->added_normalized;

    if (e->t->normalizer) {
        /* Normalized text has no places in the text as given, so it is plain as a whole. */
        size_t at = (size_t)(text - e->text), first = plain_after(e, at);
        bool plain = first < e->n_plain && e->plain[first].begin < at + n;
        int code;

        tr_buf_clear(&e->normal);
        tr_buf_add(&e->normal, text, n);
        if (e->normal.oom)
            return TR_ENOMEM;
        code = tr_normalizer_run(e->t->normalizer, &e->match, &e->normal);
        if (code)
            return code;
        text = e->normal.data;
        n = e->normal.len;
        if (plain)
            return encode_pieces(e, text, n);
    }
    return (e->flags & TR_ENCODE_SPECIAL) && set->n > 0
               ? encode_added(e, set, text, n, encode_pieces)
               : encode_pieces(e, text, n);
}

/* The ids that belong around the text, from out->ids[first] on. */
static int put_around(struct encoding *e, size_t first)
{
    const struct tr_ids *prefix = &e->t->prefix;
    struct tr_ids *out = e->out;
    int code = TR_OK;

    if (prefix->n > 0 && (out->n == first || out->ids[first] != prefix->ids[0])) {
        size_t n = out->n - first;

        for (size_t i = 0; i < prefix->n && !code; i++)
            code = put_id(e, 0);
        if (code)
            return code;
        memmove(out->ids + first + prefix->n, out->ids + first, n * sizeof(*out->ids));
        memcpy(out->ids + first, prefix->ids, prefix->n * sizeof(*out->ids));
    }
    for (size_t i = 0; i < e->t->suffix.n && !code; i++)
        code = put_id(e, e->t->suffix.ids[i]);
    return code;
}

int tr_tokenizer_encode(const struct tr_tokenizer *t, const char *text, size_t n, unsigned flags,
                        size_t max_ids, struct tr_ids *out)
{
    return tr_tokenizer_encode_spans(t, text, n, NULL, 0, flags, max_ids, out);
}

int tr_tokenizer_encode_spans(const struct tr_tokenizer *t, const char *text, size_t n,
                              const struct tr_range *plain, size_t n_plain, unsigned flags,
                              size_t max_ids, struct tr_ids *out)
{
    struct encoding e = {.t = t,
                         .text = text,
                         .plain = plain,
                         .n_plain = n_plain,
                         .flags = flags,
                         .max = SIZE_MAX,
                         .out = out};
    size_t first = out->n;
    int code = TR_OK;

    if (!tr_utf8_valid(text, n))
        return TR_EINVAL;
    if (max_ids > 0) {
        e.max = max_ids > SIZE_MAX - first ? SIZE_MAX : first + max_ids;
        if (!t->drops && n / t->longest > max_ids)
            return TR_ETOOLONG;
    }
    if ((flags & TR_ENCODE_SPECIAL) && t->added.n > 0)
        code = encode_added(&e, &t->added, text, n, encode_between);
    else if (n > 0)
        code = encode_between(&e, text, n);
    if (!code && (flags & TR_ENCODE_BOS))
        code = put_around(&e, first);
    if (code)
        out->n = first;
    tr_bpe_space_done(&e.bpe);
    tr_match_space_done(&e.match);
    tr_buf_done(&e.normal);
    return code;
}

struct tr_tokenizer *tr_tokenizer_free(struct tr_tokenizer *t)
{
    if (t) {
        tr_vocab_done(&t->vocab);
        tr_bpe_done(&t->bpe);
        tr_normalizer_free(t->normalizer);
        tr_pretokenizer_free(t->pretokenizer);
        tr_added_done(&t->added);
        tr_added_done(&t->added_normalized);
        free(t->prefix.ids);
        free(t->suffix.ids);
        free(t->eog.ids);
        free(t->chat_template);
        free(t->tool_template);
        free(t);
    }
    return NULL;
}

const char *tr_tokenizer_piece(const struct tr_tokenizer *t, int32_t id, size_t *ret_n,
                               bool *ret_special)
{
    const struct tr_token *token = tr_vocab_token(&t->vocab, id);

    if (!token)
        return NULL;
    if (ret_n)
        *ret_n = token->bytes.n;
    if (ret_special)
        *ret_special = token->flags & TR_TOKEN_SPECIAL;
    return tr_vocab_text(&t->vocab, token->bytes);
}

const char *tr_tokenizer_raw(const struct tr_tokenizer *t, int32_t id)
{
    const struct tr_token *token = tr_vocab_token(&t->vocab, id);

    return token ? tr_vocab_text(&t->vocab, token->text) : NULL;
}

int tr_tokenizer_size(const struct tr_tokenizer *t)
{
    return t->vocab.size;
}

bool tr_tokenizer_has_id(const struct tr_tokenizer *t, int32_t id)
{
    return tr_vocab_token(&t->vocab, id);
}

bool tr_tokenizer_is_added(const struct tr_tokenizer *t, int32_t id)
{
    const struct tr_token *token = tr_vocab_token(&t->vocab, id);

    return token && (token->flags & TR_TOKEN_ADDED);
}

int32_t tr_tokenizer_find(const struct tr_tokenizer *t, const char *token, size_t n)
{
    return tr_vocab_find(&t->vocab, token, n);
}

int32_t tr_tokenizer_bos(const struct tr_tokenizer *t)
{
    return t->bos;
}

int32_t tr_tokenizer_eos(const struct tr_tokenizer *t)
{
    return t->eos;
}

int32_t tr_tokenizer_pad(const struct tr_tokenizer *t)
{
    return t->pad;
}

bool tr_tokenizer_is_exact(const struct tr_tokenizer *t)
{
    return !t->drops;
}

bool tr_tokenizer_adds_bos(const struct tr_tokenizer *t)
{
    return t->bos >= 0 && t->prefix.n > 0 && t->prefix.ids[0] == t->bos;
}

const int32_t *tr_tokenizer_eog(const struct tr_tokenizer *t, int *ret_n)
{
    *ret_n = (int)t->eog.n;
    return t->eog.ids;
}

const char *tr_tokenizer_chat_template(const struct tr_tokenizer *t)
{
    return t->chat_template;
}

const char *tr_tokenizer_tool_template(const struct tr_tokenizer *t)
{
    return t->tool_template;
}

int tr_tokenizer_add_eog(struct tr_tokenizer *t, int64_t id)
{
    size_t i = 0;

    if (id < 0 || id >= t->vocab.size || !tr_vocab_token(&t->vocab, (int32_t)id))
        return TR_OK;
    while (i < t->eog.n && t->eog.ids[i] < id)
        i++;
    if (i < t->eog.n && t->eog.ids[i] == id)
        return TR_OK;
    if (tr_ids_add(&t->eog, 0))
        return TR_ENOMEM;
    memmove(t->eog.ids + i + 1, t->eog.ids + i, (t->eog.n - 1 - i) * sizeof(*t->eog.ids));
    t->eog.ids[i] = (int32_t)id;
    return TR_OK;
}

int tr_tokenizer_add_token(struct tr_tokenizer *t, struct tr_added_set *set, int64_t id,
                           const char *text, size_t n, bool special, unsigned flags)
{
    int code = tr_vocab_add(&t->vocab, id, text, n,
                            special ? TR_TOKEN_ADDED | TR_TOKEN_SPECIAL : TR_TOKEN_ADDED);

    if (code)
        return code;
    if (set == &t->added_normalized && t->normalizer) {
        struct tr_match_space space = {0};
        struct tr_buf normal = {0};

        tr_buf_add(&normal, text, n);
        code = normal.oom ? TR_ENOMEM : tr_normalizer_run(t->normalizer, &space, &normal);
        if (!code && normal.len > 0)
            code = tr_added_add(set, normal.data, normal.len, (int32_t)id, flags);
        tr_match_space_done(&space);
        tr_buf_done(&normal);
        return code;
    }
    return tr_added_add(set, text, n, (int32_t)id, flags);
}

int tr_tokenizer_set_bos(struct tr_tokenizer *t, bool add)
{
    struct tr_ids *p = &t->prefix;

    if (t->bos < 0 || add == tr_tokenizer_adds_bos(t))
        return TR_OK;
    if (!add) {
        p->n--;
        memmove(p->ids, p->ids + 1, p->n * sizeof(*p->ids));
        return TR_OK;
    }
    if (tr_ids_add(p, 0))
        return TR_ENOMEM;
    memmove(p->ids + 1, p->ids, (p->n - 1) * sizeof(*p->ids));
    p->ids[0] = t->bos;
    return TR_OK;
}

int tr_tokenizer_finish(struct tr_tokenizer *t)
{
    static const char *const ends[] = {"<|im_end|>", "<|end_of_text|>", "<|begin_of_text|>"};
    int code = t->eos >= 0 ? tr_tokenizer_add_eog(t, t->eos) : TR_OK;

    for (size_t i = 0; i < TR_ARRAY_LEN(ends) && !code; i++)
        code = tr_tokenizer_add_eog(t, tr_vocab_find(&t->vocab, ends[i], strlen(ends[i])));
    if (code || (code = tr_bpe_finish(&t->bpe)) || (code = tr_added_finish(&t->added)) ||
        (code = tr_added_finish(&t->added_normalized)))
        return code;
    t->longest = 1;
    for (int32_t id = 0; id < t->vocab.size; id++)
        t->longest = TR_MAX(t->longest, t->vocab.tokens[id].bytes.n);
    t->drops = t->normalizer || tr_pretokenizer_drops(t->pretokenizer) || !t->bpe.byte_level ||
               !tr_bpe_complete(&t->bpe);
    for (size_t i = 0; i < t->added.n; i++)
        t->drops |= (t->added.tokens[i].flags & (TR_ADDED_LSTRIP | TR_ADDED_RSTRIP)) != 0;
    for (size_t i = 0; i < t->added_normalized.n; i++)
        t->drops |=
            (t->added_normalized.tokens[i].flags & (TR_ADDED_LSTRIP | TR_ADDED_RSTRIP)) != 0;
    return TR_OK;
}
