#include "server/call/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_MAX = 4096 }; /* nodes kept for reuse: about 1 MiB */

int srv_outbox_init(struct srv_outbox *o, uv_loop_t *loop, uv_async_cb wake, void *data)
{
    *o = (struct srv_outbox){0};
    o->tail = &o->head;
    int r = uv_async_init(loop, &o->async, wake);
    if (r < 0)
        return r;
    o->async.data = data;
    pthread_mutex_init(&o->lock, NULL);
    return 0;
}

void srv_outbox_done(struct srv_outbox *o)
{
    while (o->pool) {
        struct srv_event *next = o->pool->next;
        free(o->pool);
        o->pool = next;
    }
    pthread_mutex_destroy(&o->lock);
}

static void copy_event(struct srv_event *node, const struct tr_event *event)
{
    node->next = NULL;
    node->e = *event;
    node->e.err = NULL;
    node->error = 0;
    if (event->kind == TR_EVENT_TOKEN || event->kind == TR_EVENT_PROMPT) {
        node->e.n_top = TR_MIN(event->n_top, SRV_MAX_LOGPROBS);
        if (event->n_top > 0)
            memcpy(node->top, event->top, (size_t)node->e.n_top * sizeof node->top[0]);
        node->e.top = node->top;
        return;
    }
    node->e.n_top = 0;
    if (event->usage) {
        node->end.usage = *event->usage;
        node->e.usage = &node->end.usage;
    }
    if (event->err) {
        node->error = event->err->code;
        snprintf(node->end.text, sizeof node->end.text, "%.*s", (int)sizeof node->end.text - 1,
                 event->err->msg);
    }
}

static struct srv_event *node_for(struct srv_outbox *o, const struct tr_event *event)
{
    struct srv_sink *sink = event->user;
    if (event->kind == TR_EVENT_DONE)
        return &sink->done;
    pthread_mutex_lock(&o->lock);
    struct srv_event *node = o->pool;
    if (node) {
        o->pool = node->next;
        o->n_pool--;
    }
    pthread_mutex_unlock(&o->lock);
    if (!node)
        node = malloc(sizeof *node);
    if (!node)
        sink->lost = true;
    return node;
}

void srv_outbox_push(void *outbox, const struct tr_event *event)
{
    struct srv_outbox *o = outbox;
    struct srv_event *node = node_for(o, event);
    if (!node)
        return;
    copy_event(node, event);
    pthread_mutex_lock(&o->lock);
    bool was_empty = !o->head;
    *o->tail = node;
    o->tail = &node->next;
    pthread_mutex_unlock(&o->lock);
    if (was_empty)
        uv_async_send(&o->async);
}

struct srv_event *srv_outbox_take(struct srv_outbox *o)
{
    pthread_mutex_lock(&o->lock);
    struct srv_event *list = o->head;
    o->head = NULL;
    o->tail = &o->head;
    pthread_mutex_unlock(&o->lock);
    return list;
}

void srv_outbox_recycle(struct srv_outbox *o, struct srv_event *list)
{
    pthread_mutex_lock(&o->lock);
    while (list && o->n_pool < POOL_MAX) {
        struct srv_event *next = list->next;
        list->next = o->pool;
        o->pool = list;
        o->n_pool++;
        list = next;
    }
    pthread_mutex_unlock(&o->lock);
    while (list) {
        struct srv_event *next = list->next;
        free(list);
        list = next;
    }
}
