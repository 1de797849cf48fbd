/*
 * A single pass over the expression that copies it and changes what the two dialects read
 * differently:
 *
 * - \uHHHH is \x{HHHH}, \h is a hexadecimal digit, \v a vertical tab;
 * - \s is White_Space; \w and \b go by Unicode's definition of a word (PCRE2 10.42 has others), and
 *   outside of classes Oniguruma has the superscripts and fractions of Latin-1 in words too;
 * - names of scripts mean the script, not the script extensions;
 * - (?m) is "dot matches all"; ^ and $ always match at lines;
 * - x{3}+ repeats the repetition and is not possessive; so does x{3}?; {,3} has a lower bound of 0.
 *
 * To change x{3}+ to (?:x{3})+ it remembers where in the output the last item begins.
 */
#include "engine/text/regex.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "engine/text/unicode.h"

enum { MAX_DEPTH = 64 }; /* of groups */

#define SPACE           "\\p{wspace}"
#define NO_SPACE        "\\P{wspace}"
#define WORD_IN_CLASS   "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD            WORD_IN_CLASS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"
#define HEX             "0-9A-Fa-f"
#define BORDER(yes, no) "(?:(?<=[" WORD "])(?" yes "[" WORD "])|(?<![" WORD "])(?" no "[" WORD "]))"

struct rewriter {
    const char *p, *end;
    struct tr_buf *out;
    size_t item;              /* where the last item begins in the output */
    size_t groups[MAX_DEPTH]; /* where the open groups begin */
    int depth;
    bool in_class;
    struct tr_err *err;
};

static int fail(struct rewriter *r, const char *what)
{
    return tr_err_set(r->err, TR_EFORMAT, NULL, "regular expression: %s is not supported", what);
}

/* Copies one character, whatever it is. */
static void copy(struct rewriter *r)
{
    size_t k;

    tr_utf8_at(r->p, &k);
    tr_buf_add(r->out, r->p, k);
    r->p += k;
}

/* The scripts of Unicode that a pre-tokenizer may name; other names are left as they are. */
static bool is_script(const char *name, size_t n)
{
    static const char *const scripts[] = {
        "Arabic",   "Armenian",  "Bengali",   "Bopomofo", "Common",   "Cyrillic", "Devanagari",
        "Ethiopic", "Georgian",  "Greek",     "Gujarati", "Gurmukhi", "Han",      "Hangul",
        "Hebrew",   "Hiragana",  "Inherited", "Kannada",  "Katakana", "Khmer",    "Lao",
        "Latin",    "Malayalam", "Mongolian", "Myanmar",  "Oriya",    "Sinhala",  "Tamil",
        "Telugu",   "Thai",      "Tibetan",
    };

    for (size_t i = 0; i < TR_ARRAY_LEN(scripts); i++) {
        if (strlen(scripts[i]) == n && strncasecmp(scripts[i], name, n) == 0)
            return true;
    }
    return false;
}

/* \p{Name}, \P{Name}, \p{^Name}; p stands behind the brace. */
static int property(struct rewriter *r, char letter)
{
    const char *close = memchr(r->p, '}', (size_t)(r->end - r->p));

    if (!close)
        return fail(r, "a property without }");
    if (*r->p == '^') {
        letter = letter == 'p' ? 'P' : 'p';
        r->p++;
    }
    tr_buf_addf(r->out, "\\%c{%s", letter, is_script(r->p, (size_t)(close - r->p)) ? "sc:" : "");
    tr_buf_add(r->out, r->p, (size_t)(close + 1 - r->p));
    r->p = close + 1;
    return TR_OK;
}

/* \xHH, \x{H...}, \uHHHH; p stands behind the letter. Two digits from 80 on are a byte of UTF-8 to
 * Oniguruma. */
static int code_point(struct rewriter *r, char letter)
{
    bool braces = letter == 'x' && r->p < r->end && *r->p == '{';
    const char *digits = r->p + braces;
    size_t n = 0, max = braces ? 8 : letter == 'u' ? 4 : 2;

    while (n < max && digits + n < r->end && isxdigit((unsigned char)digits[n]))
        n++;
    if (n == 0 || (letter == 'u' && n < 4) ||
        (braces && (digits + n == r->end || digits[n] != '}')))
        return fail(r, "\\x or \\u without its digits");
    if (letter == 'x' && !braces && n == 2 && digits[0] > '7')
        return fail(r, "\\x80 and above");
    tr_buf_addf(r->out, "\\x{%.*s}", (int)n, digits);
    r->p = digits + n + braces;
    return TR_OK;
}

/* What stands behind a backslash. */
static int escape(struct rewriter *r)
{
    static const struct {
        char letter;
        const char *outside, *inside; /* NULL: cannot be said there */
    } rewritten[] = {
        {'s', SPACE, SPACE},
        {'S', NO_SPACE, NO_SPACE},
        {'w', "[" WORD "]", WORD_IN_CLASS},
        {'W', "[^" WORD "]", NULL},
        {'h', "[" HEX "]", HEX},
        {'H', "[^" HEX "]", NULL},
        {'v', "\\x{B}", "\\x{B}"},
        {'b', BORDER("!", "="), "\\x{8}"},
        {'B', BORDER("=", "!"), NULL},
    };
    char letter, name[3] = {'\\', 0, 0};

    if (r->p == r->end)
        return fail(r, "a backslash at the end");
    letter = name[1] = *r->p;
    for (size_t i = 0; i < TR_ARRAY_LEN(rewritten); i++) {
        const char *text = r->in_class ? rewritten[i].inside : rewritten[i].outside;

        if (rewritten[i].letter != letter)
            continue;
        if (!text)
            return fail(r, name);
        tr_buf_adds(r->out, text);
        r->p++;
        return TR_OK;
    }
    if (letter == 'u' || letter == 'x') {
        r->p++;
        return code_point(r, letter);
    }
    if ((letter == 'p' || letter == 'P') && r->end - r->p > 2 && r->p[1] == '{') {
        r->p += 2;
        return property(r, letter);
    }
    if (isalpha((unsigned char)letter) &&
        !strchr(r->in_class ? "aefnrtdD" : "aefnrtdDAGKRXZzgk", letter))
        return fail(r, name);
    tr_buf_addc(r->out, '\\');
    copy(r);
    return TR_OK;
}

/* A character class; p stands at its bracket. */
static int class(struct rewriter *r)
{
    int code = TR_OK;

    copy(r);
    if (r->p < r->end && *r->p == '^')
        copy(r);
    if (r->p < r->end && *r->p == ']')
        return fail(r, "] at the beginning of a class");
    r->in_class = true;
    while (!code && r->p < r->end && *r->p != ']') {
        if (*r->p == '[')
            return fail(r, "[ in a class");
        if (*r->p == '&' && r->end - r->p > 1 && r->p[1] == '&')
            return fail(r, "&&");
        if (*r->p == '\\') {
            r->p++;
            code = escape(r);
        } else {
            copy(r);
        }
    }
    r->in_class = false;
    if (r->p < r->end)
        copy(r);
    return code;
}

/* An opening parenthesis and what tells its kind. */
static int open_group(struct rewriter *r)
{
    if (r->depth == MAX_DEPTH)
        return fail(r, "such nesting");
    r->groups[r->depth++] = r->out->len;
    copy(r);
    if (r->p < r->end && *r->p == '*')
        return fail(r, "(*");
    if (r->p == r->end || *r->p != '?')
        return TR_OK;
    copy(r);
    for (; r->p < r->end && (*r->p == 'i' || *r->p == 'm' || *r->p == '-'); r->p++)
        tr_buf_addc(r->out, *r->p == 'm' ? 's' : *r->p);
    return r->p < r->end && *r->p == 'x' ? fail(r, "(?x)") : TR_OK;
}

/* {n}, {n,}, {,m} or {n,m} at p: its length, 0 if it is none (then the brace is a character). */
static size_t interval(const struct rewriter *r, bool *ret_fixed)
{
    const char *p = r->p + 1;
    size_t digits = 0;

    *ret_fixed = true;
    for (; p < r->end && *p != '}'; p++) {
        if (*p == ',' && *ret_fixed)
            *ret_fixed = false;
        else if (isdigit((unsigned char)*p))
            digits++;
        else
            return 0;
    }
    return p < r->end && digits > 0 ? (size_t)(p + 1 - r->p) : 0;
}

static void quantifier(struct rewriter *r, size_t n, bool fixed)
{
    if (r->p[1] == ',') {
        tr_buf_adds(r->out, "{0");
        tr_buf_add(r->out, r->p + 1, n - 1);
    } else {
        tr_buf_add(r->out, r->p, n);
    }
    r->p += n;
    if (r->p == r->end || (*r->p != '+' && *r->p != '?'))
        return;
    if ((*r->p == '+' || fixed) && tr_buf_reserve(r->out, 3)) {
        memmove(r->out->data + r->item + 3, r->out->data + r->item, r->out->len - r->item);
        memcpy(r->out->data + r->item, "(?:", 3);
        r->out->len += 3;
        tr_buf_addc(r->out, ')');
    }
    copy(r);
}

static int item(struct rewriter *r)
{
    size_t n = 0;
    bool fixed = false;

    switch (*r->p) {
    case '*':
    case '+':
    case '?':
    case '|':
        copy(r);
        return TR_OK;
    case '{':
        n = interval(r, &fixed);
        if (n > 0) {
            quantifier(r, n, fixed);
            return TR_OK;
        }
        break;
    case '(':
        return open_group(r);
    case ')':
        if (r->depth == 0)
            return fail(r, ") without (");
        r->item = r->groups[--r->depth];
        copy(r);
        return TR_OK;
    default:
        break;
    }
    r->item = r->out->len;
    if (*r->p == '[')
        return class(r);
    if (*r->p == '\\') {
        r->p++;
        return escape(r);
    }
    if (*r->p == '{')
        tr_buf_addc(r->out, '\\');
    copy(r);
    return TR_OK;
}

int tr_regex_rewrite(const char *regex, size_t n, struct tr_buf *out, struct tr_err *err)
{
    struct rewriter r = {.p = regex, .end = regex + n, .out = out, .item = out->len, .err = err};

    if (!tr_utf8_valid(regex, n))
        return fail(&r, "a byte that is no UTF-8");
    while (r.p < r.end) {
        int code = item(&r);

        if (code)
            return code;
    }
    return out->oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : TR_OK;
}
