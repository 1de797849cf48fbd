/*
 * A tokenizer from the files of a Hugging Face checkpoint folder.
 *
 * What is not supported is an error that names it: a tokenizer that is nearly right is worse than
 * none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/text/tokenizer_internal.h"
#include "engine/text/unicode.h"

#define MAX_TOKENIZER_BYTES ((size_t)512 << 20)
#define MAX_CONFIG_BYTES    ((size_t)64 << 20)
#define MAX_TEMPLATE_BYTES  ((size_t)4 << 20)

static int out_of_memory(struct tr_err *err)
{
    tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    return TR_ENOMEM;
}

/* The model must have a row for every token. */
static int check_ids(const struct tr_json *root, int vocab_size, struct tr_err *err)
{
    struct tr_json model = tr_json_get(root, "model"), vocab = tr_json_get(&model, "vocab");
    struct tr_json added = tr_json_get(root, "added_tokens"), item;
    int64_t id, most = -1;
    void *iter = NULL;

    while (tr_json_next(&vocab, &iter, &item))
        if (tr_json_as_int(&item, 0, INT32_MAX, &id, NULL) == 0)
            most = TR_MAX(most, id);
    for (size_t i = 0; i < tr_json_size(&added); i++) {
        item = tr_json_at(&added, i);
        if (tr_json_int(&item, "id", 0, INT32_MAX, &id, NULL) == 0)
            most = TR_MAX(most, id);
    }
    return most < vocab_size ? TR_OK
                             : tr_json_fail(root, err, "has %lld tokens, the model's vocabulary %d",
                                            (long long)most + 1, vocab_size);
}

static int parse_vocab(struct tr_tokenizer *t, const struct tr_json *model, struct tr_err *err)
{
    struct tr_json vocab, item;
    void *iter = NULL;
    int code = tr_json_object(model, "vocab", &vocab, err);

    while (!code && tr_json_next(&vocab, &iter, &item)) {
        int64_t id;

        code = tr_json_as_int(&item, 0, t->vocab.size - 1, &id, err);
        if (code)
            return code;
        code = tr_vocab_add(&t->vocab, id, item.key, item.key_bytes, TR_TOKEN_MODEL);
        if (code == TR_EINVAL)
            return tr_json_fail(&item, err, "id %d or its token stands twice in the vocabulary",
                                (int)id);
    }
    return code == TR_ENOMEM ? out_of_memory(err) : code;
}

/* "a b" or ["a", "b"]. */
static int parse_merge(struct tr_tokenizer *t, const struct tr_json *v, struct tr_err *err)
{
    const char *left, *right;
    size_t n_left, n_right;
    int code;

    if (tr_json_type(v) == TR_JSON_ARRAY) {
        struct tr_json first = tr_json_at(v, 0), second = tr_json_at(v, 1);

        if (tr_json_size(v) != 2)
            return tr_json_fail(v, err, "a merge is of two tokens");
        if ((code = tr_json_as_string(&first, &left, &n_left, err)) ||
            (code = tr_json_as_string(&second, &right, &n_right, err)))
            return code;
    } else {
        if ((code = tr_json_as_string(v, &left, &n_left, err)))
            return code;
        if (n_left >= 8 && memcmp(left, "#version", 8) == 0)
            return TR_OK;
        right = memchr(left, ' ', n_left);
        if (!right || memchr(right + 1, ' ', n_left - (size_t)(right + 1 - left)))
            return tr_json_fail(v, err, "a merge is two tokens with a space between");
        n_right = n_left - (size_t)(right + 1 - left);
        n_left = (size_t)(right - left);
        right++;
    }
    code = tr_bpe_add_merge(&t->bpe, left, n_left, right, n_right);
    if (code == TR_EINVAL)
        return tr_json_fail(v, err, "a token of this merge is not in the vocabulary");
    return code ? out_of_memory(err) : TR_OK;
}

/* Settings of the model that change what it does: all must be off. */
static int check_model(const struct tr_json *model, struct tr_err *err)
{
    static const char *const prefixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    struct tr_json type = tr_json_get(model, "type");
    const char *name = "BPE";
    double dropout = 0;
    int code;

    if ((code = tr_json_opt_string(model, "type", &name, NULL, err)) ||
        (code = tr_json_opt_double(model, "dropout", 0, 1, &dropout, err)))
        return code;
    if (strcmp(name, "BPE") != 0)
        return tr_json_fail(&type, err, "the model %.40s is not supported", name);
    if (dropout > 0)
        return tr_json_fail(model, err, "dropout is not supported");
    for (size_t i = 0; i < TR_ARRAY_LEN(prefixes); i++) {
        const char *text = "";
        size_t n = 0;

        if ((code = tr_json_opt_string(model, prefixes[i], &text, &n, err)))
            return code;
        if (n > 0)
            return tr_json_fail(model, err, "%s is not supported", prefixes[i]);
    }
    return TR_OK;
}

static int parse_model(struct tr_tokenizer *t, const struct tr_json *root, struct tr_err *err)
{
    bool byte_level = tr_pretokenizer_byte_level(t->pretokenizer), byte_fallback = false;
    bool ignore_merges = false;
    struct tr_json model, merges, unk;
    int code;

    if ((code = tr_json_object(root, "model", &model, err)) || (code = check_model(&model, err)) ||
        (code = tr_json_opt_bool(&model, "ignore_merges", &ignore_merges, err)) ||
        (code = tr_json_opt_bool(&model, "byte_fallback", &byte_fallback, err)) ||
        (code = parse_vocab(t, &model, err)) ||
        (code = tr_json_array(&model, "merges", &merges, err)))
        return code;
    if (tr_bpe_init(&t->bpe, &t->vocab, tr_json_size(&merges), byte_level, ignore_merges))
        return out_of_memory(err);
    /* With a token for every byte nothing is ever unknown, and these two say nothing. */
    unk = tr_json_get(&model, "unk_token");
    if ((byte_fallback || tr_json_given(&unk)) && !(byte_level && tr_bpe_complete(&t->bpe)))
        return tr_json_fail(&model, err, "%s is not supported",
                            byte_fallback ? "byte_fallback" : "unk_token");
    for (size_t i = 0; i < tr_json_size(&merges) && !code; i++) {
        struct tr_json merge = tr_json_at(&merges, i);

        code = parse_merge(t, &merge, err);
    }
    return code;
}

static int parse_added_token(struct tr_tokenizer *t, const struct tr_json *v, struct tr_err *err)
{
    bool special = false, normalized = true, single_word = false, lstrip = false, rstrip = false;
    const char *text;
    size_t n;
    int64_t id;
    int code;

    if ((code = tr_json_int(v, "id", 0, t->vocab.size - 1, &id, err)) ||
        (code = tr_json_string(v, "content", &text, &n, err)) ||
        (code = tr_json_opt_bool(v, "special", &special, err)) ||
        (code = tr_json_opt_bool(v, "normalized", &normalized, err)) ||
        (code = tr_json_opt_bool(v, "single_word", &single_word, err)) ||
        (code = tr_json_opt_bool(v, "lstrip", &lstrip, err)) ||
        (code = tr_json_opt_bool(v, "rstrip", &rstrip, err)))
        return code;
    code = tr_tokenizer_add_token(
        t, normalized ? &t->added_normalized : &t->added, id, text, n, special,
        (single_word ? TR_ADDED_SINGLE_WORD : 0u) | (lstrip ? TR_ADDED_LSTRIP : 0u) |
            (rstrip ? TR_ADDED_RSTRIP : 0u));
    if (code == TR_EINVAL)
        return tr_json_fail(v, err, "id %d or its text belongs to another token", (int)id);
    return code ? out_of_memory(err) : TR_OK;
}

/* Only the decoder that belongs to byte-level BPE. */
static int check_decoder(const struct tr_json *v, int depth, struct tr_err *err)
{
    struct tr_json list;
    const char *type;
    int code;

    if (!tr_json_given(v))
        return TR_OK;
    if ((code = tr_json_string(v, "type", &type, NULL, err)))
        return code;
    if (strcmp(type, "ByteLevel") == 0 || strcmp(type, "Fuse") == 0)
        return TR_OK;
    if (strcmp(type, "Sequence") != 0 || depth > 0)
        return tr_json_fail(v, err, "the decoder %.40s is not supported", type);
    code = tr_json_array(v, "decoders", &list, err);
    for (size_t i = 0; i < tr_json_size(&list) && !code; i++) {
        struct tr_json item = tr_json_at(&list, i);

        code = check_decoder(&item, depth + 1, err);
    }
    return code;
}

/* The special tokens of a template that stand before and after the text. */
static int parse_template(struct tr_tokenizer *t, const struct tr_json *v, struct tr_err *err)
{
    struct tr_json single, all;
    bool after = false;
    int code;

    if ((code = tr_json_array(v, "single", &single, err)) ||
        (code = tr_json_opt_object(v, "special_tokens", &all, err)))
        return code;
    for (size_t i = 0; i < tr_json_size(&single); i++) {
        struct tr_json item = tr_json_at(&single, i), token = tr_json_get(&item, "SpecialToken");
        struct tr_json entry, ids;
        const char *name;

        if (!tr_json_given(&token)) {
            if (after)
                return tr_json_fail(&item, err, "a template with two texts is not supported");
            after = true;
            continue;
        }
        if ((code = tr_json_string(&token, "id", &name, NULL, err)) ||
            (code = tr_json_object(&all, name, &entry, err)) ||
            (code = tr_json_array(&entry, "ids", &ids, err)))
            return code;
        for (size_t j = 0; j < tr_json_size(&ids); j++) {
            struct tr_json element = tr_json_at(&ids, j);
            int64_t id;

            if ((code = tr_json_as_int(&element, 0, t->vocab.size - 1, &id, err)))
                return code;
            if (!tr_vocab_token(&t->vocab, (int32_t)id))
                return tr_json_fail(&element, err, "no token has the id %d", (int)id);
            if (tr_ids_add(after ? &t->suffix : &t->prefix, (int32_t)id))
                return out_of_memory(err);
        }
    }
    return after ? TR_OK : tr_json_fail(&single, err, "the template has no place for the text");
}

static int parse_post_processor(struct tr_tokenizer *t, const struct tr_json *v, int depth,
                                struct tr_err *err)
{
    struct tr_json list;
    const char *type;
    int code;

    if (!tr_json_given(v))
        return TR_OK;
    if ((code = tr_json_string(v, "type", &type, NULL, err)))
        return code;
    if (strcmp(type, "ByteLevel") == 0)
        return TR_OK;
    if (strcmp(type, "TemplateProcessing") == 0 && t->prefix.n == 0 && t->suffix.n == 0)
        return parse_template(t, v, err);
    if (strcmp(type, "Sequence") != 0 || depth > 0)
        return tr_json_fail(v, err, "the post-processor %.40s is not supported here", type);
    code = tr_json_array(v, "processors", &list, err);
    for (size_t i = 0; i < tr_json_size(&list) && !code; i++) {
        struct tr_json item = tr_json_at(&list, i);

        code = parse_post_processor(t, &item, depth + 1, err);
    }
    return code;
}

/* The member of generation_config.json, or of config.json where it has none. */
static struct tr_json generation_member(const struct tr_tokenizer_files *files, const char *key)
{
    struct tr_json v = tr_json_get(&files->generation, key);

    return tr_json_given(&v) ? v : tr_json_get(&files->model, key);
}

/* A token named in tokenizer_config.json: "text" or {"content": "text"}; else the id that
 * generation_config.json gives. A token that the vocabulary does not have is none. */
static int parse_named(const struct tr_tokenizer *t, const struct tr_tokenizer_files *files,
                       const char *name, const char *id_name, int32_t *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(&files->config, name), content = tr_json_get(&v, "content");
    struct tr_json number = generation_member(files, id_name);
    const char *text;
    size_t n;
    int64_t id;
    int code;

    *ret = -1;
    if (tr_json_given(&v)) {
        code =
            tr_json_as_string(tr_json_type(&v) == TR_JSON_OBJECT ? &content : &v, &text, &n, err);
        if (code)
            return code;
        *ret = tr_vocab_find(&t->vocab, text, n);
    }
    if (*ret < 0 && tr_json_type(&number) == TR_JSON_NUMBER) {
        code = tr_json_as_int(&number, INT32_MIN, INT32_MAX, &id, err);
        if (code)
            return code;
        if (id >= 0 && tr_vocab_token(&t->vocab, (int32_t)id))
            *ret = (int32_t)id;
    }
    return TR_OK;
}

static int parse_config(struct tr_tokenizer *t, const struct tr_tokenizer_files *files,
                        struct tr_err *err)
{
    struct tr_json eos = generation_member(files, "eos_token_id");
    struct tr_json add = tr_json_get(&files->config, "add_bos_token");
    size_t n = tr_json_type(&eos) == TR_JSON_ARRAY ? tr_json_size(&eos) : tr_json_given(&eos);
    bool add_bos;
    int code;

    if ((code = parse_named(t, files, "bos_token", "bos_token_id", &t->bos, err)) ||
        (code = parse_named(t, files, "eos_token", "eos_token_id", &t->eos, err)) ||
        (code = parse_named(t, files, "pad_token", "pad_token_id", &t->pad, err)))
        return code;
    for (size_t i = 0; i < n; i++) {
        struct tr_json item = tr_json_type(&eos) == TR_JSON_ARRAY ? tr_json_at(&eos, i) : eos;
        int64_t id;

        if ((code = tr_json_as_int(&item, INT32_MIN, INT32_MAX, &id, err)))
            return code;
        if (tr_tokenizer_add_eog(t, id))
            return out_of_memory(err);
    }
    if (!tr_json_given(&add))
        return TR_OK;
    if ((code = tr_json_as_bool(&add, &add_bos, err)))
        return code;
    if (add_bos && t->bos < 0)
        return tr_json_fail(&add, err, "there is no bos_token to add");
    return tr_tokenizer_set_bos(t, add_bos) ? out_of_memory(err) : TR_OK;
}

int tr_tokenizer_from_json(struct tr_tokenizer **ret, const struct tr_tokenizer_files *files,
                           int vocab_size, struct tr_err *err)
{
    const struct tr_json *root = &files->tokenizer;
    struct tr_json normalizer = tr_json_get(root, "normalizer");
    struct tr_json pretokenizer = tr_json_get(root, "pre_tokenizer");
    struct tr_json decoder = tr_json_get(root, "decoder");
    struct tr_json processor = tr_json_get(root, "post_processor"), added;
    struct tr_tokenizer *t = calloc(1, sizeof(*t));
    int code;

    if (!t || tr_vocab_init(&t->vocab, vocab_size)) {
        tr_tokenizer_free(t);
        return out_of_memory(err);
    }
    if ((code = tr_json_expect(root, TR_JSON_OBJECT, err)) ||
        (code = check_ids(root, vocab_size, err)) ||
        (code = tr_normalizer_new(&t->normalizer, &normalizer, err)) ||
        (code = tr_pretokenizer_new(&t->pretokenizer, &pretokenizer, err)) ||
        (code = check_decoder(&decoder, 0, err)) || (code = parse_model(t, root, err)) ||
        (code = tr_json_opt_array(root, "added_tokens", &added, err)))
        goto fail;
    for (size_t i = 0; i < tr_json_size(&added); i++) {
        struct tr_json item = tr_json_at(&added, i);

        code = parse_added_token(t, &item, err);
        if (code)
            goto fail;
    }
    if ((code = parse_post_processor(t, &processor, 0, err)) ||
        (code = parse_config(t, files, err)))
        goto fail;
    code = tr_tokenizer_finish(t);
    if (code == TR_EFORMAT)
        code = tr_json_fail(&added, err, "two tokens have the same text");
    else if (code)
        code = out_of_memory(err);
    if (code)
        goto fail;
    *ret = t;
    return TR_OK;

fail:
    tr_tokenizer_free(t);
    return code;
}

/* *ret is NULL if the file is not there and need not be. */
static int read_file(struct json_t **ret, const char *dir, const char *name, size_t max,
                     bool optional, struct tr_err *err)
{
    struct tr_buf path = {0};
    int code;

    *ret = NULL;
    tr_buf_addf(&path, "%s/%s", dir, name);
    if (path.oom)
        code = out_of_memory(err);
    else if (optional && access(path.data, F_OK) != 0 && errno == ENOENT)
        code = TR_OK;
    else
        code = tr_json_read(ret, path.data, max, err);
    tr_buf_done(&path);
    return code;
}

/* A template's own copy; an older one stays. */
static int keep_template(char **ret, const char *source, size_t n, struct tr_err *err)
{
    if (*ret)
        return TR_OK;
    if (!tr_utf8_valid(source, n) || memchr(source, '\0', n))
        return tr_err_set(err, TR_EFORMAT, NULL, "the chat template is no UTF-8 text");
    *ret = strndup(source, n);
    return *ret ? TR_OK : out_of_memory(err);
}

/* The template in a file of its own, if there is one. */
static int read_template(char **ret, const char *dir, const char *name, struct tr_err *err)
{
    struct tr_buf path = {0}, text = {0};
    int code = TR_OK;
    tr_buf_addf(&path, "%s/%s", dir, name);
    FILE *f = path.oom ? NULL : fopen(path.data, "re");
    if (f) {
        if (tr_buf_reserve(&text, MAX_TEMPLATE_BYTES + 1))
            text.len = fread(text.data, 1, MAX_TEMPLATE_BYTES + 1, f);
        fclose(f);
        if (text.len > MAX_TEMPLATE_BYTES)
            code = tr_err_set(err, TR_EFORMAT, NULL, "%s: larger than %zu bytes", name,
                              MAX_TEMPLATE_BYTES);
        else
            code = text.oom ? out_of_memory(err) : keep_template(ret, text.data, text.len, err);
    }
    tr_buf_done(&path);
    tr_buf_done(&text);
    return code;
}

static int keep_member(char **ret, const struct tr_json *object, const char *key,
                       struct tr_err *err)
{
    const char *source = NULL;
    size_t n = 0;
    int code = tr_json_opt_string(object, key, &source, &n, err);
    return code || !source ? code : keep_template(ret, source, n, err);
}

/* One or several templates of tokenizer_config.json. */
static int config_templates(struct tr_tokenizer *t, const struct tr_json *v, struct tr_err *err)
{
    const char *source, *name;
    size_t n;
    int code = TR_OK;
    if (tr_json_type(v) == TR_JSON_STRING) {
        code = tr_json_as_string(v, &source, &n, err);
        return code ? code : keep_template(&t->chat_template, source, n, err);
    }
    if (tr_json_type(v) == TR_JSON_OBJECT) { /* older files: name to template */
        if ((code = keep_member(&t->chat_template, v, "default", err)))
            return code;
        return keep_member(&t->tool_template, v, "tool_use", err);
    }
    if (tr_json_given(v) && (code = tr_json_expect(v, TR_JSON_ARRAY, err)))
        return code;
    for (size_t i = 0; i < tr_json_size(v) && !code; i++) {
        struct tr_json item = tr_json_at(v, i);
        if ((code = tr_json_string(&item, "name", &name, NULL, err)) ||
            (code = tr_json_string(&item, "template", &source, &n, err)))
            return code;
        if (strcmp(name, "default") == 0)
            code = keep_template(&t->chat_template, source, n, err);
        else if (strcmp(name, "tool_use") == 0)
            code = keep_template(&t->tool_template, source, n, err);
    }
    return code;
}

/* Files of their own come before those of tokenizer_config.json, as in transformers. */
static int load_templates(struct tr_tokenizer *t, const char *dir, const struct tr_json *config,
                          struct tr_err *err)
{
    struct tr_json v = tr_json_get(config, "chat_template");
    int code = read_template(&t->chat_template, dir, "chat_template.jinja", err);
    if (!code)
        code =
            read_template(&t->tool_template, dir, "additional_chat_templates/tool_use.jinja", err);
    if (!code && !t->chat_template)
        code = config_templates(t, &v, err);
    return code;
}

int tr_tokenizer_load(struct tr_tokenizer **ret, const char *dir, int vocab_size,
                      struct tr_err *err)
{
    struct json_t *tokenizer = NULL, *config = NULL, *generation = NULL, *model = NULL;
    const char *config_name = "tokenizer_config.json";
    struct tr_tokenizer_files files;
    struct tr_tokenizer *t = NULL;
    int code;

    if ((code = read_file(&tokenizer, dir, "tokenizer.json", MAX_TOKENIZER_BYTES, false, err)) ||
        (code = read_file(&config, dir, config_name, MAX_CONFIG_BYTES, true, err)) ||
        (code =
             read_file(&generation, dir, "generation_config.json", MAX_CONFIG_BYTES, true, err)) ||
        (code = read_file(&model, dir, "config.json", MAX_CONFIG_BYTES, true, err)))
        goto end;
    if (!config) {
        config_name = "special_tokens_map.json";
        code = read_file(&config, dir, config_name, MAX_CONFIG_BYTES, true, err);
        if (code)
            goto end;
    }
    files = (struct tr_tokenizer_files){
        tr_json_root(tokenizer, "tokenizer.json"),
        tr_json_root(config, config_name),
        tr_json_root(generation, "generation_config.json"),
        tr_json_root(model, "config.json"),
    };
    if ((code = tr_tokenizer_from_json(&t, &files, vocab_size, err)) ||
        (code = load_templates(t, dir, &files.config, err)))
        goto end;
    *ret = t;
    t = NULL;

end:
    tr_tokenizer_free(t);
    tr_json_free(tokenizer);
    tr_json_free(config);
    tr_json_free(generation);
    tr_json_free(model);
    return code;
}
