#include "server/http/span.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "config/clock.h"
#include "config/json.h"
#include "server/http/route.h"
#include "server/server.h"
#include "server/spans.h"

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };
#define MS_NS 1e6

/* Hexadecimal digits, not all of them 0. */
static void make_id(char *text, size_t bytes)
{
    unsigned char id[16] = {0};
    if (getrandom(id, bytes, GRND_NONBLOCK) != (ssize_t)bytes) {
        int64_t now = tr_clock_ns();
        memcpy(id, &now, sizeof now);
    }
    id[0] |= 1;
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
}

static void add_string(struct tr_buf *out, const char *key, const char *value)
{
    tr_buf_addf(out, "%s{\"key\": \"%s\", \"value\": {\"stringValue\": ",
                out->data[out->len - 1] == '[' ? "" : ", ", key);
    tr_json_quote(out, value, strlen(value));
    tr_buf_adds(out, "}}");
}

static void add_strings(struct tr_buf *out, const char *key, const char *value)
{
    tr_buf_addf(out, ", {\"key\": \"%s\", \"value\": {\"arrayValue\": {\"values\": [", key);
    tr_buf_adds(out, "{\"stringValue\": ");
    tr_json_quote(out, value, strlen(value));
    tr_buf_adds(out, "}]}}}");
}

static void add_int(struct tr_buf *out, const char *key, long long value)
{
    tr_buf_addf(out, ", {\"key\": \"%s\", \"value\": {\"intValue\": \"%lld\"}}", key, value);
}

struct ids {
    char trace[33], span[17];
};

/* A span up to its attributes; times are unix nanoseconds. */
static void begin(struct tr_buf *out, const struct ids *ids, const char *parent, const char *name,
                  int kind, const int64_t times[2])
{
    tr_buf_addf(out, "%s{\"traceId\": \"%s\", \"spanId\": \"%s\", ", out->len ? ", " : "",
                ids->trace, ids->span);
    if (*parent)
        tr_buf_addf(out, "\"parentSpanId\": \"%s\", ", parent);
    tr_buf_adds(out, "\"name\": ");
    tr_json_quote(out, name, strlen(name));
    tr_buf_addf(out,
                ", \"kind\": %d, \"startTimeUnixNano\": \"%lld\", "
                "\"endTimeUnixNano\": \"%lld\", \"attributes\": [",
                kind, (long long)times[0], (long long)times[1]);
}

static void add_call(struct tr_buf *out, const struct srv_ledger *l)
{
    add_string(out, "gen_ai.operation.name", l->operation);
    add_string(out, "gen_ai.provider.name", "trinityd");
    add_string(out, "gen_ai.request.model", l->model);
    add_string(out, "gen_ai.response.model", l->model);
    add_int(out, "gen_ai.usage.input_tokens", l->prompt);
    add_int(out, "gen_ai.usage.output_tokens", l->completion);
    add_int(out, "gen_ai.usage.cache_read.input_tokens", l->cached);
    if (l->finish)
        add_strings(out, "gen_ai.response.finish_reasons", l->finish);
}

/* What the call did between begin and end: `begun`, and what each part took. */
static int add_parts(struct tr_buf *out, const struct srv_ledger *l, const struct ids *up,
                     const int64_t whole[2])
{
    double first = (double)whole[0] + l->first_ms * MS_NS;
    double prefill = first - l->prefill_ms * MS_NS;
    const struct {
        const char *name;
        double from, to;
    } parts[] = {{"queue", prefill - l->queue_ms * MS_NS, prefill},
                 {"prefill", prefill, first},
                 {"decode", first, first + l->decode_ms * MS_NS}};
    for (size_t i = 0; i < TR_ARRAY_LEN(parts); i++) {
        struct ids ids = *up;
        make_id(ids.span, 8);
        int64_t from = TR_MIN(TR_MAX((int64_t)parts[i].from, whole[0]), whole[1]);
        const int64_t times[2] = {from, TR_MIN(TR_MAX((int64_t)parts[i].to, from), whole[1])};
        begin(out, &ids, up->span, parts[i].name, KIND_INTERNAL, times);
        tr_buf_adds(out, "]}");
    }
    return (int)TR_ARRAY_LEN(parts);
}

void srv_span_tell(const struct srv_req *req)
{
    struct srv_spans *spans = req->srv->spans;
    const struct srv_ledger *l = &req->ledger;
    bool routine = req->route && req->route->flags & SRV_ROUTE_ALWAYS && req->status == 200;
    if (!spans || routine || (req->trace[0] && !req->sampled))
        return;
    struct timespec now;
    struct tr_buf out = {0};
    struct ids ids;
    char name[192];
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t end = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    const int64_t times[2] = {end - (tr_clock_ns() - req->begun_ns), end};
    int status = req->gone ? 499 : req->status, n = 1;
    memcpy(ids.trace, req->trace, sizeof ids.trace);
    if (!req->trace[0])
        make_id(ids.trace, 16);
    make_id(ids.span, 8);
    snprintf(name, sizeof name, "%s %s", l->made ? l->operation : srv_methods[req->method],
             l->made      ? l->model
             : req->route ? req->route->path
                          : "");
    begin(&out, &ids, req->span, name, KIND_SERVER, times);
    add_string(&out, "http.request.method", srv_methods[req->method]);
    if (req->route)
        add_string(&out, "http.route", req->route->path);
    add_strings(&out, "http.request.header.x-request-id", req->id);
    add_int(&out, "http.response.status_code", status);
    if (l->made)
        add_call(&out, l);
    if (status >= 400) {
        char type[16];
        snprintf(type, sizeof type, "%d", status);
        add_string(&out, "error.type", type);
    }
    tr_buf_addf(&out, "], \"status\": {%s}}", status >= 500 ? "\"code\": 2" : "");
    if (l->made && l->begun)
        n += add_parts(&out, l, &ids, times);
    srv_spans_put(spans, &out, n);
}
