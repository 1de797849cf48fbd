#include "engine/text/reasoning.h"

#include "engine/text/tags.h"

static const char open_tag[] = TR_REASONING_TAG, close_tag[] = TR_REASONING_CLOSE;

void tr_reasoning_init(struct tr_reasoning *r, bool opened)
{
    *r = (struct tr_reasoning){.state = opened ? TR_REASONING_OPEN : TR_REASONING_BEGIN};
}

void tr_reasoning_done(struct tr_reasoning *r)
{
    tr_buf_done(&r->held);
}

static size_t count_leading(const struct tr_buf *b, const char *set)
{
    size_t n = 0;
    while (n < b->len && b->data[n] && strchr(set, b->data[n]))
        n++;
    return n;
}

/* Moves the first n held bytes to out. */
static void release(struct tr_reasoning *r, size_t n, struct tr_buf *out)
{
    tr_buf_add(out, r->held.data, n);
    tr_buf_drop(&r->held, n);
}

/* Each step decides what it can and tells whether another step may follow. */

static bool at_begin(struct tr_reasoning *r)
{
    size_t space = count_leading(&r->held, " \t\r\n");
    bool partial;
    if (tr_tag_at(r->held.data + space, r->held.len - space, open_tag, &partial)) {
        tr_buf_drop(&r->held, space + sizeof open_tag - 1);
        r->state = TR_REASONING_FIRST;
    } else if (!partial) {
        r->state = r->state == TR_REASONING_OPEN ? TR_REASONING_FIRST : TR_REASONING_CONTENT;
    }
    return !partial;
}

static bool skip_breaks(struct tr_reasoning *r, enum tr_reasoning_state next)
{
    tr_buf_drop(&r->held, count_leading(&r->held, "\r\n"));
    if (r->held.len == 0)
        return false;
    r->state = next;
    return true;
}

static bool inside(struct tr_reasoning *r, struct tr_buf *reasoning)
{
    bool found;
    size_t tag = tr_tag_search(r->held.data, r->held.len, close_tag, &found), end = tag;
    while (end > 0 && (r->held.data[end - 1] == '\n' || r->held.data[end - 1] == '\r'))
        end--;
    release(r, end, reasoning);
    if (found) {
        tr_buf_drop(&r->held, tag - end + sizeof close_tag - 1);
        r->state = TR_REASONING_AFTER;
    }
    return found;
}

int tr_reasoning_add(struct tr_reasoning *r, const char *text, size_t n, struct tr_buf *reasoning,
                     struct tr_buf *content)
{
    tr_buf_add(&r->held, text, n);
    bool more = r->held.len > 0 && !r->held.oom;
    while (more) {
        switch (r->state) {
        case TR_REASONING_BEGIN:
        case TR_REASONING_OPEN:
            more = at_begin(r);
            break;
        case TR_REASONING_FIRST:
            more = skip_breaks(r, TR_REASONING_INSIDE);
            break;
        case TR_REASONING_INSIDE:
            more = inside(r, reasoning);
            break;
        case TR_REASONING_AFTER:
            more = skip_breaks(r, TR_REASONING_CONTENT);
            break;
        case TR_REASONING_CONTENT:
            release(r, r->held.len, content);
            more = false;
            break;
        }
    }
    return r->held.oom || reasoning->oom || content->oom ? TR_ENOMEM : 0;
}

int tr_reasoning_end(struct tr_reasoning *r, struct tr_buf *reasoning, struct tr_buf *content)
{
    release(r, r->held.len, r->state == TR_REASONING_BEGIN ? content : reasoning);
    return reasoning->oom || content->oom ? TR_ENOMEM : 0;
}
