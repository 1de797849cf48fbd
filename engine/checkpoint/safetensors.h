/*
 * safetensors: an 8-byte length, a JSON header, the tensors' bytes; one file, or shards with an
 * index. All of the header is checked before anything believes it.
 */
#ifndef TR_ENGINE_CHECKPOINT_SAFETENSORS_H
#define TR_ENGINE_CHECKPOINT_SAFETENSORS_H

#include "engine/checkpoint/source.h"

/* Adds the tensors of all files that DIR/model.safetensors.index.json names, without an index those
 * of DIR/model.safetensors, and seals the source. Every file is there, exactly as long as its
 * header says, and holds what the index says. TR_EFORMAT, TR_EIO, TR_ENOMEM. */
TR_NODISCARD int tr__safetensors_open(struct tr_source *s, const char *dir, struct tr_err *err);

/* Adds the tensors of one file, which is already open. */
TR_NODISCARD int tr__safetensors_add(struct tr_source *s, int file, struct tr_err *err);

#endif
