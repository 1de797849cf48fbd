/* Where calls begin and end. What is in them is read by tools_hermes.c and tools_xml.c. */
#include "engine/text/tools.h"

#include "engine/text/tags.h"
#include "engine/text/tools_internal.h"

enum {
    ARGUMENT_PART = 32, /* bytes of arguments in one event: they reach clients as deltas */
    OPEN = sizeof TR_TOOL_OPEN - 1,
    /* What follows a malformed call's tag is read again: behind so many all is content. */
    MAX_MALFORMED = 64
};

enum tr_tool_format tr_tool_format_of(const char *s, size_t n)
{
    if (memmem(s, n, "<function=", 10) && memmem(s, n, "<parameter=", 11))
        return TR_TOOL_XML;
    return memmem(s, n, TR_TOOL_OPEN, OPEN) ? TR_TOOL_HERMES : TR_TOOL_NONE;
}

void tr_tool_parser_done(struct tr_tool_parser *p)
{
    tr_buf_done(&p->held);
}

static int emit(struct tr_tool_parser *p, enum tr_tool_event_kind kind, const char *text, size_t n)
{
    if (n == 0 && kind == TR_TOOL_CONTENT)
        return 0;
    struct tr_tool_event event = {.kind = kind, .index = p->n_calls, .text = text, .n = n};
    return p->fn(p->arg, &event);
}

/* Emits the first n held bytes as content. */
static int release(struct tr_tool_parser *p, size_t n)
{
    int r = emit(p, TR_TOOL_CONTENT, p->held.data, n);
    tr_buf_drop(&p->held, n);
    return r;
}

/* A part of at most ARGUMENT_PART bytes that ends between characters. */
static size_t part(const char *s, size_t n)
{
    size_t end = TR_MIN(n, (size_t)ARGUMENT_PART);
    while (end < n && ((unsigned char)s[end] & 0xc0) == 0x80)
        end--;
    return end;
}

static int emit_call(struct tr_tool_parser *p, const struct tr_tool_call *call)
{
    if (p->n_calls > 0 && !p->parallel)
        return 0;
    int r = emit(p, TR_TOOL_CALL, call->name.data, call->name.len);
    for (size_t at = 0; r == 0 && at < call->arguments.len;) {
        size_t n = part(call->arguments.data + at, call->arguments.len - at);
        r = emit(p, TR_TOOL_ARGUMENTS, call->arguments.data + at, n);
        at += n;
    }
    if (r == 0)
        r = emit(p, TR_TOOL_CALL_END, NULL, 0);
    p->n_calls++;
    return r;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

size_t tr_tool_skip_space(const char *s, size_t at, size_t n)
{
    while (at < n && is_space(s[at]))
        at++;
    return at;
}

/* Looks for the start of a call. White space is held until it is known what follows: before a call
 * it is dropped. Returns whether a call begins. */
static int in_content(struct tr_tool_parser *p, bool *ret_found)
{
    size_t tag = tr_tag_search(p->held.data, p->held.len, TR_TOOL_OPEN, ret_found), end = tag;
    while (end > 0 && is_space(p->held.data[end - 1]))
        end--;
    int r = release(p, end);
    p->in_call = *ret_found;
    p->tag = tag - end;
    p->scan = p->tag + OPEN;
    p->depth = 0;
    p->in_string = p->escaped = false;
    p->begin = p->json = p->json_end = 0;
    return r;
}

/* Reads the call whose body is held[tag + OPEN .. end), drops the held text up to `after`. A body
 * that is no call makes its tag content; the rest is looked through again. */
static int finish_call(struct tr_tool_parser *p, enum tr_tool_found found, size_t end, size_t after)
{
    struct tr_tool_call call = {0};
    const char *body = p->held.data + p->tag + OPEN;
    size_t n = end - p->tag - OPEN;
    int r = 0;
    if (found == TR_TOOL_COMPLETE) {
        bool ok;
        r = p->format == TR_TOOL_HERMES ? tr_tool_read_hermes(body, n, &call, &ok)
                                        : tr_tool_read_xml(p->tools, body, n, &call, &ok);
        if (!ok)
            found = TR_TOOL_MALFORMED;
    }
    p->in_call = false;
    if (r == 0 && found == TR_TOOL_COMPLETE) {
        r = emit_call(p, &call);
        tr_buf_drop(&p->held, after);
    } else if (r == 0) {
        bool last = ++p->n_malformed == MAX_MALFORMED;
        if (last)
            p->format = TR_TOOL_NONE;
        r = release(p, last ? p->held.len : p->tag + OPEN);
    }
    tr_buf_done(&call.name);
    tr_buf_done(&call.arguments);
    return r;
}

static int run(struct tr_tool_parser *p)
{
    int r = 0;
    bool more = true;
    while (r == 0 && more && p->held.len > 0) {
        if (!p->in_call) {
            r = in_content(p, &more);
            continue;
        }
        size_t end = 0, after = 0;
        enum tr_tool_found found = p->format == TR_TOOL_HERMES
                                       ? tr_tool_scan_hermes(p, &end, &after)
                                       : tr_tool_scan_xml(p, &end, &after);
        more = found != TR_TOOL_MORE;
        if (more)
            r = finish_call(p, found, end, after);
    }
    return r;
}

int tr_tool_parser_add(struct tr_tool_parser *p, const char *text, size_t n)
{
    if (p->format == TR_TOOL_NONE)
        return emit(p, TR_TOOL_CONTENT, text, n);
    tr_buf_add(&p->held, text, n);
    return p->held.oom ? TR_ENOMEM : run(p);
}

int tr_tool_parser_end(struct tr_tool_parser *p, bool stopped)
{
    int r = 0;
    while (r == 0 && stopped && p->in_call) {
        /* Only the closing tag may be missing. */
        bool hermes = p->format == TR_TOOL_HERMES;
        enum tr_tool_found found = hermes && !p->json_end ? TR_TOOL_MALFORMED : TR_TOOL_COMPLETE;
        size_t end = !hermes ? p->held.len : TR_MAX(p->json_end, p->tag + OPEN);
        r = finish_call(p, found, end, p->held.len);
        if (r == 0)
            r = run(p);
    }
    if (r == 0 && !p->in_call) {
        bool found;
        size_t end =
            stopped ? p->held.len : tr_tag_search(p->held.data, p->held.len, TR_TOOL_OPEN, &found);
        if (p->n_calls == 0 || tr_tool_skip_space(p->held.data, 0, end) < end)
            r = release(p, end);
    }
    tr_buf_clear(&p->held);
    return r;
}
