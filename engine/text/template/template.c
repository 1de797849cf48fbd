/* Loading and rendering: the two places where failures of everything below come out. */
#include "engine/text/template/template.h"

#include <stdlib.h>
#include <string.h>

#include "engine/text/template/messages.h"
#include "engine/text/template/render.h"
#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"

/* A copy of the source with \r\n and \r as \n, without one final newline: as Jinja reads it. */
static const char *take_source(struct tpl_vm *vm, const char *source, size_t n, size_t *ret_n)
{
    size_t bad;
    if (n > TPL_MAX_SOURCE)
        tr_tpl_fail(vm, "the source is longer than %d bytes", TPL_MAX_SOURCE);
    if (!tr_uni_valid(source, n, &bad))
        tr_tpl_fail(vm, "the source is not UTF-8 at byte %zu", bad);
    char *copy = tr_tpl_alloc(vm, n);
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n')
            continue;
        copy[len++] = source[i] == '\r' ? '\n' : source[i];
    }
    *ret_n = len - (len && copy[len - 1] == '\n');
    return copy;
}

static void parse(struct tpl_vm *vm, struct tr_template *t, const char *source, size_t n)
{
    source = take_source(vm, source, n, &n);
    struct tpl_parser p = {.vm = vm, .t = t, .tok = tr_tpl_lex(vm, source, n)};
    tr_tpl_parse(&p);
    tr_tpl_resolve(vm, t);
}

/* A function of its own, because locals of the one that calls setjmp lose their values. */
static int guarded_parse(struct tpl_vm *vm, struct tr_template *t, const char *source, size_t n)
{
    int r = setjmp(vm->exit);
    if (r == 0)
        parse(vm, t, source, n);
    return r;
}

int tr_template_load(struct tr_template **ret, const char *source, size_t n, struct tr_err *err)
{
    struct tr_template *t = calloc(1, sizeof *t);
    if (!t)
        return tr_err_set(err, TR_ENOMEM, NULL, "chat template: out of memory");
    struct tpl_vm vm = {.err = err};
    int r = guarded_parse(&vm, t, source, n);
    if (r < 0) {
        tr_tpl_vm_done(&vm);
        tr_template_free(t);
        return r;
    }
    tr_tpl_vm_trim(&vm);
    t->arena = vm.arena;
    *ret = t;
    return 0;
}

struct tr_template *tr_template_free(struct tr_template *t)
{
    if (t)
        tr_tpl_arena_done(&t->arena);
    free(t);
    return NULL;
}

/* Gives the name its value if the template uses it. */
static void set(struct tpl_render *r, const char *name, size_t n, struct tpl_value v)
{
    for (uint32_t i = 0; i < r->t->n_names; i++)
        if (r->t->names[i]->n == n && memcmp(r->t->names[i]->s, name, n) == 0)
            r->context[i] = v;
}

static void set_token(struct tpl_render *r, const char *name, const char *token)
{
    if (token)
        set(r, name, strlen(name), tr_tpl_literal(&r->vm, token));
}

static struct tpl_value given(struct tpl_vm *vm, const struct tr_json *v)
{
    return v ? tr_tpl_from_json(vm, v) : tpl_none();
}

/* Later ones win: globals, special tokens, the request's variables, the four fixed names. */
static void set_context(struct tpl_render *r, const struct tr_template_input *input)
{
    struct tpl_vm *vm = &r->vm;
    r->context = tr_tpl_alloc_n(vm, r->t->n_names, sizeof *r->context);
    for (uint32_t i = 0; i < r->t->n_names; i++) {
        int id = tr_tpl_function_find(r->t->names[i]);
        r->context[i] = id < 0 ? tpl_undefined(TPL_NO_NAME, r->t->names[i])
                               : (struct tpl_value){.type = TPL_FUNCTION, .aux = (uint32_t)id};
    }
    set_token(r, "bos_token", input->bos_token);
    set_token(r, "eos_token", input->eos_token);
    set_token(r, "pad_token", input->pad_token);
    set_token(r, "unk_token", input->unk_token);
    void *iter = NULL;
    struct tr_json member;
    if (input->variables)
        while (tr_json_next(input->variables, &iter, &member))
            set(r, member.key, member.key_bytes, tr_tpl_from_json(vm, &member));
    if (!input->messages)
        return;
    set(r, "messages", 8,
        tr_tpl_messages(vm, input->messages, input->typed_content,
                        input->continue_final_message ? &r->continued : NULL));
    set(r, "tools", 5, given(vm, input->tools));
    set(r, "documents", 9, given(vm, input->documents));
    set(r, "add_generation_prompt", 21, tpl_bool(input->add_generation_prompt));
}

/* Ends the text at the mark behind the last message's content, as transformers does: if the blank
 * at the mark's end was trimmed, the message's own trailing white space counts as trimmed too. */
static void cut_at_mark(struct tpl_render *r)
{
    static const char mark[] = TPL_CONTINUE_MARK;
    const size_t n = sizeof mark - 1;
    struct tpl_vm *vm = &r->vm;
    const struct tpl_str *content = tr_tpl_strip(vm, r->continued, NULL, 3).u.str;
    bool shown =
        vm->text.len && memmem(vm->text.data, vm->text.len, content->s, content->n) != NULL;
    for (uint32_t i = vm->n_pieces; shown && i-- > 0;) {
        size_t begin = i ? vm->pieces[i - 1].end : 0, end = vm->pieces[i].end;
        if (vm->pieces[i].origin != TPL_MARK || end - begin < n - 1 ||
            memcmp(vm->text.data + begin, mark, n - 1) != 0)
            continue;
        if (end - begin < n) {
            size_t unused;
            while (begin > 0) {
                size_t last = tr_uni_last(vm->text.data, begin);
                if (!tr_uni_space(tr_uni_decode(vm->text.data + last, &unused)))
                    break;
                begin = last;
            }
        }
        tr_tpl_rewind(vm, begin);
        return;
    }
    tr_tpl_fail_code(vm, TR_EINVAL, "continue_final_message",
                     "continue_final_message: the chat template does not show the final message as "
                     "it is");
}

/* Takes the text over and lists its data ranges. */
static void hand_over(struct tpl_vm *vm, struct tr_rendered *ret)
{
    size_t n = 0;
    ret->data = calloc((size_t)vm->n_pieces + 1, sizeof *ret->data);
    /* Room, and a NUL, even for an empty text. */
    if (!ret->data || !tr_buf_reserve(&vm->text, 1)) {
        free(ret->data);
        ret->data = NULL;
        tr_tpl_fail_code(vm, TR_ENOMEM, NULL, "chat template: out of memory");
    }
    size_t begin = 0;
    for (uint32_t i = 0; i < vm->n_pieces; begin = vm->pieces[i++].end) {
        if (vm->pieces[i].origin == TPL_TEMPLATE)
            continue;
        if (n && ret->data[n - 1].end == begin)
            ret->data[n - 1].end = vm->pieces[i].end;
        else
            ret->data[n++] = (struct tr_range){.begin = begin, .end = vm->pieces[i].end};
    }
    ret->n_data = n;
    ret->n = vm->text.len;
    ret->text = vm->text.data;
    ret->text[ret->n] = '\0';
    vm->text = (struct tr_buf){0};
}

static int guarded_render(struct tpl_render *r, const struct tr_template_input *input,
                          struct tr_rendered *ret)
{
    int code = setjmp(r->vm.exit);
    if (code)
        return code;
    set_context(r, input);
    tr_tpl_run(r);
    if (r->continued)
        cut_at_mark(r);
    hand_over(&r->vm, ret);
    return 0;
}

int tr_template_render(const struct tr_template *t, const struct tr_template_input *input,
                       struct tr_rendered *ret, struct tr_err *err)
{
    struct tr_rendered out = {0};
    struct tpl_render r = {.vm.err = err, .t = t, .now = input->now};
    int code = guarded_render(&r, input, &out);
    tr_tpl_vm_done(&r.vm);
    if (code == 0)
        *ret = out;
    return code;
}
