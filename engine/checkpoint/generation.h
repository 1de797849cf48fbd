/* What a checkpoint recommends for generating: generation_config.json, or GGUF's metadata. */
#ifndef TR_ENGINE_CHECKPOINT_GENERATION_H
#define TR_ENGINE_CHECKPOINT_GENERATION_H

#include "engine/types.h"

struct tr_gguf;

struct tr_generation {
    struct tr_sampling_defaults sampling;
};

/* DIR/generation_config.json; without it nothing is recommended. TR_EFORMAT names the key of a
 * value that no request could have. */
TR_NODISCARD int tr__generation_read(struct tr_generation *ret, const char *dir,
                                     struct tr_err *err);
/* The keys general.sampling.* of GGUF metadata. */
TR_NODISCARD int tr__gguf_generation(const struct tr_gguf *g, struct tr_generation *ret,
                                     struct tr_err *err);

#endif
