#include "server/call/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/call/call.h"
#include "server/http/route.h"

enum {
    MAX_NAME = 256, /* bytes of a model's name that any answers to */
    MAX_STOPS = 64,
    MAX_STOP_BYTES = 4096 /* each */
};

/* A text for error messages: quoted, escaped, cut. */
static const char *excerpt(char buf[80], const char *s, size_t n)
{
    struct tr_buf b = {0};
    size_t cut = TR_MIN(n, 32);
    while (cut > 0 && cut < n && ((unsigned char)s[cut] & 0xC0) == 0x80)
        cut--;
    tr_json_quote(&b, s, cut);
    if (cut < n)
        tr_buf_adds(&b, "...");
    snprintf(buf, 80, "%s", b.len && b.len < 80 ? b.data : "(not printable)");
    tr_buf_done(&b);
    return buf;
}

/* Whether the model answers to a name: its own, one of the list, or any. */
static bool is_served(const struct srv_context *x, const char *name)
{
    bool found = strcmp(name, x->model) == 0 || tr_strings_has(&x->names, name) ||
                 tr_strings_has(&x->names, "*");
    return found && strlen(name) <= MAX_NAME;
}

/* An answer bears the name by which the model was asked for. */
static int take_model(struct srv_call *c, struct tr_err *err)
{
    const struct tr_json *v = &c->params.model;
    const char *name;
    size_t n;
    char text[80];
    if (!tr_json_given(v))
        return 0;
    int r = tr_json_as_string(v, &name, &n, err);
    if (r < 0)
        return r;
    if (strlen(name) != n || !is_served(&c->context, name))
        return tr_err_set(err, TR_ENOTFOUND, "model", "the model %s does not exist",
                          excerpt(text, name, n));
    if (strcmp(name, c->context.model) == 0)
        return 0;
    c->context.model = c->model = strdup(name);
    return c->model ? 0 : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
}

static int check_stream_options(struct srv_params *p, struct tr_err *err)
{
    const struct tr_json *o = &p->stream_options;
    if (!tr_json_given(o))
        return 0;
    bool obfuscation = false;
    int r = tr_json_expect(o, TR_JSON_OBJECT, err);
    if (r == 0 && !p->stream)
        r = tr_json_fail(o, err, "only allowed with \"stream\": true");
    if (r == 0)
        r = tr_json_opt_bool(o, "include_usage", &p->include_usage, err);
    if (r == 0)
        r = tr_json_opt_bool(o, "continuous_usage_stats", &p->continuous_usage, err);
    if (r == 0)
        r = tr_json_opt_bool(o, "include_obfuscation", &obfuscation, err);
    return r;
}

/* Checks that hold across fields. */
static int check(struct srv_call *c, struct tr_err *err)
{
    struct srv_params *p = &c->params;
    int max_choices = c->context.max_choices;
    if (p->max_tokens == SRV_ABSENT && p->max_completion_tokens == SRV_ABSENT)
        p->max_tokens = c->api->default_max_tokens;
    p->include_usage = p->continuous_usage = false;
    int r = check_stream_options(p, err);
    if (r < 0)
        return r;
    if (p->max_completion_tokens != SRV_ABSENT)
        p->max_tokens = p->max_completion_tokens;
    if (p->max_tokens >= 0 && p->min_tokens > p->max_tokens)
        return tr_err_set(err, TR_EINVAL, "min_tokens",
                          "min_tokens: %lld is more than max_tokens %lld", (long long)p->min_tokens,
                          (long long)p->max_tokens);
    if (p->n > max_choices)
        return tr_err_set(err, TR_EINVAL, "n", "n: at most %d answers a request (max_choices)",
                          max_choices);
    c->max_ids = p->truncate_prompt_tokens ? 0 : (size_t)c->context.context_length;
    return 0;
}

/* The stop strings, and each as a JSON string. */
static int take_stops(struct srv_call *c, struct tr_err *err)
{
    const char *strings[MAX_STOPS];
    size_t lengths[MAX_STOPS];
    const struct tr_json *v = &c->params.stop;
    bool one = tr_json_type(v) == TR_JSON_STRING;
    size_t n = one ? 1 : tr_json_size(v);
    if (!tr_json_given(v))
        return 0;
    if (!one && tr_json_type(v) != TR_JSON_ARRAY)
        return tr_json_fail(v, err, "expected string or array of strings");
    if (n > MAX_STOPS)
        return tr_json_fail(v, err, "more than %d strings", MAX_STOPS);
    for (size_t i = 0; i < n; i++) {
        struct tr_json item = one ? *v : tr_json_at(v, i);
        int r = tr_json_as_string(&item, &strings[i], &lengths[i], err);
        if (r < 0)
            return r;
        if (lengths[i] == 0)
            return tr_json_fail(&item, err, "an empty string");
        if (lengths[i] > MAX_STOP_BYTES)
            return tr_json_fail(&item, err, "longer than %d bytes", MAX_STOP_BYTES);
    }
    if (n == 0)
        return 0;
    struct tr_buf *quoted = calloc(n, sizeof *quoted);
    int r = quoted ? tr_stops_new(&c->stops, strings, lengths, (int)n, c->params.include_stop)
                   : TR_ENOMEM;
    if (r < 0) {
        free(quoted);
        return tr_err_set(err, r, "stop", "stop: %s", tr_err_text(r));
    }
    for (size_t i = 0; i < n; i++)
        tr_json_quote(&quoted[i], strings[i], lengths[i]);
    c->stop_texts = quoted;
    c->n_stops = (int)n;
    return 0;
}

static int take_id(struct srv_call *c, struct tr_err *err)
{
    const char *given = NULL;
    if (tr_json_given(&c->params.request_id)) {
        int r = tr_json_as_string(&c->params.request_id, &given, NULL, err);
        if (r < 0)
            return r;
        if (strlen(given) > SRV_ID_BYTES)
            return tr_json_fail(&c->params.request_id, err, "longer than %d bytes", SRV_ID_BYTES);
    }
    if (given)
        snprintf(c->id, sizeof c->id, "%s%s", c->api->id_prefix, given);
    return 0;
}

static int read_document(struct srv_call *c, struct json_t *doc)
{
    const struct srv_route *route = c->req->route;
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_json defaults = tr_json_root(c->context.defaults, NULL);
    int r = srv_fields_take(route->tables, route->n_tables, &root, &defaults, c->context.strict,
                            &c->params, &c->err);
    if (r == 0)
        r = take_model(c, &c->err);
    if (r == 0)
        r = check(c, &c->err);
    if (r == 0)
        r = take_stops(c, &c->err);
    if (r == 0)
        r = take_id(c, &c->err);
    if (r == 0)
        r = c->api->read(c, &c->err);
    return r;
}

void srv_call_read(struct srv_work *work)
{
    struct srv_call *c = TR_CONTAINER_OF(work, struct srv_call, work);
    const struct tr_buf *body = &c->req->body;
    struct json_t *doc = NULL;
    int r = tr_json_parse(&doc, body->data ? body->data : "", body->len, &c->err);
    if (r == 0)
        r = read_document(c, doc);
    tr_json_free(doc);
    if (r < 0 && !c->err.code)
        tr_err_set(&c->err, r, NULL, "%s", tr_err_text(r));
}

int srv_body_take(struct srv_req *req, const struct srv_table *const *tables, size_t n_tables,
                  bool optional, void *params, srv_body_fn use, struct tr_err *err)
{
    const char *bytes = req->body.len ? req->body.data : optional ? "{}" : "";
    struct json_t *doc = NULL;
    int r = tr_json_parse(&doc, bytes, req->body.len ? req->body.len : strlen(bytes), err);
    if (r < 0)
        return r;
    struct tr_json root = tr_json_root(doc, NULL);
    r = srv_fields_take(tables, n_tables, &root, NULL, req->strict && !optional, params, err);
    if (r == 0)
        r = use(req, params, err);
    tr_json_free(doc);
    return r;
}
