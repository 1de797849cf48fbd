#include "tests/golden/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double golden_number(const struct tr_json *v)
{
    double d = 0;
    struct tr_err err = {0};
    if (tr_json_as_double(v, -1e30, 1e30, &d, &err) < 0)
        fail_msg("%s", err.msg);
    return d;
}

void golden_prompt(struct golden *g, const struct tr_json *object)
{
    struct tr_json prompt = tr_json_get(object, "prompt");
    g->n = (int)tr_json_size(&prompt);
    assert_in_range(g->n, 0, TR_ARRAY_LEN(g->prompt));
    for (int i = 0; i < g->n; i++) {
        struct tr_json v = tr_json_at(&prompt, (size_t)i);
        g->prompt[i] = (int32_t)golden_number(&v);
    }
}

void golden_read(struct golden *g, const char *name)
{
    struct tr_err err = {0};
    memset(g, 0, sizeof *g);
    snprintf(g->path, sizeof g->path, "tests/golden/%s.json", name);
    if (tr_json_read(&g->doc, g->path, 64U << 20, &err) < 0)
        fail_msg("%s", err.msg);
    g->root = tr_json_root(g->doc, g->path);
    golden_prompt(g, &g->root);
}

void golden_done(struct golden *g)
{
    tr_json_free(g->doc);
}

static void **poisoned_pages(size_t bytes, int n)
{
    void **pages = calloc((size_t)n, sizeof *pages);
    assert_non_null(pages);
    for (int i = 0; i < n; i++) {
        pages[i] = aligned_alloc(64, TR_ROUND_UP(bytes, 64) + 64);
        assert_non_null(pages[i]);
        memset(pages[i], 0xFF, bytes); /* NaN in every type */
    }
    return pages;
}

static void free_pages(void **pages, int n)
{
    for (int i = 0; i < n; i++)
        free(pages[i]);
    free(pages);
}

static void see_layer(void *arg, int layer, int row, const float *x, const float *z)
{
    struct run *r = arg;
    const struct tr_model_config *c = &r->weights->config;
    int width = c->n_heads * c->head_dim;
    (void)row;
    memcpy(r->hidden + (size_t)layer * c->hidden_size, x, (size_t)c->hidden_size * sizeof *x);
    for (int i = 0; i < width; i++)
        r->gate[(size_t)layer * width + i] = (float)(1.0 / (1.0 + exp(-(double)z[i])));
}

void run_open(struct run *r, const struct run_options *o)
{
    struct tr_err err = {0};
    memset(r, 0, sizeof *r);
    r->max_tokens = o->max_tokens;
    if (tr_pool_open(&r->pool, o->threads, &err) < 0)
        fail_msg("%s", err.msg);
    struct tr_checkpoint *checkpoint = NULL;
    struct tr_weights_options wo = {.choice = o->choice, .use_mmap = true, .pool = r->pool};
    if (tr_checkpoint_open(&checkpoint, o->path, &err) < 0 ||
        tr_weights_open(&r->weights, checkpoint, &wo, &err) < 0)
        fail_msg("%s", err.msg);
    tr_checkpoint_close(checkpoint);
    const struct tr_model_config *c = &r->weights->config;
    tr_kv_layout_init(&r->local_layout, o->kv, o->page, c->n_local, c->n_kv_heads, c->head_dim);
    tr_kv_layout_init(&r->global_layout, o->kv, o->page, c->n_global, c->n_kv_heads, c->head_dim);
    int pages = TR_CEIL_DIV(o->max_tokens, o->page);
    r->local.table.n = r->global.table.n = pages;
    r->local.table.data = poisoned_pages(r->local_layout.page_bytes, pages);
    r->global.table.data = poisoned_pages(r->global_layout.page_bytes, pages);
    struct tr_forward_options fo = {
        .weights = r->weights,
        .kernels = tr_kernels_select(o->isa),
        .pool = r->pool,
        .local = &r->local_layout,
        .global = &r->global_layout,
        .max_rows = TR_MIN(o->max_tokens, 256),
        .max_head_rows = TR_MIN(o->max_tokens, 256),
    };
    if (tr_forward_open(&r->forward, &fo, &err) < 0)
        fail_msg("%s", err.msg);
    size_t width = (size_t)c->n_heads * c->head_dim;
    r->logits = calloc((size_t)o->max_tokens * c->vocab_size, sizeof *r->logits);
    r->hidden = calloc((size_t)c->n_layers * c->hidden_size, sizeof *r->hidden);
    r->gate = calloc((size_t)c->n_layers * width, sizeof *r->gate);
    assert_true(r->logits && r->hidden && r->gate);
    struct tr_forward_probe probe = {r, see_layer};
    tr_forward_set_probe(r->forward, &probe);
}

void run_open_golden(struct run *r, const char *name, int threads, int page,
                     enum tr_weights_choice choice)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/%s", name);
    struct run_options o = {.path = path,
                            .max_tokens = MAX_TOKENS,
                            .threads = threads,
                            .page = page,
                            .choice = choice,
                            .isa = TR_ISA_AUTO,
                            .kv = TR_KV_F32};
    run_open(r, &o);
}

void run_close(struct run *r)
{
    free_pages(r->local.table.data, r->local.table.n);
    free_pages(r->global.table.data, r->global.table.n);
    free(r->logits);
    free(r->hidden);
    free(r->gate);
    tr_forward_close(r->forward);
    tr_weights_close(r->weights);
    tr_pool_close(r->pool);
}

void run_step(struct run *r, const int32_t *tokens, int pos, int n)
{
    struct tr_span span = {.tokens = tokens + pos,
                           .n = n,
                           .pos0 = pos,
                           .local = &r->local,
                           .global = &r->global,
                           .head_rows = n};
    struct tr_batch batch = {&span, 1};
    int rows = 0;
    size_t vocab = (size_t)r->weights->config.vocab_size;
    tr_forward_run(r->forward, &batch, &rows);
    assert_int_equal(rows, n);
    tr_forward_head(r->forward, 0, rows, NULL);
    for (int i = 0; i < n; i++)
        memcpy(r->logits + ((size_t)pos + i) * vocab, tr_forward_logits(r->forward, i),
               vocab * sizeof *r->logits);
}

void run_prefill(struct run *r, const int32_t *tokens, int n, int chunk)
{
    for (int pos = 0; pos < n; pos += chunk)
        run_step(r, tokens, pos, TR_MIN(chunk, n - pos));
}

int argmax(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}
