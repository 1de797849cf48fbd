#include "server/call/fields.h"

#include <math.h>
#include <string.h>

static const struct srv_field *find(const struct srv_table *const *tables, size_t n_tables,
                                    const char *name, size_t name_bytes)
{
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < tables[t]->n; i++) {
            const struct srv_field *f = &tables[t]->fields[i];
            if (strlen(f->name) == name_bytes && memcmp(f->name, name, name_bytes) == 0)
                return f;
        }
    return NULL;
}

static void set_default(const struct srv_field *f, void *params)
{
    void *at = (char *)params + f->offset;
    switch (f->type) {
    case SRV_FIELD_BOOL:
        *(bool *)at = f->int_default != 0;
        break;
    case SRV_FIELD_INT:
        *(int64_t *)at = f->int_default;
        break;
    case SRV_FIELD_NUMBER:
        *(double *)at = f->number_default;
        break;
    case SRV_FIELD_VALUE:
        *(struct tr_json *)at = (struct tr_json){0};
        break;
    case SRV_FIELD_IGNORED:
    case SRV_FIELD_REFUSED:
        break;
    }
}

/* null, false, 0, "", [] and {} ask for nothing. */
static bool asks_for_nothing(const struct tr_json *v)
{
    bool flag;
    double number;
    const char *text;
    size_t n;
    switch (tr_json_type(v)) {
    case TR_JSON_BOOL:
        return tr_json_as_bool(v, &flag, NULL) == 0 && !flag;
    case TR_JSON_NUMBER:
        return tr_json_as_double(v, -1e308, 1e308, &number, NULL) == 0 && !(number < 0) &&
               !(number > 0);
    case TR_JSON_STRING:
        return tr_json_as_string(v, &text, &n, NULL) == 0 && n == 0;
    case TR_JSON_ARRAY:
    case TR_JSON_OBJECT:
        return tr_json_size(v) == 0;
    case TR_JSON_ABSENT:
    case TR_JSON_NULL:
    default:
        return true;
    }
}

static int take(const struct srv_field *f, const struct tr_json *v, void *params,
                struct tr_err *err)
{
    void *at = (char *)params + f->offset;
    double number;
    int r;
    if (!tr_json_given(v))
        return 0;
    switch (f->type) {
    case SRV_FIELD_BOOL:
        return tr_json_as_bool(v, at, err);
    case SRV_FIELD_INT:
        return tr_json_as_int(v, f->int_min, f->int_max, at, err);
    case SRV_FIELD_NUMBER:
        r = tr_json_as_double(v, f->min, f->max, &number, err);
        if (r < 0)
            return r;
        if (f->above_min && number <= f->min)
            return tr_json_fail(v, err, "must be greater than %g", f->min);
        *(double *)at = number;
        return 0;
    case SRV_FIELD_VALUE:
        *(struct tr_json *)at = *v;
        return 0;
    case SRV_FIELD_REFUSED:
        return asks_for_nothing(v) ? 0 : tr_json_fail(v, err, "not supported");
    case SRV_FIELD_IGNORED:
    default:
        return 0;
    }
}

static int take_all(const struct srv_table *const *tables, size_t n_tables,
                    const struct tr_json *root, bool strict, void *params, struct tr_err *err)
{
    void *iter = NULL;
    struct tr_json v;
    while (tr_json_next(root, &iter, &v)) {
        const struct srv_field *f = find(tables, n_tables, v.key, v.key_bytes);
        if (!f && strict)
            return tr_json_fail(&v, err, "unknown field");
        int r = f ? take(f, &v, params, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int srv_fields_take(const struct srv_table *const *tables, size_t n_tables,
                    const struct tr_json *root, const struct tr_json *defaults, bool strict,
                    void *params, struct tr_err *err)
{
    int r = tr_json_expect(root, TR_JSON_OBJECT, err);
    if (r < 0)
        return r;
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < tables[t]->n; i++)
            set_default(&tables[t]->fields[i], params);
    if (defaults)
        r = take_all(tables, n_tables, defaults, false, params, err);
    return r < 0 ? r : take_all(tables, n_tables, root, strict, params, err);
}

/* The default of a number: the server's own, where it has one. */
static double default_of(const struct srv_field *f, const struct tr_json *defaults)
{
    double x = f->type == SRV_FIELD_INT ? (double)f->int_default : f->number_default;
    struct tr_json v = defaults ? tr_json_get(defaults, f->name) : (struct tr_json){0};
    if (tr_json_given(&v) && tr_json_as_double(&v, -HUGE_VAL, HUGE_VAL, &x, NULL) < 0)
        return 0.0; /* never: the rows have taken them before */
    return x;
}

static void add_schema(struct tr_buf *out, const struct srv_field *f,
                       const struct tr_json *defaults, int max_id)
{
    switch (f->type) {
    case SRV_FIELD_BOOL:
        tr_buf_addf(out, "{\"type\":[\"boolean\",\"null\"],\"default\":%s",
                    f->int_default ? "true" : "false");
        break;
    case SRV_FIELD_INT:
        tr_buf_addf(out, "{\"type\":[\"integer\",\"null\"],\"minimum\":%lld,\"maximum\":%lld",
                    (long long)f->int_min, (long long)f->int_max);
        if (!f->no_default)
            tr_buf_addf(out, ",\"default\":%lld", (long long)default_of(f, defaults));
        break;
    case SRV_FIELD_NUMBER:
        tr_buf_addf(out, "{\"type\":[\"number\",\"null\"],\"%s\":%g,\"maximum\":%g,\"default\":%g",
                    f->above_min ? "exclusiveMinimum" : "minimum", f->min, f->max,
                    default_of(f, defaults));
        break;
    case SRV_FIELD_VALUE:
        tr_buf_addc(out, '{');
        for (const char *p = f->schema; *p; p++)
            if (*p == '@')
                tr_buf_addf(out, "%d", max_id);
            else
                tr_buf_addc(out, *p);
        break;
    case SRV_FIELD_IGNORED:
        tr_buf_adds(out, "{\"x-support\":\"ignored\"");
        break;
    case SRV_FIELD_REFUSED:
        tr_buf_adds(out, "{\"enum\":[null,false,0,\"\",[],{}],\"x-support\":\"refused\"");
        break;
    }
    tr_buf_adds(out, ",\"description\":");
    tr_json_quote(out, f->doc, strlen(f->doc));
    tr_buf_addc(out, '}');
}

void srv_fields_schema(struct tr_buf *out, const struct srv_table *const *tables, size_t n_tables,
                       const struct tr_json *defaults, int max_id)
{
    const char *sep = "";
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < tables[t]->n; i++) {
            const struct srv_field *f = &tables[t]->fields[i];
            if (find(tables, t, f->name, strlen(f->name)))
                continue;
            tr_buf_addf(out, "%s\"%s\":", sep, f->name);
            add_schema(out, f, defaults, max_id);
            sep = ",";
        }
}
