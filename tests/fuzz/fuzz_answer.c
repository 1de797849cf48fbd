/* A model's answer: reasoning and tool calls come out the same whether it arrives at once or byte by byte. The first byte
 * chooses the tool format and how the answer begins and ends. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/reasoning.h"
#include "engine/text/tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes an event so that two runs can be compared: content and arguments join, the rest is marked. */
static int note(void *arg, const struct tr_tool_event *e)
{
    struct tr_buf *log = arg;
    static const char marks[] = {[TR_TOOL_CONTENT] = 'T',
                                 [TR_TOOL_CALL] = 'C',
                                 [TR_TOOL_ARGUMENTS] = 'A',
                                 [TR_TOOL_CALL_END] = 'E'};
    static char last;
    if (log->len == 0)
        last = 0;
    if (marks[e->kind] != last || e->kind == TR_TOOL_CALL)
        tr_buf_addf(log, "\n%c%d:", marks[e->kind], e->index * (e->kind != TR_TOOL_CONTENT));
    last = marks[e->kind];
    tr_buf_add(log, e->text, e->n);
    return 0;
}

static void parse(const char *text, size_t n, size_t step, unsigned how,
                  const struct tr_json *tools, struct tr_buf *log, struct tr_buf *reasoning)
{
    struct tr_buf content = {0};
    struct tr_reasoning r;
    struct tr_tool_parser p = {
        .format = how % 3, .tools = tools, .parallel = how & 4, .fn = note, .arg = log};
    tr_reasoning_init(&r, how & 8);
    for (size_t at = 0; at < n; at += step) {
        assert(tr_reasoning_add(&r, text + at, TR_MIN(step, n - at), reasoning, &content) == 0);
        assert(tr_tool_parser_add(&p, content.data, content.len) == 0);
        tr_buf_clear(&content);
    }
    assert(tr_reasoning_end(&r, reasoning, &content) == 0);
    assert(tr_tool_parser_add(&p, content.data, content.len) == 0);
    assert(tr_tool_parser_end(&p, how & 16) == 0);
    tr_tool_parser_done(&p);
    tr_reasoning_done(&r);
    tr_buf_done(&content);
}

static void same(struct tr_buf *a, struct tr_buf *b)
{
    assert(a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0));
    tr_buf_done(a);
    tr_buf_done(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char tools[] = "[{\"function\": {\"name\": \"f\", \"parameters\": "
                                "{\"properties\": {\"a\": {\"type\": \"integer\"}}}}}]";
    struct tr_buf log[2] = {{0}}, reasoning[2] = {{0}};
    struct json_t *doc;

    if (size == 0)
        return 0;
    assert(tr_json_parse(&doc, tools, sizeof tools - 1, NULL) == 0);
    struct tr_json root = tr_json_root(doc, NULL);
    const char *text = (const char *)data + 1;
    parse(text, size - 1, size, data[0], &root, &log[0], &reasoning[0]);
    parse(text, size - 1, 1, data[0], &root, &log[1], &reasoning[1]);
    same(&log[0], &log[1]);
    same(&reasoning[0], &reasoning[1]);
    tr_json_free(doc);
    return 0;
}
