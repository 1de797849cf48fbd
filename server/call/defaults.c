#include "server/call/defaults.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/hash.h"
#include "server/call/params.h"

static const char option_name[] = "generation_defaults";

/* Seven digits: what a float holds of the decimal that the checkpoint's file says. */
static void add(struct tr_buf *out, const char *name, double value)
{
    if (!isnan(value))
        tr_buf_addf(out, "%s\"%s\":%.7g", out->len > 1 ? "," : "", name, value);
}

static void add_recommended(struct tr_buf *out, const struct tr_sampling_defaults *s)
{
    add(out, "temperature", (double)s->temperature);
    add(out, "top_p", (double)s->top_p);
    add(out, "min_p", (double)s->min_p);
    add(out, "repetition_penalty", (double)s->repetition_penalty);
    if (s->top_k >= 0)
        add(out, "top_k", (double)s->top_k);
}

/* Appends one "name=number" of the option. */
static int add_given(struct tr_buf *out, const char *item, size_t n, struct tr_err *err)
{
    static const char *const names[] = {"temperature",
                                        "top_p",
                                        "top_k",
                                        "min_p",
                                        "typical_p",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "repetition_penalty"};
    const char *equals = memchr(item, '=', n);
    size_t name_bytes = equals ? (size_t)(equals - item) : n;
    for (size_t i = 0; equals && i < TR_ARRAY_LEN(names); i++)
        if (strlen(names[i]) == name_bytes && memcmp(names[i], item, name_bytes) == 0) {
            tr_buf_addf(out, "%s\"%s\":", out->len > 1 ? "," : "", names[i]);
            tr_buf_add(out, equals + 1, n - name_bytes - 1);
            return 0;
        }
    return tr_err_set(err, TR_ECONFIG, option_name,
                      "%s: expected auto, none or sampling fields as in temperature=0.15,top_k=50",
                      option_name);
}

static int add_option(struct tr_buf *out, const char *option, struct tr_err *err)
{
    int r = 0;
    for (const char *s = option; r == 0;) {
        size_t n = strcspn(s, ",");
        r = add_given(out, s, n, err);
        if (!s[n])
            break;
        s += n + 1;
    }
    return r;
}

int srv_defaults_open(struct json_t **ret, const char *option,
                      const struct tr_sampling_defaults *recommended, struct tr_err *err)
{
    static const struct srv_table *const table = &srv_common_fields;
    struct tr_buf text = {0};
    struct json_t *doc = NULL;
    struct srv_params params;
    struct tr_err cause = {0};
    tr_buf_addc(&text, '{');
    int r = 0;
    if (strcmp(option, "auto") == 0 && recommended)
        add_recommended(&text, recommended);
    else if (strcmp(option, "auto") != 0 && strcmp(option, "none") != 0)
        r = add_option(&text, option, err);
    tr_buf_addc(&text, '}');
    if (r == 0 && text.oom)
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r == 0) {
        r = tr_json_parse(&doc, text.data, text.len, &cause);
        struct tr_json root = tr_json_root(doc, NULL);
        if (r == 0)
            r = srv_fields_take(&table, 1, &root, NULL, true, &params, &cause);
        if (r < 0)
            r = tr_err_set(err, TR_ECONFIG, option_name, "%s: %s", option_name, cause.msg);
    }
    tr_buf_done(&text);
    if (r < 0)
        doc = tr_json_free(doc);
    *ret = doc;
    return r;
}

void srv_defaults_hash(struct json_t *defaults, char ret[9])
{
    struct tr_json root = tr_json_root(defaults, NULL);
    struct tr_buf text = {0};
    tr_json_write(&text, &root);
    ret[0] = '\0';
    if (text.len > 2)
        snprintf(ret, 9, "%08x", (unsigned)tr_hash(text.data, text.len).lo);
    tr_buf_done(&text);
}
