#include "server/commands/survey.h"

#include <string.h>

#include "config/json.h"
#include "engine/view.h"

enum { NAMES_BYTES = 400 }; /* of names in a line for people */

static void add_shape(struct tr_buf *out, const struct tr_tensor_facts *t)
{
    tr_buf_addc(out, '[');
    for (int i = 0; i < t->n_dims; i++)
        tr_buf_addf(out, "%s%llu", i ? ", " : "", (unsigned long long)t->dims[i]);
    tr_buf_addc(out, ']');
}

static void add_line(struct tr_buf *out, const struct tr_tensor_facts *t)
{
    struct tr_buf shape = {0};
    add_shape(&shape, t);
    tr_buf_addf(out, "tensor        %-48s %-16s %-8s %s\n", t->name, shape.oom ? "" : shape.data,
                t->stored, t->kept);
    tr_buf_done(&shape);
}

/* Names are printable ASCII, but may have a quote. */
static void add_object(struct tr_buf *out, const struct tr_tensor_facts *t)
{
    tr_buf_adds(out, out->len ? ", {\"name\": " : "{\"name\": ");
    tr_json_quote(out, t->name, strlen(t->name));
    tr_buf_adds(out, ", \"file\": ");
    tr_json_quote(out, t->file, strlen(t->file));
    tr_buf_adds(out, ", \"shape\": ");
    add_shape(out, t);
    tr_buf_addf(out, ", \"stored\": \"%s\", \"kept\": \"%s\"}", t->stored, t->kept);
}

static void add_fault(const struct srv_survey *s, struct srv_survey_fault *f, const char *name)
{
    f->n++;
    if (s->json) {
        tr_buf_adds(&f->names, f->names.len ? ", " : "");
        tr_json_quote(&f->names, name, strlen(name));
    } else if (f->names.len + strlen(name) < NAMES_BYTES) {
        tr_buf_addf(&f->names, "%s%s", f->names.len ? ", " : "", name);
        f->shown++;
    }
}

static void on_tensor(void *arg, const struct tr_tensor_facts *t)
{
    struct srv_survey *s = arg;
    if (s->list && s->json)
        add_object(&s->tensors, t);
    else if (s->list)
        add_line(&s->tensors, t);
    if (t->zero)
        add_fault(s, &s->zero, t->name);
    if (t->nans)
        add_fault(s, &s->nan, t->name);
    if (t->infinities)
        add_fault(s, &s->infinite, t->name);
}

int srv_survey(struct srv_survey *ret, const struct tr_options *o, struct tr_err *err)
{
    *ret = (struct srv_survey){.json = o->json, .list = o->tensors};
    int r = tr_engine_survey(o->model, (enum tr_weights_choice)o->weights, on_tensor, ret, err);
    bool oom =
        ret->tensors.oom || ret->zero.names.oom || ret->nan.names.oom || ret->infinite.names.oom;
    if (r == 0 && oom)
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    return r;
}

void srv_survey_done(struct srv_survey *s)
{
    tr_buf_done(&s->tensors);
    tr_buf_done(&s->zero.names);
    tr_buf_done(&s->nan.names);
    tr_buf_done(&s->infinite.names);
}
