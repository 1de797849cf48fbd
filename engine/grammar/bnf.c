/*
 * GBNF, llama-server's notation, and the EBNF of vLLM's users: `name ::= alternatives`, strings,
 * classes, groups, repetitions, `#` comments. A rule ends where the next `name ::=` begins, so line
 * ends are white space; EBNF also has strings in single quotes; <text> is the control token of that
 * text. Left recursion, look-ahead and tokens by number are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/compile.h"
#include "engine/grammar/expr.h"
#include "engine/grammar/vocab.h"
#include "engine/text/unicode.h"

enum { REPEAT_MAX = 1000000, MAX_RULES = 20000 };

struct bnf_name {
    const char *text;
    size_t n, at; /* where it was met first */
    uint32_t rule;
    uint32_t expr; /* 0 = not defined yet */
};

struct bnf_parser {
    struct tr__exprs x;
    const char *text;
    size_t n, at;
    int depth;
    bool single_quotes;
    struct bnf_name *names;
    uint32_t n_names, names_cap;
    uint32_t *table; /* indexes into names + 1 */
    uint32_t table_cap;
};

static uint32_t parse_alternatives(struct bnf_parser *p);

static uint32_t fail(struct bnf_parser *p, int code, const char *what)
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < p->at && i < p->n; i++) {
        column = p->text[i] == '\n' ? 1 : column + 1;
        line += p->text[i] == '\n';
    }
    return tr__nodes_fail(p->x.b, code, NULL, "grammar: %s at line %zu, column %zu", what, line,
                          column);
}

static bool ok(const struct bnf_parser *p)
{
    return p->x.b->r == 0;
}

static int peek(const struct bnf_parser *p)
{
    return p->at < p->n ? (uint8_t)p->text[p->at] : -1;
}

static void skip_space(struct bnf_parser *p)
{
    int c;

    while ((c = peek(p)) == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '#') {
        if (c == '#')
            while (peek(p) >= 0 && peek(p) != '\n')
                p->at++;
        else
            p->at++;
    }
}

/* ---- names ---- */

static bool is_name(int c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '_';
}

static uint32_t hash_of(const char *s, size_t n)
{
    uint32_t h = 2166136261u;

    while (n-- > 0)
        h = (h ^ (uint8_t)*s++) * 16777619u;
    return h ^ h >> 15;
}

static bool grow_names(struct bnf_parser *p)
{
    uint32_t cap = p->names_cap ? 2 * p->names_cap : 64;
    struct bnf_name *names = realloc(p->names, cap * sizeof(*names));
    uint32_t *table = calloc(2 * (size_t)cap, sizeof(*table));

    p->names = names ? names : p->names;
    if (!names || !table) {
        free(table);
        fail(p, TR_ENOMEM, "out of memory");
        return false;
    }
    p->names_cap = cap;
    free(p->table);
    p->table = table;
    p->table_cap = 2 * cap;
    for (uint32_t i = 0; i < p->n_names; i++) {
        uint32_t at = hash_of(names[i].text, names[i].n) & (p->table_cap - 1);
        while (table[at])
            at = (at + 1) & (p->table_cap - 1);
        table[at] = i + 1;
    }
    return true;
}

/* The index of a name, made if it is met for the first time. */
static uint32_t find_name(struct bnf_parser *p, const char *text, size_t n)
{
    uint32_t at;

    if (p->n_names == p->names_cap && !grow_names(p))
        return 0;
    for (at = hash_of(text, n) & (p->table_cap - 1); p->table[at];
         at = (at + 1) & (p->table_cap - 1)) {
        const struct bnf_name *name = &p->names[p->table[at] - 1];
        if (name->n == n && memcmp(name->text, text, n) == 0)
            return p->table[at] - 1;
    }
    if (p->n_names == MAX_RULES)
        return fail(p, TR_EUNSUPPORTED, "too many rules");
    p->names[p->n_names] = (struct bnf_name){text, n, p->at, tr__rule_new(p->x.b), 0};
    p->table[at] = ++p->n_names;
    return p->n_names - 1;
}

static size_t name_length(const struct bnf_parser *p)
{
    size_t n = 0;

    while (p->at + n < p->n && is_name((uint8_t)p->text[p->at + n]))
        n++;
    return n;
}

/* At `name ::=`. */
static bool at_definition(const struct bnf_parser *p)
{
    struct bnf_parser ahead = *p;

    ahead.at += name_length(p);
    if (ahead.at == p->at)
        return false;
    skip_space(&ahead);
    return ahead.n - ahead.at >= 3 && memcmp(ahead.text + ahead.at, "::=", 3) == 0;
}

/* ---- characters ---- */

static uint32_t parse_hex(struct bnf_parser *p, int digits)
{
    uint32_t c = 0;

    for (int i = 0; i < digits; i++, p->at++) {
        int d = peek(p);
        if (d >= '0' && d <= '9')
            c = c * 16 + (uint32_t)(d - '0');
        else if (d >= 0 && (d | 32) >= 'a' && (d | 32) <= 'f')
            c = c * 16 + (uint32_t)((d | 32) - 'a' + 10);
        else
            return fail(p, TR_EINVAL, "bad escape");
    }
    if (c > TR__LAST_CHAR)
        return fail(p, TR_EINVAL, "no such character");
    return c;
}

static uint32_t parse_char(struct bnf_parser *p)
{
    static const char from[] = "tnrfvb0", to[] = "\t\n\r\f\v\b";
    const char *known;
    size_t k;
    uint32_t c = tr_utf8_at(p->text + p->at, &k);

    p->at += k;
    if (c != '\\')
        return c;
    if (p->at == p->n)
        return fail(p, TR_EINVAL, "nothing behind \\");
    c = tr_utf8_at(p->text + p->at, &k);
    p->at += k;
    if (c == 'x' || c == 'u' || c == 'U')
        return parse_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (c < 0x80 && c && (known = strchr(from, (int)c)))
        return (uint8_t)to[known - from];
    if (c < 0x80 && is_name((int)c) && c != '-' && c != '_')
        return fail(p, TR_EINVAL, "unknown escape");
    return c;
}

static uint32_t parse_string(struct bnf_parser *p, int quote)
{
    uint32_t list = 0;

    p->at++;
    while (ok(p) && peek(p) != quote) {
        if (peek(p) < 0 || peek(p) == '\n')
            return fail(p, TR_EINVAL, "string without end");
        uint32_t c = parse_char(p);
        if (c >= 0xD800 && c < 0xE000)
            return fail(p, TR_EINVAL, "no such character");
        tr__expr_append(&p->x, &list, tr__expr_char(&p->x, c, c));
    }
    p->at++;
    return tr__expr_close(&p->x, TR__EXPR_SEQ, list);
}

static uint32_t parse_class(struct bnf_parser *p)
{
    struct tr__set s = {0};
    bool inverted = false;
    uint32_t e;

    p->at++;
    if (peek(p) == '^') {
        inverted = true;
        p->at++;
    }
    while (ok(p) && peek(p) != ']') {
        if (peek(p) < 0) {
            fail(p, TR_EINVAL, "[ without ]");
            break;
        }
        uint32_t lo = parse_char(p), hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
            p->at++;
            hi = parse_char(p);
        }
        if (hi < lo)
            fail(p, TR_EINVAL, "range out of order");
        tr__set_add(p->x.b, &s, lo, hi);
    }
    p->at++;
    tr__set_tidy(p->x.b, &s);
    if (inverted)
        tr__set_invert(p->x.b, &s);
    e = ok(p) ? tr__expr_set(&p->x, &s) : 0;
    tr__set_done(&s);
    return e;
}

/* ---- expressions ---- */

static uint32_t parse_group(struct bnf_parser *p)
{
    uint32_t e;

    p->at++;
    if (peek(p) == '=' || peek(p) == '!')
        return fail(p, TR_EUNSUPPORTED, "look-ahead is not supported");
    if (++p->depth > TR__MAX_NESTING)
        return fail(p, TR_EUNSUPPORTED, "groups are nested too deeply");
    e = parse_alternatives(p);
    p->depth--;
    if (ok(p) && peek(p) != ')')
        return fail(p, TR_EINVAL, "( without )");
    p->at++;
    return e;
}

/* A control token by its text: a rule, for its mark is no character. */
static uint32_t parse_token(struct bnf_parser *p)
{
    struct tr__nodes *b = p->x.b;
    const char *text = p->text + p->at, *end = memchr(text, '>', p->n - p->at);

    if (!end || end == text + 1)
        return fail(p, TR_EINVAL, "< without >");
    if (text[1] == '[')
        return fail(p, TR_EUNSUPPORTED, "tokens by number are not supported");
    p->at += (size_t)(end - text) + 1;
    uint32_t rule = tr__rule_new(b), outer = tr__rule_enter(b, rule), start;
    start = tr__byte(b, TR__CONTROL, TR__CONTROL, 0,
                     tr__text(b, text, (size_t)(end - text) + 1, tr__match(b)));
    tr__rule_enter(b, outer);
    if (!ok(p))
        return 0;
    b->rules[rule].start = start;
    return tr__expr_call(&p->x, rule);
}

static uint32_t parse_atom(struct bnf_parser *p)
{
    int c = peek(p);
    size_t n;

    if (c == '"' || (c == '\'' && p->single_quotes))
        return parse_string(p, c);
    if (c == '[')
        return parse_class(p);
    if (c == '(')
        return parse_group(p);
    if (c == '.') {
        struct tr__range all[] = {{0, 0xD7FF}, {0xE000, TR__LAST_CHAR}};
        p->at++;
        return tr__expr_set(&p->x, &(struct tr__set){all, 2, 2});
    }
    if (c == '<')
        return parse_token(p);
    if (c == '!' && p->at + 1 < p->n && p->text[p->at + 1] == '<')
        return fail(p, TR_EUNSUPPORTED, "all tokens but one are not supported");
    n = name_length(p);
    if (n == 0)
        return fail(p, TR_EINVAL, "unexpected character");
    uint32_t name = find_name(p, p->text + p->at, n);
    p->at += n;
    return ok(p) ? tr__expr_call(&p->x, p->names[name].rule) : 0;
}

static bool parse_number(struct bnf_parser *p, uint32_t *ret)
{
    size_t begin = p->at;
    uint32_t n = 0;

    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        n = TR_MIN(n * 10 + (uint32_t)(peek(p) - '0'), (uint32_t)REPEAT_MAX + 1);
    *ret = n;
    return p->at > begin;
}

static void parse_bounds(struct bnf_parser *p, uint32_t *min, uint32_t *max)
{
    p->at++;
    skip_space(p);
    bool given = parse_number(p, min);
    skip_space(p);
    *max = *min;
    if (peek(p) == ',') {
        p->at++;
        skip_space(p);
        if (!parse_number(p, max))
            *max = TR__NO_LIMIT;
        skip_space(p);
    } else if (!given) {
        fail(p, TR_EINVAL, "bad repetition");
    }
    if (peek(p) != '}')
        fail(p, TR_EINVAL, "{ without }");
    p->at++;
    if (*min > *max)
        fail(p, TR_EINVAL, "repetition out of order");
    if (*min > REPEAT_MAX || (*max > REPEAT_MAX && *max != TR__NO_LIMIT))
        fail(p, TR_EUNSUPPORTED, "repetition beyond a million");
}

static uint32_t parse_repeated(struct bnf_parser *p)
{
    uint32_t e = parse_atom(p), min, max;
    int c, times = 0;

    for (;;) {
        if (!ok(p))
            return 0;
        skip_space(p);
        c = peek(p);
        min = c == '+';
        max = c == '?' ? 1 : TR__NO_LIMIT;
        if (c == '{')
            parse_bounds(p, &min, &max);
        else if (c == '*' || c == '+' || c == '?')
            p->at++;
        else
            return e;
        if (++times > TR__MAX_NESTING)
            return fail(p, TR_EUNSUPPORTED, "repetitions are nested too deeply");
        e = tr__expr_repeat(&p->x, e, min, max);
    }
}

static uint32_t parse_alternatives(struct bnf_parser *p)
{
    uint32_t alternatives = 0, members = 0;

    for (;;) {
        skip_space(p);
        int c = peek(p);
        if (ok(p) && c >= 0 && c != '|' && c != ')' && !at_definition(p)) {
            tr__expr_append(&p->x, &members, parse_repeated(p));
            continue;
        }
        tr__expr_append(&p->x, &alternatives, tr__expr_close(&p->x, TR__EXPR_SEQ, members));
        members = 0;
        if (!ok(p) || c != '|')
            return tr__expr_close(&p->x, TR__EXPR_ALT, alternatives);
        p->at++;
    }
}

/* ---- rules ---- */

static void parse_rules(struct bnf_parser *p)
{
    for (skip_space(p); ok(p) && peek(p) >= 0; skip_space(p)) {
        size_t n = name_length(p);
        if (n == 0 || !at_definition(p)) {
            fail(p, TR_EINVAL, "`name ::=` expected");
            return;
        }
        uint32_t name = find_name(p, p->text + p->at, n);
        if (ok(p) && p->names[name].expr)
            fail(p, TR_EINVAL, "a rule is defined twice");
        p->at += n;
        skip_space(p);
        p->at += 3;
        uint32_t e = parse_alternatives(p);
        if (!ok(p))
            return;
        p->names[name].expr = e;
        if (peek(p) == ')')
            fail(p, TR_EINVAL, ") without (");
    }
}

static void emit_rules(struct bnf_parser *p, uint32_t n_parts)
{
    struct tr__nodes *b = p->x.b;

    for (uint32_t i = 0; i < p->n_names && ok(p); i++) {
        struct bnf_name *name = &p->names[i];
        if (name->expr == 0) {
            p->at = name->at;
            tr__nodes_fail(b, TR_EINVAL, NULL, "grammar: rule \"%.*s\" is not defined",
                           (int)TR_MIN(name->n, 64u), name->text);
            return;
        }
        tr__rule_enter(b, name->rule);
        if (i >= n_parts) {
            b->rules[name->rule].name = name->text;
            b->rules[name->rule].name_bytes = (uint32_t)name->n;
        }
        uint32_t start = tr__emit(&p->x, name->expr, TR__SPELL_RAW, false, tr__match(b));
        if (ok(p))
            b->rules[name->rule].start = start;
    }
}

struct part_name {
    char text[16];
};

/* The parts are the first names, with rules of their own. */
static void take_parts(struct bnf_parser *p, const struct tr_grammar_source *source,
                       struct part_name *names, uint32_t n)
{
    for (uint32_t i = 0; i < n && ok(p); i++) {
        snprintf(names[i].text, sizeof(names[i].text), "part-%u", i);
        find_name(p, names[i].text, strlen(names[i].text));
        uint32_t rule = ok(p) ? tr__compile_part(p->x.b, &source->parts[i]) : 0;
        if (ok(p))
            p->names[i].expr = tr__expr_call(&p->x, rule);
    }
}

uint32_t tr__compile_bnf(struct tr__nodes *b, const struct tr_grammar_source *source)
{
    struct bnf_parser p = {.text = source->text.bytes, .n = source->text.n};
    uint32_t root = 0, n_parts = source->n_parts > 0 ? (uint32_t)source->n_parts : 0;
    struct part_name *part_names = calloc(n_parts + 1, sizeof(*part_names));

    tr__exprs_init(&p.x, b);
    p.single_quotes = source->kind == TR_GRAMMAR_EBNF;
    if (!part_names)
        fail(&p, TR_ENOMEM, "out of memory");
    else
        take_parts(&p, source, part_names, n_parts);
    parse_rules(&p);
    if (ok(&p))
        root = find_name(&p, "root", 4);
    if (ok(&p) && p.names[root].expr == 0)
        tr__nodes_fail(b, TR_EINVAL, NULL, "grammar: there is no rule \"root\"");
    emit_rules(&p, n_parts);
    root = ok(&p) ? p.names[root].rule : 0;
    tr__exprs_done(&p.x);
    free(p.names);
    free(part_names);
    free(p.table);
    return root;
}
