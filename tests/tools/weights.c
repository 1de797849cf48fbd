/*
 * Opens a checkpoint and prints what it found, one JSON object:
 *
 *     weights PATH [choice=auto|f32|bf16|q8_0|q4_0] [mmap=0|1] [threads=N] [cache=FOLDER] [dump=FILE]
 *
 * On failure it prints the message to stderr and exits with 1. `dump` writes every F32 matrix and
 * vector, and some rows of the embedding table, as raw floats; the object's "dump" lists them. The
 * Python tests compare these with the same files read by other people's code.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/weights.h"
#include "engine/text/tokenizer.h"

static FILE *dump;
static const char *separator = "";

static void put(const char *name, int layer, int expert, const float *x, int n, int k)
{
    if (!dump || !x)
        return;
    printf("%s[\"%s\", %d, %d, %d, %d]", separator, name, layer, expert, n, k);
    separator = ", ";
    if (fwrite(x, sizeof *x, (size_t)n * (size_t)k, dump) != (size_t)n * (size_t)k)
        exit(2);
}

static void put_matrix(const char *name, int layer, int expert, const struct tr_matrix *m)
{
    if (m->n && m->type == TR_W_F32)
        put(name, layer, expert, m->data, m->n, m->k);
}

static void put_router(const struct tr_model_config *c, const struct tr_layer *l, int layer)
{
    size_t n = (size_t)c->n_experts * (size_t)c->hidden_size;
    if (!l->router_bf16) {
        put("router", layer, -1, l->router_f32, c->n_experts, c->hidden_size);
        return;
    }
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)l->router_bf16[i] << 16;
        memcpy(&x[i], &bits, sizeof bits);
    }
    put("router", layer, -1, x, c->n_experts, c->hidden_size);
    free(x);
}

static void put_layer(const struct tr_model_config *c, const struct tr_layer *l, int i)
{
    put("input_norm", i, -1, l->input_norm, 1, c->hidden_size);
    put("post_attn_norm", i, -1, l->post_attn_norm, 1, c->hidden_size);
    put("pre_mlp_norm", i, -1, l->pre_mlp_norm, 1, c->hidden_size);
    put("post_mlp_norm", i, -1, l->post_mlp_norm, 1, c->hidden_size);
    put("q_norm", i, -1, l->q_norm, 1, c->head_dim);
    put("k_norm", i, -1, l->k_norm, 1, c->head_dim);
    put_matrix("q", i, -1, &l->q);
    put_matrix("k", i, -1, &l->k);
    put_matrix("v", i, -1, &l->v);
    put_matrix("attn_gate", i, -1, &l->gate);
    put_matrix("o", i, -1, &l->o);
    put_matrix("gate", i, -1, &l->mlp.gate);
    put_matrix("up", i, -1, &l->mlp.up);
    put_matrix("down", i, -1, &l->mlp.down);
    if (!l->experts)
        return;
    put_router(c, l, i);
    put("expert_bias", i, -1, l->expert_bias, 1, c->n_experts);
    for (int e = 0; e < c->n_experts; e++) {
        put_matrix("gate", i, e, &l->experts[e].gate);
        put_matrix("up", i, e, &l->experts[e].up);
        put_matrix("down", i, e, &l->experts[e].down);
    }
}

static void put_all(const struct tr_weights *w)
{
    const struct tr_model_config *c = &w->config;
    float *row = malloc((size_t)c->hidden_size * sizeof *row);
    printf(", \"dump\": [");
    for (int i = 0; i < c->vocab_size; i += 7) {
        tr_weights_embed(w, i, row);
        put("embed", i, -1, row, 1, c->hidden_size);
    }
    for (int i = 0; i < c->n_layers; i++)
        put_layer(c, &w->layers[i], i);
    put("final_norm", -1, -1, w->final_norm, 1, c->hidden_size);
    put_matrix("head", -1, -1, &w->head);
    printf("]");
    free(row);
}

static void print_config(const struct tr_model_config *c)
{
    printf("\"vocab_size\": %d, \"hidden_size\": %d, \"n_layers\": %d, \"n_dense\": %d, ",
           c->vocab_size, c->hidden_size, c->n_layers, c->n_dense);
    printf("\"n_heads\": %d, \"n_kv_heads\": %d, \"head_dim\": %d, \"dense_width\": %d, ",
           c->n_heads, c->n_kv_heads, c->head_dim, c->dense_width);
    printf("\"expert_width\": %d, \"n_experts\": %d, \"n_active\": %d, \"n_shared\": %d, ",
           c->expert_width, c->n_experts, c->n_active, c->n_shared);
    printf("\"window\": %d, \"context\": %d, \"norm_eps\": %.9g, \"rope_theta\": %.17g, ",
           c->window, c->context, (double)c->norm_eps, c->rope_theta);
    printf("\"route_scale\": %.9g, \"route_norm\": %d, \"tied\": %d, \"embed_scale\": %.9g, ",
           (double)c->route_scale, c->route_norm, c->tied, (double)c->embed_scale);
    printf("\"ids\": [%d, %d, %d], \"kinds\": \"", c->bos_id, c->eos_id, c->pad_id);
    for (int i = 0; i < c->n_layers; i++)
        putchar(c->kind[i] == TR_LOCAL ? 'l' : 'g');
    printf("\"");
}

static void print_lines(const char *name, const char *p)
{
    printf(", \"%s\": \"", name);
    for (; *p; p++)
        printf(*p == '\n' ? "\\n" : "%c", *p);
    printf("\"");
}

static void print_facts(const struct tr_weights *w)
{
    printf(", \"types\": \"%s\", \"n_params\": %llu, \"file_bytes\": %llu, \"memory_bytes\": %llu",
           w->types, (unsigned long long)w->n_params, (unsigned long long)w->file_bytes,
           (unsigned long long)w->memory_bytes);
    print_lines("warnings", w->warnings);
    print_lines("formats", w->formats);
    printf(", \"fingerprint\": \"");
    for (size_t i = 0; i < sizeof w->fingerprint; i++)
        printf("%02x", w->fingerprint[i]);
    printf("\"");
}

/* Ids that begin, end and pad, and all that end an answer. */
static void print_ends(const struct tr_tokenizer *t)
{
    int n;
    const int32_t *eog = tr_tokenizer_eog(t, &n);
    printf(", \"named\": [%d, %d, %d], \"ends\": [", tr_tokenizer_bos(t), tr_tokenizer_eos(t),
           tr_tokenizer_pad(t));
    for (int i = 0; i < n; i++)
        printf("%s%d", i ? ", " : "", eog[i]);
    printf("]");
}

/* What it does not say is left out. */
static void print_sampling(const struct tr_sampling_defaults *s)
{
    const struct {
        const char *name;
        float value;
    } all[] = {{"temperature", s->temperature},
               {"top_k", s->top_k < 0 ? NAN : (float)s->top_k},
               {"top_p", s->top_p},
               {"min_p", s->min_p},
               {"repetition_penalty", s->repetition_penalty}};
    const char *comma = "";
    printf(", \"sampling\": {");
    for (size_t i = 0; i < TR_ARRAY_LEN(all); i++) {
        if (isnan(all[i].value))
            continue;
        printf("%s\"%s\": %.9g", comma, all[i].name, (double)all[i].value);
        comma = ", ";
    }
    printf("}");
}

static enum tr_weights_choice choice_of(const char *name)
{
    static const char *const names[] = {"auto", "f32", "bf16", "q8_0", "q4_0"};
    for (size_t i = 0; i < TR_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum tr_weights_choice)i;
    exit(2);
}

static uint64_t progress_done, progress_total;

static void progress(void *arg, uint64_t done, uint64_t total)
{
    (void)arg;
    /* It begins again when a damaged cache gives way to the checkpoint, which has another size. */
    if (total != progress_total)
        progress_done = 0;
    if (done < progress_done || done > total)
        exit(3);
    progress_done = done;
    progress_total = total;
}

int main(int argc, char **argv)
{
    struct tr_weights_options o = {.use_mmap = true, .progress = progress};
    struct tr_checkpoint *checkpoint = NULL;
    struct tr_weights *w = NULL;
    struct tr_tokenizer *t = NULL;
    struct tr_err err;
    const char *path = NULL;
    int threads = 2;
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        value = value ? value + 1 : argv[i];
        if (strncmp(argv[i], "choice=", 7) == 0)
            o.choice = choice_of(value);
        else if (strncmp(argv[i], "mmap=", 5) == 0)
            o.use_mmap = atoi(value) != 0;
        else if (strncmp(argv[i], "threads=", 8) == 0)
            threads = atoi(value);
        else if (strncmp(argv[i], "cache=", 6) == 0)
            o.packed_cache = value;
        else if (strncmp(argv[i], "dump=", 5) == 0)
            dump = fopen(value, "wb");
        else
            path = argv[i];
    }
    if (!path || tr_pool_open(&o.pool, threads, &err))
        return 2;
    int rc = tr_checkpoint_open(&checkpoint, path, &err);
    if (!rc)
        rc = tr_weights_open(&w, checkpoint, &o, &err);
    tr_pool_close(o.pool);
    if (!rc)
        rc = tr_checkpoint_tokenizer(checkpoint, &t, &err);
    if (rc) {
        fprintf(stderr, "%s [%s]\n", err.msg, tr_err_text(rc));
        tr_checkpoint_close(checkpoint);
        tr_weights_close(w);
        return 1;
    }
    printf("{");
    print_config(&w->config);
    print_facts(w);
    print_ends(t);
    print_sampling(&checkpoint->generation.sampling);
    printf(", \"progress\": [%llu, %llu], \"tokens\": %d, \"template\": %d",
           (unsigned long long)progress_done, (unsigned long long)progress_total,
           tr_tokenizer_size(t), tr_tokenizer_chat_template(t) != NULL);
    put_all(w);
    printf("}\n");
    if (dump && fclose(dump))
        return 2;
    tr_tokenizer_free(t);
    tr_checkpoint_close(checkpoint);
    tr_weights_close(w);
    return 0;
}
