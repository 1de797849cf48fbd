/* JSON Schema (draft 2020-12): the compilation's life, memory, messages, shared rules. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/schema_internal.h"

enum { CHUNK_BYTES = 64 << 10, ARENA_MAX = 48 << 20, MAX_RULES = 20000 };

struct tr__chunk {
    struct tr__chunk *next;
    size_t used, cap;
    max_align_t bytes[];
};

void *tr__alloc(struct tr__schema *s, size_t n)
{
    struct tr__chunk *c = s->chunks;

    n = TR_ROUND_UP(n, sizeof(max_align_t));
    if (!tr__spend(s->b, 1))
        return NULL;
    if (!c || n > c->cap - c->used) {
        size_t cap = TR_MAX(n, (size_t)CHUNK_BYTES);
        s->arena_bytes += cap;
        c = s->arena_bytes > ARENA_MAX ? NULL : calloc(1, sizeof(*c) + cap);
        if (!c) {
            tr__nodes_fail(s->b, s->arena_bytes > ARENA_MAX ? TR_EUNSUPPORTED : TR_ENOMEM, NULL,
                           "the schema is too large");
            return NULL;
        }
        c->cap = cap;
        c->next = s->chunks;
        s->chunks = c;
    }
    c->used += n;
    return (char *)c->bytes + c->used - n;
}

tr__site tr__keep(struct tr__schema *s, struct tr_json v)
{
    struct tr_json *kept = tr__alloc(s, sizeof(*kept));

    if (kept)
        *kept = v;
    return kept;
}

tr__site tr__member(struct tr__schema *s, tr__site object, const char *key)
{
    struct tr_json v = tr_json_get(object, key);

    return tr_json_type(&v) == TR_JSON_ABSENT ? NULL : tr__keep(s, v);
}

/* ---- messages ---- */

static void add_escaped(struct tr_buf *out, const char *key, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)key[i];
        if (c == '~' || c == '/')
            tr_buf_adds(out, c == '~' ? "~0" : "~1");
        else if (c >= 0x20 && c < 0x7F)
            tr_buf_addc(out, (char)c);
        else
            tr_buf_addf(out, "%%%02X", c);
    }
}

static void add_pointer(struct tr_buf *out, tr__site site)
{
    if (!site->up) {
        tr_buf_addc(out, '#');
        return;
    }
    add_pointer(out, site->up);
    tr_buf_addc(out, '/');
    if (site->key)
        add_escaped(out, site->key, site->key_bytes);
    else
        tr_buf_addf(out, "%zu", site->index);
}

uint32_t tr__schema_fail(struct tr__schema *s, int code, tr__site site, const char *key,
                         const char *what)
{
    struct tr_buf pointer = {0};

    if (s->b->r)
        return 0;
    add_pointer(&pointer, site);
    if (key) {
        tr_buf_addc(&pointer, '/');
        add_escaped(&pointer, key, strlen(key));
    }
    tr_buf_addc(&pointer, '\0');
    tr__nodes_fail(s->b, code, pointer.oom ? NULL : pointer.data, "schema: %s: %s",
                   pointer.oom ? "" : pointer.data, what);
    tr_buf_done(&pointer);
    return 0;
}

/* ---- rules by their terms ---- */

static uint32_t hash_of(const struct tr__terms *t)
{
    uint64_t h = t->n + 0x10001u * (uint64_t)t->form;

    for (uint32_t i = 0; i < t->n; i++) {
        h = (h ^ (uintptr_t)(t->at[i].site ? t->at[i].site->node : NULL)) * 0x9E3779B97F4A7C15u;
        h = (h ^ h >> 29 ^ t->at[i].kind ^ (uintptr_t)t->at[i].scope);
        for (const char *k = t->at[i].key; k && *k; k++)
            h = (h ^ (uint8_t)*k) * 0x100000001B3u;
    }
    return (uint32_t)(h >> 32 ^ h);
}

static bool same(const struct tr__terms *a, const struct tr__terms *b)
{
    if (a->n != b->n || a->form != b->form)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct tr__term *x = &a->at[i], *y = &b->at[i];
        if (x->kind != y->kind || x->scope != y->scope ||
            (x->site ? x->site->node : NULL) != (y->site ? y->site->node : NULL) ||
            (x->key != y->key && (!x->key || !y->key || strcmp(x->key, y->key) != 0)))
            return false;
    }
    return true;
}

static bool grow_known(struct tr__schema *s)
{
    uint32_t cap = s->known_cap ? 2 * s->known_cap : 64;
    struct tr__known *known = realloc(s->known, cap * sizeof(*known));
    uint32_t *table = calloc(2 * (size_t)cap, sizeof(*table));

    s->known = known ? known : s->known;
    if (!known || !table) {
        free(table);
        tr__nodes_fail(s->b, TR_ENOMEM, NULL, "out of memory");
        return false;
    }
    s->known_cap = cap;
    free(s->table);
    s->table = table;
    s->table_cap = 2 * cap;
    for (uint32_t i = 0; i < s->n_known; i++) {
        uint32_t at = hash_of(&known[i].terms) & (s->table_cap - 1);
        while (table[at])
            at = (at + 1) & (s->table_cap - 1);
        table[at] = i + 1;
    }
    return true;
}

uint32_t tr__rule_of(struct tr__schema *s, const struct tr__terms *t)
{
    uint32_t at;

    if (!tr__spend(s->b, 8 + t->n) || (s->n_known == s->known_cap && !grow_known(s)))
        return 0;
    for (at = hash_of(t) & (s->table_cap - 1); s->table[at]; at = (at + 1) & (s->table_cap - 1))
        if (same(&s->known[s->table[at] - 1].terms, t))
            return s->known[s->table[at] - 1].rule;
    if (s->n_known >= MAX_RULES)
        return tr__nodes_fail(s->b, TR_EUNSUPPORTED, NULL,
                              "schema: too many combinations of schemas");
    s->known[s->n_known] = (struct tr__known){*t, tr__rule_new(s->b)};
    if (s->b->r == 0) {
        s->b->rules[s->known[s->n_known].rule].name = "$ref";
        s->b->rules[s->known[s->n_known].rule].name_bytes = 4;
    }
    s->table[at] = ++s->n_known;
    return s->known[s->n_known - 1].rule;
}

/* ---- shared rules ---- */

uint32_t tr__space(struct tr__schema *s, uint32_t next)
{
    struct tr__nodes *b = s->b;
    uint32_t spaces;

    if (s->source->compact || b->r)
        return next;
    if (s->source->indent == 0)
        return tr__split(
            b, next,
            tr__split(b, tr__byte(b, ' ', ' ', 0, next), tr__byte(b, '\n', '\n', 0, next)));
    if (s->space == TR__NONE) {
        uint32_t rule = tr__rule_new(b), outer = tr__rule_enter(b, rule), blank;
        uint32_t set = 0;
        struct tr__range blanks[] = {{'\t', '\t'}, {' ', ' '}};
        set = tr__expr_set(&s->x, &(struct tr__set){blanks, 2, 2});
        blank = tr__expr_repeat(&s->x, set, 0, (uint32_t)s->source->indent);
        spaces = tr__emit(&s->x, blank, TR__SPELL_RAW, false, tr__match(b));
        spaces = tr__split(b, tr__byte(b, '\n', '\n', 0, spaces),
                           tr__byte(b, ' ', ' ', 0, tr__match(b)));
        if (b->r)
            return 0;
        b->rules[rule].start = spaces;
        tr__rule_enter(b, outer);
        s->space = rule;
    }
    return tr__split(b, next, tr__call(b, s->space, 0, next));
}

/* "\u" and four digits, or eight for two surrogates; never one surrogate alone. */
static uint32_t emit_code(struct tr__schema *s, uint32_t next)
{
    static const char pattern[] = "u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
                                  "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2})";
    uint32_t e = tr__regex_parse(&s->x, pattern, sizeof(pattern) - 1, NULL);

    return tr__emit(&s->x, e, TR__SPELL_RAW, false, next);
}

/* One character of a string, in any spelling. */
uint32_t tr__emit_any_char(struct tr__schema *s, unsigned flags, uint32_t next)
{
    static const struct tr__range raw[] = {{0x20, '"' - 1},
                                           {'"' + 1, '\\' - 1},
                                           {'\\' + 1, 0xD7FF},
                                           {0xE000, TR__LAST_CHAR}},
                                  no_tags[] = {{0x20, '"' - 1},
                                               {'"' + 1, '<' - 1},
                                               {'<' + 1, '\\' - 1},
                                               {'\\' + 1, 0xD7FF},
                                               {0xE000, TR__LAST_CHAR}};
    bool guarded = s->spelling == TR__SPELL_GUARDED;
    static const char letters[] = "\"\\/bfnrt";
    struct tr__nodes *b = s->b;
    uint32_t escape = emit_code(s, next);

    for (const char *c = letters; *c; c++)
        escape = tr__split(b, tr__byte(b, (uint8_t)*c, (uint8_t)*c, 0, next), escape);
    if (guarded) /* not every clean character goes round */
        next = tr__emit_ranges(b, no_tags, TR_ARRAY_LEN(no_tags), TR__SPELL_RAW, 0, next);
    else
        next = tr__emit_ranges(b, raw, TR_ARRAY_LEN(raw), TR__SPELL_RAW, flags, next);
    return tr__split(b, next, tr__byte(b, '\\', '\\', 0, escape));
}

uint32_t tr__any_string(struct tr__schema *s)
{
    struct tr__nodes *b = s->b;

    if (s->any_string == TR__NONE && b->r == 0) {
        uint32_t rule = tr__rule_new(b), outer = tr__rule_enter(b, rule), loop = tr__hole(b);
        uint32_t body = tr__emit_any_char(s, TR__NODE_CLEAN_STAR, loop);
        tr__patch(b, loop, body, tr__byte(b, '"', '"', 0, tr__match(b)));
        uint32_t start = tr__byte(b, '"', '"', 0, loop);
        if (b->r)
            return 0;
        b->rules[rule].start = start;
        tr__rule_enter(b, outer);
        s->any_string = rule;
    }
    return s->any_string;
}

/* ---- the whole ---- */

static uint32_t emit_all(struct tr__schema *s, struct tr__terms *terms)
{
    uint32_t root = tr__rule_of(s, terms);

    for (; s->n_done < s->n_known && s->b->r == 0; s->n_done++) {
        struct tr__known known = s->known[s->n_done];
        tr__rule_enter(s->b, known.rule);
        uint32_t start = tr__emit_terms(s, &known.terms);
        if (s->b->r == 0)
            s->b->rules[known.rule].start = start;
    }
    return root;
}

/* An error from below, with the place that it belongs to. */
static void place_error(struct tr__schema *s)
{
    struct tr__nodes *b = s->b;
    struct tr_err inner;
    int r = b->r;

    if (r == 0 || r == TR_ENOMEM || !b->err || b->err->param[0] || !s->here)
        return;
    inner = *b->err;
    b->r = 0;
    tr__schema_fail(s, r, s->here, NULL, inner.msg);
}

static void done(struct tr__schema *s)
{
    while (s->chunks) {
        struct tr__chunk *next = s->chunks->next;
        free(s->chunks);
        s->chunks = next;
    }
    free(s->known);
    free(s->table);
    free(s->named);
    for (size_t i = 0; i < TR_ARRAY_LEN(s->any); i++)
        tr__dfa_done(&s->any[i]);
    tr__exprs_done(&s->x);
    tr_json_free(s->doc);
}

static uint32_t compile(struct tr__nodes *b, const struct tr_grammar_source *source,
                        const struct tr_grammar_text *text)
{
    bool parameters = source->kind == TR_GRAMMAR_PARAMETERS;
    struct tr__schema s = {.b = b,
                           .source = source,
                           .spelling = parameters ? TR__SPELL_GUARDED : TR__SPELL_JSON,
                           .any_string = TR__NONE,
                           .space = TR__NONE};
    struct tr__terms terms = {.form = parameters ? TR__FORM_PARAMETERS : TR__FORM_JSON};
    uint32_t root = 0;

    tr__exprs_init(&s.x, b);
    b->r = tr_json_parse(&s.doc, text->bytes, text->n, b->err);
    if (b->r == 0) {
        s.root = tr__keep(&s, tr_json_root(s.doc, NULL));
        tr__refs_collect(&s);
        tr__term_add(&s, &terms, TR__TERM_IS, s.root, NULL);
        if (source->object || parameters)
            tr__term_add(&s, &terms, TR__TERM_OBJECT, s.root, NULL);
        root = emit_all(&s, &terms);
        place_error(&s);
    }
    done(&s);
    return root;
}

uint32_t tr__compile_schema(struct tr__nodes *b, const struct tr_grammar_source *source)
{
    static const struct tr_grammar_text object = {"{\"type\":\"object\"}", 17}, any = {"{}", 2};
    uint32_t outer = b->rule, root;

    if (b->r)
        return 0;
    if (source->indent < 0 || source->indent > TR_GRAMMAR_INDENT_MAX)
        return tr__nodes_fail(b, TR_EINVAL, NULL, "indent is not 0 to %d", TR_GRAMMAR_INDENT_MAX);
    if (source->kind == TR_GRAMMAR_JSON_OBJECT)
        return compile(b, source, &object);
    root = compile(b, source, &source->text);
    if (b->r != TR_EUNSUPPORTED || !source->lenient)
        return root;
    b->r = 0;
    b->rule = outer;
    return compile(b, source, &any);
}
