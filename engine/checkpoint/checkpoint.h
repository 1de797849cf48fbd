/*
 * A checkpoint: a folder of Hugging Face files or a .gguf file, recognised, opened and parsed once.
 * Its config stands in it; weights (weights.h) and tokenizer come from it.
 */
#ifndef TR_ENGINE_CHECKPOINT_CHECKPOINT_H
#define TR_ENGINE_CHECKPOINT_CHECKPOINT_H

#include "engine/checkpoint/config.h"
#include "engine/checkpoint/generation.h"
#include "engine/checkpoint/source.h"

struct tr_gguf;
struct tr_tokenizer;

enum tr_checkpoint_kind { TR_CHECKPOINT_FOLDER, TR_CHECKPOINT_GGUF };

struct tr_checkpoint {
    enum tr_checkpoint_kind kind;
    char *path;
    struct tr_source source; /* where the tensors are; tr_weights_open takes it over */
    struct tr_model_config config;
    struct tr_generation generation;
    struct tr_gguf *gguf; /* the metadata of a .gguf; NULL for a folder */
};

/* Reads headers and configuration, no weights. On failure err names file, key or tensor, and what
 * is wrong. */
TR_NODISCARD int tr_checkpoint_open(struct tr_checkpoint **ret, const char *path,
                                    struct tr_err *err);
/* What came from it stays. NULL ok; returns NULL. */
struct tr_checkpoint *tr_checkpoint_close(struct tr_checkpoint *c);

/* The tokenizer, with the chat template. Owned by the caller: tr_tokenizer_free. */
TR_NODISCARD int tr_checkpoint_tokenizer(const struct tr_checkpoint *c, struct tr_tokenizer **ret,
                                         struct tr_err *err);

#endif
