#include "config/option_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/json.h"

const struct tr_option tr_option_rows[TR_OPTION_COUNT] = {
#define X(type, name, preset, words, min, max, commands, flags, help)                              \
    {#name,                                                                                        \
     TR_OPTION_##type,                                                                             \
     offsetof(struct tr_options, name),                                                            \
     preset,                                                                                       \
     words,                                                                                        \
     min,                                                                                          \
     max,                                                                                          \
     commands,                                                                                     \
     flags,                                                                                        \
     help},
    TR_OPTION_MAP(X)
#undef X
};

struct unit {
    const char *name;
    double factor;
};
/* A bare number is the first unit. */
static const struct unit size_units[] = {
    {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
static const struct unit duration_units[] = {{"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}};

static void *field(const struct tr_option *row, struct tr_options *o)
{
    return (char *)o + row->offset;
}

static const void *const_field(const struct tr_option *row, const struct tr_options *o)
{
    return (const char *)o + row->offset;
}

/* Index of text among "a|b|c"; -1. */
static int find_word(const char *words, const char *text)
{
    size_t n = strlen(text);
    for (int i = 0; words; i++) {
        const char *end = strchrnul(words, '|');
        if ((size_t)(end - words) == n && memcmp(words, text, n) == 0)
            return i;
        words = *end ? end + 1 : NULL;
    }
    return -1;
}

/* The i-th word; *ret_n is its length. */
static const char *word_at(const char *words, int i, size_t *ret_n)
{
    while (i-- > 0)
        words = strchrnul(words, '|') + 1;
    *ret_n = (size_t)(strchrnul(words, '|') - words);
    return words;
}

/* A decimal number and the unit behind it. */
static bool parse_number(const char *text, const struct unit *units, size_t n_units, double *ret)
{
    /* strtod would take blanks, hexadecimal, "inf" and "nan". */
    if (strspn(text, "-.0123456789") == 0 || strpbrk(text, "xX"))
        return false;
    char *end;
    double v = strtod(text, &end);
    if (end == text || !isfinite(v))
        return false;
    if (*end == '\0') {
        *ret = n_units ? v * units[0].factor : v;
        return true;
    }
    for (size_t i = 0; i < n_units; i++)
        if (strcmp(end, units[i].name) == 0) {
            *ret = v * units[i].factor;
            return true;
        }
    return false;
}

static bool parse_bounded(const struct tr_option *row, const char *text, double *ret)
{
    double v = 0;
    bool ok = true;
    if (row->words && strcmp(text, row->words) == 0) {
        *ret = 0;
        return true;
    }
    if (row->type == TR_OPTION_SIZE)
        ok = parse_number(text, size_units, TR_ARRAY_LEN(size_units), &v);
    else if (row->type == TR_OPTION_DURATION)
        ok = parse_number(text, duration_units, TR_ARRAY_LEN(duration_units), &v);
    else
        ok = parse_number(text, NULL, 0, &v);
    if (!ok || (row->type != TR_OPTION_REAL && v != floor(v)))
        return false;
    if (!(v >= row->min && v <= row->max) && !(v == 0 && row->words))
        return false;
    *ret = v;
    return true;
}

static int list_add(struct tr_strings *list, const char *s, size_t n)
{
    char **items = reallocarray(list->items, list->n + 1, sizeof *items);
    if (!items)
        return TR_ENOMEM;
    list->items = items;
    items[list->n] = strndup(s, n);
    if (!items[list->n])
        return TR_ENOMEM;
    list->n++;
    return 0;
}

/* 0, TR_ENOMEM, or TR_ECONFIG for an empty item. */
static int list_add_all(struct tr_strings *list, const char *text)
{
    for (;;) {
        size_t n = strcspn(text, ",");
        if (n == 0)
            return TR_ECONFIG;
        int r = list_add(list, text, n);
        if (r < 0 || text[n] == '\0')
            return r;
        text += n + 1;
    }
}

/* As tr_option_set, without words. */
static int set_field(const struct tr_option *row, struct tr_options *o, const char *text)
{
    void *p = field(row, o);
    double v = 0;
    int i;
    switch (row->type) {
    case TR_OPTION_BOOL:
        i = find_word("false|true", text);
        if (i < 0)
            return TR_ECONFIG;
        *(bool *)p = i == 1;
        return 0;
    case TR_OPTION_CHOICE:
        i = find_word(row->words, text);
        if (i < 0)
            return TR_ECONFIG;
        *(int *)p = i;
        return 0;
    case TR_OPTION_STRING:
        if (*text == '\0')
            return TR_ECONFIG;
        tr_option_clear(row, o);
        *(char **)p = strdup(text);
        return *(char **)p ? 0 : TR_ENOMEM;
    case TR_OPTION_LIST:
        return list_add_all(p, text);
    case TR_OPTION_INT:
    case TR_OPTION_SIZE:
    case TR_OPTION_DURATION:
    case TR_OPTION_REAL:
    default:
        break;
    }
    if (!parse_bounded(row, text, &v))
        return TR_ECONFIG;
    if (row->type == TR_OPTION_INT)
        *(int *)p = (int)v;
    else if (row->type == TR_OPTION_SIZE)
        *(uint64_t *)p = (uint64_t)v;
    else if (row->type == TR_OPTION_DURATION)
        *(int64_t *)p = (int64_t)v;
    else
        *(double *)p = v;
    return 0;
}

int tr_option_set(const struct tr_option *row, struct tr_options *o, const char *text,
                  struct tr_err *err)
{
    int r = set_field(row, o, text);
    if (r == TR_ENOMEM)
        return tr_err_set(err, TR_ENOMEM, row->name, "out of memory");
    if (r < 0) {
        struct tr_buf want = {0};
        tr_option_expected(row, &want);
        tr_err_set(err, r, row->name, "%s: expected %s", row->name, want.oom ? "" : want.data);
        tr_buf_done(&want);
    }
    return r;
}

void tr_option_clear(const struct tr_option *row, struct tr_options *o)
{
    if (row->type == TR_OPTION_STRING) {
        char **p = field(row, o);
        free(*p);
        *p = NULL;
    } else if (row->type == TR_OPTION_LIST) {
        struct tr_strings *list = field(row, o);
        for (size_t i = 0; i < list->n; i++)
            free(list->items[i]);
        free(list->items);
        *list = (struct tr_strings){0};
    }
}

/* Bytes of a field that owns nothing. */
static size_t plain_bytes(const struct tr_option *row)
{
    switch (row->type) {
    case TR_OPTION_BOOL:
        return sizeof(bool);
    case TR_OPTION_INT:
    case TR_OPTION_CHOICE:
        return sizeof(int);
    case TR_OPTION_SIZE:
    case TR_OPTION_DURATION:
    case TR_OPTION_REAL:
    case TR_OPTION_STRING:
    case TR_OPTION_LIST:
    default:
        return 8;
    }
}

int tr_option_copy(const struct tr_option *row, struct tr_options *dst,
                   const struct tr_options *src)
{
    tr_option_clear(row, dst);
    if (row->type == TR_OPTION_STRING) {
        char *const *from = const_field(row, src);
        char **to = field(row, dst);
        return !*from || (*to = strdup(*from)) ? 0 : TR_ENOMEM;
    }
    if (row->type == TR_OPTION_LIST) {
        const struct tr_strings *list = const_field(row, src);
        int r = 0;
        for (size_t i = 0; i < list->n && r == 0; i++)
            r = list_add(field(row, dst), list->items[i], strlen(list->items[i]));
        return r;
    }
    memcpy(field(row, dst), const_field(row, src), plain_bytes(row));
    return 0;
}

bool tr_option_equal(const struct tr_option *row, const struct tr_options *a,
                     const struct tr_options *b)
{
    if (row->type == TR_OPTION_STRING) {
        const char *s = *(char *const *)const_field(row, a);
        const char *t = *(char *const *)const_field(row, b);
        return s && t ? strcmp(s, t) == 0 : s == t;
    }
    if (row->type == TR_OPTION_LIST) {
        const struct tr_strings *s = const_field(row, a);
        const struct tr_strings *t = const_field(row, b);
        bool equal = s->n == t->n;
        for (size_t i = 0; i < s->n && equal; i++)
            equal = strcmp(s->items[i], t->items[i]) == 0;
        return equal;
    }
    return memcmp(const_field(row, a), const_field(row, b), plain_bytes(row)) == 0;
}

static void add_string(const struct tr_option *row, const char *s, struct tr_buf *out)
{
    if (row->flags & TR_SECRET)
        s = "(secret)";
    tr_json_quote(out, s, strlen(s));
}

/* The largest unit that keeps a size whole. */
static const struct unit *size_unit(double v)
{
    size_t u = TR_ARRAY_LEN(size_units) - 1;
    while (u > 0 && fmod(v, size_units[u].factor) != 0)
        u--;
    return &size_units[u];
}

/* 0 as its word; sizes and durations with their unit, in quotes. */
static void add_number(const struct tr_option *row, double v, struct tr_buf *out)
{
    const struct unit *u = size_unit(v);
    if (v == 0 && row->words)
        tr_buf_addf(out, "\"%s\"", row->words);
    else if (row->type == TR_OPTION_SIZE)
        tr_buf_addf(out, "\"%.0f%s\"", v / u->factor, u->name);
    else if (row->type == TR_OPTION_DURATION && fmod(v, 1000) != 0)
        tr_buf_addf(out, "\"%.0fms\"", v);
    else if (row->type == TR_OPTION_DURATION)
        tr_buf_addf(out, "\"%.0fs\"", v / 1000);
    else
        tr_buf_addf(out, "%.17g", v);
}

void tr_option_json(const struct tr_option *row, const struct tr_options *o, struct tr_buf *out)
{
    const void *p = const_field(row, o);
    const struct tr_strings *list = p;
    const char *s;
    size_t n;
    switch (row->type) {
    case TR_OPTION_BOOL:
        tr_buf_adds(out, *(const bool *)p ? "true" : "false");
        return;
    case TR_OPTION_INT:
        add_number(row, *(const int *)p, out);
        return;
    case TR_OPTION_SIZE:
        add_number(row, (double)*(const uint64_t *)p, out);
        return;
    case TR_OPTION_DURATION:
        add_number(row, (double)*(const int64_t *)p, out);
        return;
    case TR_OPTION_REAL:
        add_number(row, *(const double *)p, out);
        return;
    case TR_OPTION_CHOICE:
        s = word_at(row->words, *(const int *)p, &n);
        tr_json_quote(out, s, n);
        return;
    case TR_OPTION_LIST:
        tr_buf_addc(out, '[');
        for (size_t i = 0; i < list->n; i++) {
            tr_buf_adds(out, i ? ", " : "");
            add_string(row, list->items[i], out);
        }
        tr_buf_addc(out, ']');
        return;
    case TR_OPTION_STRING:
    default:
        s = *(char *const *)p;
        if (s)
            add_string(row, s, out);
        else
            tr_buf_adds(out, "null");
        return;
    }
}

void tr_option_expected(const struct tr_option *row, struct tr_buf *out)
{
    const struct unit *least, *most;
    switch (row->type) {
    case TR_OPTION_BOOL:
        tr_buf_adds(out, "true or false");
        return;
    case TR_OPTION_STRING:
        tr_buf_adds(out, "a text that is not empty");
        return;
    case TR_OPTION_LIST:
        tr_buf_adds(out, "texts that are not empty, separated by commas");
        return;
    case TR_OPTION_CHOICE:
        tr_buf_adds(out, "one of ");
        for (const char *s = row->words; *s; s++)
            tr_buf_adds(out, *s == '|' ? ", " : (char[]){*s, '\0'});
        return;
    case TR_OPTION_SIZE:
        least = size_unit(row->min);
        most = size_unit(row->max);
        tr_buf_addf(out, "a size from %.0f%s to %.0f%s (units KiB, MiB, GiB, TiB)",
                    row->min / least->factor, least->name, row->max / most->factor, most->name);
        break;
    case TR_OPTION_DURATION:
        tr_buf_addf(out, "a duration from %.0fms to %.0fh (units ms, s, m, h)", row->min,
                    row->max / 3600000);
        break;
    case TR_OPTION_INT:
    case TR_OPTION_REAL:
    default:
        tr_buf_addf(out, "a %snumber from %.0f to %.0f", row->type == TR_OPTION_INT ? "whole " : "",
                    row->min, row->max);
        break;
    }
    if (row->words)
        tr_buf_addf(out, ", or %s", row->words);
}
