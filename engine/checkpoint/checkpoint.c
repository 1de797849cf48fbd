/* Either kind of checkpoint, from its path to what it says of itself; see checkpoint.h. */
#include "engine/checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/json.h"
#include "engine/checkpoint/gguf.h"
#include "engine/checkpoint/quant.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/text/tokenizer.h"

enum { MAX_CONFIG = 4 << 20 }; /* bytes of config.json */

/* A JSON file of the folder; *ret stays NULL if it is not there and need not be. */
static int read_json(const struct tr_checkpoint *c, const char *name, bool optional,
                     struct json_t **ret, struct tr_err *err)
{
    struct tr_buf path = {0};
    tr_buf_addf(&path, "%s/%s", c->path, name);
    int r = 0;
    if (path.oom)
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    else if (!optional || access(path.data, F_OK) == 0)
        r = tr_json_read(ret, path.data, MAX_CONFIG, err);
    tr_buf_done(&path);
    return r;
}

static int open_folder(struct tr_checkpoint *c, struct tr_err *err)
{
    static const char config_name[] = "config.json", modelopt_name[] = "hf_quant_config.json";
    struct json_t *config = NULL, *modelopt = NULL;
    struct tr_json root, modelopt_root;
    struct tr_quant_config quant;
    c->kind = TR_CHECKPOINT_FOLDER;
    int r = read_json(c, config_name, false, &config, err);
    root = tr_json_root(config, config_name);
    if (!r)
        r = tr__model_config_read(&c->config, &root, config_name, err);
    if (!r)
        r = read_json(c, modelopt_name, true, &modelopt, err);
    modelopt_root = tr_json_root(modelopt, modelopt_name);
    if (!r)
        r = tr__quant_config_read(&quant, &root, &modelopt_root, err);
    if (!r)
        r = tr__generation_read(&c->generation, c->path, err);
    if (!r)
        r = tr__safetensors_open(&c->source, c->path, err);
    if (!r)
        r = tr__quant_find(&c->source, &quant, err);
    tr_json_free(modelopt);
    tr_json_free(config);
    return r;
}

static int open_gguf(struct tr_checkpoint *c, struct tr_err *err)
{
    c->kind = TR_CHECKPOINT_GGUF;
    int r = tr__gguf_open(&c->gguf, &c->source, c->path, err);
    if (!r)
        r = tr__gguf_config(c->gguf, &c->config, err);
    return r ? r : tr__gguf_generation(c->gguf, &c->generation, err);
}

int tr_checkpoint_open(struct tr_checkpoint **ret, const char *path, struct tr_err *err)
{
    struct stat st;
    struct tr_checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    c->path = strdup(path);
    int r = c->path ? tr__source_init(&c->source, err)
                    : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (!r)
        r = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? open_folder(c, err) : open_gguf(c, err);
    if (r)
        tr_checkpoint_close(c);
    else
        *ret = c;
    return r;
}

struct tr_checkpoint *tr_checkpoint_close(struct tr_checkpoint *c)
{
    if (!c)
        return NULL;
    tr__gguf_close(c->gguf);
    tr__source_done(&c->source);
    free(c->path);
    free(c);
    return NULL;
}

int tr_checkpoint_tokenizer(const struct tr_checkpoint *c, struct tr_tokenizer **ret,
                            struct tr_err *err)
{
    return c->kind == TR_CHECKPOINT_GGUF
               ? tr__gguf_tokenizer(c->gguf, c->config.vocab_size, ret, err)
               : tr_tokenizer_load(ret, c->path, c->config.vocab_size, err);
}
