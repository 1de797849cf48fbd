/*
 * What loading and rendering a template share: an arena for everything they make, one growing text
 * that is used as a stack, budgets, and one way out on failure.
 *
 * A failure anywhere (a type error in the template, a limit, no memory) ends the whole load or
 * render; there is nothing to clean up on the way, because all memory hangs on the vm. So
 * tr_tpl_fail does a longjmp to the entry point, and no function below it needs an error path.
 *
 * Every string knows which of its bytes the template's author wrote and which came with the
 * request. The text in the making carries the same marks.
 */
#ifndef TR_ENGINE_TEXT_TEMPLATE_VM_H
#define TR_ENGINE_TEXT_TEMPLATE_VM_H

#include <setjmp.h>
#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"

enum {
    TPL_MAX_SOURCE = 256 * 1024,
    TPL_MAX_NODES = 64 * 1024,
    TPL_MAX_NESTING = 200,     /* of blocks and expressions in the source */
    TPL_MAX_CALLS = 64,        /* macros inside macros */
    TPL_MAX_DEPTH = 1500,      /* evaluator and value recursion together: bounds the C stack */
    TPL_MAX_STEPS = 5000000,   /* nodes evaluated + elements visited + 64-byte units copied */
    TPL_MAX_OUTPUT = 16 << 20, /* bytes of the text in the making */
    TPL_MAX_ARENA = 64 << 20,
    TPL_MAX_RANGE = 100000,
    TPL_MAX_LIST = 1000000
};

/* Who wrote a byte. TPL_MARK is data too: the mark behind the message that is to be continued. */
enum tpl_origin { TPL_TEMPLATE, TPL_DATA, TPL_MARK };

/* Bytes up to `end` (from the previous piece's end) have this origin. */
struct tpl_piece {
    uint32_t end;
    uint32_t origin; /* enum tpl_origin */
};

struct tpl_chunk {
    struct tpl_chunk *next;
};

struct tpl_arena {
    struct tpl_chunk *chunks;
    char *at, *end; /* free part of the newest chunk */
    size_t total;   /* bytes of all chunks */
};

/* A JSON document that strings of the arena point into. */
struct tpl_document {
    struct tpl_document *next;
    struct json_t *json;
};

struct tpl_vm {
    struct tpl_arena arena;
    struct tpl_document *documents;
    struct tr_buf text;       /* output, and strings in the making above it */
    struct tpl_piece *pieces; /* malloc'd; covers text */
    uint32_t n_pieces, cap_pieces;
    uint64_t steps;
    int depth, calls;
    uint32_t line;      /* of what is being evaluated; 0 = none */
    uint32_t column;    /* known while loading only; 0 = do not say */
    struct tr_err *err; /* of the caller, may be NULL */
    jmp_buf exit;       /* setjmp at the entry point; the value is the TR_E code */
};

/* Ends the load or render with TR_EINVAL and the place in the template / with the given code,
 * parameter name (NULL = none) and bare text. */
_Noreturn void tr_tpl_fail(struct tpl_vm *vm, const char *fmt, ...) TR_PRINTF(2, 3);
_Noreturn void tr_tpl_fail_code(struct tpl_vm *vm, int code, const char *param, const char *fmt,
                                ...) TR_PRINTF(4, 5);
/* Frees everything but the arena / the arena too. */
void tr_tpl_vm_trim(struct tpl_vm *vm);
void tr_tpl_vm_done(struct tpl_vm *vm);
void tr_tpl_arena_done(struct tpl_arena *arena);

/* Zeroed memory, 16-byte aligned, that lives as long as the arena. Never NULL. */
void *tr_tpl_alloc(struct tpl_vm *vm, size_t n);
/* n elements of `size` bytes. */
void *tr_tpl_alloc_n(struct tpl_vm *vm, size_t n, size_t size);
/* Charges n steps. */
void tr_tpl_spend(struct tpl_vm *vm, uint64_t n);
/* Brackets one level of recursion. */
void tr_tpl_enter(struct tpl_vm *vm);
void tr_tpl_leave(struct tpl_vm *vm);

/* The text in the making. A string is built by remembering vm->text.len, putting parts, and cutting
 * the part above the mark off (value.h); marks nest. */
void tr_tpl_put(struct tpl_vm *vm, const char *bytes, size_t n, enum tpl_origin origin);
void tr_tpl_puts(struct tpl_vm *vm, const char *s, enum tpl_origin origin);
void tr_tpl_put_char(struct tpl_vm *vm, uint32_t c, enum tpl_origin origin);
/* The same n >= 1 bytes `times` times. */
void tr_tpl_put_times(struct tpl_vm *vm, const char *bytes, size_t n, size_t times,
                      enum tpl_origin origin);
/* Drops what is above the mark. */
void tr_tpl_rewind(struct tpl_vm *vm, size_t mark);
/* Gives all that is above the mark this origin. */
void tr_tpl_claim(struct tpl_vm *vm, size_t mark, enum tpl_origin origin);

#endif
