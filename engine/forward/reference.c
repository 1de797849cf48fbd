#include "engine/forward/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernels/blas.h"

struct dense_pass {
    const struct tr_weights *w;
    const struct tr_model_config *c;
    int n;            /* tokens */
    float *x;         /* [n][d] residual stream */
    float *h;         /* [n][d] normed input of a branch */
    float *y;         /* [n][d] output of a branch */
    float *q, *z, *o; /* [n][heads * head_dim] */
    float *k, *v;     /* [n][kv_heads * head_dim] */
    float *gate, *up; /* [n][widest MLP] */
    float *part;      /* [d] one expert's output for one token */
    double *p;        /* [max(n, experts)] */
};

static int take(float **ret, size_t rows, size_t columns)
{
    *ret = calloc(rows * columns + 1, sizeof **ret);
    return *ret ? 0 : TR_ENOMEM;
}

static void pass_done(struct dense_pass *s)
{
    float *all[] = {s->x, s->h, s->y, s->q, s->z, s->o, s->k, s->v, s->gate, s->up, s->part};
    for (size_t i = 0; i < TR_ARRAY_LEN(all); i++)
        free(all[i]);
    free(s->p);
}

static int pass_init(struct dense_pass *s, const struct tr_weights *w, int n)
{
    const struct tr_model_config *c = &w->config;
    size_t rows = (size_t)n;
    size_t d = (size_t)c->hidden_size;
    size_t wide =
        (size_t)TR_MAX(TR_MAX(c->dense_width, c->expert_width * c->n_shared), c->expert_width);
    size_t q = (size_t)c->n_heads * c->head_dim;
    size_t kv = (size_t)c->n_kv_heads * c->head_dim;
    *s = (struct dense_pass){.w = w, .c = c, .n = n};
    s->p = calloc((size_t)TR_MAX(n, c->n_experts) + 1, sizeof *s->p);
    if (!s->p || take(&s->x, rows, d) || take(&s->h, rows, d) || take(&s->y, rows, d) ||
        take(&s->q, rows, q) || take(&s->z, rows, q) || take(&s->o, rows, q) ||
        take(&s->k, rows, kv) || take(&s->v, rows, kv) || take(&s->gate, rows, wide) ||
        take(&s->up, rows, wide) || take(&s->part, 1, d))
        return TR_ENOMEM;
    return 0;
}

static void linear(const struct tr_matrix *m, const float *x, int rows, float *y)
{
    tr_blas_dense(m->data, m->n, m->k, x, rows, y);
}

static void rms(const float *x, const float *w, int n, double eps, float *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    double r = 1.0 / sqrt(sum / n + eps);
    for (int i = 0; i < n; i++)
        y[i] = (float)((double)x[i] * r * (double)w[i]);
}

static void rms_rows(const struct dense_pass *s, const float *x, const float *w, float *y)
{
    size_t d = (size_t)s->c->hidden_size;
    for (int t = 0; t < s->n; t++)
        rms(x + t * d, w, (int)d, (double)s->c->norm_eps, y + t * d);
}

/* x += RMS(y; norm) */
static void add_branch(const struct dense_pass *s, const float *norm)
{
    size_t n = (size_t)s->n * s->c->hidden_size;
    rms_rows(s, s->y, norm, s->y);
    for (size_t i = 0; i < n; i++)
        s->x[i] += s->y[i];
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Norms every head of every token, and turns it by its position on local layers. */
static void finish_heads(const struct dense_pass *s, float *x, int heads, const float *norm,
                         bool rotate)
{
    int d = s->c->head_dim;
    int half = d / 2;
    for (int t = 0; t < s->n; t++) {
        for (int h = 0; h < heads; h++) {
            float *row = x + ((size_t)t * heads + h) * d;
            rms(row, norm, d, (double)s->c->norm_eps, row);
            for (int i = 0; rotate && i < half; i++) {
                double angle = t * pow(s->c->rope_theta, -2.0 * i / d);
                double a = (double)row[i];
                double b = (double)row[half + i];
                row[i] = (float)(a * cos(angle) - b * sin(angle));
                row[half + i] = (float)(b * cos(angle) + a * sin(angle));
            }
        }
    }
}

static void attend(const struct dense_pass *s, int t, int head, int64_t window)
{
    const struct tr_model_config *c = s->c;
    int d = c->head_dim;
    int kv = head / (c->n_heads / c->n_kv_heads);
    const float *q = s->q + ((size_t)t * c->n_heads + head) * d;
    float *o = s->o + ((size_t)t * c->n_heads + head) * d;
    int first = t < window ? 0 : (int)(t - window + 1);
    double max = (double)-INFINITY;
    double sum = 0;
    for (int u = first; u <= t; u++) {
        const float *k = s->k + ((size_t)u * c->n_kv_heads + kv) * d;
        double dot = 0;
        for (int i = 0; i < d; i++)
            dot += (double)q[i] * (double)k[i];
        s->p[u] = dot / sqrt(d);
        max = fmax(max, s->p[u]);
    }
    for (int u = first; u <= t; u++) {
        s->p[u] = exp(s->p[u] - max);
        sum += s->p[u];
    }
    for (int i = 0; i < d; i++) {
        double out = 0;
        for (int u = first; u <= t; u++)
            out += s->p[u] / sum * (double)s->v[((size_t)u * c->n_kv_heads + kv) * d + i];
        o[i] = (float)out;
    }
}

static void attention(const struct dense_pass *s, const struct tr_layer *l, bool local)
{
    const struct tr_model_config *c = s->c;
    linear(&l->q, s->h, s->n, s->q);
    linear(&l->k, s->h, s->n, s->k);
    linear(&l->v, s->h, s->n, s->v);
    linear(&l->gate, s->h, s->n, s->z);
    finish_heads(s, s->q, c->n_heads, l->q_norm, local);
    finish_heads(s, s->k, c->n_kv_heads, l->k_norm, local);
    for (int t = 0; t < s->n; t++)
        for (int head = 0; head < c->n_heads; head++)
            attend(s, t, head, local ? c->window : INT64_MAX);
    for (size_t i = 0; i < (size_t)s->n * c->n_heads * c->head_dim; i++)
        s->o[i] = (float)((double)s->o[i] * sigmoid((double)s->z[i]));
    linear(&l->o, s->o, s->n, s->y);
}

static void mlp(const struct dense_pass *s, const struct tr_mlp *m, const float *x, int rows,
                float *y)
{
    linear(&m->gate, x, rows, s->gate);
    linear(&m->up, x, rows, s->up);
    for (size_t i = 0; i < (size_t)rows * m->gate.n; i++) {
        double a = (double)s->gate[i];
        s->gate[i] = (float)(a * sigmoid(a) * (double)s->up[i]);
    }
    linear(&m->down, s->gate, rows, y);
}

static double router_score(const struct dense_pass *s, const struct tr_layer *l, int expert,
                           const float *x)
{
    int d = s->c->hidden_size;
    double dot = 0;
    for (int i = 0; i < d; i++) {
        float w = l->router_f32 ? l->router_f32[(size_t)expert * d + i] : 0.0F;
        if (!l->router_f32) {
            uint32_t bits = (uint32_t)l->router_bf16[(size_t)expert * d + i] << 16;
            memcpy(&w, &bits, sizeof w);
        }
        dot += (double)w * (double)x[i];
    }
    return sigmoid(dot);
}

/* y += the routed experts' sum for one token. */
static void routed(const struct dense_pass *s, const struct tr_layer *l, const float *x, float *y)
{
    const struct tr_model_config *c = s->c;
    bool taken[TR_MAX_EXPERTS] = {0};
    int chosen[TR_MAX_TOPK];
    double sum = 0;
    for (int e = 0; e < c->n_experts; e++)
        s->p[e] = router_score(s, l, e, x);
    for (int rank = 0; rank < c->n_active; rank++) {
        int best = -1;
        for (int e = 0; e < c->n_experts; e++)
            if (!taken[e] && (best < 0 || s->p[e] + (double)l->expert_bias[e] >
                                              s->p[best] + (double)l->expert_bias[best]))
                best = e;
        taken[best] = true;
        chosen[rank] = best;
        sum += s->p[best];
    }
    for (int rank = 0; rank < c->n_active; rank++) {
        double weight = s->p[chosen[rank]] * (double)c->route_scale;
        if (c->route_norm)
            weight /= sum + 1e-20;
        mlp(s, &l->experts[chosen[rank]], x, 1, s->part);
        for (int i = 0; i < c->hidden_size; i++)
            y[i] = (float)((double)y[i] + weight * (double)s->part[i]);
    }
}

static void run_layer(const struct dense_pass *s, int i)
{
    const struct tr_layer *l = &s->w->layers[i];
    size_t d = (size_t)s->c->hidden_size;
    rms_rows(s, s->x, l->input_norm, s->h);
    attention(s, l, s->c->kind[i] == TR_LOCAL);
    add_branch(s, l->post_attn_norm);
    rms_rows(s, s->x, l->pre_mlp_norm, s->h);
    if (l->mlp.gate.n)
        mlp(s, &l->mlp, s->h, s->n, s->y);
    else
        memset(s->y, 0, (size_t)s->n * d * sizeof *s->y);
    for (int t = 0; l->experts && t < s->n; t++)
        routed(s, l, s->h + t * d, s->y + t * d);
    add_branch(s, l->post_mlp_norm);
}

int tr_reference_logits(const struct tr_weights *w, const int32_t *tokens, int n, float *logits)
{
    struct dense_pass s;
    size_t d = (size_t)w->config.hidden_size;
    if (w->head.type != TR_W_F32 || w->layers[0].q.type != TR_W_F32)
        return TR_EUNSUPPORTED;
    int r = pass_init(&s, w, n);
    if (r == 0) {
        for (int t = 0; t < n; t++) {
            tr_weights_embed(w, tokens[t], s.x + t * d);
            for (size_t i = 0; i < d; i++)
                s.x[t * d + i] *= w->config.embed_scale;
        }
        for (int i = 0; i < w->config.n_layers; i++)
            run_layer(&s, i);
        rms_rows(&s, s.x, w->final_norm, s.h);
        linear(&w->head, s.h, n, logits);
    }
    pass_done(&s);
    return r;
}
