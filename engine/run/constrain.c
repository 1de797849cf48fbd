/* Constrained choices: the vocabulary of their grammars, the mask of the next token, and how the
 * tokens that came move the state on. */
#include <stdlib.h>
#include <string.h>

#include "engine/run/run.h"

/* ---- the vocabulary ---- */

static bool is_end(const struct tr_engine *e, int32_t id)
{
    for (int i = 0; i < e->n_eog; i++)
        if (e->eog[i] == id)
            return true;
    return false;
}

/* Tags are not said by their text: who parses the answer would take them for what they open. Ends
 * are the engine's affair. */
static const char *piece(const void *engine, int32_t id, size_t *ret_n, bool *ret_special)
{
    const struct tr_engine *e = engine;
    if (is_end(e, id))
        return NULL;
    const char *bytes = tr_tokenizer_piece(e->tokenizer, id, ret_n, ret_special);
    if (bytes)
        *ret_special |= tr_tokenizer_is_added(e->tokenizer, id);
    return bytes;
}

const struct tr_grammar_vocab *tr_engine_grammar_vocab(struct tr_engine *e)
{
    pthread_mutex_lock(&e->vocab_mutex);
    if (!e->vocab && tr_grammar_vocab_open(&e->vocab, e->info.vocab_size, piece, e) < 0)
        e->vocab = NULL;
    const struct tr_grammar_vocab *v = e->vocab;
    pthread_mutex_unlock(&e->vocab_mutex);
    return v;
}

int tr__constrain_init(struct tr_engine *e)
{
    size_t words = tr_idset_words(e->info.vocab_size);
    size_t n = (size_t)e->info.threads;
    e->masks = calloc(n, sizeof *e->masks);
    e->mask_bits = calloc(n * words, sizeof *e->mask_bits);
    e->parts = calloc((size_t)e->max_head_rows, sizeof *e->parts);
    e->part_ids = malloc((size_t)e->max_head_rows * TR_MASK_LIST * sizeof *e->part_ids);
    if (!e->masks || !e->mask_bits || !e->parts || !e->part_ids)
        return TR_ENOMEM;
    for (size_t i = 0; i < n; i++)
        e->masks[i].bits = e->mask_bits + i * words;
    return 0;
}

void tr__constrain_done(struct tr_engine *e)
{
    tr_grammar_vocab_close(e->vocab);
    free(e->masks);
    free(e->mask_bits);
    free(e->parts);
    free(e->part_ids);
}

/* ---- choices ---- */

int tr__constrain_open(struct choice *c)
{
    const struct tr_job *job = c->request->job;
    if (c->grammar)
        return 0;
    c->unbound = job->grammar_after;
    c->n_matched = 0;
    return tr_grammar_state_open(&c->grammar, job->grammar) < 0 ? TR_ENOMEM : 0;
}

static int fail(int r, const char **ret_why)
{
    *ret_why = r == TR_ENOMEM   ? "out of memory"
               : r == TR_EINVAL ? "no token fits the constraint here"
                                : "the constraint is too large to be followed here";
    return r;
}

int tr__constrain_mask(const struct tr_engine *e, const struct choice *c, struct tr_grammar_mask *m,
                       const char **ret_why)
{
    size_t bytes = tr_idset_words(e->info.vocab_size) * sizeof *m->bits;
    if (c->unbound) {
        memset(m->bits, 0xFF, bytes);
        for (int i = 0; i < e->n_eog; i++)
            m->bits[e->eog[i] / 64] &= ~(UINT64_C(1) << e->eog[i] % 64);
        return 0;
    }
    int r = tr_grammar_mask(c->grammar, m);
    if (r < 0)
        return fail(r, ret_why);
    if (m->n == 0)
        return m->may_end ? 1 : fail(TR_EINVAL, ret_why);
    if (m->listed) {
        memset(m->bits, 0, bytes);
        for (int i = 0; i < m->n; i++)
            tr_idset_add(m->bits, m->ids[i]);
    }
    for (int i = 0; m->may_end && i < e->n_eog; i++)
        tr_idset_add(m->bits, e->eog[i]);
    return 0;
}

/* A mask without bits, of a choice that is bound by it; false: none. */
static bool peek(const struct choice *c, struct tr_grammar_mask *m)
{
    m->bits = NULL;
    return !c->unbound && tr_grammar_mask(c->grammar, m) == 0;
}

static int32_t only_id(const struct choice *c, const struct tr_grammar_mask *m)
{
    int32_t id = tr_grammar_mask_forced(m);
    return id >= 0 && tr_choice_takes(c->sampling, id) ? id : -1;
}

int32_t tr__constrain_only(const struct choice *c)
{
    struct tr_grammar_mask m;
    return peek(c, &m) ? only_id(c, &m) : -1;
}

/* Ascending ids stay so. */
static int insert_id(int32_t *ids, int n, int32_t id)
{
    int at = n;
    for (; at > 0 && ids[at - 1] >= id; at--)
        ;
    if (at < n && ids[at] == id)
        return n;
    memmove(ids + at + 1, ids + at, (size_t)(n - at) * sizeof *ids);
    ids[at] = id;
    return n + 1;
}

int tr__constrain_few(const struct tr_engine *e, const struct choice *c, int32_t *ids)
{
    struct tr_grammar_mask m;
    if (c->request->job->sampling.n_logprobs >= 0 || !peek(c, &m) || !m.listed ||
        m.n + e->n_eog > TR_MASK_LIST)
        return -1;
    if (only_id(c, &m) >= 0)
        return 0;
    memcpy(ids, m.ids, (size_t)m.n * sizeof *ids);
    int n = m.n;
    for (int i = 0; m.n && m.may_end && i < e->n_eog; i++)
        n = insert_id(ids, n, e->eog[i]);
    return n;
}

/* How many bytes of `text` the answer ends with, if it ended with n of them before this one. */
static int match(const char *text, int n, char byte)
{
    for (int k = n; k >= 0; k--)
        if (text[k] == byte && memcmp(text, text + n - k, (size_t)k) == 0)
            return k + 1;
    return 0;
}

int tr__constrain_follow(const struct tr_engine *e, struct choice *c, int32_t id,
                         const char **ret_why)
{
    const char *after = c->request->job->grammar_after;
    size_t n = 0, at = 0;
    bool control = false;
    const char *bytes = piece(e, id, &n, &control);
    if (!bytes)
        return 0;
    if (c->unbound) {
        while (at < n && c->unbound) {
            c->n_matched = match(after, c->n_matched, bytes[at++]);
            c->unbound = after[c->n_matched];
        }
        while (at < n && (bytes[at] == '\n' || bytes[at] == '\r'))
            at++;
    }
    if (at == n)
        return 0;
    int r = control ? tr_grammar_advance_control(c->grammar, bytes, n)
                    : tr_grammar_advance(c->grammar, bytes + at, n - at);
    return r < 0 ? fail(r, ret_why) : 0;
}
