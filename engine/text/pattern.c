/*
 * Searching: a string, a known expression's scanner, or PCRE2. The only file that knows PCRE2,
 * whose interpreter is used: the expressions that matter for speed are scanners, and its compiler
 * would need memory that is writable and executable.
 */
#include "engine/text/pattern.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "config/buf.h"
#include "engine/text/regex.h"
#include "engine/text/splits.h"
#include "engine/text/unicode.h"

/* What one search may cost: steps of the matcher, and KiB for its backtracking. */
enum { MAX_STEPS = 10000000, MAX_HEAP = 64 * 1024 };

struct tr_pattern {
    char *literal; /* one of the three */
    size_t n_literal;
    tr_split_fn split;
    pcre2_code *code;
    pcre2_match_context *limits;
};

static int compile(struct tr_pattern *p, const char *regex, size_t n, struct tr_err *err)
{
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    struct tr_buf text = {0};
    int code = tr_regex_rewrite(regex, n, &text, err), why = 0;
    size_t at = 0;

    if (!code) {
        p->code = pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.len, options, &why,
                                &at, NULL);
        if (!p->code) {
            unsigned char message[128] = "";

            pcre2_get_error_message(why, message, sizeof(message));
            code = tr_err_set(err, TR_EFORMAT, NULL, "regular expression: %s", (char *)message);
        }
    }
    tr_buf_done(&text);
    if (code)
        return code;
    p->limits = pcre2_match_context_create(NULL);
    if (!p->limits)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    pcre2_set_match_limit(p->limits, MAX_STEPS);
    pcre2_set_heap_limit(p->limits, MAX_HEAP);
    return TR_OK;
}

int tr_pattern_new(struct tr_pattern **ret, const char *text, size_t n, bool literal,
                   struct tr_err *err)
{
    struct tr_pattern *p = calloc(1, sizeof(*p));
    int code = TR_OK;

    if (!p)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (literal && n > 0) {
        p->literal = malloc(n);
        p->n_literal = n;
        if (p->literal)
            memcpy(p->literal, text, n);
        else
            code = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    } else {
        for (int i = 0; i < TR_KNOWN_SPLITS; i++) {
            const char *known = tr_known_splits[i].regex;

            if (strlen(known) == n && memcmp(known, text, n) == 0)
                p->split = tr_known_splits[i].split;
        }
        if (!p->split)
            code = compile(p, text, n, err);
    }
    if (code) {
        tr_pattern_free(p);
        return code;
    }
    *ret = p;
    return TR_OK;
}

int tr_pattern_parse(struct tr_pattern **ret, const struct tr_json *v, struct tr_err *err)
{
    struct tr_json pattern, string;
    struct tr_err why;
    const char *text;
    size_t n;
    bool literal;
    int code = tr_json_object(v, "pattern", &pattern, err);

    if (code)
        return code;
    string = tr_json_get(&pattern, "String");
    literal = tr_json_given(&string);
    code = tr_json_string(&pattern, literal ? "String" : "Regex", &text, &n, err);
    if (code)
        return code;
    code = tr_pattern_new(ret, text, n, literal, &why);
    return code ? tr_json_fail(&pattern, err, "%s", why.msg) : TR_OK;
}

struct tr_pattern *tr_pattern_free(struct tr_pattern *p)
{
    if (p) {
        free(p->literal);
        pcre2_code_free(p->code);
        pcre2_match_context_free(p->limits);
        free(p);
    }
    return NULL;
}

void tr_match_space_done(struct tr_match_space *space)
{
    pcre2_match_data_free(space->data);
    space->data = NULL;
}

struct tr_matches tr_matches_in(const struct tr_pattern *p, struct tr_match_space *space,
                                const char *text, size_t n)
{
    return (struct tr_matches){p, space, text, n, 0, SIZE_MAX};
}

static int find_regex(const struct tr_matches *m, size_t *begin, size_t *end)
{
    const size_t *found;
    int code;

    if (!m->space->data) {
        m->space->data = pcre2_match_data_create(1, NULL);
        if (!m->space->data)
            return TR_ENOMEM;
    }
    code = pcre2_match(m->pattern->code, (PCRE2_SPTR)m->text, m->n, m->from, PCRE2_NO_UTF_CHECK,
                       m->space->data, m->pattern->limits);
    if (code == PCRE2_ERROR_NOMATCH)
        return 0;
    if (code < 0)
        return code == PCRE2_ERROR_NOMEMORY ? TR_ENOMEM : TR_EUNSUPPORTED;
    found = pcre2_get_ovector_pointer(m->space->data);
    *begin = found[0];
    *end = found[1];
    return 1;
}

static int find(const struct tr_matches *m, size_t *begin, size_t *end)
{
    const struct tr_pattern *p = m->pattern;
    const char *at;

    if (p->code)
        return find_regex(m, begin, end);
    if (p->split)
        return p->split(m->text, m->n, m->from, begin, end);
    at = memmem(m->text + m->from, m->n - m->from, p->literal, p->n_literal);
    if (!at)
        return 0;
    *begin = (size_t)(at - m->text);
    *end = *begin + p->n_literal;
    return 1;
}

int tr_matches_next(struct tr_matches *m, size_t *ret_begin, size_t *ret_end)
{
    size_t begin, end, k;

    while (m->from <= m->n) {
        int code = find(m, &begin, &end);

        if (code <= 0)
            return code;
        if (begin != end || end != m->last_end) {
            m->from = m->last_end = *ret_end = end;
            *ret_begin = begin;
            return 1;
        }
        k = 1;
        if (m->from < m->n)
            tr_utf8_at(m->text + m->from, &k);
        m->from += k;
    }
    return 0;
}
