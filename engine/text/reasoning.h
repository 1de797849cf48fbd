/*
 * Tells an answer's reasoning from its content while the answer grows.
 *
 * Reasoning is what stands between <think> and the first </think>. The opening tag counts only
 * where the answer begins (white space before it aside), or the prompt has already opened it;
 * everything else is content, later tags included. A tag may come in any number of parts: text that
 * may still become one is held back. Line breaks next to the tags belong to neither.
 */
#ifndef TR_ENGINE_TEXT_REASONING_H
#define TR_ENGINE_TEXT_REASONING_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"

#define TR_REASONING_TAG   "<think>"
#define TR_REASONING_CLOSE "</think>"

enum tr_reasoning_state {
    TR_REASONING_BEGIN,  /* an opening tag may come */
    TR_REASONING_OPEN,   /* the prompt has opened it; the answer may repeat the tag */
    TR_REASONING_FIRST,  /* behind the opening tag, line breaks are skipped */
    TR_REASONING_INSIDE, /* in the reasoning */
    TR_REASONING_AFTER,  /* behind the closing tag, line breaks are skipped */
    TR_REASONING_CONTENT /* the rest */
};

struct tr_reasoning {
    enum tr_reasoning_state state;
    struct tr_buf held; /* owned: text that is not decided yet */
};

/* opened: the prompt ends inside an opening tag's reasoning (see struct tr_rendered). */
void tr_reasoning_init(struct tr_reasoning *r, bool opened);
void tr_reasoning_done(struct tr_reasoning *r);

/* Takes the next bytes of the answer; appends to both outputs what is decided. The reasoning of one
 * call comes before its content. TR_ENOMEM. */
TR_NODISCARD int tr_reasoning_add(struct tr_reasoning *r, const char *text, size_t n,
                                  struct tr_buf *reasoning, struct tr_buf *content);
/* The answer has ended: releases what is held. */
TR_NODISCARD int tr_reasoning_end(struct tr_reasoning *r, struct tr_buf *reasoning,
                                  struct tr_buf *content);

#endif
