/*
 * The stages of pre-tokenization run depth first: a piece goes through all of them before the next
 * one is cut, so nothing is kept but one piece a stage, and the caller can stop early.
 */
#include "engine/text/pretokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "config/buf.h"
#include "engine/text/pattern.h"
#include "engine/text/splits.h"

enum { MAX_STAGES = 32 };

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum behavior { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };

/* Without a pattern: a space is put in front of a piece that does not begin with one. */
struct stage {
    struct tr_pattern *pattern; /* owned */
    enum behavior behavior;
    bool invert; /* matches are what is between matches */
};

struct tr_pretokenizer {
    struct stage stages[MAX_STAGES];
    int n;
    bool byte_level;
};

static int add_stage(struct tr_pretokenizer *p, struct tr_pattern *pattern, enum behavior behavior,
                     bool invert)
{
    if (p->n == MAX_STAGES) {
        tr_pattern_free(pattern);
        return TR_EFORMAT;
    }
    p->stages[p->n++] = (struct stage){pattern, behavior, invert};
    return TR_OK;
}

/* A split by one of our own expressions. */
static int add_regex(struct tr_pretokenizer *p, const char *regex, enum behavior behavior,
                     struct tr_err *err)
{
    struct tr_pattern *pattern = NULL;
    int code = tr_pattern_new(&pattern, regex, strlen(regex), false, err);

    return code ? code : add_stage(p, pattern, behavior, false);
}

static int parse_split(struct tr_pretokenizer *p, const struct tr_json *v, struct tr_err *err)
{
    static const char *const names[] = {
        [ISOLATED] = "Isolated",
        [REMOVED] = "Removed",
        [MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [MERGED_WITH_NEXT] = "MergedWithNext",
        [CONTIGUOUS] = "Contiguous",
    };
    struct tr_pattern *pattern = NULL;
    const char *name;
    size_t behavior = 0;
    bool invert = false;
    int code;

    if ((code = tr_json_string(v, "behavior", &name, NULL, err)) ||
        (code = tr_json_opt_bool(v, "invert", &invert, err)))
        return code;
    while (behavior < TR_ARRAY_LEN(names) && strcmp(names[behavior], name) != 0)
        behavior++;
    if (behavior == TR_ARRAY_LEN(names))
        return tr_json_fail(v, err, "this behavior is not supported");
    code = tr_pattern_parse(&pattern, v, err);
    return code ? code : add_stage(p, pattern, (enum behavior)behavior, invert);
}

static int parse_digits(struct tr_pretokenizer *p, const struct tr_json *v, struct tr_err *err)
{
    bool individual = false;
    int code = tr_json_opt_bool(v, "individual_digits", &individual, err);

    return code ? code : add_regex(p, "\\p{N}", individual ? ISOLATED : CONTIGUOUS, err);
}

static int parse_byte_level(struct tr_pretokenizer *p, const struct tr_json *v, struct tr_err *err)
{
    bool prefix_space = true, use_regex = true;
    int code;

    if ((code = tr_json_opt_bool(v, "add_prefix_space", &prefix_space, err)) ||
        (code = tr_json_opt_bool(v, "use_regex", &use_regex, err)))
        return code;
    p->byte_level = true;
    if (prefix_space && (code = add_stage(p, NULL, ISOLATED, false)))
        return code;
    return use_regex ? add_regex(p, GPT2, ISOLATED, err) : TR_OK;
}

static int parse(struct tr_pretokenizer *p, const struct tr_json *v, int depth, struct tr_err *err)
{
    static const struct {
        const char *type;
        int (*parse)(struct tr_pretokenizer *, const struct tr_json *, struct tr_err *);
    } types[] = {{"Split", parse_split}, {"Digits", parse_digits}, {"ByteLevel", parse_byte_level}};
    struct tr_json list;
    const char *type;
    int code = tr_json_string(v, "type", &type, NULL, err);

    if (code)
        return code;
    if (p->byte_level)
        return tr_json_fail(v, err, "a pre-tokenizer after ByteLevel is not supported");
    for (size_t i = 0; i < TR_ARRAY_LEN(types); i++) {
        if (strcmp(type, types[i].type) != 0)
            continue;
        code = types[i].parse(p, v, err);
        return code && p->n == MAX_STAGES ? tr_json_fail(v, err, "too many pre-tokenizers") : code;
    }
    if (strcmp(type, "Sequence") != 0 || depth == MAX_STAGES)
        return tr_json_fail(v, err, "the pre-tokenizer %.40s is not supported", type);
    code = tr_json_array(v, "pretokenizers", &list, err);
    for (size_t i = 0; !code && i < tr_json_size(&list); i++) {
        struct tr_json item = tr_json_at(&list, i);

        code = parse(p, &item, depth + 1, err);
    }
    return code;
}

int tr_pretokenizer_new(struct tr_pretokenizer **ret, const struct tr_json *v, struct tr_err *err)
{
    struct tr_pretokenizer *p = calloc(1, sizeof(*p));
    int code = TR_OK;

    if (!p)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (tr_json_given(v))
        code = parse(p, v, 0, err);
    if (code) {
        tr_pretokenizer_free(p);
        return code;
    }
    *ret = p;
    return TR_OK;
}

int tr_pretokenizer_named(struct tr_pretokenizer **ret, const char *name, struct tr_err *err)
{
    static const char *const fallback[] = {
        "[\\p{P}\\$\\+<=>\\^~\\|]+",
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)",
        "\\p{N}+",
        "[0-9][0-9][0-9]",
    };
    struct tr_pretokenizer *p = calloc(1, sizeof(*p));
    int code = TR_OK;

    if (!p)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    p->byte_level = true;
    if (strcmp(name, "afmoe") == 0) {
        for (int i = 0; !code && i < TR_KNOWN_SPLITS; i++)
            code = add_regex(p, tr_known_splits[i].regex, ISOLATED, err);
    } else if (strcmp(name, "gpt-2") == 0 || strcmp(name, "gpt2") == 0) {
        code = add_regex(p, GPT2, ISOLATED, err);
    } else if (strcmp(name, "default") == 0) {
        for (size_t i = 0; !code && i < TR_ARRAY_LEN(fallback); i++)
            code = add_regex(p, fallback[i], ISOLATED, err);
    } else {
        code = tr_err_set(err, TR_EUNSUPPORTED, "tokenizer.ggml.pre",
                          "the pre-tokenizer %.40s is not supported", name);
    }
    if (code) {
        tr_pretokenizer_free(p);
        return code;
    }
    *ret = p;
    return TR_OK;
}

struct tr_pretokenizer *tr_pretokenizer_free(struct tr_pretokenizer *p)
{
    if (p) {
        for (int i = 0; i < p->n; i++)
            tr_pattern_free(p->stages[i].pattern);
        free(p);
    }
    return NULL;
}

bool tr_pretokenizer_byte_level(const struct tr_pretokenizer *p)
{
    return p->byte_level;
}

bool tr_pretokenizer_drops(const struct tr_pretokenizer *p)
{
    for (int i = 0; i < p->n; i++) {
        if (p->stages[i].behavior == REMOVED)
            return true;
    }
    return false;
}

struct run {
    const struct tr_pretokenizer *p;
    struct tr_match_space *space;
    struct tr_buf spaced; /* the piece with a space in front; there is one such stage at most */
    tr_piece_fn fn;
    void *arg;
};

static int run_stage(struct run *r, int stage, const char *text, size_t n);

static int run_prefix_space(struct run *r, int stage, const char *text, size_t n)
{
    if (text[0] == ' ')
        return run_stage(r, stage + 1, text, n);
    tr_buf_clear(&r->spaced);
    tr_buf_addc(&r->spaced, ' ');
    tr_buf_add(&r->spaced, text, n);
    if (r->spaced.oom)
        return TR_ENOMEM;
    return run_stage(r, stage + 1, r->spaced.data, r->spaced.len);
}

/* A part of the text: a match, or what is between matches. */
struct part {
    size_t begin, end;
    bool match;
};

/* One part after the other becomes known; the last one waits, since the next may have to be joined
 * to it. */
struct cutter {
    struct run *r;
    int stage;
    const char *text;
    struct part last;
    bool any; /* last is set */
};

static int cut_end(const struct cutter *c)
{
    const struct stage *s = &c->r->p->stages[c->stage];

    if (!c->any || c->last.begin == c->last.end || (s->behavior == REMOVED && c->last.match))
        return TR_OK;
    return run_stage(c->r, c->stage + 1, c->text + c->last.begin, c->last.end - c->last.begin);
}

static int cut(struct cutter *c, size_t begin, size_t end, bool match)
{
    const struct stage *s = &c->r->p->stages[c->stage];
    bool before = c->any && c->last.match, join = false;
    int code = TR_OK;

    match = match != s->invert;
    if (s->behavior == CONTIGUOUS)
        join = match == before;
    else if (s->behavior == MERGED_WITH_PREVIOUS)
        join = match && !before;
    else if (s->behavior == MERGED_WITH_NEXT)
        join = !match && before;
    if (join && c->any) {
        c->last.end = end;
        c->last.match = match;
        return TR_OK;
    }
    code = cut_end(c);
    c->last = (struct part){begin, end, match};
    c->any = true;
    return code;
}

static int run_split(struct run *r, int stage, const char *text, size_t n)
{
    struct cutter c = {.r = r, .stage = stage, .text = text};
    struct tr_matches m = tr_matches_in(r->p->stages[stage].pattern, r->space, text, n);
    size_t begin, end, done = 0;
    int found, code = TR_OK;

    while ((found = tr_matches_next(&m, &begin, &end)) > 0) {
        if (begin != done)
            code = cut(&c, done, begin, false);
        if (!code)
            code = cut(&c, begin, end, true);
        if (code)
            return code;
        done = end;
    }
    if (found < 0)
        return found;
    if (done != n)
        code = cut(&c, done, n, false);
    return code ? code : cut_end(&c);
}

static int run_stage(struct run *r, int stage, const char *text, size_t n)
{
    if (stage == r->p->n)
        return r->fn(r->arg, text, n);
    return r->p->stages[stage].pattern ? run_split(r, stage, text, n)
                                       : run_prefix_space(r, stage, text, n);
}

int tr_pretokenizer_run(const struct tr_pretokenizer *p, struct tr_match_space *space,
                        const char *text, size_t n, tr_piece_fn fn, void *arg)
{
    struct run r = {.p = p, .space = space, .fn = fn, .arg = arg};
    int code = n > 0 ? run_stage(&r, 0, text, n) : TR_OK;

    tr_buf_done(&r.spaced);
    return code;
}
