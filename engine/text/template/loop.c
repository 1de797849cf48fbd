/*
 * The loop variable: a walk that can look one element ahead.
 *
 * As in Jinja the elements are fetched, and the inline test is asked, only when needed; loop.last
 * and loop.nextitem look one ahead, loop.length of a filtered loop fetches the rest.
 */
#include "engine/text/template/render.h"

struct tpl_loop {
    struct tpl_render *r;
    struct tpl_activation *act; /* where the test is evaluated */
    const struct tpl_node *node;
    struct tpl_value iterable;
    struct tpl_cursor cursor;
    struct tpl_value before, current, after; /* TPL_ABSENT: none, or not fetched */
    struct tpl_value changed;                /* arguments of the last changed() */
    int64_t index0, length;                  /* length -1: not known yet */
    bool tested;                             /* the cursor gives elements that passed the test */
};

static const struct tpl_value absent = {.type = TPL_ABSENT};

struct tpl_value tr_tpl_loop_start(struct tpl_render *r, struct tpl_activation *act,
                                   const struct tpl_node *node, struct tpl_value iterable)
{
    struct tpl_loop *loop = tr_tpl_alloc(&r->vm, sizeof *loop);
    *loop = (struct tpl_loop){.r = r,
                              .act = act,
                              .node = node,
                              .iterable = iterable,
                              .cursor = tr_tpl_iterate(&r->vm, iterable),
                              .before = absent,
                              .current = absent,
                              .after = absent,
                              .changed = absent,
                              .index0 = -1,
                              .length = node->e ? -1 : tr_tpl_length(iterable),
                              .tested = !node->e};
    return (struct tpl_value){.type = TPL_LOOP, .u.loop = loop};
}

static bool fetch(struct tpl_loop *loop, struct tpl_value *ret)
{
    struct tpl_render *r = loop->r;
    while (tr_tpl_next(&r->vm, &loop->cursor, ret)) {
        if (loop->tested)
            return true;
        tr_tpl_assign(r, loop->act, loop->node->test_target, *ret);
        if (tr_tpl_truth(&r->vm, tr_tpl_eval(r, loop->act, loop->node->e)))
            return true;
    }
    return false;
}

static bool peek(struct tpl_loop *loop)
{
    return tpl_given(loop->after) || fetch(loop, &loop->after) || (loop->after = absent, false);
}

bool tr_tpl_loop_next(struct tpl_vm *vm, struct tpl_value v, struct tpl_value *ret)
{
    struct tpl_loop *loop = v.u.loop;
    tr_tpl_spend(vm, 1);
    if (!peek(loop))
        return false;
    *ret = loop->after;
    loop->after = absent;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *ret;
    return true;
}

static int64_t length(struct tpl_loop *loop)
{
    if (loop->length >= 0)
        return loop->length;
    struct tpl_vm *vm = &loop->r->vm;
    struct tpl_value rest = tr_tpl_list(vm, 0, TPL_LIST), v;
    uint32_t cap = 0;
    while (fetch(loop, &v)) {
        struct tpl_list *list = rest.u.list;
        if (list->n == cap) {
            struct tpl_list *grown = tr_tpl_list(vm, cap ? 2 * cap : 16, TPL_LIST).u.list;
            cap = grown->n;
            for (uint32_t i = 0; i < list->n; i++)
                grown->v[i] = list->v[i];
            list->v = grown->v;
        }
        list->v[list->n++] = v;
    }
    loop->cursor = tr_tpl_iterate(vm, rest);
    loop->tested = true;
    loop->length = rest.u.list->n + loop->index0 + 1 + tpl_given(loop->after);
    return loop->length;
}

bool tr_tpl_loop_attr(struct tpl_vm *vm, struct tpl_value v, struct tpl_value name,
                      struct tpl_value *ret)
{
    struct tpl_loop *loop = v.u.loop;
    if (tr_tpl_str_is(name, "index0"))
        *ret = tpl_int(loop->index0);
    else if (tr_tpl_str_is(name, "index"))
        *ret = tpl_int(loop->index0 + 1);
    else if (tr_tpl_str_is(name, "first"))
        *ret = tpl_bool(loop->index0 == 0);
    else if (tr_tpl_str_is(name, "last"))
        *ret = tpl_bool(!peek(loop));
    else if (tr_tpl_str_is(name, "length"))
        *ret = tpl_int(length(loop));
    else if (tr_tpl_str_is(name, "revindex0"))
        *ret = tpl_int(length(loop) - loop->index0 - 1);
    else if (tr_tpl_str_is(name, "revindex"))
        *ret = tpl_int(length(loop) - loop->index0);
    else if (tr_tpl_str_is(name, "depth0"))
        *ret = tpl_int(0);
    else if (tr_tpl_str_is(name, "depth"))
        *ret = tpl_int(1);
    else if (tr_tpl_str_is(name, "previtem"))
        *ret =
            loop->index0 > 0
                ? loop->before
                : tpl_undefined(TPL_NO_ITEM, tr_tpl_literal(vm, "there is no previous item").u.str);
    else if (tr_tpl_str_is(name, "nextitem"))
        *ret = peek(loop)
                   ? loop->after
                   : tpl_undefined(TPL_NO_ITEM, tr_tpl_literal(vm, "there is no next item").u.str);
    else
        return false;
    return true;
}

struct tpl_value tr_tpl_loop_cycle(struct tpl_vm *vm, struct tpl_value v,
                                   const struct tpl_args *args)
{
    if (args->n == 0 || args->n_named)
        tr_tpl_fail(vm, "loop.cycle takes the items to cycle through");
    return args->v[v.u.loop->index0 % args->n];
}

struct tpl_value tr_tpl_loop_changed(struct tpl_vm *vm, struct tpl_value v,
                                     const struct tpl_args *args)
{
    struct tpl_value now = tr_tpl_list(vm, args->n, TPL_TUPLE);
    for (uint32_t i = 0; i < args->n; i++)
        now.u.list->v[i] = args->v[i];
    bool changed = !tr_tpl_equal(vm, v.u.loop->changed, now);
    v.u.loop->changed = now;
    return tpl_bool(changed);
}
