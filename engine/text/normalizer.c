/*
 * Normalization in steps, each from one buffer to another.
 */
#include "engine/text/normalizer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/text/unicode.h"

enum { MAX_STEPS = 32 };
#define MAX_BYTES ((size_t)1 << 30) /* of a text that replacing has made longer */

/* One of: a normal form; a string put in front; a pattern and what replaces its matches. */
struct step {
    bool has_form;
    enum tr_unicode_form form;
    struct tr_pattern *pattern; /* owned; NULL = prepend */
    struct tr_buf content;      /* owned */
};

struct tr_normalizer {
    struct step steps[MAX_STEPS];
    int n;
};

static int parse_content(struct step *s, const struct tr_json *v, const char *key,
                         struct tr_err *err)
{
    const char *text;
    size_t n;
    int code = tr_json_string(v, key, &text, &n, err);

    if (code)
        return code;
    tr_buf_add(&s->content, text, n);
    return s->content.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : TR_OK;
}

static int parse_step(struct step *s, const struct tr_json *v, const char *type, struct tr_err *err)
{
    static const char *const forms[] = {
        [TR_NFC] = "NFC", [TR_NFD] = "NFD", [TR_NFKC] = "NFKC", [TR_NFKD] = "NFKD"};

    for (size_t i = 0; i < TR_ARRAY_LEN(forms); i++) {
        if (strcmp(type, forms[i]) == 0) {
            s->has_form = true;
            s->form = (enum tr_unicode_form)i;
            return TR_OK;
        }
    }
    if (strcmp(type, "Prepend") == 0)
        return parse_content(s, v, "prepend", err);
    if (strcmp(type, "Replace") == 0) {
        int code = tr_pattern_parse(&s->pattern, v, err);

        return code ? code : parse_content(s, v, "content", err);
    }
    return tr_json_fail(v, err, "the normalizer %.40s is not supported", type);
}

static int parse(struct tr_normalizer *z, const struct tr_json *v, int depth, struct tr_err *err)
{
    struct tr_json list;
    const char *type;
    int code = tr_json_string(v, "type", &type, NULL, err);

    if (code)
        return code;
    if (z->n == MAX_STEPS || depth == MAX_STEPS)
        return tr_json_fail(v, err, "too many normalizers");
    if (strcmp(type, "Sequence") != 0)
        return parse_step(&z->steps[z->n++], v, type, err);
    code = tr_json_array(v, "normalizers", &list, err);
    for (size_t i = 0; !code && i < tr_json_size(&list); i++) {
        struct tr_json item = tr_json_at(&list, i);

        code = parse(z, &item, depth + 1, err);
    }
    return code;
}

int tr_normalizer_new(struct tr_normalizer **ret, const struct tr_json *v, struct tr_err *err)
{
    struct tr_normalizer *z;
    int code;

    if (!tr_json_given(v)) {
        *ret = NULL;
        return TR_OK;
    }
    z = calloc(1, sizeof(*z));
    code = z ? parse(z, v, 0, err) : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (code) {
        tr_normalizer_free(z);
        return code;
    }
    *ret = z;
    return TR_OK;
}

struct tr_normalizer *tr_normalizer_free(struct tr_normalizer *z)
{
    if (z) {
        for (int i = 0; i < z->n; i++) {
            tr_pattern_free(z->steps[i].pattern);
            tr_buf_done(&z->steps[i].content);
        }
        free(z);
    }
    return NULL;
}

static int replace(const struct step *s, struct tr_match_space *space, const struct tr_buf *text,
                   struct tr_buf *out)
{
    struct tr_matches m = tr_matches_in(s->pattern, space, text->data, text->len);
    size_t begin, end, done = 0;
    int found;

    while ((found = tr_matches_next(&m, &begin, &end)) > 0) {
        tr_buf_add(out, text->data + done, begin - done);
        tr_buf_add(out, s->content.data, s->content.len);
        done = end;
        if (out->len > MAX_BYTES)
            return TR_ETOOLONG;
    }
    tr_buf_add(out, text->data + done, text->len - done);
    return found;
}

static int run_step(const struct step *s, struct tr_match_space *space, const struct tr_buf *text,
                    struct tr_buf *out)
{
    if (s->has_form)
        return tr_unicode_normalize(s->form, text->data, text->len, out);
    if (s->pattern)
        return replace(s, space, text, out);
    tr_buf_add(out, s->content.data, s->content.len);
    tr_buf_add(out, text->data, text->len);
    return TR_OK;
}

int tr_normalizer_run(const struct tr_normalizer *z, struct tr_match_space *space,
                      struct tr_buf *text)
{
    struct tr_buf out = {0};
    int code = TR_OK;

    for (int i = 0; i < z->n && !code && text->len > 0; i++) {
        struct tr_buf before = *text;

        tr_buf_clear(&out);
        code = run_step(&z->steps[i], space, text, &out);
        if (!code && out.oom)
            code = TR_ENOMEM;
        *text = out;
        out = before;
    }
    tr_buf_done(&out);
    return code;
}
