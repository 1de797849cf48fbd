/*
 * GGUF metadata to a tokenizer. The strings are read in place: the tokenizer copies what it keeps.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/fields.h"
#include "engine/checkpoint/gguf.h"
#include "engine/text/tokenizer.h"

struct strings {
    const char **text;
    uint32_t *bytes;
    int n;
};

static void strings_done(struct strings *s)
{
    free(s->text);
    free(s->bytes);
}

/* An array of strings, each of at most `max_bytes`; of exactly n, or of any number if n is 0. */
static int read_strings(const struct tr_gguf *g, const char *key, uint64_t n, size_t max_bytes,
                        struct strings *ret, struct tr_err *err)
{
    struct tr_gguf_value v;
    const char *name = tr__gguf_name(g);
    if (!tr__gguf_find(g, key, &v))
        return tr__fields_fail(err, name, key, "missing");
    if (!v.array || v.type != TR_GGUF_STRING)
        return tr__fields_fail(err, name, key, "not an array of strings");
    if (v.count > INT32_MAX || (n && v.count != n))
        return tr__fields_fail(err, name, key, "has %llu entries, expected %llu",
                               (unsigned long long)v.count, (unsigned long long)n);
    /* The strings are in memory already, eight bytes and more each: the tables are not larger. */
    ret->n = (int)v.count;
    ret->text = calloc(v.count + 1, sizeof *ret->text);
    ret->bytes = calloc(v.count + 1, sizeof *ret->bytes);
    if (!ret->text || !ret->bytes)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (int i = 0; i < ret->n; i++) {
        size_t bytes;
        (void)tr__gguf_next_string(&v, &ret->text[i], &bytes);
        if (bytes > max_bytes)
            return tr__fields_fail(err, name, key, "entry %d has %zu bytes", i, bytes);
        ret->bytes[i] = (uint32_t)bytes;
    }
    return 0;
}

/* Token types; without the key (*ret stays NULL) every token is a normal one. */
static int read_types(const struct tr_gguf *g, int n, int32_t **ret, struct tr_err *err)
{
    static const char key[] = "tokenizer.ggml.token_type";
    struct tr_gguf_value v;
    if (!tr__gguf_find(g, key, &v))
        return 0;
    if (!v.array || v.count != (uint64_t)n)
        return tr__fields_fail(err, tr__gguf_name(g), key, "expected an array of %d", n);
    *ret = calloc((size_t)n, sizeof **ret);
    if (!*ret)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (int i = 0; i < n; i++) {
        int64_t x;
        if (!tr__gguf_next_int(&v, &x) || x < 1 || x > 6)
            return tr__fields_fail(err, tr__gguf_name(g), key, "entry %d is not from 1 to 6", i);
        (*ret)[i] = (int32_t)x;
    }
    return 0;
}

static int read_id(const struct tr_gguf *g, const char *key, int vocab, int *id, struct tr_err *err)
{
    int64_t x = -1;
    int r = tr__gguf_int(g, key, false, 0, vocab - 1, &x, err);
    *id = (int)x;
    return r;
}

/* A string that is to end with NUL; NULL if the key is absent. The caller frees it. */
static int copy_string(const struct tr_gguf *g, const char *key, char **ret, struct tr_err *err)
{
    const char *s = NULL;
    size_t n = 0;
    int r = tr__gguf_string(g, key, false, &s, &n, err);
    if (r || !s)
        return r;
    if (memchr(s, '\0', n))
        return tr__fields_fail(err, tr__gguf_name(g), key, "holds a NUL character");
    *ret = strndup(s, n);
    return *ret ? 0 : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
}

int tr__gguf_tokenizer(const struct tr_gguf *g, int vocab_size, struct tr_tokenizer **ret,
                       struct tr_err *err)
{
    struct tr_vocab_source src = {0};
    struct strings tokens = {0}, merges = {0};
    char *model = NULL, *pre = NULL, *template = NULL, *tool_template = NULL;
    int32_t *types = NULL;
    int r = copy_string(g, "tokenizer.ggml.model", &model, err);
    if (!r && (!model || strcmp(model, "gpt2") != 0))
        r = tr__fields_fail(err, tr__gguf_name(g), "tokenizer.ggml.model",
                            "only gpt2 (byte-level BPE) is supported");
    if (!r)
        r = copy_string(g, "tokenizer.ggml.pre", &pre, err);
    if (!r)
        r = copy_string(g, "tokenizer.chat_template", &template, err);
    if (!r)
        r = copy_string(g, "tokenizer.chat_template.tool_use", &tool_template, err);
    if (!r)
        r = read_strings(g, "tokenizer.ggml.tokens", (uint64_t)vocab_size, 65535, &tokens, err);
    if (!r)
        r = read_strings(g, "tokenizer.ggml.merges", 0, 131071, &merges, err);
    if (!r)
        r = read_types(g, tokens.n, &types, err);
    if (!r)
        r = read_id(g, "tokenizer.ggml.bos_token_id", vocab_size, &src.bos_id, err);
    if (!r)
        r = read_id(g, "tokenizer.ggml.eos_token_id", vocab_size, &src.eos_id, err);
    if (!r)
        r = read_id(g, "tokenizer.ggml.padding_token_id", vocab_size, &src.pad_id, err);
    if (!r)
        r = read_id(g, "tokenizer.ggml.eot_token_id", vocab_size, &src.eot_id, err);
    if (!r)
        r = tr__gguf_bool(g, "tokenizer.ggml.add_bos_token", false, &src.add_bos, err);
    if (!r) {
        src.tokens = tokens.text;
        src.token_bytes = tokens.bytes;
        src.types = types;
        src.n_tokens = tokens.n;
        src.merges = merges.text;
        src.merge_bytes = merges.bytes;
        src.n_merges = merges.n;
        src.pre = pre;
        src.chat_template = template;
        src.tool_template = tool_template;
        r = tr_tokenizer_from_vocab(ret, &src, err);
    }
    strings_done(&tokens);
    strings_done(&merges);
    free(types);
    free(template);
    free(tool_template);
    free(pre);
    free(model);
    return r;
}
