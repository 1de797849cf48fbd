/*
 * Constrained output: which tokens may come next so that the whole text is in a given language.
 *
 * A grammar is compiled from a JSON schema, a regular expression, a list of choices or a GBNF/EBNF
 * text into a table of byte nodes (nodes.h). A state is the place of one sequence in a text of the
 * grammar: it is advanced by tokens, can be rolled back and copied, and is asked for the mask of
 * its next token. A mask is exact: an id is in it if and only if the text with the token's bytes
 * added can still become a text of the grammar (with bytes; a vocabulary that lacks a byte may end
 * in a place where no token fits). What cannot be done within the bounds is an error, never a wrong
 * mask.
 *
 * Any thread may use a grammar and its states; calls on the states of one grammar take that
 * grammar's lock. One state is used by one thread at a time.
 */
#ifndef TR_ENGINE_GRAMMAR_GRAMMAR_H
#define TR_ENGINE_GRAMMAR_GRAMMAR_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

struct tr_grammar;
struct tr_grammar_state;
struct tr_grammar_vocab;

/* ---- vocabulary ---- */

/* The bytes of a token, NULL if the id has none or must never be; *ret_special: a control token,
 * which only grammars that name it can have (GBNF: <its text>), and no text. */
typedef const char *tr_grammar_piece_fn(const void *tokens, int32_t id, size_t *ret_n,
                                        bool *ret_special);

/* Built once for ids 0..n_ids-1; keeps nothing of `tokens`. Tokens longer than 255 bytes are
 * never allowed. TR_ENOMEM, TR_EINVAL (n_ids < 1), TR_EUNSUPPORTED (over 16 million bytes that
 * differ). */
TR_NODISCARD int tr_grammar_vocab_open(struct tr_grammar_vocab **ret, int n_ids,
                                       tr_grammar_piece_fn *piece, const void *tokens);
struct tr_grammar_vocab *tr_grammar_vocab_close(struct tr_grammar_vocab *v); /* NULL ok */
/* 64-bit words of a mask's bits. */
int tr_grammar_vocab_words(const struct tr_grammar_vocab *v);

/* ---- compiling ---- */

enum tr_grammar_kind {
    TR_GRAMMAR_JSON_OBJECT, /* any JSON object; no text */
    TR_GRAMMAR_JSON_SCHEMA, /* JSON Schema, draft 2020-12 */
    TR_GRAMMAR_REGEX,       /* ECMA subset without look-around and back-references, anchored */
    TR_GRAMMAR_CHOICE,      /* one of the choices, byte for byte */
    TR_GRAMMAR_GBNF,        /* llama-server's grammars; rule "root" */
    TR_GRAMMAR_EBNF,        /* vLLM's notation; rule "root" */
    TR_GRAMMAR_TEXT,        /* any text in which none of the choices stands */
    TR_GRAMMAR_PARAMETERS   /* the members of an object of a schema, as Qwen3-Coder writes them: see
                             * engine/text/tools_xml.c, which reads the same values back */
};

/* Blanks that may follow a line feed between the tokens of a JSON text. */
enum { TR_GRAMMAR_INDENT_MAX = 64 };

struct tr_grammar_text {
    const char *bytes;
    size_t n;
};

struct tr_grammar_source {
    enum tr_grammar_kind kind;
    struct tr_grammar_text text;           /* UTF-8 */
    const struct tr_grammar_text *choices; /* TR_GRAMMAR_CHOICE and TR_GRAMMAR_TEXT only */
    int n_choices;
    /* TR_GRAMMAR_GBNF: what the names part-0, part-1, ... stand for. Each schema is its own
     * document. */
    const struct tr_grammar_source *parts;
    int n_parts;
    const char *name; /* of a part: begins its errors' text and param; NULL = "" */
    bool object;      /* TR_GRAMMAR_JSON_SCHEMA: and an object */
    bool lenient;     /* a schema that can't be done (TR_EUNSUPPORTED) is any value or object */
    /* JSON: behind "{", "[", "," and ":" and before "}" and "]" stands nothing, one space, or a
     * line feed and at most `indent` blanks; with `compact`, nothing. Nowhere else is any. */
    bool compact;
    int indent; /* 0..TR_GRAMMAR_INDENT_MAX */
};

/* The vocabulary (borrowed, must outlive all use of the grammar but its end; NULL: no masks can
 * be asked for) belongs to the grammar. Work and memory are bounded by counted steps, some 100
 * ms and 16 MiB worth. TR_EINVAL (malformed; err->param is the JSON pointer or "", the text
 * names the keyword or the byte position), TR_EUNSUPPORTED (what cannot be done, or too large),
 * TR_ENOMEM. The grammar begins with one reference. */
TR_NODISCARD int tr_grammar_compile(struct tr_grammar **ret, const struct tr_grammar_source *source,
                                    const struct tr_grammar_vocab *vocab, struct tr_err *err);
struct tr_grammar *tr_grammar_ref(struct tr_grammar *g);   /* returns g */
struct tr_grammar *tr_grammar_unref(struct tr_grammar *g); /* NULL ok; returns NULL */
size_t tr_grammar_bytes(const struct tr_grammar *g);       /* the most memory it can hold */

/* Makes masks that are likely to be asked for, for at most some ten milliseconds: on a thread that
 * may wait, so that who decodes need not. */
void tr_grammar_warm(struct tr_grammar *g);

/* ---- running ---- */

/* A text's begin; holds a reference on g. TR_ENOMEM, TR_EUNSUPPORTED. */
TR_NODISCARD int tr_grammar_state_open(struct tr_grammar_state **ret, struct tr_grammar *g);
TR_NODISCARD int tr_grammar_state_copy(struct tr_grammar_state **ret,
                                       const struct tr_grammar_state *from);
struct tr_grammar_state *tr_grammar_state_free(struct tr_grammar_state *s); /* NULL ok */
size_t tr_grammar_state_bytes(void);                                        /* of one */
void tr_grammar_state_reset(struct tr_grammar_state *s); /* back to the text's begin */

/* Steps that can be taken back. */
enum { TR_GRAMMAR_ROLLBACK = 64 };

/* Adds bytes (one token's) to the text as one step. TR_EINVAL: no text of the grammar begins so;
 * TR_EUNSUPPORTED: a bound was met. The state is untouched by a failure. */
TR_NODISCARD int tr_grammar_advance(struct tr_grammar_state *s, const char *bytes, size_t n);
/* The same for a control token of that text. */
TR_NODISCARD int tr_grammar_advance_control(struct tr_grammar_state *s, const char *text, size_t n);
/* Takes back the last n steps; TR_EINVAL if fewer can be. */
TR_NODISCARD int tr_grammar_rollback(struct tr_grammar_state *s, int n);
/* The text is complete as it stands. */
bool tr_grammar_may_end(const struct tr_grammar_state *s);
/* The bytes that must follow whatever happens, as far as cap or the next control token; *ret_n may
 * be 0. */
TR_NODISCARD int tr_grammar_forced_bytes(struct tr_grammar_state *s, char *bytes, size_t cap,
                                         size_t *ret_n);

/* ---- masks ---- */

/* Masks of at most that many ids are lists. */
enum { TR_GRAMMAR_LIST_MAX = 1024 };

/* Caller's memory. End-of-text ids are not part of it: the caller adds its own where may_end is
 * set. n = 0 without may_end: no token of the vocabulary fits. */
struct tr_grammar_mask {
    /* tr_grammar_vocab_words() words, filled if !listed; bit id%64 of word id/64. NULL: of no
     * interest. */
    uint64_t *bits;
    int32_t ids[TR_GRAMMAR_LIST_MAX]; /* ascending, filled if listed */
    int n;                            /* allowed ids */
    bool listed;
    bool may_end;
};

/* TR_EUNSUPPORTED: a bound was met, or the grammar has no vocabulary; TR_ENOMEM. */
TR_NODISCARD int tr_grammar_mask(struct tr_grammar_state *s, struct tr_grammar_mask *out);
/* The only id that may come next, where the text may not end; else -1. */
int32_t tr_grammar_mask_forced(const struct tr_grammar_mask *m);

#endif
