/* Doubly linked lists whose links lie in what is listed. A head is a link, too: the list is a
 * ring, and an empty list's head points at itself. */
#ifndef TR_CONFIG_LIST_H
#define TR_CONFIG_LIST_H

#include <stdbool.h>

#include "config/base.h"

struct tr_list {
    struct tr_list *prev, *next;
};

static inline void tr_list_init(struct tr_list *head)
{
    head->prev = head->next = head;
}

static inline bool tr_list_empty(const struct tr_list *head)
{
    return head->next == head;
}

/* Behind `at`: at a head, the first. */
static inline void tr_list_insert(struct tr_list *at, struct tr_list *link)
{
    link->prev = at;
    link->next = at->next;
    at->next->prev = link;
    at->next = link;
}

static inline void tr_list_append(struct tr_list *head, struct tr_list *link)
{
    tr_list_insert(head->prev, link);
}

/* The link is in no list then, and says so: both its pointers are NULL. */
static inline void tr_list_remove(struct tr_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

/* What a link lies in; `link` is a member of `type`. */
#define TR_LIST_AT(type, at) TR_CONTAINER_OF(at, type, link)
/* Runs over a list, first to last. */
#define TR_LIST_EACH(type, it, head)                                                               \
    for (type *it = TR_LIST_AT(type, (head)->next); &it->link != (head);                           \
         it = TR_LIST_AT(type, it->link.next))
/* The same; the body may take `it` out of the list. */
#define TR_LIST_EACH_SAFE(type, it, head)                                                          \
    for (type *it = TR_LIST_AT(type, (head)->next), *it##_next = TR_LIST_AT(type, it->link.next);  \
         &it->link != (head); it = it##_next, it##_next = TR_LIST_AT(type, it->link.next))

#endif
