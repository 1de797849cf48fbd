#include "server/api/openapi.h"

#include <string.h>

#include "config/json.h"
#include "server/api/cache.h"
#include "server/api/chat.h"
#include "server/api/completions.h"
#include "server/api/messages.h"
#include "server/api/responses.h"
#include "server/api/tokenize.h"
#include "server/http/route.h"
#include "server/server.h"

static const struct srv_table *const apply_template_tables[] = {&srv_apply_template_fields};

/* Bodies and answers of the routes that have more to say than "an object". */
struct shape {
    const char *path;
    const struct srv_api *api; /* has the tables; NULL: they stand here, and nothing streams */
    const struct srv_table *const *tables; /* of the request's fields; NULL = no body */
    size_t n_tables;
    const char *rules;  /* further members of the body's schema */
    const char *answer; /* the answer's schema; NULL = some object */
};

#define OBJECT(required, properties)                                                               \
    "{\"type\":\"object\",\"required\":[" required "],\"properties\":{" properties "}}"

#define USAGE                                                                                      \
    OBJECT(                                                                                        \
        "\"prompt_tokens\",\"completion_tokens\",\"total_tokens\"",                                \
        "\"prompt_tokens\":{\"type\":\"integer\"},\"completion_tokens\":{\"type\":\"integer\"},"   \
        "\"total_tokens\":{\"type\":\"integer\"}")

#define MODEL                                                                                      \
    OBJECT("\"id\",\"object\",\"created\",\"owned_by\",\"max_model_len\"",                         \
           "\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"model\"},"                        \
           "\"created\":{\"type\":\"integer\"},\"owned_by\":{\"type\":\"string\"},"                \
           "\"max_model_len\":{\"type\":\"integer\"}")

#define COMPLETION                                                                                 \
    OBJECT("\"id\",\"object\",\"created\",\"model\",\"choices\",\"usage\"",                        \
           "\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"text_completion\"},"              \
           "\"created\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},"                   \
           "\"system_fingerprint\":{\"type\":\"string\"},\"usage\":" USAGE                         \
           ",\"choices\":{\"type\":\"array\",\"items\":" OBJECT(                                   \
               "\"index\",\"text\",\"logprobs\",\"finish_reason\"",                                \
               "\"index\":{\"type\":\"integer\"},\"text\":{\"type\":\"string\"},"                  \
               "\"logprobs\":{\"type\":[\"object\",\"null\"]},"                                    \
               "\"finish_reason\":{\"enum\":[\"stop\",\"length\"]},"                               \
               "\"stop_reason\":{\"type\":[\"string\",\"integer\",\"null\"]}") "}")

#define TOKENIZE_RULES                                                                             \
    "\"oneOf\":[" ONE_OF("prompt", "content", "messages") "," ONE_OF(                              \
        "content", "prompt", "messages") "," ONE_OF("messages", "prompt", "content") "]"
#define ONE_OF(given, absent1, absent2)                                                            \
    "{\"required\":[\"" given "\"],\"properties\":{\"" given                                       \
    "\":{\"not\":{\"type\":\"null\"}},\"" absent1 "\":{\"type\":\"null\"},\"" absent2              \
    "\":{\"type\":\"null\"}}}"

#define ERROR_OBJECT                                                                               \
    OBJECT("\"error\"", "\"error\":" OBJECT("\"message\",\"type\",\"param\",\"code\"",             \
                                            "\"message\":{\"type\":\"string\"},"                   \
                                            "\"type\":{\"type\":\"string\"},"                      \
                                            "\"param\":{\"type\":[\"string\",\"null\"]},"          \
                                            "\"code\":{\"type\":[\"string\",\"null\"]}"))

#define MESSAGES_ERROR                                                                             \
    OBJECT(                                                                                        \
        "\"type\",\"error\"",                                                                      \
        "\"type\":{\"const\":\"error\"},\"request_id\":{\"type\":\"string\"},\"error\":" OBJECT(   \
            "\"type\",\"message\"", "\"type\":{\"type\":\"string\"},"                              \
                                    "\"message\":{\"type\":\"string\"}"))

#define REFUSED(schema)                                                                            \
    "{\"description\":\"refused, and why\",\"content\":{\"application/json\":{\"schema\":" schema  \
    "}}}"

#define REQUIRED(fields) "\"required\":[" fields "]"

static const struct shape shapes[] = {
    {"/v1/completions", &srv_completions_api, NULL, 0, REQUIRED("\"prompt\""), COMPLETION},
    {"/v1/chat/completions", &srv_chat_api, NULL, 0, REQUIRED("\"messages\""), NULL},
    {"/v1/responses", &srv_responses_api, NULL, 0, REQUIRED("\"input\""), NULL},
    {"/v1/messages", &srv_messages_api, NULL, 0, REQUIRED("\"messages\",\"max_tokens\""), NULL},
    /* only what makes the prompt is looked at */
    {"/v1/messages/count_tokens", NULL, NULL, 0, REQUIRED("\"messages\""), NULL},
    {"/apply-template", NULL, apply_template_tables, 1, REQUIRED("\"messages\""), NULL},
    {"/tokenize", NULL, srv_tokenize_tables, 2, TOKENIZE_RULES,
     OBJECT("\"tokens\"", "\"tokens\":{\"type\":\"array\"}")},
    {"/detokenize", NULL, srv_detokenize_tables, 1, REQUIRED("\"tokens\""),
     OBJECT("\"prompt\",\"content\"",
            "\"prompt\":{\"type\":\"string\"},\"content\":{\"type\":\"string\"}")},
    {"/v1/snapshots", NULL, srv_snapshot_save_tables, 1, REQUIRED("\"name\",\"prompt\""), NULL},
    {"/v1/snapshots/", NULL, srv_snapshot_restore_tables, 1, REQUIRED(""), NULL},
    {"/v1/models", NULL, NULL, 0, NULL,
     OBJECT("\"object\",\"data\"",
            "\"object\":{\"const\":\"list\"},\"data\":{\"type\":\"array\",\"items\":" MODEL "}")},
    {"/v1/models/", NULL, NULL, 0, NULL, MODEL},
    {"/version", NULL, NULL, 0, NULL, OBJECT("\"version\"", "\"version\":{\"type\":\"string\"}")},
};

static struct shape shape_of(const char *path)
{
    for (size_t i = 0; i < TR_ARRAY_LEN(shapes); i++) {
        struct shape shape = shapes[i];
        if (strcmp(path, shape.path) != 0)
            continue;
        if (shape.api) {
            shape.tables = shape.api->tables;
            shape.n_tables = shape.api->n_tables;
        }
        return shape;
    }
    return (struct shape){.path = path};
}

static void add_body(struct tr_buf *out, const struct srv *s, const struct shape *shape)
{
    tr_buf_adds(out, "{\"type\":\"object\",\"properties\":{");
    struct tr_json defaults = tr_json_root(s->defaults, NULL);
    srv_fields_schema(out, shape->tables, shape->n_tables, &defaults,
                      tr_tokenizer_size(s->tokenizer) - 1);
    tr_buf_addf(out, "},%s}", shape->rules);
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
        struct shape shape = shape_of(srv_routes[i].path);
        if (!shape.tables)
            continue;
        tr_buf_addf(out, "%s\"%s\":", sep, shape.path);
        add_body(out, s, &shape);
        sep = ",";
    }
    tr_buf_adds(out, "}}");
}

/* Every status of the list of problems, once; they stand in its order. */
static void add_refusals(struct tr_buf *out, bool messages)
{
    for (int i = 0; i < SRV_N_PROBLEMS; i++) {
        int status = srv_problem_status((enum srv_problem)i);
        if (i == 0 || status != srv_problem_status((enum srv_problem)(i - 1)))
            tr_buf_addf(out, ",\"%d\":{\"$ref\":\"#/components/responses/%s\"}", status,
                        messages ? "MessagesRefused" : "Refused");
    }
}

static void add_operation(struct tr_buf *out, const struct srv *s, const struct srv_route *r,
                          const char *method)
{
    bool post = strcmp(method, "post") == 0;
    struct shape shape = shape_of(r->path);
    bool text = strcmp(r->path, "/metrics") == 0;
    tr_buf_addf(out, "\"%s\":{\"summary\":", method);
    tr_json_quote(out, r->doc, strlen(r->doc));
    if (r->flags & SRV_ROUTE_PREFIX)
        tr_buf_adds(out, ",\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,"
                         "\"schema\":{\"type\":\"string\",\"minLength\":1}}]");
    if (r->flags & SRV_ROUTE_OPEN)
        tr_buf_adds(out, ",\"security\":[]");
    if (post) {
        tr_buf_adds(out, ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":"
                         "{\"schema\":");
        add_body(out, s, &shape);
        tr_buf_adds(out, "}}}");
    }
    tr_buf_addf(out,
                ",\"responses\":{\"200\":{\"description\":\"the answer\",\"content\":{\"%s\":"
                "{\"schema\":%s}",
                text ? "text/plain" : "application/json",
                text           ? "{\"type\":\"string\"}"
                : shape.answer ? shape.answer
                               : "{\"type\":\"object\"}");
    if (shape.api)
        tr_buf_adds(out, ",\"text/event-stream\":{\"schema\":{\"type\":\"string\"}}");
    tr_buf_adds(out, "}}");
    add_refusals(out, r->flags & SRV_ROUTE_MESSAGES);
    tr_buf_adds(out, "}}");
}

void srv_openapi_document(const struct srv *s, struct tr_buf *out)
{
    tr_buf_addf(out,
                "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"trinityd\",\"version\":\"%s\"},"
                "\"security\":[{},{\"bearer\":[]}],\"paths\":{",
                TR_VERSION);
    for (int i = 0; i < srv_n_routes; i++) {
        const struct srv_route *r = &srv_routes[i];
        tr_buf_addf(out, "%s\"%s%s\":{", i ? "," : "", r->path,
                    r->flags & SRV_ROUTE_PREFIX ? "{id}" : "");
        if (r->get)
            add_operation(out, s, r, "get");
        if (r->get && r->post)
            tr_buf_addc(out, ',');
        if (r->post)
            add_operation(out, s, r, "post");
        if (r->flags & SRV_ROUTE_DELETABLE) {
            tr_buf_addc(out, ',');
            add_operation(out, s, r, "delete");
        }
        tr_buf_addc(out, '}');
    }
    tr_buf_adds(out, "},\"components\":{\"securitySchemes\":{\"bearer\":{\"type\":\"http\","
                     "\"scheme\":\"bearer\"}},\"responses\":{\"Refused\":" REFUSED(
                         ERROR_OBJECT) ",\"MessagesRefused\":" REFUSED(MESSAGES_ERROR) "}}}");
}
