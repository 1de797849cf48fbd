#include "server/openapi.h"

#include <string.h>

#include "config/json.h"
#include "server/completions.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/tokenize.h"

/* The body of a POST route. */
static const struct srv_table *const tokenize_tables[] = {&srv_tokenize_fields};
static const struct srv_table *const detokenize_tables[] = {&srv_detokenize_fields};

static const struct body {
    const char *path, *required;
    const struct srv_table *const *tables;
    size_t n;
} others[] = {
    {"/tokenize", NULL, tokenize_tables, 1},
    {"/detokenize", "\"tokens\"", detokenize_tables, 1},
};

static struct body body_of(const char *path)
{
    if (strcmp(path, srv_completions_api.path) == 0)
        return (struct body){path, "\"prompt\"", srv_completions_api.tables,
                             srv_completions_api.n_tables};
    for (size_t i = 0; i < TR_ARRAY_LEN(others); i++)
        if (strcmp(path, others[i].path) == 0)
            return others[i];
    return (struct body){path, NULL, NULL, 0};
}

static void add_body_schema(struct tr_buf *out, const struct body *b)
{
    tr_buf_adds(out, "{\"type\":\"object\",\"properties\":{");
    srv_fields_schema(out, b->tables, b->n);
    tr_buf_addc(out, '}');
    if (b->required)
        tr_buf_addf(out, ",\"required\":[%s]", b->required);
    tr_buf_addc(out, '}');
}

void srv_capabilities_document(const struct srv *s, struct tr_buf *out)
{
    tr_buf_adds(out, "{\"object\":\"capabilities\",\"model\":");
    tr_json_quote(out, s->model, strlen(s->model));
    tr_buf_addf(out,
                ",\"max_model_len\":%d,\"max_choices\":%d,\"max_body\":%llu,\"strict\":%s,"
                "\"endpoints\":{",
                s->info->context_length, s->options->max_choices,
                (unsigned long long)s->options->max_body, s->options->strict ? "true" : "false");
    const char *sep = "";
    for (int i = 0; i < srv_n_routes; i++) {
        struct body b = body_of(srv_routes[i].path);
        if (!b.tables)
            continue;
        tr_buf_addf(out, "%s\"%s\":", sep, b.path);
        add_body_schema(out, &b);
        sep = ",";
    }
    tr_buf_adds(out, "}}");
}

#define REFER_ERROR                                                                                \
    "{\"description\":\"refused\",\"content\":{\"application/json\":{\"schema\":"                  \
    "{\"$ref\":\"#/components/schemas/Error\"}}}}"

static void add_operation(struct tr_buf *out, const struct srv_route *r, bool post)
{
    struct body b = body_of(r->path);
    bool text = strcmp(r->path, "/metrics") == 0;
    tr_buf_addf(out, "\"%s\":{\"summary\":", post ? "post" : "get");
    tr_json_quote(out, r->doc, strlen(r->doc));
    if (r->flags & SRV_PREFIX)
        tr_buf_adds(out, ",\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,"
                         "\"schema\":{\"type\":\"string\",\"minLength\":1}}]");
    if (r->flags & SRV_OPEN)
        tr_buf_adds(out, ",\"security\":[]");
    if (post) {
        tr_buf_adds(out, ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":"
                         "{\"schema\":");
        add_body_schema(out, &b);
        tr_buf_adds(out, "}}}");
    }
    tr_buf_addf(out,
                ",\"responses\":{\"200\":{\"description\":\"the answer\",\"content\":{\"%s\":"
                "{\"schema\":{%s}}",
                text ? "text/plain" : "application/json",
                text ? "\"type\":\"string\"" : "\"type\":\"object\"");
    if (post && strcmp(r->path, srv_completions_api.path) == 0)
        tr_buf_adds(out, ",\"text/event-stream\":{\"schema\":{\"type\":\"string\"}}");
    tr_buf_adds(out, "}},\"default\":" REFER_ERROR "}}");
}

void srv_openapi_document(const struct srv *s, struct tr_buf *out)
{
    (void)s;
    tr_buf_addf(out,
                "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"trinityd\",\"version\":\"%s\"},"
                "\"security\":[{},{\"bearer\":[]}],\"paths\":{",
                TR_VERSION);
    for (int i = 0; i < srv_n_routes; i++) {
        const struct srv_route *r = &srv_routes[i];
        tr_buf_addf(out, "%s\"%s%s\":{", i ? "," : "", r->path,
                    r->flags & SRV_PREFIX ? "{id}" : "");
        if (r->get)
            add_operation(out, r, false);
        if (r->get && r->post)
            tr_buf_addc(out, ',');
        if (r->post)
            add_operation(out, r, true);
        tr_buf_addc(out, '}');
    }
    tr_buf_adds(out, "},\"components\":{\"securitySchemes\":{\"bearer\":{\"type\":\"http\","
                     "\"scheme\":\"bearer\"}},\"schemas\":{\"Error\":{\"type\":\"object\","
                     "\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\","
                     "\"required\":[\"message\",\"type\",\"param\",\"code\"],\"properties\":{"
                     "\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},"
                     "\"param\":{\"type\":[\"string\",\"null\"]},"
                     "\"code\":{\"type\":[\"string\",\"null\"]}}}}}}}}");
}
