/* A choice's memory: how often each id occurred, and which ids must not come next. */
#include "engine/sample/choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has_penalties(const struct tr_sampling *p)
{
    return p->presence_penalty != 0.0F || p->frequency_penalty != 0.0F ||
           p->repetition_penalty != 1.0F;
}

/* The entry of an id, made if it is new. There is room: the table holds every id that can come. */
static struct tr_occurrence *occurrence(struct tr_choice *c, int32_t id)
{
    uint32_t slot = (uint32_t)id * 0x9E3779B1U & c->slot_mask;
    while (c->slots[slot]) {
        struct tr_occurrence *o = &c->seen[c->slots[slot] - 1];
        if (o->id == id)
            return o;
        slot = (slot + 1) & c->slot_mask;
    }
    c->seen[c->n_seen] = (struct tr_occurrence){.id = id};
    c->slots[slot] = ++c->n_seen;
    return &c->seen[c->n_seen - 1];
}

/* Entries and slots for so many different ids. */
static uint32_t slots_for(int64_t most)
{
    uint32_t n = 16;
    while (n < 2 * (uint64_t)most)
        n *= 2;
    return n;
}

static int grow_counts(struct tr_choice *c, int64_t most)
{
    uint32_t n_slots = slots_for(most);
    struct tr_occurrence *seen = realloc(c->seen, ((size_t)most + 1) * sizeof *seen);
    c->seen = seen ? seen : c->seen;
    int32_t *slots = calloc(n_slots, sizeof *slots);
    if (!seen || !slots) {
        free(slots);
        return TR_ENOMEM;
    }
    free(c->slots);
    c->slots = slots;
    c->slot_mask = n_slots - 1;
    c->most_seen = (int)most;
    int n = c->n_seen;
    for (c->n_seen = 0; c->n_seen < n;) { /* the entries stay where they are */
        int32_t generated = c->seen[c->n_seen].generated;
        occurrence(c, c->seen[c->n_seen].id)->generated = generated;
    }
    return 0;
}

int tr_choice_reserve(struct tr_choice *c, int max_new)
{
    const struct tr_job *job = c->job;
    if (!has_penalties(&job->sampling))
        return 0;
    bool fresh = !c->seen;
    int n_prompt = job->sampling.repetition_penalty != 1.0F ? job->n_prompt : 0;
    int64_t most = TR_MIN((int64_t)n_prompt + max_new, (int64_t)c->vocab);
    int r = fresh || most > c->most_seen ? grow_counts(c, most) : 0;
    for (int i = 0; r == 0 && fresh && i < n_prompt; i++)
        occurrence(c, job->prompt[i]);
    return r;
}

uint64_t tr_choice_bytes(const struct tr_choice *c)
{
    uint64_t bytes = sizeof *c + (uint64_t)c->cap_tail * sizeof *c->tail;
    if (c->seen)
        bytes += ((uint64_t)c->most_seen + 1) * sizeof *c->seen +
                 ((uint64_t)c->slot_mask + 1) * sizeof *c->slots;
    return bytes;
}

uint64_t tr_choice_most_bytes(int max_ids, int vocab)
{
    int64_t most = TR_MIN(max_ids, vocab);
    return sizeof(struct tr_choice) + (uint64_t)max_ids * sizeof(int32_t) +
           ((uint64_t)most + 1) * sizeof(struct tr_occurrence) +
           (uint64_t)slots_for(most) * sizeof(int32_t);
}

static int open_tail(struct tr_choice *c)
{
    const struct tr_sampling *p = &c->job->sampling;
    for (int i = 0; i < p->n_bad_words; i += 1 + p->bad_words[i])
        c->cap_tail = TR_MAX(c->cap_tail, p->bad_words[i] - 1);
    if (c->cap_tail == 0)
        return 0;
    c->tail = calloc((size_t)c->cap_tail, sizeof *c->tail);
    return c->tail ? 0 : TR_ENOMEM;
}

int tr_choice_open(struct tr_choice **ret, const struct tr_job *job, int choice, int max_new,
                   int vocab, const int32_t *eog, int n_eog)
{
    struct tr_choice *c = calloc(1, sizeof *c);
    if (!c)
        return TR_ENOMEM;
    c->job = job;
    c->choice = (uint32_t)choice;
    c->vocab = vocab;
    c->eog = eog;
    c->n_eog = n_eog;
    if (tr_choice_reserve(c, max_new) < 0 || open_tail(c) < 0) {
        tr_choice_close(c);
        return TR_ENOMEM;
    }
    *ret = c;
    return 0;
}

struct tr_choice *tr_choice_close(struct tr_choice *c)
{
    if (c) {
        free(c->seen);
        free(c->slots);
        free(c->tail);
        free(c);
    }
    return NULL;
}

void tr_choice_accept(struct tr_choice *c, int32_t id)
{
    c->position++;
    if (c->seen)
        occurrence(c, id)->generated++;
    if (c->cap_tail == 0)
        return;
    if (c->n_tail == c->cap_tail)
        memmove(c->tail, c->tail + 1, (size_t)--c->n_tail * sizeof *c->tail);
    c->tail[c->n_tail++] = id;
}

static bool needs_more(const struct tr_choice *c)
{
    return c->job->min_tokens > 0 && c->position < (uint64_t)c->job->min_tokens;
}

bool tr_choice_changes(const struct tr_choice *c)
{
    const struct tr_sampling *p = &c->job->sampling;
    return c->n_seen || p->n_bias || p->n_allowed || p->n_bad_words || needs_more(c);
}

bool tr_choice_takes(const struct tr_choice *c, int32_t id)
{
    /* Beyond it a penalty could make a logit infinite. */
    const float most = 1000.0F;
    const struct tr_job *job = c->job;
    const struct tr_sampling *p = &job->sampling;
    if (p->n_logprobs >= 0 || p->n_allowed || p->n_bad_words || p->repetition_penalty > most ||
        p->repetition_penalty < 1.0F / most)
        return false;
    bool needed = needs_more(c);
    for (int i = 0; i < c->n_eog && needed; i++)
        if (c->eog[i] == id)
            return false;
    for (int i = 0; i < job->n_stop_ids && needed; i++)
        if (job->stop_ids[i] == id)
            return false;
    return true;
}

static void penalise(const struct tr_choice *c, float *row)
{
    const struct tr_sampling *p = &c->job->sampling;
    for (int i = 0; i < c->n_seen; i++) {
        const struct tr_occurrence *o = &c->seen[i];
        float x = row[o->id];
        x = x > 0.0F ? x / p->repetition_penalty : x * p->repetition_penalty;
        x -= p->frequency_penalty * (float)o->generated;
        if (o->generated)
            x -= p->presence_penalty;
        row[o->id] = x;
    }
}

static void forbid_others(const int32_t *allowed, int n, int vocab, float *row)
{
    int32_t next = 0;
    for (int i = 0; i <= n; i++) {
        int32_t stop = i < n ? allowed[i] : vocab;
        for (int32_t id = next; id < stop; id++)
            row[id] = -INFINITY;
        next = stop + 1;
    }
}

static void forbid_bad_words(const struct tr_choice *c, float *row)
{
    const struct tr_sampling *p = &c->job->sampling;
    for (int i = 0; i < p->n_bad_words; i += 1 + p->bad_words[i]) {
        const int32_t *word = &p->bad_words[i + 1];
        int head = p->bad_words[i] - 1; /* all but its last id must have come just now */
        if (head <= c->n_tail && (head == 0 || memcmp(c->tail + c->n_tail - head, word,
                                                      (size_t)head * sizeof *word) == 0))
            row[word[head]] = -INFINITY;
    }
}

void tr_choice_apply(const struct tr_choice *c, float *row)
{
    const struct tr_job *job = c->job;
    const struct tr_sampling *p = &job->sampling;
    penalise(c, row);
    for (int i = 0; i < p->n_bias; i++)
        row[p->bias[i].id] += p->bias[i].value;
    if (p->n_allowed)
        forbid_others(p->allowed, p->n_allowed, c->vocab, row);
    forbid_bad_words(c, row);
    if (needs_more(c)) {
        for (int i = 0; i < c->n_eog; i++)
            row[c->eog[i]] = -INFINITY;
        for (int i = 0; i < job->n_stop_ids; i++)
            row[job->stop_ids[i]] = -INFINITY;
    }
}
