#include "server/model.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/hash.h"
#include "engine/grammar/cache.h"
#include "server/call/defaults.h"
#include "server/load.h"
#include "server/log.h"
#include "server/probe.h"

/* ---- what a path leads to ---- */

static struct tr_hash hash_file(const char *path, const char *name)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return (struct tr_hash){0};
    const int64_t facts[] = {(int64_t)st.st_dev, (int64_t)st.st_ino, (int64_t)st.st_size,
                             (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec};
    return tr_hash_link(tr_hash(facts, sizeof facts), name, strlen(name));
}

/* A file that loading reads, by its name. */
static bool is_part(const char *name)
{
    static const char *const ends[] = {".json", ".safetensors", ".jinja"};
    size_t n = strlen(name);
    for (size_t i = 0; i < TR_ARRAY_LEN(ends); i++) {
        size_t k = strlen(ends[i]);
        if (name[0] != '.' && n > k && strcmp(name + n - k, ends[i]) == 0)
            return true;
    }
    return false;
}

uint64_t srv_model_stamp(const char *path, const char *chat_template)
{
    char real[PATH_MAX], at[2 * PATH_MAX];
    if (!realpath(path, real))
        return 0;
    uint64_t sum = tr_hash(real, strlen(real)).lo;
    if (chat_template)
        sum += hash_file(chat_template, chat_template).lo;
    DIR *dir = opendir(real);
    if (!dir)
        return sum + hash_file(real, "").lo;
    for (const struct dirent *e; (e = readdir(dir));) { /* in any order */
        snprintf(at, sizeof at, "%s/%s", real, e->d_name);
        if (is_part(e->d_name))
            sum += hash_file(at, e->d_name).lo;
    }
    closedir(dir);
    return sum;
}

/* ---- one of them ---- */

/* A copy: workers look at them while the options may be read again. */
static int take_names(struct srv_model *m, const struct tr_strings *given)
{
    struct tr_strings *names = &m->names;
    names->items = calloc(given->n + 1, sizeof *names->items);
    const char *first = NULL;
    for (size_t i = 0; names->items && i < given->n; i++) {
        names->items[names->n] = strdup(given->items[i]);
        if (!names->items[names->n])
            return TR_ENOMEM;
        names->n++;
        if (!first && strcmp(given->items[i], "*") != 0)
            first = given->items[i];
    }
    m->name = strdup(first ? first : m->info->name);
    return names->items && m->name ? 0 : TR_ENOMEM;
}

static int take_defaults(struct srv_model *m, const char *option, struct tr_err *err)
{
    int r = srv_defaults_open(&m->defaults, option, &m->info->sampling, err);
    if (r < 0) { /* the option was looked at before: the checkpoint's own values are out of range */
        srv_log(SRV_LOG_WARN, NULL, "what the checkpoint recommends is not used: %s", err->msg);
        r = srv_defaults_open(&m->defaults, "none", NULL, err);
    }
    if (r < 0)
        return r;
    char defaults[9];
    srv_defaults_hash(m->defaults, defaults);
    snprintf(m->fingerprint, sizeof m->fingerprint, "fp_%.40s%s%s", m->info->fingerprint,
             *defaults ? "_" : "", defaults);
    return 0;
}

/* Whether text becomes the prompt that it should. */
static int probe(const struct srv_model *m, struct tr_err *err)
{
    struct srv_probe p;
    int r = srv_probe(&p, m->tokenizer, m->chat, err);
    if (p.refused.code)
        srv_log(SRV_LOG_WARN, NULL, "the chat template refuses a plain question: %s",
                p.refused.msg);
    return r;
}

int srv_model_open(struct srv_model **ret, const struct tr_options *o,
                   const struct tr_engine_options *eo, struct tr_err *err)
{
    struct srv_model *m = calloc(1, sizeof *m);
    if (!m)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    m->refs = 1;
    m->stamp = srv_model_stamp(eo->model, o->chat_template); /* before: what changes now is news */
    m->path = realpath(eo->model, NULL);
    int r = srv_engine_open(&m->engine, eo, err);
    if (r == 0)
        r = srv_chat_open(&m->chat, o, m->engine, err);
    if (r == 0) {
        m->info = tr_engine_info(m->engine);
        m->tokenizer = tr_engine_tokenizer(m->engine);
        r = take_defaults(m, o->generation_defaults, err);
    }
    if (r == 0)
        r = probe(m, err);
    if (r == 0 &&
        (take_names(m, &o->served_model_name) < 0 || tr_grammar_cache_open(&m->grammars) < 0))
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r < 0) {
        srv_model_unref(m);
        return r;
    }
    *ret = m;
    return 0;
}

void srv_model_log(const struct srv_model *m, const struct tr_options *o)
{
    const struct tr_engine_info *i = m->info;
    char weights[24], cache[24], step[24], all[24];
    srv_log_engine(i);
    srv_log(SRV_LOG_INFO, NULL,
            "fingerprint %s, threads %s; memory: weights %s + cache %s + buffers of a step %s = %s",
            m->fingerprint, o->threads ? "as set" : "by affinity and CPU quota",
            srv_bytes_text(weights, i->weight_bytes), srv_bytes_text(cache, i->kv_cache_bytes),
            srv_bytes_text(step, i->buffer_bytes),
            srv_bytes_text(all, i->weight_bytes + i->kv_cache_bytes + i->buffer_bytes));
}

struct srv_model *srv_model_use(struct srv_model *m)
{
    m->refs++;
    return m;
}

void srv_model_stop(struct srv_model *m)
{
    m->engine = tr_engine_close(m->engine);
}

void srv_model_unref(struct srv_model *m)
{
    if (!m || --m->refs > 0)
        return;
    if (m->unused)
        m->unused(m);
    else
        srv_model_free(m);
}

void srv_model_free(struct srv_model *m)
{
    srv_model_stop(m);
    tr_chat_close(m->chat);
    free(m->name);
    free(m->path);
    for (size_t i = 0; i < m->names.n; i++)
        free(m->names.items[i]);
    free(m->names.items);
    tr_json_free(m->defaults);
    tr_grammar_cache_close(m->grammars);
    free(m);
}
