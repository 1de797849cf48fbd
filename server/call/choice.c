#include "server/call/choice.h"

#include <stdlib.h>

#include "server/call/call.h"

int srv_choices_make(struct srv_call *c)
{
    int r = 0, n = (int)c->params.n;
    c->choices = calloc((size_t)c->n_answers, sizeof *c->choices);
    if (!c->choices)
        return TR_ENOMEM;
    c->n_choices = c->n_answers;
    for (int i = 0; i < c->n_choices && r == 0; i++) {
        struct srv_choice *ch = &c->choices[i];
        *ch = (struct srv_choice){.call = c, .job = &c->jobs[i / n], .index = i, .sample = i % n};
        r = c->stops ? tr_stop_scan_init(&ch->scan, c->stops) : 0;
    }
    return r;
}

static void free_choice(struct srv_choice *ch)
{
    tr_stop_scan_done(&ch->scan);
    srv_turn_done(&ch->turn);
    tr_buf_done(&ch->text);
    srv_logprobs_done(&ch->logprobs);
    free(ch->ids.ids);
}

void srv_choices_free(struct srv_call *c)
{
    for (int i = 0; i < c->n_choices; i++)
        free_choice(&c->choices[i]);
    free(c->choices);
    c->choices = NULL;
}

void srv_choice_written(struct srv_choice *ch)
{
    ch->begun = true;
    tr_buf_clear(&ch->text);
    srv_logprobs_clear(&ch->logprobs);
    ch->ids.n = 0;
}

const char *srv_choice_reason(const struct srv_choice *ch)
{
    if (ch->stop == SRV_STOP_NONE)
        return NULL;
    return ch->stop == SRV_STOP_LENGTH ? "length" : "stop";
}

static void add_id(struct srv_choice *ch, int32_t id)
{
    if (ch->ids.n == ch->ids.cap) {
        size_t cap = ch->ids.cap ? ch->ids.cap * 2 : 16;
        int32_t *grown = realloc(ch->ids.ids, cap * sizeof *grown);
        if (!grown) {
            ch->text.oom = true;
            return;
        }
        ch->ids.ids = grown;
        ch->ids.cap = cap;
    }
    ch->ids.ids[ch->ids.n++] = id;
}

void srv_choice_end(struct srv_choice *ch, enum tr_finish finish, int32_t stop_id)
{
    struct tr_buf *piece = &ch->call->scratch;
    ch->stop = finish == TR_FINISH_EOS       ? SRV_STOP_END
               : finish == TR_FINISH_STOP_ID ? SRV_STOP_ID
                                             : SRV_STOP_LENGTH;
    ch->stop_value = stop_id;
    tr_buf_clear(piece);
    tr_detok_end(&ch->detok, ch->stop == SRV_STOP_LENGTH, piece);
    int found = tr_stop_scan_add(&ch->scan, piece->data, piece->len, &ch->text);
    if (found >= 0) {
        ch->stop = SRV_STOP_STRING;
        ch->stop_value = found;
    } else {
        tr_stop_scan_end(&ch->scan, &ch->text);
    }
}

void srv_choice_token(struct srv_choice *ch, const struct tr_event *e)
{
    struct srv_call *c = ch->call;
    const struct srv_params *p = &c->params;
    struct tr_buf *piece = &c->scratch;
    ch->n_tokens++;
    /* A token that ends the answer is no part of its text, unless that is asked for. */
    bool hidden = e->stop_id >= 0 && !p->include_stop;
    const struct tr_tokenizer *tokenizer = c->context.tokenizer;
    bool skip = p->skip_special_tokens && !srv_turn_is_tag(&c->rules, tokenizer, e->token);
    tr_buf_clear(piece);
    size_t offset = ch->detok.n_chars;
    if (!hidden)
        offset = tr_detok_token(&ch->detok, tokenizer, e->token, skip, piece);
    if (p->logprobs >= 0)
        c->api->logprob(c, &ch->logprobs, e, ch->job->echo_chars + offset);
    if (p->return_token_ids)
        add_id(ch, e->token);

    int found = -1;
    if (ch->n_tokens <= p->min_tokens)
        tr_buf_add(&ch->text, piece->data, piece->len);
    else
        found = tr_stop_scan_add(&ch->scan, piece->data, piece->len, &ch->text);
    if (found >= 0) {
        ch->stop = SRV_STOP_STRING;
        ch->stop_value = found;
    } else if (e->finish != TR_FINISH_NONE) {
        srv_choice_end(ch, e->finish, e->stop_id);
    }
}
