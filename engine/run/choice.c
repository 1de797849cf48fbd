/* A choice's buffers: made when its sequence runs, grown with what it is promised, freed when it
 * leaves. And what an answer that nobody set a length for is likely to need. */
#include <math.h>

#include "engine/run/run.h"

/* Before any such answer was seen: tokens, and how far from it they are. */
enum { FIRST_MEAN = 96, FIRST_SPREAD = 16 };

/* An answer is promised the mean and so many times the spread; this share of each new one counts.
 * */
enum { SPREADS = 2, LEARN_PART = 16 };

static int open_buffers(struct tr_engine *e, struct choice *c, int max_new)
{
    if (e->options.speculation && tr_ngram_init(&c->drafts, c->seq.max_ids) < 0)
        return TR_ENOMEM;
    if (c->request->job->grammar && tr__constrain_open(c) < 0)
        return TR_ENOMEM;
    return tr_choice_open(&c->sampling, c->request->job, c->index, max_new, e->info.vocab_size,
                          e->eog, e->n_eog);
}

static void count_buffers(struct tr_engine *e, struct choice *c)
{
    e->now.choice_bytes -= c->bytes;
    c->bytes = c->drafts.last ? tr_ngram_bytes(c->seq.max_ids) : 0;
    c->bytes += c->grammar ? tr_grammar_state_bytes() : 0;
    c->bytes += c->sampling ? tr_choice_bytes(c->sampling) : 0;
    e->now.choice_bytes += c->bytes;
}

int tr__choice_prepare(struct tr_engine *e, struct choice *c)
{
    int max_new = c->seq.room - c->seq.n_prompt;
    if (c->sampling && c->room >= c->seq.room)
        return 0;
    int r = c->sampling ? tr_choice_reserve(c->sampling, max_new) : open_buffers(e, c, max_new);
    if (r == 0)
        c->room = c->seq.room;
    count_buffers(e, c);
    return r;
}

void tr__leave(struct tr_engine *e, struct choice *c)
{
    if (!c->entered)
        return;
    c->request->usage.preemptions += c->seq.n_preempted;
    c->entered = false;
    tr_schedule_remove(e->schedule, &c->seq);
    c->sampling = tr_choice_close(c->sampling);
    c->grammar = tr_grammar_state_free(c->grammar);
    tr_ngram_done(&c->drafts);
    count_buffers(e, c);
}

uint64_t tr__choice_most_bytes(const struct tr_engine *e)
{
    int context = e->info.context_length;
    return sizeof(struct choice) + tr_schedule_buffer_bytes(&e->limits, context) +
           tr_choice_most_bytes(context, e->info.vocab_size) + tr_grammar_state_bytes() +
           (e->options.speculation ? tr_ngram_bytes(context) : 0);
}

static void promise(struct tr_engine *e)
{
    double tokens = TR_MIN(e->open_mean + SPREADS * e->open_spread, e->info.context_length);
    e->now.expected_tokens = (int)ceil(tokens);
    tr_schedule_expect(e->schedule, e->now.expected_tokens);
}

void tr__expect_first(struct tr_engine *e)
{
    e->open_mean = FIRST_MEAN;
    e->open_spread = FIRST_SPREAD;
    promise(e);
}

void tr__learn_length(struct tr_engine *e, int n_tokens)
{
    double off = n_tokens - e->open_mean;
    e->open_mean += off / LEARN_PART;
    e->open_spread += (fabs(off) - e->open_spread) / LEARN_PART;
    promise(e);
}
