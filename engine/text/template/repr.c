/* Values as text: str, repr and json.dumps.
 *
 * What repr and dumps write is one piece: quotes and brackets of ours next to data of the request
 * could otherwise form something with the template's own text. It counts as the template's only if
 * every string in it is. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/text/template/call.h"
#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"

struct writer {
    struct tpl_vm *vm;
    const struct tpl_json_style *style; /* NULL: repr */
    int level;
    bool data; /* a string from outside was written */
};

static void put(struct writer *w, const char *s)
{
    tr_tpl_puts(w->vm, s, TPL_TEMPLATE);
}

static void put_int(struct writer *w, int64_t i)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, i);
    put(w, text);
}

static void put_float(struct writer *w, double f)
{
    char text[TPL_FLOAT_CHARS];
    tr_tpl_float_text(f, text);
    put(w, text);
}

static void note_origin(struct writer *w, const struct tpl_str *s)
{
    w->data |= s->pieces ? s->n_pieces > 1 || s->pieces[0].origin != TPL_TEMPLATE
                         : s->n && s->origin != TPL_TEMPLATE;
}

/* Writes one character of a quoted string. In JSON style everything printable passes, in repr what
 * Python calls printable. */
static void put_quoted_char(struct writer *w, uint32_t c, uint32_t quote)
{
    static const struct {
        char c, name;
    } names[] = {{'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'\b', 'b'}, {'\f', 'f'}};
    char text[16];
    if (c == quote || c == '\\') {
        snprintf(text, sizeof text, "\\%c", (char)c);
        put(w, text);
        return;
    }
    for (size_t i = 0; i < (w->style ? 5u : 3u); i++) {
        if (c == (uint32_t)names[i].c) {
            snprintf(text, sizeof text, "\\%c", names[i].name);
            put(w, text);
            return;
        }
    }
    bool raw = w->style ? c >= 0x20 && (c < 0x7f || !w->style->ensure_ascii) : tr_uni_printable(c);
    if (raw) {
        tr_tpl_put_char(w->vm, c, TPL_TEMPLATE);
        return;
    }
    if (w->style && c > 0xffff)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)),
                 (unsigned)(0xdc00 + (c & 0x3ff)));
    else if (!w->style && c < 0x100)
        snprintf(text, sizeof text, "\\x%02x", (unsigned)c);
    else if (c > 0xffff)
        snprintf(text, sizeof text, "\\U%08x", (unsigned)c);
    else
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    put(w, text);
}

static void put_quoted(struct writer *w, const struct tpl_str *s)
{
    note_origin(w, s);
    bool single = !w->style && (!memchr(s->s, '\'', s->n) || memchr(s->s, '"', s->n));
    char quote[2] = {single ? '\'' : '"', '\0'};
    put(w, quote);
    size_t run = 0; /* plain ASCII is passed on in runs */
    for (size_t i = 0; i < s->n;) {
        unsigned char c = (unsigned char)s->s[i];
        if (c >= 0x20 && c < 0x7f && c != '\\' && c != (unsigned char)quote[0]) {
            i++;
            continue;
        }
        tr_tpl_put(w->vm, s->s + run, i - run, TPL_TEMPLATE);
        size_t n;
        put_quoted_char(w, tr_uni_decode(s->s + i, &n), (uint32_t)quote[0]);
        i += n;
        run = i;
    }
    tr_tpl_put(w->vm, s->s + run, s->n - run, TPL_TEMPLATE);
    put(w, quote);
}

static void repr(struct writer *w, struct tpl_value v);

static void repr_items(struct writer *w, const struct tpl_list *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        put(w, i ? ", " : "");
        repr(w, list->v[i]);
    }
}

static void repr_pairs(struct writer *w, const struct tpl_pair *v, uint32_t n)
{
    put(w, "{");
    for (uint32_t i = 0; i < n; i++) {
        put(w, i ? ", " : "");
        repr(w, v[i].key);
        put(w, ": ");
        repr(w, v[i].value);
    }
    put(w, "}");
}

static void repr_container(struct writer *w, struct tpl_value v)
{
    static const char *const views[] = {"dict_keys([", "dict_values([", "dict_items(["};
    switch (v.type) {
    case TPL_LIST:
        put(w, "[");
        repr_items(w, v.u.list);
        put(w, "]");
        break;
    case TPL_TUPLE:
        put(w, "(");
        repr_items(w, v.u.list);
        put(w, v.u.list->n == 1 ? ",)" : ")");
        break;
    case TPL_DICT:
        repr_pairs(w, v.u.dict->v, v.u.dict->n);
        break;
    case TPL_VIEW:
        put(w, views[v.aux]);
        repr_items(w, tr_tpl_to_list(w->vm, v).u.list);
        put(w, "])");
        break;
    default:
        put(w, "<Namespace ");
        repr_pairs(w, v.u.ns->v, v.u.ns->n);
        put(w, ">");
        break;
    }
}

static void repr_range(struct writer *w, const struct tpl_range *r)
{
    put(w, "range(");
    put_int(w, r->start);
    put(w, ", ");
    put_int(w, r->stop);
    if (r->step != 1) {
        put(w, ", ");
        put_int(w, r->step);
    }
    put(w, ")");
}

static void repr(struct writer *w, struct tpl_value v)
{
    tr_tpl_spend(w->vm, 1);
    tr_tpl_enter(w->vm);
    switch (v.type) {
    case TPL_UNDEFINED:
        put(w, "Undefined");
        break;
    case TPL_NONE:
        put(w, "None");
        break;
    case TPL_BOOL:
        put(w, v.u.b ? "True" : "False");
        break;
    case TPL_INT:
        put_int(w, v.u.i);
        break;
    case TPL_BIG:
        tr_tpl_put(w->vm, v.u.str->s, v.u.str->n, TPL_TEMPLATE);
        break;
    case TPL_FLOAT:
        put_float(w, v.u.f);
        break;
    case TPL_STR:
        put(w, v.u.str->markup ? "Markup(" : "");
        put_quoted(w, v.u.str);
        put(w, v.u.str->markup ? ")" : "");
        break;
    case TPL_RANGE:
        repr_range(w, v.u.range);
        break;
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_DICT:
    case TPL_VIEW:
    case TPL_NAMESPACE:
        repr_container(w, v);
        break;
    case TPL_MACRO:
        put(w, "<Macro ");
        if (tr_tpl_macro_name(v))
            put_quoted(w, tr_tpl_macro_name(v));
        put(w, tr_tpl_macro_name(v) ? ">" : "anonymous>");
        break;
    default:
        /* Python would print an address. */
        tr_tpl_fail(w->vm, "a %s cannot be printed", tr_tpl_type_name(v));
    }
    tr_tpl_leave(w->vm);
}

void tr_tpl_put_repr(struct tpl_vm *vm, struct tpl_value v)
{
    struct writer w = {.vm = vm};
    size_t mark = vm->text.len;
    repr(&w, v);
    if (w.data)
        tr_tpl_claim(vm, mark, TPL_DATA);
}

void tr_tpl_put_value(struct tpl_vm *vm, struct tpl_value v)
{
    if (v.type == TPL_STR)
        tr_tpl_put_str(vm, v.u.str);
    else if (v.type != TPL_UNDEFINED)
        tr_tpl_put_repr(vm, v);
}

struct tpl_value tr_tpl_to_str(struct tpl_vm *vm, struct tpl_value v)
{
    if (v.type == TPL_STR)
        return v;
    size_t mark = vm->text.len;
    tr_tpl_put_value(vm, v);
    return tr_tpl_cut(vm, mark);
}

static void put_separator(struct writer *w, const struct tpl_str *s)
{
    note_origin(w, s);
    tr_tpl_put(w->vm, s->s, s->n, TPL_TEMPLATE);
}

static void new_line(struct writer *w)
{
    if (!w->style->indent)
        return;
    put(w, "\n");
    for (int i = 0; i < w->level; i++)
        put_separator(w, w->style->indent);
}

static void json(struct writer *w, struct tpl_value v);

static void json_key(struct writer *w, struct tpl_value key)
{
    if (key.type == TPL_STR) {
        put_quoted(w, key.u.str);
        return;
    }
    if (key.type != TPL_NONE && !tpl_is_number(key))
        tr_tpl_fail(w->vm, "keys must be str, int, float, bool or None, not %s",
                    tr_tpl_type_name(key));
    put(w, "\"");
    json(w, key);
    put(w, "\"");
}

static int by_key(struct tpl_vm *vm, const void *pairs, uint32_t a, uint32_t b)
{
    const struct tpl_pair *v = pairs;
    return tr_tpl_compare(vm, v[a].key, v[b].key, "<");
}

static void json_dict(struct writer *w, const struct tpl_dict *d)
{
    const uint32_t *order = w->style->sort_keys ? tr_tpl_sort(w->vm, d->n, by_key, d->v) : NULL;
    put(w, "{");
    w->level++;
    for (uint32_t i = 0; i < d->n; i++) {
        if (i)
            put_separator(w, w->style->item_separator);
        new_line(w);
        const struct tpl_pair *pair = &d->v[order ? order[i] : i];
        json_key(w, pair->key);
        put_separator(w, w->style->key_separator);
        json(w, pair->value);
    }
    w->level--;
    if (d->n)
        new_line(w);
    put(w, "}");
}

static void json_list(struct writer *w, const struct tpl_list *list)
{
    put(w, "[");
    w->level++;
    for (uint32_t i = 0; i < list->n; i++) {
        if (i)
            put_separator(w, w->style->item_separator);
        new_line(w);
        json(w, list->v[i]);
    }
    w->level--;
    if (list->n)
        new_line(w);
    put(w, "]");
}

static void json(struct writer *w, struct tpl_value v)
{
    tr_tpl_spend(w->vm, 1);
    tr_tpl_enter(w->vm);
    switch (v.type) {
    case TPL_NONE:
        put(w, "null");
        break;
    case TPL_BOOL:
        put(w, v.u.b ? "true" : "false");
        break;
    case TPL_INT:
        put_int(w, v.u.i);
        break;
    case TPL_BIG:
        tr_tpl_put(w->vm, v.u.str->s, v.u.str->n, TPL_TEMPLATE);
        break;
    case TPL_FLOAT:
        if (!isfinite(v.u.f))
            put(w, isnan(v.u.f) ? "NaN" : v.u.f > 0 ? "Infinity" : "-Infinity");
        else
            put_float(w, v.u.f);
        break;
    case TPL_STR:
        put_quoted(w, v.u.str);
        break;
    case TPL_LIST:
    case TPL_TUPLE:
        json_list(w, v.u.list);
        break;
    case TPL_DICT:
        json_dict(w, v.u.dict);
        break;
    case TPL_UNDEFINED:
        tr_tpl_fail(w->vm, "an undefined value is not JSON serializable");
    default:
        tr_tpl_fail(w->vm, "Object of type %s is not JSON serializable", tr_tpl_type_name(v));
    }
    tr_tpl_leave(w->vm);
}

void tr_tpl_put_json(struct tpl_vm *vm, struct tpl_value v, const struct tpl_json_style *style)
{
    struct writer w = {.vm = vm, .style = style};
    size_t mark = vm->text.len;
    json(&w, v);
    if (w.data)
        tr_tpl_claim(vm, mark, TPL_DATA);
}
