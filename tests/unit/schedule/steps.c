#include "tests/unit/schedule/steps.h"

#include <stdlib.h>
#include <string.h>

struct tr_schedule *steps_schedule;
struct steps_seq steps_seqs[STEPS_SEQS];
int steps_now;

static struct tr_kv_layout local_layout, global_layout;
static struct tr_pages *pages;

void steps_open(int max_rows, int max_sequences, int budget_pages)
{
    steps_open_kinds(max_rows, max_sequences, budget_pages, true, true);
}

void steps_open_kinds(int max_rows, int max_sequences, int budget_pages, bool local, bool global)
{
    struct tr_err err;
    tr_kv_layout_init(&local_layout, TR_KV_F32, STEPS_PAGE, local, 1, 2);
    tr_kv_layout_init(&global_layout, TR_KV_F32, STEPS_PAGE, global, 1, 2);
    uint64_t cost = TR_MAX(tr_local_page_cost(&local_layout), tr_global_page_cost(&global_layout));
    struct tr_pages_options po = {
        .local = &local_layout, .global = &global_layout, .budget_bytes = budget_pages * cost};
    assert_int_equal(tr_pages_open(&pages, &po, &err), 0);
    struct tr_schedule_options o = {.pages = pages,
                                    .shape = {STEPS_PAGE, 32, local, global},
                                    .budget_bytes = po.budget_bytes,
                                    .local_page_cost = cost,
                                    .global_page_cost = cost,
                                    .max_rows = max_rows,
                                    .max_sequences = max_sequences,
                                    .prefix_cache = true};
    assert_int_equal(tr_schedule_open(&steps_schedule, &o), 0);
    memset(steps_seqs, 0, sizeof steps_seqs);
    steps_now = 0;
}

/* The sequence, not added yet; its samples are k + 1 to k + n - 1. */
static struct tr_seq *init(int k, int n, int n_prompt, int answer, uint64_t tenant)
{
    for (int i = k; i < k + n; i++) {
        struct steps_seq *q = &steps_seqs[i];
        *q = (struct steps_seq){.last_step = steps_now};
        q->prompt = calloc((size_t)n_prompt, sizeof *q->prompt);
        assert_non_null(q->prompt);
        q->prompt[0] = k; /* no two requests begin alike */
        tr_seq_init(&q->seq, q->prompt, n_prompt, n_prompt + answer);
        q->seq.group = &steps_seqs[k].group;
        q->seq.tenant = tenant;
        q->seq.share = true;
    }
    steps_seqs[k].seq.n_forks = n - 1;
    return &steps_seqs[k].seq;
}

static const uint64_t salt[2];

void steps_add_samples(int k, int n, int n_prompt, int answer, uint64_t tenant)
{
    tr_schedule_add(steps_schedule, init(k, n, n_prompt, answer, tenant), salt);
}

void steps_add(int k, int n_prompt, int answer, uint64_t tenant, int priority)
{
    struct tr_seq *seq = init(k, 1, n_prompt, answer, tenant);
    seq->priority = priority;
    tr_schedule_add(steps_schedule, seq, salt);
}

void steps_add_open(int k, int n_prompt, int answer, uint64_t tenant)
{
    struct tr_seq *seq = init(k, 1, n_prompt, answer, tenant);
    seq->open_ended = true;
    tr_schedule_add(steps_schedule, seq, salt);
}

void steps_expect(int tokens)
{
    tr_schedule_expect(steps_schedule, tokens);
}

void steps_leave(int k)
{
    if (steps_seqs[k].seq.link.next)
        tr_schedule_remove(steps_schedule, &steps_seqs[k].seq);
    free(steps_seqs[k].prompt);
    steps_seqs[k].prompt = NULL;
    steps_seqs[k].seq = (struct tr_seq){0};
}

void steps_close(void)
{
    for (int k = 0; k < STEPS_SEQS; k++)
        if (steps_seqs[k].seq.max_ids)
            steps_leave(k);
    assert_int_equal(tr_local_counts(pages).used + tr_global_counts(pages).used, 0);
    assert_int_equal(tr_schedule_counts(steps_schedule).buffer_bytes, 0);
    steps_schedule = tr_schedule_close(steps_schedule);
    pages = tr_pages_close(pages);
}

static void append(struct steps_seq *q)
{
    assert_true(q->seq.n_ids < q->seq.room);
    q->seq.ids[q->seq.n_ids++] = 1;
    if (!q->first_step)
        q->first_step = steps_now;
    if (q->seq.n_ids == q->seq.max_ids)
        steps_leave((int)(q - steps_seqs));
}

static void fork_all(struct steps_seq *lead)
{
    for (struct steps_seq *q = lead + 1; lead->seq.n_forks; q++) {
        tr_schedule_fork(steps_schedule, &lead->seq, &q->seq);
        q->last_step = steps_now;
        if (q->seq.running)
            append(q);
    }
}

int steps_run(void)
{
    const struct tr_plan *plan = tr_schedule_plan(steps_schedule);
    struct tr_seq *planned[STEPS_SEQS];
    int n = plan->n;
    int rows = plan->rows;
    memcpy(planned, plan->seqs, (size_t)n * sizeof(struct tr_seq *));
    assert_false(plan->failed);
    steps_now++;
    for (int i = 0; i < n; i++) {
        struct steps_seq *q = TR_CONTAINER_OF(planned[i], struct steps_seq, seq);
        q->gap = TR_MAX(q->gap, steps_now - q->last_step);
        q->last_step = steps_now;
        tr_schedule_advance(steps_schedule, &q->seq, q->seq.planned);
        if (q->seq.n_computed < q->seq.n_ids)
            continue;
        if (q->seq.n_forks)
            fork_all(q);
        append(q);
    }
    return rows;
}
