/*
 * The integers of struct tr_model_config, once, with their keys in both kinds of checkpoint and
 * their bounds; and the rules between them. config.json and GGUF metadata are read by the same
 * table, so that neither can be laxer than the other.
 */
#ifndef TR_ENGINE_CHECKPOINT_FIELDS_H
#define TR_ENGINE_CHECKPOINT_FIELDS_H

#include "engine/checkpoint/config.h"

enum tr_field_id {
    TR_FIELD_VOCAB_SIZE,
    TR_FIELD_HIDDEN_SIZE,
    TR_FIELD_N_LAYERS,
    TR_FIELD_N_DENSE,
    TR_FIELD_N_HEADS,
    TR_FIELD_N_KV_HEADS,
    TR_FIELD_HEAD_DIM,
    TR_FIELD_DENSE_WIDTH,
    TR_FIELD_EXPERT_WIDTH,
    TR_FIELD_N_EXPERTS,
    TR_FIELD_N_ACTIVE,
    TR_FIELD_N_SHARED,
    TR_FIELD_CONTEXT,
    TR_FIELD_REQUIRED, /* those before it must be given */
    TR_FIELD_WINDOW = TR_FIELD_REQUIRED,
    TR_FIELD_LAYER_TYPES, /* no integer: known here for its names in messages */
    TR_FIELD_COUNT
};

struct tr_field {
    const char *key[2]; /* in config.json; in GGUF after "afmoe." */
    size_t offset;      /* of the int in struct tr_model_config */
    int min, max;       /* inclusive; the bounds keep every product of two fields inside an int */
};

extern const struct tr_field tr_fields[TR_FIELD_COUNT];

enum { TR_KEYS_JSON, TR_KEYS_GGUF };

/* The field's int in *config. */
int *tr__field_int(struct tr_model_config *config, enum tr_field_id id);

/* Checks the rules between the fields and fills in n_local, n_global and kind_index from kind.
 * `keys` says whose key names the message uses. TR_EFORMAT. */
TR_NODISCARD int tr__fields_check(struct tr_model_config *config, int keys, const char *name,
                                  struct tr_err *err);

/* "NAME: KEY: text", with KEY as param; returns TR_EFORMAT. */
int tr__fields_fail(struct tr_err *err, const char *name, const char *key, const char *fmt, ...)
    TR_PRINTF(4, 5);

#endif
