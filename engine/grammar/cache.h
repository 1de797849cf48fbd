/*
 * Compiled grammars by their source: who asks for the same again gets the same grammar, with the
 * masks that it has found so far.
 */
#ifndef TR_ENGINE_GRAMMAR_CACHE_H
#define TR_ENGINE_GRAMMAR_CACHE_H

#include "engine/grammar/grammar.h"

enum {
    TR_GRAMMAR_CACHE_ENTRIES = 16,      /* the ones used last are kept, */
    TR_GRAMMAR_CACHE_BYTES = 96 << 20,  /* as many as take so much (tr_grammar_bytes) */
    TR_GRAMMAR_CACHE_SOURCE = 256 << 10 /* longer sources are not */
};

struct tr_grammar_cache;

TR_NODISCARD int tr_grammar_cache_open(struct tr_grammar_cache **ret);       /* TR_ENOMEM */
struct tr_grammar_cache *tr_grammar_cache_close(struct tr_grammar_cache *c); /* NULL ok */
/* The grammar of the source, warm: a reference of the caller's own. One cache is for one
 * vocabulary. Any thread. Errors: tr_grammar_compile; they are not kept. */
TR_NODISCARD int tr_grammar_cache_get(struct tr_grammar_cache *c, struct tr_grammar **ret,
                                      const struct tr_grammar_source *source,
                                      const struct tr_grammar_vocab *vocab, struct tr_err *err);

#endif
