/*
 * Source to tokens, with the white-space rules of trim_blocks and lstrip_blocks.
 *
 * A text piece ends at the next {{, {% or {#. If the tag has a minus, all white space before it
 * goes; else, before {% and {# without a plus, the blanks go that stand alone between the line's
 * start and the tag. After %} and #} one newline goes, after -%}, -}} and -#} all white space.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/template/ast.h"
#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"

struct lexer {
    struct tpl_vm *vm;
    const char *s;
    size_t n, at;
    bool line_start; /* what was consumed last ended with a newline, or nothing was consumed yet */
    char brackets[TPL_MAX_NESTING];
    int n_brackets;
    struct tpl_token *tokens;
    size_t n_tokens, cap_tokens;
    size_t seen; /* line and column were counted up to here */
    uint32_t line, column;
};

/* Moves the line and column to byte `to`, which never goes back. */
static void locate(struct lexer *x, size_t to)
{
    for (; x->seen < to; x->seen++) {
        if (x->s[x->seen] == '\n') {
            x->line++;
            x->column = 1;
        } else {
            x->column += ((unsigned char)x->s[x->seen] & 0xc0) != 0x80;
        }
    }
    x->vm->line = x->line;
    x->vm->column = x->column;
}

static struct tpl_token *add(struct lexer *x, enum tpl_token_type type, size_t at)
{
    if (x->n_tokens == x->cap_tokens) {
        size_t cap = x->cap_tokens ? 2 * x->cap_tokens : 256;
        struct tpl_token *grown = tr_tpl_alloc_n(x->vm, cap, sizeof *grown);
        if (x->n_tokens)
            memcpy(grown, x->tokens, x->n_tokens * sizeof *grown);
        x->tokens = grown;
        x->cap_tokens = cap;
    }
    locate(x, at);
    struct tpl_token *token = &x->tokens[x->n_tokens++];
    *token = (struct tpl_token){.type = (uint8_t)type, .line = x->line, .column = x->column};
    return token;
}

static bool starts(const struct lexer *x, size_t at, const char *with)
{
    size_t n = strlen(with);
    return x->n - at >= n && memcmp(x->s + at, with, n) == 0;
}

/* The end of the white space that starts at `at`. */
static size_t skip_space(const struct lexer *x, size_t at)
{
    size_t n;
    while (at < x->n && tr_uni_space(tr_uni_decode(x->s + at, &n)))
        at += n;
    return at;
}

/* The start of the white space that ends at `to`. */
static size_t space_before(const struct lexer *x, size_t from, size_t to)
{
    while (to > from) {
        size_t n, last = from + tr_uni_last(x->s + from, to - from);
        if (!tr_uni_space(tr_uni_decode(x->s + last, &n)))
            break;
        to = last;
    }
    return to;
}

static void consume(struct lexer *x, size_t to)
{
    if (to > x->at)
        x->line_start = x->s[to - 1] == '\n';
    x->at = to;
}

/* Adds the text before a tag, stripped as the tag's sign wants it. */
static void text(struct lexer *x, size_t to, char sign, bool may_lstrip)
{
    size_t from = x->at, end = to;
    if (sign == '-') {
        end = space_before(x, from, to);
    } else if (sign != '+' && may_lstrip) {
        const char *newline = memrchr(x->s + from, '\n', to - from);
        size_t line = newline ? (size_t)(newline - x->s) + 1 : from;
        if ((newline || x->line_start) && space_before(x, line, to) == line)
            end = line;
    }
    if (end > from) {
        struct tpl_token *token = add(x, TPL_T_TEXT, from);
        token->value = tr_tpl_str(x->vm, x->s + from, end - from, TPL_TEMPLATE);
        tr_tpl_chars(token->value.u.str);
    }
}

/* Past a closing tag that starts at `at` with an optional sign; 0 if there is none. */
static size_t closing(const struct lexer *x, size_t at, const char *tag, bool block)
{
    bool minus = starts(x, at, "-") && starts(x, at + 1, tag);
    if (minus)
        return skip_space(x, at + 1 + strlen(tag));
    if (block && starts(x, at, "+") && starts(x, at + 1, tag))
        return at + 1 + strlen(tag);
    if (!starts(x, at, tag))
        return 0;
    at += strlen(tag);
    return at + (block && at < x->n && x->s[at] == '\n');
}

static void comment(struct lexer *x, size_t begin, size_t at)
{
    for (; at < x->n; at++) {
        size_t end = closing(x, at, "#}", true);
        if (end) {
            consume(x, end);
            return;
        }
    }
    locate(x, begin);
    tr_tpl_fail(x->vm, "Missing end of comment tag");
}

/* If the block tag at `at` (past its sign) says raw: the end of that tag, else 0. */
static size_t raw_begin(const struct lexer *x, size_t at)
{
    at = skip_space(x, at);
    if (!starts(x, at, "raw"))
        return 0;
    at = skip_space(x, at + 3);
    if (starts(x, at, "-%}"))
        return skip_space(x, at + 3);
    return starts(x, at, "%}") ? at + 2 : 0;
}

static void raw(struct lexer *x, size_t begin, size_t at)
{
    x->at = at;
    x->line_start = x->s[at - 1] == '\n';
    for (; at < x->n; at++) {
        if (!starts(x, at, "{%"))
            continue;
        size_t after = at + 2;
        char sign = after < x->n && strchr("-+", x->s[after]) && x->s[after] ? x->s[after] : 0;
        after = skip_space(x, after + (sign != 0));
        if (!starts(x, after, "endraw"))
            continue;
        size_t end = closing(x, skip_space(x, after + 6), "%}", true);
        if (!end)
            continue;
        text(x, at, sign, true);
        consume(x, end);
        return;
    }
    locate(x, begin);
    tr_tpl_fail(x->vm, "Missing end of raw directive");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The end of digits that may have single underscores between them; `at` if there are none. */
static size_t digits(const struct lexer *x, size_t at)
{
    if (at >= x->n || !is_digit(x->s[at]))
        return at;
    while (at < x->n &&
           (is_digit(x->s[at]) || (x->s[at] == '_' && at + 1 < x->n && is_digit(x->s[at + 1]))))
        at++;
    return at;
}

static size_t float_end(const struct lexer *x, size_t at)
{
    size_t whole = digits(x, at), end = whole;
    bool fraction = false;
    if (end < x->n && x->s[end] == '.') {
        size_t after = digits(x, end + 1);
        fraction = after > end + 1;
        end = fraction ? after : end;
    }
    if (end < x->n && (x->s[end] == 'e' || x->s[end] == 'E')) {
        size_t sign = end + 1;
        sign += sign < x->n && (x->s[sign] == '+' || x->s[sign] == '-');
        size_t after = digits(x, sign);
        if (after > sign)
            return after;
    }
    return fraction ? end : 0;
}

static size_t int_end(const struct lexer *x, size_t at)
{
    static const struct {
        const char *prefix[2], *digits;
    } bases[] = {
        {{"0b", "0B"}, "01"}, {{"0o", "0O"}, "01234567"}, {{"0x", "0X"}, "0123456789abcdefABCDEF"}};
    for (size_t i = 0; i < TR_ARRAY_LEN(bases); i++) {
        if (!starts(x, at, bases[i].prefix[0]) && !starts(x, at, bases[i].prefix[1]))
            continue;
        size_t end = at + 2;
        for (;;) {
            size_t d = end + (end < x->n && x->s[end] == '_');
            if (d >= x->n || !x->s[d] || !strchr(bases[i].digits, x->s[d]))
                break;
            end = d + 1;
        }
        if (end > at + 2)
            return end;
    }
    size_t end = digits(x, at);
    if (x->s[at] == '0') /* a zero takes only zeros */
        for (end = at + 1; end < x->n && (x->s[end] == '0' || (x->s[end] == '_' && end + 1 < x->n &&
                                                               x->s[end + 1] == '0'));)
            end++;
    return end;
}

static void number(struct lexer *x)
{
    bool after_dot = x->at > 0 && x->s[x->at - 1] == '.';
    size_t end = after_dot ? 0 : float_end(x, x->at);
    struct tpl_token *token = add(x, end ? TPL_T_FLOAT : TPL_T_INT, x->at);
    if (!end)
        end = int_end(x, x->at);
    const struct tpl_str *s = tr_tpl_str(x->vm, x->s + x->at, end - x->at, TPL_TEMPLATE).u.str;
    if (token->type == TPL_T_FLOAT) {
        token->value.type = TPL_FLOAT;
        tr_tpl_parse_float(x->vm, s, &token->value.u.f);
    } else {
        token->value.type = TPL_INT;
        tr_tpl_parse_int(x->vm, s, 0, &token->value.u.i);
    }
    consume(x, end);
}

static bool name_char(uint32_t c, bool first)
{
    if (c < 0x80)
        return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (!first && c >= '0' && c <= '9');
    return tr_uni_alpha(c) || (!first && tr_uni_decimal(c));
}

static bool name(struct lexer *x)
{
    size_t end = x->at, n;
    while (end < x->n && name_char(tr_uni_decode(x->s + end, &n), end == x->at))
        end += n;
    if (end == x->at)
        return false;
    struct tpl_token *token = add(x, TPL_T_NAME, x->at);
    token->value = tr_tpl_str(x->vm, x->s + x->at, end - x->at, TPL_TEMPLATE);
    tr_tpl_chars(token->value.u.str);
    consume(x, end);
    return true;
}

/* The value of n_digits hexadecimal digits at `at`; fails if they are not there. */
static uint32_t hex(struct lexer *x, size_t at, size_t end, size_t n_digits)
{
    char text[9] = {0};
    if (end - at < n_digits)
        tr_tpl_fail(x->vm, "truncated escape in string");
    memcpy(text, x->s + at, n_digits);
    if (strspn(text, "0123456789abcdefABCDEF") != n_digits)
        tr_tpl_fail(x->vm, "truncated escape in string");
    unsigned long c = strtoul(text, NULL, 16);
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        tr_tpl_fail(x->vm, "escape in string is not a character");
    return (uint32_t)c;
}

/* Puts what the escape at s[at] (past the backslash) stands for, returns where it ends. */
static size_t escape(struct lexer *x, size_t at, size_t end)
{
    static const char names[] = "ntr\\'\"abfv", values[] = "\n\t\r\\'\"\a\b\f\v";
    unsigned char c = (unsigned char)x->s[at];
    if (c == '\n')
        return at + 1;
    const char *named = c ? strchr(names, c) : NULL;
    if (named) {
        tr_tpl_put(x->vm, &values[named - names], 1, TPL_TEMPLATE);
        return at + 1;
    }
    if (c >= '0' && c <= '7') {
        uint32_t octal = 0;
        size_t stop = TR_MIN(end, at + 3);
        for (; at < stop && x->s[at] >= '0' && x->s[at] <= '7'; at++)
            octal = octal * 8 + (uint32_t)(x->s[at] - '0');
        tr_tpl_put_char(x->vm, octal, TPL_TEMPLATE);
        return at;
    }
    size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_digits) {
        tr_tpl_put_char(x->vm, hex(x, at + 1, end, n_digits), TPL_TEMPLATE);
        return at + 1 + n_digits;
    }
    if (c == 'N')
        tr_tpl_fail(x->vm, "\\N escapes are not supported");
    tr_tpl_put(x->vm, "\\", 1, TPL_TEMPLATE);
    if (c < 0x80)
        return at;
    /* Jinja turns non-ASCII characters into escapes first, whose backslash is then taken. */
    char text[12];
    size_t n;
    uint32_t wide = tr_uni_decode(x->s + at, &n);
    snprintf(text, sizeof text,
             wide < 0x100     ? "x%02x"
             : wide < 0x10000 ? "u%04x"
                              : "U%08x",
             (unsigned)wide);
    tr_tpl_puts(x->vm, text, TPL_TEMPLATE);
    return at + n;
}

static void string(struct lexer *x)
{
    size_t begin = x->at + 1, end = begin;
    while (end < x->n && x->s[end] != x->s[x->at])
        end += x->s[end] == '\\' ? 2 : 1;
    struct tpl_token *token = add(x, TPL_T_STRING, x->at);
    if (end >= x->n)
        tr_tpl_fail(x->vm, "string without end");
    size_t mark = x->vm->text.len;
    for (size_t at = begin; at < end;) {
        const char *slash = memchr(x->s + at, '\\', end - at);
        size_t stop = slash ? (size_t)(slash - x->s) : end;
        tr_tpl_put(x->vm, x->s + at, stop - at, TPL_TEMPLATE);
        at = slash ? escape(x, stop + 1, end) : end;
    }
    token->value = tr_tpl_cut(x->vm, mark);
    tr_tpl_chars(token->value.u.str);
    consume(x, end + 1);
}

static void bracket(struct lexer *x, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *opens = strchr(open, c), *closes = strchr(close, c);
    if (opens) {
        if (x->n_brackets == TPL_MAX_NESTING)
            tr_tpl_fail(x->vm, "brackets nested deeper than %d", TPL_MAX_NESTING);
        x->brackets[x->n_brackets++] = close[opens - open];
    } else if (closes) {
        if (x->n_brackets == 0)
            tr_tpl_fail(x->vm, "unexpected '%c'", c);
        if (x->brackets[--x->n_brackets] != c)
            tr_tpl_fail(x->vm, "unexpected '%c', expected '%c'", c, x->brackets[x->n_brackets]);
    }
}

static void operator(struct lexer *x)
{
    static const struct {
        char text[3], op;
    } pairs[] = {{"//", 'f'}, {"**", 'p'}, {"==", 'e'}, {"!=", 'n'}, {"<=", 'l'}, {">=", 'g'}};
    for (size_t i = 0; i < TR_ARRAY_LEN(pairs); i++) {
        if (starts(x, x->at, pairs[i].text)) {
            add(x, TPL_T_OPERATOR, x->at)->op = pairs[i].op;
            consume(x, x->at + 2);
            return;
        }
    }
    char c = x->s[x->at];
    locate(x, x->at);
    if (!c || !strchr("+-*/%~[](){}<>=.:|,;", c))
        tr_tpl_fail(x->vm, c > 0x20 && c < 0x7f ? "unexpected char '%c'" : "unexpected char", c);
    bracket(x, c);
    add(x, TPL_T_OPERATOR, x->at)->op = c;
    consume(x, x->at + 1);
}

/* The inside of {{ }} or {% %}. */
static void tag(struct lexer *x, bool block)
{
    while (x->at < x->n) {
        size_t end = x->n_brackets ? 0 : closing(x, x->at, block ? "%}" : "}}", block);
        if (end) {
            add(x, block ? TPL_T_BLOCK_END : TPL_T_PRINT_END, x->at);
            consume(x, end);
            return;
        }
        char c = x->s[x->at];
        size_t space = skip_space(x, x->at);
        if (space > x->at)
            consume(x, space);
        else if (is_digit(c))
            number(x);
        else if (c == '\'' || c == '"')
            string(x);
        else if (!name(x))
            operator(x);
    }
}

/* The next opening tag from `at` on; n if there is none. */
static size_t next_tag(const struct lexer *x, size_t at)
{
    for (; at + 1 < x->n; at++) {
        const char *brace = memchr(x->s + at, '{', x->n - at - 1);
        if (!brace)
            break;
        at = (size_t)(brace - x->s);
        if (x->s[at + 1] == '{' || x->s[at + 1] == '%' || x->s[at + 1] == '#')
            return at;
    }
    return x->n;
}

struct tpl_token *tr_tpl_lex(struct tpl_vm *vm, const char *source, size_t n)
{
    struct lexer x = {.vm = vm, .s = source, .n = n, .line_start = true, .line = 1, .column = 1};
    while (x.at < n) {
        size_t begin = next_tag(&x, x.at);
        if (begin == n) {
            text(&x, n, '+', false);
            break;
        }
        char kind = source[begin + 1];
        size_t inside = begin + 2;
        char sign =
            inside < n && (source[inside] == '-' || source[inside] == '+') ? source[inside] : 0;
        inside += sign != 0;
        text(&x, begin, sign, kind != '{');
        if (kind == '#') {
            comment(&x, begin, inside);
            continue;
        }
        size_t raw_text = kind == '%' ? raw_begin(&x, inside) : 0;
        if (raw_text) {
            raw(&x, begin, raw_text);
            continue;
        }
        add(&x, kind == '%' ? TPL_T_BLOCK_BEGIN : TPL_T_PRINT_BEGIN, begin);
        consume(&x, inside);
        tag(&x, kind == '%');
    }
    add(&x, TPL_T_EOF, n);
    vm->line = vm->column = 0;
    return x.tokens;
}
