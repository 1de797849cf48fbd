/*
 * A vocabulary made ready for masks: its tokens as tries to be walked together with the machine,
 * and the tokens that fit inside any string as ready sets.
 *
 * A clean token is made of whole characters without quote, backslash, control characters and the
 * two line separators: nearly all tokens are, and inside a string all of them are allowed. So they
 * stand in sets by number of characters, and only the rest has to be walked there.
 */
#ifndef TR_ENGINE_GRAMMAR_VOCAB_H
#define TR_ENGINE_GRAMMAR_VOCAB_H

#include "engine/grammar/grammar.h"

enum {
    TR__CONTROL = 0xFF,      /* the byte, of no text, that stands before a control token's text */
    TR__TOKEN_MAX = 255,     /* bytes; longer tokens are left out */
    TR__CLEAN_SETS = 17,     /* ready sets: at most 0..16 characters */
    TR__ORDER_MORE = 1 << 30 /* in order: the next one has the same bytes */
};

/* In depth-first order; children ascend by byte. */
struct tr__trie_node {
    uint32_t first; /* the token that ends here: index in order + 1, 0 = none */
    uint32_t byte : 8;
    uint32_t size : 24; /* nodes of this subtree, this one included */
};

struct tr__trie {
    struct tr__trie_node *nodes;
    uint32_t n, cap;
    uint32_t *order; /* ids in the order of their bytes */
    uint32_t n_order;
};

struct tr_grammar_vocab {
    int n_ids, words;
    uint32_t longest;          /* bytes */
    struct tr__trie all, rest; /* rest: those that are not clean */
    uint64_t *clean;           /* TR__CLEAN_SETS sets, then the set of all clean ones */
    uint32_t clean_n[TR__CLEAN_SETS + 1];
    uint32_t *long_ids; /* clean ones of more characters, ascending by number of characters */
    uint8_t *long_chars;
    uint32_t n_long, most_chars;
    /* Those that may end the name of a property. */
    struct tr__namer {
        uint32_t id, at, n; /* bytes in namer_bytes */
        uint8_t quotes;
        uint8_t tag; /* 1: has a '>', 2: after a '<' */
    } * namers;
    char *namer_bytes;
    uint32_t n_namers;
};

/* The set for clean tokens of at most `chars` characters: bits |= set. Returns how many. */
uint32_t tr__vocab_clean_count(const struct tr_grammar_vocab *v, uint32_t chars);
void tr__vocab_clean_copy(const struct tr_grammar_vocab *v, uint32_t chars, uint64_t *bits);

/* No control characters, quotes, backslashes, line separators. */
static inline bool tr__is_clean(uint32_t c)
{
    return c >= 0x20 && c != '"' && c != '\\' && c != 0x7F && c != 0x2028 && c != 0x2029;
}

#endif
