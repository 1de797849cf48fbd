/*
 * For tests in other languages: grammar [DIR VOCAB_SIZE] reads a JSON object a line and answers with one.
 *
 *   {"kind": "regex", "text": "...", "choices": ["..."], "compact": false, "indent": 0,
 *    "strings": ["..."], "walks": 3, "seed": 1, "steps": 200}
 *
 * {"error": "...", "code": -1, "param": "..."} if the grammar is refused, else
 * {"accepted": [true, ...], "walks": ["...", null, ...], "bytes": 123, "compile_ms": 1.5}: whether each string is a text of the grammar,
 * and texts found by choosing tokens of the mask by chance (null: not at an end after that many steps).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/json.h"
#include "engine/grammar/grammar.h"
#include "engine/text/tokenizer.h"

struct tool {
    struct tr_tokenizer *tokenizer;
    struct tr_grammar_vocab *vocab;
    uint64_t *bits;
};

static const char *piece(const void *arg, int32_t id, size_t *ret_n, bool *ret_special)
{
    return tr_tokenizer_piece(arg, id, ret_n, ret_special);
}

/* ---- walks ---- */

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 11;
}

/* The k-th allowed id. */
static int32_t pick(const struct tr_grammar_mask *m, int k)
{
    if (m->listed)
        return m->ids[k];
    for (int w = 0;; w++)
        for (uint64_t word = m->bits[w]; word; word &= word - 1)
            if (k-- == 0)
                return 64 * w + __builtin_ctzll(word);
}

/* The shortest of a few allowed tokens, or one that ends the text soon: else most walks never end. */
static int walk(const struct tool *t, struct tr_grammar *g, uint64_t *seed, int steps,
                struct tr_buf *out)
{
    struct tr_grammar_mask *m = calloc(1, sizeof(*m));
    struct tr_grammar_state *s = NULL;
    int r = m ? tr_grammar_state_open(&s, g) : TR_ENOMEM;

    for (int i = 0; r == 0; i++) {
        m->bits = t->bits;
        r = i == steps ? 1 : tr_grammar_mask(s, m);
        if (r || (m->may_end && (m->n == 0 || next_random(seed) % 4 == 0)))
            break;
        r = m->n == 0 ? TR_EINTERNAL : 0;
        if (r == 0) {
            size_t n;
            bool special;
            int32_t id = pick(m, (int)(next_random(seed) % (uint64_t)m->n));
            for (int k = 0; i > steps / 4 && k < m->n && k < 1024;
                 k++) { /* closing brackets, quotes, end of digits */
                int32_t other = pick(m, k);
                const char *bytes = tr_tokenizer_piece(t->tokenizer, other, &n, &special);
                if (n == 1 && strchr("\"}],", bytes[0]) && next_random(seed) % 2)
                    id = other;
            }
            const char *bytes = tr_tokenizer_piece(t->tokenizer, id, &n, &special);
            tr_buf_add(out, bytes, n);
            r = tr_grammar_advance(s, bytes, n);
        }
    }
    tr_grammar_state_free(s);
    free(m);
    return r;
}

/* ---- one line ---- */

static bool accepts(struct tr_grammar *g, const char *text, size_t n)
{
    struct tr_grammar_state *s = NULL;
    bool ok = tr_grammar_state_open(&s, g) == 0 && tr_grammar_advance(s, text, n) == 0 &&
              tr_grammar_may_end(s);

    tr_grammar_state_free(s);
    return ok;
}

static int compile(const struct tool *t, const struct tr_json *line, struct tr_grammar **ret,
                   struct tr_err *err)
{
    static const char *const names[] = {"json_object", "json_schema", "regex",
                                        "choice",      "gbnf",        "ebnf"};
    struct tr_grammar_source source = {0};
    struct tr_grammar_text choices[1024];
    struct tr_json list = {0};
    const char *kind;
    int64_t indent = 0;
    int r = tr_json_string(line, "kind", &kind, NULL, err);

    if (r == 0)
        r = tr_json_opt_string(line, "text", &source.text.bytes, &source.text.n, err);
    if (r == 0)
        r = tr_json_opt_bool(line, "compact", &source.compact, err);
    if (r == 0)
        r = tr_json_opt_int(line, "indent", 0, 64, &indent, err);
    if (r == 0)
        r = tr_json_opt_array(line, "choices", &list, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < TR_ARRAY_LEN(names); i++)
        if (strcmp(names[i], kind) == 0)
            source.kind = (enum tr_grammar_kind)i;
    for (size_t i = 0; i < tr_json_size(&list) && i < 1024; i++) {
        struct tr_json v = tr_json_at(&list, i);
        if ((r = tr_json_as_string(&v, &choices[i].bytes, &choices[i].n, err)) < 0)
            return r;
        source.n_choices++;
    }
    source.choices = choices;
    source.indent = (int)indent;
    return tr_grammar_compile(ret, &source, t->vocab, err);
}

static void add_walks(const struct tool *t, struct tr_grammar *g, const struct tr_json *line,
                      struct tr_buf *out)
{
    int64_t walks = 0, seed = 1, steps = 200;
    uint64_t state;

    if (tr_json_opt_int(line, "walks", 0, 10000, &walks, NULL) < 0 ||
        tr_json_opt_int(line, "seed", 0, INT32_MAX, &seed, NULL) < 0 ||
        tr_json_opt_int(line, "steps", 1, 100000, &steps, NULL) < 0)
        return;
    state = (uint64_t)seed * 0x9E3779B97F4A7C15u + 1;
    tr_buf_adds(out, "],\"walks\":[");
    for (int64_t i = 0; i < walks; i++) {
        struct tr_buf text = {0};
        int r = walk(t, g, &state, (int)steps, &text);
        tr_buf_adds(out, i > 0 ? "," : "");
        if (r == 0)
            tr_json_quote(out, text.data ? text.data : "", text.len);
        else
            tr_buf_addf(out, "%d", r);
        tr_buf_done(&text);
    }
}

static double milliseconds(void) /* of this thread on a processor */
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int answer(const struct tool *t, const char *text, size_t n, struct tr_buf *out)
{
    struct tr_grammar *g = NULL;
    struct json_t *doc = NULL;
    struct tr_json line, strings = {0}, v;
    struct tr_err err = {0};
    const char *s;
    double begin;
    int r = tr_json_parse(&doc, text, n, &err);

    begin = milliseconds();
    line = tr_json_root(doc, NULL);
    if (r == 0)
        r = compile(t, &line, &g, &err);
    begin = milliseconds() - begin;
    if (r == 0)
        r = tr_json_opt_array(&line, "strings", &strings, &err);
    if (r < 0) {
        tr_buf_adds(out, "{\"error\":");
        tr_json_quote(out, err.msg, strlen(err.msg));
        tr_buf_addf(out, ",\"code\":%d,\"param\":", r);
        tr_json_quote(out, err.param, strlen(err.param));
    } else {
        tr_buf_adds(out, "{\"accepted\":[");
        for (size_t i = 0; i < tr_json_size(&strings); i++) {
            v = tr_json_at(&strings, i);
            r = tr_json_as_string(&v, &s, &n, &err);
            tr_buf_addf(out, "%s%s", i > 0 ? "," : "",
                        r == 0 && accepts(g, s, n) ? "true" : "false");
        }
        add_walks(t, g, &line, out);
        tr_buf_addf(out, "],\"bytes\":%zu", tr_grammar_bytes(g));
    }
    tr_buf_addf(out, ",\"compile_ms\":%.3f}\n", begin);
    tr_grammar_unref(g);
    tr_json_free(doc);
    return out->oom ? TR_ENOMEM : 0;
}

int main(int argc, char **argv)
{
    struct tool t = {0};
    struct tr_buf out = {0};
    struct tr_err err = {0};
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int r = 0;

    if (argc == 3) {
        int size = atoi(argv[2]);
        r = tr_tokenizer_load(&t.tokenizer, argv[1], size, &err);
        if (r == 0)
            r = tr_grammar_vocab_open(&t.vocab, size, piece, t.tokenizer);
        if (r < 0) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
        t.bits = calloc((size_t)tr_grammar_vocab_words(t.vocab), sizeof(*t.bits));
    }
    while (r == 0 && (n = getline(&line, &cap, stdin)) > 0) {
        tr_buf_clear(&out);
        r = answer(&t, line, (size_t)n, &out);
        fwrite(out.data, 1, out.len, stdout);
        fflush(stdout);
    }
    free(line);
    free(t.bits);
    tr_buf_done(&out);
    tr_grammar_vocab_close(t.vocab);
    tr_tokenizer_free(t.tokenizer);
    return r ? 1 : 0;
}
