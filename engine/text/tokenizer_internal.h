/*
 * A loaded tokenizer, as its two loaders build it. Private to the files tokenizer*.c.
 */
#ifndef TR_ENGINE_TEXT_TOKENIZER_INTERNAL_H
#define TR_ENGINE_TEXT_TOKENIZER_INTERNAL_H

#include "config/json.h"
#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/normalizer.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocab.h"

struct tr_tokenizer {
    struct tr_vocab vocab;
    struct tr_bpe bpe;
    struct tr_normalizer *normalizer; /* NULL = none */
    struct tr_pretokenizer *pretokenizer;
    struct tr_added_set added;            /* looked for in the text as it is */
    struct tr_added_set added_normalized; /* looked for in the normalized text */
    struct tr_ids prefix, suffix;         /* what TR_ENCODE_BOS puts around a text */
    int32_t bos, eos, pad;                /* -1 = none */
    struct tr_ids eog;                    /* ascending */
    char *chat_template;                  /* NULL = none */
    char *tool_template;                  /* of chats with tools; NULL = chat_template */
    bool drops;                           /* some bytes of a text may end up in no token */
    size_t longest;                       /* bytes of the longest token */
};

/* The parsed files of a checkpoint folder; all but the first may be absent. `config` is
 * tokenizer_config.json, else special_tokens_map.json; `model` is config.json, whose ids count
 * where generation_config.json has none. */
struct tr_tokenizer_files {
    struct tr_json tokenizer, config, generation, model;
};

/* tr_tokenizer_load without the files (and without the template): for fuzzing. */
TR_NODISCARD int tr_tokenizer_from_json(struct tr_tokenizer **ret,
                                        const struct tr_tokenizer_files *files, int vocab_size,
                                        struct tr_err *err);

/* An id that ends generation; ignored if it has no token. TR_ENOMEM. */
TR_NODISCARD int tr_tokenizer_add_eog(struct tr_tokenizer *t, int64_t id);
/* An added token: `set` is one of the two in t. TR_EINVAL as tr_vocab_add. */
TR_NODISCARD int tr_tokenizer_add_token(struct tr_tokenizer *t, struct tr_added_set *set,
                                        int64_t id, const char *text, size_t n, bool special,
                                        unsigned flags);
/* Makes or keeps the begin-of-text id the first of the prefix, or takes it away. */
TR_NODISCARD int tr_tokenizer_set_bos(struct tr_tokenizer *t, bool add);
/* When everything else is in place: the end-of-generation ids known by name, and the bounds. */
TR_NODISCARD int tr_tokenizer_finish(struct tr_tokenizer *t);

#endif
