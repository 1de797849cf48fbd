/* What a checkpoint has besides weights, wherever it keeps it. */
#ifndef TR_ENGINE_CHECKPOINT_CHECKPOINT_H
#define TR_ENGINE_CHECKPOINT_CHECKPOINT_H

#include "config/base.h"
#include "config/err.h"

struct tr_tokenizer;

/* The tokenizer, with the chat template, of a checkpoint folder or a .gguf file; vocab_size is the
 * number of rows of the head. Owned by the caller: tr_tokenizer_free. */
TR_NODISCARD int tr_checkpoint_open_tokenizer(const char *path, int vocab_size,
                                              struct tr_tokenizer **ret, struct tr_err *err);

#endif
