/*
 * Speed of constrained output: grammar [IDS]
 *
 * A made-up vocabulary of IDS tokens (200,000) that is shaped like a byte-level BPE's: bytes, words with and without a
 * space in front, numbers, runs of spaces, punctuation with quotes and brackets. For each grammar: milliseconds to compile,
 * microseconds a mask of a warm grammar (first walk) and of the same walk again, and the share of masks with at most 1,024 ids.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/grammar/grammar.h"

struct token {
    char bytes[23];
    uint8_t n;
};

struct tokens {
    struct token *at;
    int n;
};

static double microseconds(void) /* of this thread on a processor */
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* ---- vocabulary ---- */

static void make_token(struct token *t, uint32_t *seed)
{
    static const char *const ends[] = {"\"", "\":", "\",",    "\"}",  "},", "],",
                                       "()", "\\n", "\": \"", "\n  ", "..", "{\""};
    uint32_t kind = next_random(seed) % 100, n = 2 + next_random(seed) % 4 + next_random(seed) % 6;

    t->n = 0;
    if (kind < 50)
        t->bytes[t->n++] = ' ';
    for (uint32_t i = 0; i < n; i++) {
        if (kind < 4)
            t->bytes[t->n++] = (char)('0' + next_random(seed) % 10);
        else if (kind < 8) { /* two-byte letters */
            t->bytes[t->n++] = (char)(0xD0 + next_random(seed) % 2);
            t->bytes[t->n++] = (char)(0x80 + next_random(seed) % 64);
            i++;
        } else
            t->bytes[t->n++] =
                (char)('a' + (next_random(seed) % 26 * (next_random(seed) % 26)) / 26);
    }
    if (kind == 99) {
        const char *end = ends[next_random(seed) % TR_ARRAY_LEN(ends)];
        size_t k = next_random(seed) % 3 ? 0 : t->n;
        memcpy(t->bytes + k, end, strlen(end));
        t->n = (uint8_t)(k + strlen(end));
    }
}

static int make_tokens(struct tokens *t, int n)
{
    uint32_t seed = 1;

    t->at = calloc((size_t)n, sizeof(*t->at));
    t->n = n;
    for (int i = 0; t->at && i < n; i++) {
        if (i < 256) {
            t->at[i].bytes[0] = (char)i;
            t->at[i].n = 1;
        } else {
            make_token(&t->at[i], &seed);
        }
    }
    return t->at ? 0 : -1;
}

static const char *piece(const void *arg, int32_t id, size_t *ret_n, bool *ret_special)
{
    const struct tokens *t = arg;

    *ret_special = false;
    *ret_n = t->at[id].n;
    return t->at[id].bytes;
}

/* ---- grammars ---- */

static const struct {
    const char *name;
    enum tr_grammar_kind kind;
    const char *text;
} grammars[] = {
    {"any object", TR_GRAMMAR_JSON_OBJECT, ""},
    {"person", TR_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\",\"minimum\":0,\"maximum\":130},"
     "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":20},\"maxItems\":"
     "10},\"kind\":{\"enum\":[\"red\",\"green\","
     "\"blue\"]}},\"required\":[\"name\",\"age\",\"tags\",\"kind\"],\"additionalProperties\":"
     "false}"},
    {"open object", TR_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"format\":\"uuid\"},"
     "\"when\":{\"type\":\"string\",\"format\":"
     "\"date-time\"},\"note\":{\"type\":\"string\",\"maxLength\":10000}},\"required\":[\"note\"]}"},
    {"patterns", TR_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-z ]+(-[a-z "
     "]+)*$\",\"maxLength\":60}}"},
    {"regex", TR_GRAMMAR_REGEX, "([A-Z][a-z]{1,12} ){3,9}\\w+\\."},
    {"gbnf", TR_GRAMMAR_GBNF,
     "root ::= (expr \"=\" term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= [a-z]+ | [0-9]+ "
     "| \"(\" expr \")\""},
};

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

enum { STEPS = 400 };

/* One walk by chance; the times of its masks. */
static int walk(const struct tokens *t, struct tr_grammar *g, struct tr_grammar_mask *m,
                double *times, int *n_listed)
{
    struct tr_grammar_state *s = NULL;
    uint32_t seed = 5;
    int n = 0, r = tr_grammar_state_open(&s, g);

    *n_listed = 0;
    while (r == 0 && n < STEPS) {
        double begin = microseconds();
        int32_t id;
        r = tr_grammar_mask(s, m);
        times[n++] = microseconds() - begin;
        *n_listed += m->listed;
        if (r < 0 || m->n == 0)
            break;
        int k = (int)(next_random(&seed) % (uint32_t)m->n);
        if (m->listed) {
            id = m->ids[k];
        } else {
            for (id = 0; !(m->bits[id / 64] >> (id % 64) & 1) || k-- > 0; id++)
                ;
            if (n % 6 == 0 && m->bits['"' / 64] >> ('"' % 64) & 1)
                id = '"';
        }
        r = tr_grammar_advance(s, t->at[id].bytes, t->at[id].n);
    }
    tr_grammar_state_free(s);
    return r < 0 ? r : n;
}

static void report(const char *name, double *times, int n, int listed)
{
    double sum = 0;

    if (n <= 0) {
        printf("  %-7s failed: %d\n", name, n);
        return;
    }
    for (int i = 0; i < n; i++)
        sum += times[i];
    qsort(times, (size_t)n, sizeof(*times), compare);
    printf("  %-7s %4d masks  mean %7.1f  p50 %7.1f  p90 %7.1f  p99 %8.1f  max %8.1f us  listed "
           "%3d%%\n",
           name, n, sum / n, times[n / 2], times[n * 9 / 10], times[n * 99 / 100], times[n - 1],
           100 * listed / n);
}

int main(int argc, char **argv)
{
    struct tokens t;
    struct tr_grammar_vocab *v = NULL;
    static struct tr_grammar_mask m;
    static double times[STEPS];
    double begin;

    if (make_tokens(&t, argc > 1 ? atoi(argv[1]) : 200000) < 0)
        return 1;
    begin = microseconds();
    if (tr_grammar_vocab_open(&v, t.n, piece, &t) < 0)
        return 1;
    printf("vocabulary of %d: %.0f ms\n", t.n, 1e-3 * (microseconds() - begin));
    m.bits = calloc((size_t)tr_grammar_vocab_words(v), sizeof(*m.bits));
    for (size_t i = 0; m.bits && i < TR_ARRAY_LEN(grammars); i++) {
        struct tr_grammar_source source = {.kind = grammars[i].kind,
                                           .text = {grammars[i].text, strlen(grammars[i].text)}};
        struct tr_grammar *g = NULL;
        struct tr_err err = {0};
        int listed, n;
        begin = microseconds();
        if (tr_grammar_compile(&g, &source, v, &err) < 0) {
            fprintf(stderr, "%s: %s\n", grammars[i].name, err.msg);
            return 1;
        }
        printf("%s: compiled in %.2f ms, at most %.1f MiB", grammars[i].name,
               1e-3 * (microseconds() - begin), (double)tr_grammar_bytes(g) / (1 << 20));
        begin = microseconds();
        tr_grammar_warm(g);
        printf(", warm after %.2f ms\n", 1e-3 * (microseconds() - begin));
        n = walk(&t, g, &m, times, &listed);
        report("first", times, n, listed);
        n = walk(&t, g, &m, times, &listed);
        report("again", times, n, listed);
        tr_grammar_unref(g);
    }
    free(m.bits);
    tr_grammar_vocab_close(v);
    free(t.at);
    return 0;
}
