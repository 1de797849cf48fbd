#include "server/openapi.h"

#include <string.h>

#include "config/json.h"
#include "server/chat.h"
#include "server/completions.h"
#include "server/messages.h"
#include "server/responses.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/tokenize.h"

static const struct srv_table *const apply_template_tables[] = {&srv_apply_template_fields};
static const struct srv_table *const count_tokens_tables[] = {&srv_messages_fields,
                                                              &srv_common_fields};

/* The body of a POST route. */
static const struct body {
    const char *path, *required;
    const struct srv_api *api; /* has the tables; NULL: they stand here, and nothing streams */
    const struct srv_table *const *tables;
    size_t n;
} bodies[] = {
    {"/v1/completions", "\"prompt\"", &srv_completions_api, NULL, 0},
    {"/v1/chat/completions", "\"messages\"", &srv_chat_api, NULL, 0},
    {"/v1/responses", "\"input\"", &srv_responses_api, NULL, 0},
    {"/v1/messages", "\"messages\",\"max_tokens\"", &srv_messages_api, NULL, 0},
    {"/v1/messages/count_tokens", "\"messages\"", NULL, count_tokens_tables, 2},
    {"/apply-template", "\"messages\"", NULL, apply_template_tables, 1},
    {"/tokenize", NULL, NULL, srv_tokenize_tables, 2},
    {"/detokenize", "\"tokens\"", NULL, srv_detokenize_tables, 1},
};

static struct body body_of(const char *path)
{
    for (size_t i = 0; i < TR_ARRAY_LEN(bodies); i++) {
        struct body b = bodies[i];
        if (strcmp(path, b.path) != 0)
            continue;
        if (b.api) {
            b.tables = b.api->tables;
            b.n = b.api->n_tables;
        }
        return b;
    }
    return (struct body){.path = path};
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
    if (post && b.api)
        tr_buf_adds(out, ",\"text/event-stream\":{\"schema\":{\"type\":\"string\"}}");
    tr_buf_addf(out,
                "}},\"default\":{\"description\":\"refused\",\"content\":{\"application/json\":"
                "{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}}}}}",
                r->flags & SRV_MESSAGES ? "MessagesError" : "Error");
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
                     "\"code\":{\"type\":[\"string\",\"null\"]}}}}},\"MessagesError\":{"
                     "\"type\":\"object\",\"required\":[\"type\",\"error\"],\"properties\":{"
                     "\"type\":{\"const\":\"error\"},\"error\":{\"type\":\"object\","
                     "\"required\":[\"type\",\"message\"]},"
                     "\"request_id\":{\"type\":\"string\"}}}}}}");
}
