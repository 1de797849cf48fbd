/*
 * A tokenizer from the vocabulary in a GGUF file's metadata.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/text/tokenizer_internal.h"

/* ggml's token types. */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

static int fail(struct tr_err *err, int code, const char *what, int at)
{
    if (code == TR_ENOMEM)
        return tr_err_set(err, code, NULL, "out of memory");
    return tr_err_set(err, TR_EFORMAT, NULL, "%s %d is malformed or does not fit the vocabulary",
                      what, at);
}

/* The model's tokens first: the merges need them. Unused ids are padding and get no token. */
static int add_model_tokens(struct tr_tokenizer *t, const struct tr_vocab_source *src,
                            struct tr_err *err)
{
    for (int i = 0; i < src->n_tokens; i++) {
        int type = src->types ? src->types[i] : NORMAL, code;

        if (type != NORMAL && type != BYTE)
            continue;
        code = tr_vocab_add(&t->vocab, i, src->tokens[i], src->token_bytes[i], TR_TOKEN_MODEL);
        if (code)
            return fail(err, code, "token", i);
    }
    return TR_OK;
}

static int add_merges(struct tr_tokenizer *t, const struct tr_vocab_source *src, struct tr_err *err)
{
    if (tr_bpe_init(&t->bpe, &t->vocab, (size_t)src->n_merges, true, false))
        return fail(err, TR_ENOMEM, NULL, 0);
    for (int i = 0; i < src->n_merges; i++) {
        const char *left = src->merges[i];
        size_t n = src->merge_bytes[i];
        const char *space = n > 0 ? memchr(left + 1, ' ', n - 1) : NULL;
        int code = TR_EINVAL;

        if (space)
            code = tr_bpe_add_merge(&t->bpe, left, (size_t)(space - left), space + 1,
                                    n - (size_t)(space + 1 - left));
        if (code)
            return fail(err, code, "merge", i);
    }
    return TR_OK;
}

static int add_added_tokens(struct tr_tokenizer *t, const struct tr_vocab_source *src,
                            struct tr_err *err)
{
    for (int i = 0; i < src->n_tokens; i++) {
        int type = src->types ? src->types[i] : NORMAL, code;

        if (type != CONTROL && type != USER_DEFINED && type != UNKNOWN)
            continue;
        code = tr_tokenizer_add_token(t, &t->added, i, src->tokens[i], src->token_bytes[i],
                                      type != USER_DEFINED, 0);
        if (code)
            return fail(err, code, "token", i);
    }
    return TR_OK;
}

static int32_t known_id(const struct tr_tokenizer *t, int id)
{
    return tr_vocab_token(&t->vocab, id) ? id : -1;
}

int tr_tokenizer_from_vocab(struct tr_tokenizer **ret, const struct tr_vocab_source *src,
                            struct tr_err *err)
{
    struct tr_tokenizer *t;
    int code;

    if (src->n_tokens <= 0)
        return tr_err_set(err, TR_EFORMAT, "tokenizer.ggml.tokens", "the vocabulary is empty");
    t = calloc(1, sizeof(*t));
    if (!t || tr_vocab_init(&t->vocab, src->n_tokens)) {
        tr_tokenizer_free(t);
        return fail(err, TR_ENOMEM, NULL, 0);
    }
    if ((code = tr_pretokenizer_named(&t->pretokenizer, src->pre ? src->pre : "", err)) ||
        (code = add_model_tokens(t, src, err)) || (code = add_merges(t, src, err)) ||
        (code = add_added_tokens(t, src, err)))
        goto fail;
    t->bos = known_id(t, src->bos_id);
    t->eos = known_id(t, src->eos_id);
    t->pad = known_id(t, src->pad_id);
    if ((src->chat_template && !(t->chat_template = strdup(src->chat_template))) ||
        (src->tool_template && !(t->tool_template = strdup(src->tool_template)))) {
        code = fail(err, TR_ENOMEM, NULL, 0);
        goto fail;
    }
    if ((code = tr_tokenizer_add_eog(t, src->eot_id)) ||
        (code = tr_tokenizer_set_bos(t, src->add_bos)) || (code = tr_tokenizer_finish(t))) {
        code = fail(err, code, "token", 0);
        goto fail;
    }
    *ret = t;
    return TR_OK;

fail:
    tr_tokenizer_free(t);
    return code;
}
