#include "server/call/logprobs.h"

#include <math.h>
#include <string.h>

#include "server/call/call.h"

#define LOGPROB_FLOOR (-9999.0f)

void srv_logprobs_done(struct srv_logprobs *l)
{
    for (int i = 0; i < SRV_LOGPROB_PARTS; i++)
        tr_buf_done(&l->part[i]);
}

void srv_logprobs_clear(struct srv_logprobs *l)
{
    for (int i = 0; i < SRV_LOGPROB_PARTS; i++)
        tr_buf_clear(&l->part[i]);
    l->n = 0;
}

/* Finite, not below -9999; NAN (the first prompt token) is null. */
static void add_number(struct tr_buf *out, float logprob)
{
    if (isnan(logprob))
        tr_buf_adds(out, "null");
    else
        tr_buf_addf(out, "%.9g", (double)TR_MAX(logprob, LOGPROB_FLOOR));
}

/* A token's name as a JSON string: its text, bytes:\xNN where that is no text, or token_id:N if
 * the call asks so. */
static void add_name(struct tr_buf *out, const struct srv_call *c, int32_t id, bool as_bytes)
{
    struct tr_buf name = {0};
    if (c->params.tokens_as_ids)
        tr_buf_addf(&name, "token_id:%d", (int)id);
    else
        tr_detok_name(c->context.tokenizer, id, as_bytes, &name);
    tr_json_quote(out, name.data ? name.data : "", name.len);
    tr_buf_done(&name);
}

/* {"text":logprob,...}: the best and the chosen one. Of two tokens with the same text the later
 * takes the form bytes:\xNN, so that none hides the other. */
static void add_top(struct tr_buf *out, const struct srv_call *c, const struct tr_event *e)
{
    struct tr_buf names[SRV_MAX_LOGPROBS + 1] = {0};
    int n = 0;
    bool chosen = false;
    tr_buf_addc(out, '{');
    for (int i = 0; i <= e->n_top; i++) {
        if (i == e->n_top && chosen)
            break;
        int32_t id = i < e->n_top ? e->top[i].id : e->token;
        chosen |= id == e->token;
        add_name(&names[n], c, id, false);
        for (int k = 0; k < n; k++)
            if (names[k].len == names[n].len && names[n].len &&
                memcmp(names[k].data, names[n].data, names[n].len) == 0) {
                tr_buf_clear(&names[n]);
                add_name(&names[n], c, id, true);
                break;
            }
        if (n > 0)
            tr_buf_addc(out, ',');
        tr_buf_add(out, names[n].data, names[n].len);
        tr_buf_addc(out, ':');
        add_number(out, i < e->n_top ? e->top[i].logprob : e->logprob);
        n++;
    }
    tr_buf_addc(out, '}');
    for (int i = 0; i < n; i++)
        tr_buf_done(&names[i]);
}

void srv_legacy_logprob(struct srv_call *c, struct srv_logprobs *to, const struct tr_event *e,
                        size_t offset)
{
    if (to->n++ > 0)
        for (int i = 0; i < SRV_LOGPROB_PARTS; i++)
            tr_buf_addc(&to->part[i], ',');
    add_name(&to->part[0], c, e->token, false);
    add_number(&to->part[1], e->logprob);
    if (isnan(e->logprob)) /* the first prompt token follows nothing */
        tr_buf_adds(&to->part[2], "null");
    else
        add_top(&to->part[2], c, e);
    tr_buf_addf(&to->part[3], "%zu", offset);
}

void srv_legacy_logprobs(struct tr_buf *out, const struct srv_choice *ch, bool with_prompt)
{
    static const char *const names[SRV_LOGPROB_PARTS] = {"tokens", "token_logprobs", "top_logprobs",
                                                         "text_offset"};
    if (ch->call->params.logprobs < 0) {
        tr_buf_adds(out, "null");
        return;
    }
    const struct srv_logprobs *prompt = &ch->job->logprobs;
    for (int i = 0; i < SRV_LOGPROB_PARTS; i++) {
        tr_buf_addf(out, "%s\"%s\":[", i ? "," : "{", names[i]);
        if (with_prompt)
            tr_buf_add(out, prompt->part[i].data, prompt->part[i].len);
        if (with_prompt && prompt->n && ch->logprobs.n)
            tr_buf_addc(out, ',');
        tr_buf_add(out, ch->logprobs.part[i].data, ch->logprobs.part[i].len);
        tr_buf_addc(out, ']');
    }
    tr_buf_addc(out, '}');
}

/* "token":...,"logprob":...,"bytes":[...] */
static void add_token(struct tr_buf *out, const struct srv_call *c, int32_t id, float logprob)
{
    size_t n = 0;
    bool special;
    const char *piece = tr_tokenizer_piece(c->context.tokenizer, id, &n, &special);
    tr_buf_adds(out, "{\"token\":");
    add_name(out, c, id, false);
    tr_buf_adds(out, ",\"logprob\":");
    add_number(out, logprob);
    tr_buf_adds(out, ",\"bytes\":[");
    for (size_t i = 0; piece && i < n; i++)
        tr_buf_addf(out, "%s%u", i ? "," : "", (unsigned)(unsigned char)piece[i]);
    tr_buf_addc(out, ']');
}

void srv_chat_logprob(struct srv_call *c, struct srv_logprobs *to, const struct tr_event *e,
                      size_t offset)
{
    (void)offset; /* chats do not tell places */
    struct tr_buf *out = &to->part[0];
    if (to->n++ > 0)
        tr_buf_addc(out, ',');
    add_token(out, c, e->token, e->logprob);
    tr_buf_adds(out, ",\"top_logprobs\":[");
    for (int i = 0; i < e->n_top; i++) {
        if (i > 0)
            tr_buf_addc(out, ',');
        add_token(out, c, e->top[i].id, e->top[i].logprob);
        tr_buf_addc(out, '}');
    }
    tr_buf_adds(out, "]}");
}

static void add_prompt_entry(struct tr_buf *out, const struct srv_call *c, int32_t id,
                             float logprob, int rank)
{
    struct tr_buf text = {0};
    tr_detok_name(c->context.tokenizer, id, false, &text);
    tr_buf_addf(out, "\"%d\":{\"logprob\":", (int)id);
    add_number(out, logprob);
    tr_buf_addf(
        out, rank ? ",\"rank\":%d,\"decoded_token\":" : ",\"rank\":null,\"decoded_token\":", rank);
    tr_json_quote(out, text.data ? text.data : "", text.len);
    tr_buf_addc(out, '}');
    tr_buf_done(&text);
}

void srv_prompt_logprob(const struct srv_call *c, struct tr_buf *out, const struct tr_event *e)
{
    if (out->len)
        tr_buf_addc(out, ',');
    if (isnan(e->logprob)) {
        tr_buf_adds(out, "null");
        return;
    }
    bool chosen = false;
    tr_buf_addc(out, '{');
    for (int i = 0; i < e->n_top; i++) {
        if (i > 0)
            tr_buf_addc(out, ',');
        add_prompt_entry(out, c, e->top[i].id, e->top[i].logprob, i + 1);
        chosen |= e->top[i].id == e->token;
    }
    if (!chosen) {
        if (e->n_top > 0)
            tr_buf_addc(out, ',');
        add_prompt_entry(out, c, e->token, e->logprob, 0);
    }
    tr_buf_addc(out, '}');
}
