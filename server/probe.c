#include "server/probe.h"

#include <stdlib.h>
#include <string.h>

#include "config/buf.h"
#include "engine/text/tokenizer.h"

static const struct {
    const char *script, *text;
} samples[] = {
    {"Latin", "The quick brown fox; d\u00e9j\u00e0 vu, \u0141\u00f3d\u017a, na\u00efve."},
    {"Greek", "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1"},
    {"Cyrillic", "\u0414\u043e\u0431\u0440\u043e\u0435 \u0443\u0442\u0440\u043e"},
    {"Hebrew", "\u05e9\u05dc\u05d5\u05dd"},
    {"Arabic", "\u0645\u0631\u062d\u0628\u0627 \u0661\u0662\u0663"},
    {"Devanagari", "\u0928\u092e\u0938\u094d\u0924\u0947"},
    {"Thai", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35"},
    {"Han", "\u4f60\u597d\uff0c\u4e16\u754c\u3002"},
    {"Japanese", "\u3053\u3093\u306b\u3061\u306f\u3001\u30ab\u30ca"},
    {"Korean", "\uc548\ub155\ud558\uc138\uc694"},
    {"emoji", "\U0001f469\u200d\U0001f680 \u2764\ufe0f"},
    {"combining marks", "e\u0301 a\u0308 \ufeff\u00a0"},
    {"digits", "3.14159 1234567890 0x1F"},
    {"white space", "  a\t\tb\r\n\n   c  "},
    {"code", "for (int i = 0; i < n; i++) {\n    x[i] |= ~y->z;\n}\n"},
};

/* The bytes that the ids stand for, control tokens included. */
static void spell(struct tr_buf *out, const struct tr_tokenizer *t, const struct tr_ids *ids)
{
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        bool special;
        const char *piece = tr_tokenizer_piece(t, ids->ids[i], &n, &special);
        if (piece)
            tr_buf_add(out, piece, n);
    }
}

static int compare(const struct tr_tokenizer *t, const struct tr_ids *ids, const char *text,
                   size_t n, const char *what, struct tr_err *err)
{
    struct tr_buf back = {0};
    spell(&back, t, ids);
    int r = back.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : 0;
    if (r == 0 && (back.len != n || memcmp(back.data ? back.data : "", text, n) != 0))
        r = tr_err_set(err, TR_EINTERNAL, NULL,
                       "tokenizer: %s: %zu bytes were encoded, others come back", what, n);
    tr_buf_done(&back);
    return r;
}

static int failed(int r, const char *what, struct tr_err *err)
{
    return r < 0 ? tr_err_set(err, r, NULL, "tokenizer: %s: %s", what, tr_err_text(r)) : 0;
}

static int try_texts(struct srv_probe *ret, const struct tr_tokenizer *t, struct tr_err *err)
{
    int r = 0;
    for (size_t i = 0; i < TR_ARRAY_LEN(samples) && r == 0; i++, ret->texts++) {
        struct tr_ids ids = {0};
        size_t n = strlen(samples[i].text);
        r = failed(tr_tokenizer_encode(t, samples[i].text, n, 0, 0, &ids), samples[i].script, err);
        if (r == 0)
            r = compare(t, &ids, samples[i].text, n, samples[i].script, err);
        free(ids.ids);
    }
    return r;
}

static int try_specials(struct srv_probe *ret, const struct tr_tokenizer *t, struct tr_err *err)
{
    int r = 0;
    for (int32_t id = 0; id < tr_tokenizer_size(t) && r == 0; id++) {
        size_t n;
        bool special;
        const char *piece =
            tr_tokenizer_is_added(t, id) ? tr_tokenizer_piece(t, id, &n, &special) : NULL;
        if (!piece || n == 0)
            continue;
        struct tr_ids ids = {0};
        r = failed(tr_tokenizer_encode(t, piece, n, TR_ENCODE_SPECIAL, 0, &ids), piece, err);
        if (r == 0 && (ids.n != 1 || ids.ids[0] != id))
            r = tr_err_set(err, TR_EINTERNAL, NULL,
                           "tokenizer: the added token %.*s is not found by its spelling",
                           (int)TR_MIN(n, 64), piece);
        free(ids.ids);
        ret->specials++;
    }
    return r;
}

static int try_template(struct srv_probe *ret, const struct tr_tokenizer *t,
                        const struct tr_chat *chat, struct tr_err *err)
{
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"What is <|this|>?\"}]";
    struct json_t *doc;
    struct tr_ids ids = {0};
    struct tr_rendered prompt = {0};
    int r = tr_json_parse(&doc, messages, sizeof messages - 1, err);
    if (r < 0)
        return r;
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_chat_request q = {.messages = &root, .add_generation_prompt = true};
    if (tr_chat_render(chat, &q, &prompt, &ids, &ret->refused) == 0) {
        ret->rendered = (int)ids.n;
        if (ret->exact)
            r = compare(t, &ids, prompt.text, prompt.n, "the chat template's text", err);
        tr_rendered_done(&prompt);
    }
    free(ids.ids);
    tr_json_free(doc);
    return r;
}

int srv_probe(struct srv_probe *ret, const struct tr_tokenizer *tokenizer,
              const struct tr_chat *chat, struct tr_err *err)
{
    *ret = (struct srv_probe){.exact = tr_tokenizer_is_exact(tokenizer)};
    int r = ret->exact ? try_texts(ret, tokenizer, err) : 0;
    if (r == 0 && ret->exact)
        r = try_specials(ret, tokenizer, err);
    if (r == 0 && chat)
        r = try_template(ret, tokenizer, chat, err);
    return r;
}
