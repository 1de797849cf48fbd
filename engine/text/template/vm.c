#include "engine/text/template/vm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/cancel.h"
#include "config/json.h"
#include "engine/text/template/unicode.h"

enum { CHUNK_BYTES = 64 * 1024, ALIGN = 16 };

_Noreturn void tr_tpl_fail(struct tpl_vm *vm, const char *fmt, ...)
{
    char text[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (vm->line && vm->column)
        tr_tpl_fail_code(vm, TR_EINVAL, NULL, "chat template, line %u, column %u: %s", vm->line,
                         vm->column, text);
    if (vm->line)
        tr_tpl_fail_code(vm, TR_EINVAL, NULL, "chat template, line %u: %s", vm->line, text);
    tr_tpl_fail_code(vm, TR_EINVAL, NULL, "chat template: %s", text);
}

/* Texts may quote the request's strings, cut anywhere: one line of valid UTF-8 is promised. */
static void clean(char *s)
{
    size_t n = strlen(s), bad;
    for (size_t at = 0; !tr_uni_valid(s + at, n - at, &bad); at += bad + 1)
        s[at + bad] = '?';
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = ' ';
}

_Noreturn void tr_tpl_fail_code(struct tpl_vm *vm, int code, const char *param, const char *fmt,
                                ...)
{
    if (vm->err) {
        va_list ap;
        va_start(ap, fmt);
        tr_err_vset(vm->err, code, param, fmt, ap);
        va_end(ap);
        clean(vm->err->msg);
    }
    longjmp(vm->exit, code);
}

void tr_tpl_vm_trim(struct tpl_vm *vm)
{
    tr_buf_done(&vm->text);
    free(vm->pieces);
    vm->pieces = NULL;
    vm->n_pieces = vm->cap_pieces = 0;
}

void tr_tpl_vm_done(struct tpl_vm *vm)
{
    tr_tpl_vm_trim(vm);
    for (struct tpl_document *d = vm->documents; d; d = d->next)
        tr_json_free(d->json);
    vm->documents = NULL;
    tr_tpl_arena_done(&vm->arena);
}

void tr_tpl_arena_done(struct tpl_arena *arena)
{
    for (struct tpl_chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *arena = (struct tpl_arena){0};
}

static _Noreturn void no_memory(struct tpl_vm *vm)
{
    tr_tpl_fail_code(vm, TR_ENOMEM, NULL, "chat template: out of memory");
}

void *tr_tpl_alloc(struct tpl_vm *vm, size_t n)
{
    struct tpl_arena *arena = &vm->arena;
    if (n > TPL_MAX_ARENA)
        tr_tpl_fail(vm, "template limit: memory");
    n = TR_ROUND_UP(TR_MAX(n, (size_t)1), ALIGN);
    if (n > (size_t)(arena->end - arena->at)) {
        size_t bytes = ALIGN + TR_MAX(n, (size_t)CHUNK_BYTES);
        if (arena->total + bytes > TPL_MAX_ARENA)
            tr_tpl_fail(vm, "template limit: memory");
        char *raw = malloc(bytes);
        if (!raw)
            no_memory(vm);
        struct tpl_chunk *chunk = (struct tpl_chunk *)(void *)raw;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->total += bytes;
        /* A block that fills its own chunk leaves the old one's rest in use. */
        if (n >= CHUNK_BYTES && arena->end > arena->at)
            return memset(raw + ALIGN, 0, n);
        arena->at = raw + ALIGN;
        arena->end = raw + bytes;
    }
    void *p = arena->at;
    arena->at += n;
    return memset(p, 0, n);
}

void *tr_tpl_alloc_n(struct tpl_vm *vm, size_t n, size_t size)
{
    if (n > TPL_MAX_ARENA / size)
        tr_tpl_fail(vm, "template limit: memory");
    return tr_tpl_alloc(vm, n * size);
}

void tr_tpl_spend(struct tpl_vm *vm, uint64_t n)
{
    vm->steps += n;
    if (vm->steps > TPL_MAX_STEPS)
        tr_tpl_fail(vm, "template limit: steps");
    if (tr_cancel_asked())
        tr_tpl_fail(vm, "canceled");
}

void tr_tpl_enter(struct tpl_vm *vm)
{
    if (++vm->depth > TPL_MAX_DEPTH)
        tr_tpl_fail(vm, "template limit: depth");
}

void tr_tpl_leave(struct tpl_vm *vm)
{
    vm->depth--;
}

static void mark_origin(struct tpl_vm *vm, size_t end, enum tpl_origin origin)
{
    if (vm->n_pieces && vm->pieces[vm->n_pieces - 1].origin == origin) {
        vm->pieces[vm->n_pieces - 1].end = (uint32_t)end;
        return;
    }
    if (vm->n_pieces == vm->cap_pieces) {
        uint32_t cap = vm->cap_pieces ? vm->cap_pieces * 2 : 64;
        struct tpl_piece *grown = realloc(vm->pieces, cap * sizeof *grown);
        if (!grown)
            no_memory(vm);
        vm->pieces = grown;
        vm->cap_pieces = cap;
    }
    vm->pieces[vm->n_pieces++] = (struct tpl_piece){.end = (uint32_t)end, .origin = origin};
}

void tr_tpl_put(struct tpl_vm *vm, const char *bytes, size_t n, enum tpl_origin origin)
{
    if (n == 0)
        return;
    if (n > TPL_MAX_OUTPUT || vm->text.len + n > TPL_MAX_OUTPUT)
        tr_tpl_fail(vm, "template limit: output");
    tr_tpl_spend(vm, n / 64);
    tr_buf_add(&vm->text, bytes, n);
    if (vm->text.oom)
        no_memory(vm);
    mark_origin(vm, vm->text.len, origin);
}

void tr_tpl_puts(struct tpl_vm *vm, const char *s, enum tpl_origin origin)
{
    tr_tpl_put(vm, s, strlen(s), origin);
}

void tr_tpl_put_char(struct tpl_vm *vm, uint32_t c, enum tpl_origin origin)
{
    char utf8[4];
    tr_tpl_put(vm, utf8, tr_uni_encode(c, utf8), origin);
}

void tr_tpl_put_times(struct tpl_vm *vm, const char *bytes, size_t n, size_t times,
                      enum tpl_origin origin)
{
    char block[256];
    size_t per_block = TR_MAX(sizeof block / n, (size_t)1);
    if (per_block > 1) {
        for (size_t i = 0; i < per_block; i++)
            memcpy(block + i * n, bytes, n);
        for (; times >= per_block; times -= per_block)
            tr_tpl_put(vm, block, per_block * n, origin);
    }
    for (; times; times--)
        tr_tpl_put(vm, bytes, n, origin);
}

void tr_tpl_rewind(struct tpl_vm *vm, size_t mark)
{
    vm->text.len = mark;
    while (vm->n_pieces > 1 && vm->pieces[vm->n_pieces - 2].end >= mark)
        vm->n_pieces--;
    if (mark == 0)
        vm->n_pieces = 0;
    else if (vm->n_pieces)
        vm->pieces[vm->n_pieces - 1].end = (uint32_t)mark;
}

void tr_tpl_claim(struct tpl_vm *vm, size_t mark, enum tpl_origin origin)
{
    size_t end = vm->text.len;
    if (end == mark)
        return;
    tr_tpl_rewind(vm, mark);
    vm->text.len = end;
    mark_origin(vm, end, origin);
}
