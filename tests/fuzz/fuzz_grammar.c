/*
 * Grammars of every kind from any text: the first byte chooses the kind and options, the text goes to the first zero
 * byte, the rest are bytes to be added. What compiles must run: a mask that agrees with what each of its tokens does
 * alone, and steps that can be taken back.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IDS = 272 };

/* The bytes, and a few words. */
static const char *piece(const void *arg, int32_t id, size_t *ret_n, bool *ret_special)
{
    static const char *const words[] = {"{\"",  "\":", "\"}", "[[",   "ab", "\xC3\xA9",
                                        "\\u0", "12",  "tru", "null", "  ", "\",",
                                        "aaaa", "]",   "}}",  "x"};
    static char bytes[256];

    (void)arg;
    *ret_special = false;
    if (id >= 256) {
        *ret_n = strlen(words[id - 256]);
        return words[id - 256];
    }
    bytes[id] = (char)id;
    *ret_n = 1;
    return &bytes[id];
}

static bool in_mask(const struct tr_grammar_mask *m, int32_t id)
{
    for (int i = 0; i < m->n; i++)
        if (m->ids[i] == id)
            return true;
    return false;
}

static void run(struct tr_grammar *g, const uint8_t *data, size_t size)
{
    static struct tr_grammar_mask m;
    uint64_t bits[(IDS + 63) / 64];
    struct tr_grammar_state *s = NULL;
    bool special;
    size_t n;

    m.bits = bits;
    assert(tr_grammar_state_open(&s, g) == 0);
    for (size_t i = 0; i < size && i < 64 && tr_grammar_mask(s, &m) == 0; i++) {
        int32_t id = data[i] < m.n ? m.ids[data[i]] : data[i];
        const char *bytes = piece(NULL, id, &n, &special);
        int r = tr_grammar_advance(s, bytes, n);
        assert(r == TR_EUNSUPPORTED || (r == 0) == in_mask(&m, id));
        if (r == 0 && i % 5 == 4) {
            bool end = tr_grammar_may_end(s);
            assert(tr_grammar_rollback(s, 1) == 0 && tr_grammar_advance(s, bytes, n) == 0);
            assert(end == tr_grammar_may_end(s));
        }
        if (r == TR_EUNSUPPORTED)
            break;
    }
    tr_grammar_state_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tr_grammar_vocab *vocab;
    struct tr_grammar_source source = {0};
    struct tr_grammar *g = NULL;
    struct tr_err err = {0};
    const uint8_t *end;

    if (!vocab && tr_grammar_vocab_open(&vocab, IDS, piece, NULL) < 0)
        return 0;
    if (size < 2)
        return 0;
    source.kind = (enum tr_grammar_kind)(data[0] % 6);
    source.compact = data[0] & 64;
    source.indent = data[0] & 128 ? 4 : 0;
    end = memchr(data + 1, 0, size - 1);
    source.text.bytes = (const char *)data + 1;
    source.text.n = end ? (size_t)(end - data) - 1 : size - 1;
    source.choices = &source.text;
    source.n_choices = 1;
    if (tr_grammar_compile(&g, &source, vocab, &err) == 0)
        run(g, end ? end + 1 : data, end ? (size_t)(data + size - end) - 1 : size);
    else
        assert(!g && err.msg[0] != '\0');
    tr_grammar_unref(g);
    return 0;
}
