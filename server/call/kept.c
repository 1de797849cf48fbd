#include "server/call/kept.h"

#include <stdlib.h>

#include "engine/grammar/grammar.h"
#include "server/server.h"

enum {
    ENGINE_CHOICE = 400, /* of one that waits in the engine */
    STOP_BYTE = 10,      /* of a stop string: itself, its borders, its form in an answer */
    OUTLINE_BYTE = 16,   /* of an outline of tools, for a byte of its text */
    ID_TEXT = 8          /* bytes of an id in an answer */
};

/* ---- what one call keeps ---- */

static size_t job_bytes(const struct srv_call *c, const struct srv_job *j)
{
    size_t n = (size_t)j->n_prompt;
    return sizeof *j + sizeof(struct tr_job) + n * sizeof(int32_t) * (j->prompt ? 2 : 1) +
           (j->offsets ? n * sizeof *j->offsets : 0) + j->echo.cap +
           (size_t)c->params.n * ENGINE_CHOICE;
}

static size_t asked_bytes(const struct tr_job *a)
{
    const struct tr_sampling *s = &a->sampling;
    return sizeof *a + (size_t)s->n_bias * sizeof *s->bias +
           ((size_t)s->n_allowed + (size_t)s->n_bad_words + (size_t)a->n_stop_ids) *
               sizeof(int32_t);
}

static size_t outline_bytes(const struct tr_json *tools)
{
    struct tr_buf text = {0};
    if (tools->node)
        tr_json_write(&text, tools);
    size_t n = text.len * OUTLINE_BYTE;
    tr_buf_done(&text);
    return n;
}

static size_t bytes_of(const struct srv_call *c)
{
    size_t n = sizeof *c + c->repeated.cap + outline_bytes(&c->rules.tools);
    n += c->asked ? asked_bytes(c->asked) : 0;
    for (int i = 0; i < c->n_jobs; i++)
        n += job_bytes(c, &c->jobs[i]);
    for (int i = 0; i < c->n_stops; i++)
        n += c->stop_texts[i].len * STOP_BYTE;
    return n;
}

/* ---- grammars, which calls share ---- */

static struct srv_kept_grammar **find(struct srv *s, const struct tr_grammar *g)
{
    struct srv_kept_grammar **at = &s->kept_grammars;
    while (*at && (*at)->grammar != g)
        at = &(*at)->next;
    return at;
}

static bool use_grammar(struct srv *s, const struct tr_grammar *g)
{
    struct srv_kept_grammar **at = find(s, g);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at)
            return false;
        (*at)->grammar = g;
        (*at)->bytes = tr_grammar_bytes(g);
        s->kept_bytes += (*at)->bytes;
    }
    (*at)->users++;
    return true;
}

static void leave_grammar(struct srv *s, const struct tr_grammar *g)
{
    struct srv_kept_grammar **at = find(s, g), *k = *at;
    if (--k->users > 0)
        return;
    s->kept_bytes -= k->bytes;
    *at = k->next;
    free(k);
}

/* ---- the budget ---- */

bool srv_kept_take(struct srv_call *c)
{
    struct srv *s = c->srv;
    const struct tr_grammar *g = c->asked ? c->asked->grammar : NULL;
    bool alone = s->kept_bytes == 0;
    if (g && !use_grammar(s, g))
        return false;
    c->counted = g;
    c->kept = bytes_of(c);
    s->kept_bytes += c->kept;
    if (alone || s->kept_bytes <= s->options->request_memory)
        return true;
    srv_kept_give(c);
    return false;
}

bool srv_kept_grow(struct srv_call *c, size_t n)
{
    struct srv *s = c->srv;
    c->kept += n;
    c->grown += n;
    s->kept_bytes += n;
    return s->kept_bytes <= 2 * s->options->request_memory;
}

void srv_kept_give(struct srv_call *c)
{
    c->srv->kept_bytes -= c->kept;
    c->kept = 0;
    if (c->counted)
        leave_grammar(c->srv, c->counted);
    c->counted = NULL;
}

size_t srv_kept_answer(const struct srv_call *c)
{
    size_t n = c->grown;
    for (int i = 0; i < c->n_jobs; i++) {
        const struct srv_job *j = &c->jobs[i];
        size_t once =
            j->prompt_logprobs.len + j->echo.len + (j->prompt ? (size_t)j->n_prompt * ID_TEXT : 0);
        for (int k = 0; k < SRV_LOGPROB_PARTS; k++)
            once += j->logprobs.part[k].len;
        n += once * (size_t)c->params.n;
    }
    return n;
}
