/* Calling: arguments, and the tables of filters, tests, methods and functions. */
#ifndef TR_ENGINE_TEXT_TEMPLATE_CALL_H
#define TR_ENGINE_TEXT_TEMPLATE_CALL_H

#include "engine/text/template/value.h"

struct tpl_args {
    const struct tpl_value *v; /* positional */
    uint32_t n;
    const struct tpl_pair *named; /* keys are strings */
    uint32_t n_named;
};

enum { TPL_MAX_PARAMS = 6 };

/* Lays the arguments out as the parameters want them: `params` is a comma-separated list of names,
 * the first n_required must be given, the others are TPL_ABSENT if they are not. `what` is for the
 * message. A parameter list that ends in "*" takes any number of positional arguments: those beyond
 * the names are left to the callee. */
void tr_tpl_bind(struct tpl_vm *vm, const struct tpl_args *args, const char *what,
                 const char *params, int n_required, struct tpl_value out[TPL_MAX_PARAMS]);

/* Calls anything that can be called. */
struct tpl_value tr_tpl_call(struct tpl_vm *vm, struct tpl_value callee,
                             const struct tpl_args *args);
struct tpl_value tr_tpl_macro_call(struct tpl_vm *vm, struct tpl_value macro,
                                   const struct tpl_args *args);
struct tpl_str *tr_tpl_macro_name(struct tpl_value macro); /* NULL: a call block's body */

/* -1 if there is none of that name. */
int tr_tpl_filter_find(const struct tpl_str *name);
struct tpl_value tr_tpl_filter(struct tpl_vm *vm, int id, struct tpl_value v,
                               const struct tpl_args *args);
int tr_tpl_test_find(const struct tpl_str *name);
bool tr_tpl_test(struct tpl_vm *vm, int id, struct tpl_value v, const struct tpl_args *args);
int tr_tpl_function_find(const struct tpl_str *name);

/* The method of that name of v's type, -1 if it has none. *ret_mutates: the sandbox refuses it. */
int tr_tpl_method_find(struct tpl_value v, const struct tpl_str *name, bool *ret_mutates);
/* Whether any type has a method of that name. */
bool tr_tpl_method_known(const struct tpl_str *name);
struct tpl_value tr_tpl_method_call(struct tpl_vm *vm, const struct tpl_method *method,
                                    const struct tpl_args *args);

/* An attribute of the loop variable; false if it has none of that name (methods aside). */
bool tr_tpl_loop_attr(struct tpl_vm *vm, struct tpl_value loop, struct tpl_value name,
                      struct tpl_value *ret);
struct tpl_value tr_tpl_loop_cycle(struct tpl_vm *vm, struct tpl_value loop,
                                   const struct tpl_args *args);
struct tpl_value tr_tpl_loop_changed(struct tpl_vm *vm, struct tpl_value loop,
                                     const struct tpl_args *args);

/* Arguments as the callees want them; fail with the parameter's name. */
struct tpl_str *tr_tpl_arg_str(struct tpl_vm *vm, struct tpl_value v, const char *what);
int64_t tr_tpl_arg_int(struct tpl_vm *vm, struct tpl_value v, const char *what);
static inline bool tpl_given(struct tpl_value v)
{
    return v.type != TPL_ABSENT;
}
/* Neither absent nor none. */
static inline bool tpl_set(struct tpl_value v)
{
    return v.type != TPL_ABSENT && v.type != TPL_NONE;
}

/* String algorithms that filters and methods share. */
struct tpl_value tr_tpl_change_case(struct tpl_vm *vm, const struct tpl_str *s, char how);
/* sides: 1 left, 2 right, 3 both; chars NULL = white space. */
struct tpl_value tr_tpl_strip(struct tpl_vm *vm, struct tpl_str *s, const struct tpl_str *chars,
                              int sides);
struct tpl_value tr_tpl_replace(struct tpl_vm *vm, const struct tpl_str *s,
                                const struct tpl_str *old, const struct tpl_str *with,
                                int64_t count);
/* List of the lines, without their ends unless keep. */
struct tpl_value tr_tpl_lines(struct tpl_vm *vm, const struct tpl_str *s, bool keep);
struct tpl_value tr_tpl_escape(struct tpl_vm *vm, struct tpl_value v);
/* Python's format % values and format.format(...). */
struct tpl_value tr_tpl_percent(struct tpl_vm *vm, const struct tpl_str *format,
                                struct tpl_value values);
struct tpl_value tr_tpl_format(struct tpl_vm *vm, const struct tpl_str *format,
                               const struct tpl_args *args);
/* time.strftime in the C locale, of `now` in local time. */
struct tpl_value tr_tpl_strftime(struct tpl_vm *vm, const struct tpl_str *format, int64_t now);
/* Arithmetic, by operator character: + - * / % and f (//), p (**). */
struct tpl_value tr_tpl_arithmetic(struct tpl_vm *vm, char op, struct tpl_value a,
                                   struct tpl_value b);

#endif
