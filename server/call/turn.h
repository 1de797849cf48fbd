/*
 * An assistant's turn: an answer's text taken apart into reasoning, content and tool calls.
 *
 * Chat, responses and messages show the same turn, each in its own shape. A part grows while the
 * answer does; what is told of it while streaming (struct srv_part_event) adds up to what stands in
 * it at the end.
 */
#ifndef TR_SERVER_CALL_TURN_H
#define TR_SERVER_CALL_TURN_H

#include "config/buf.h"
#include "config/json.h"
#include "engine/text/reasoning.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tools.h"

struct srv_choice;

/* How the turns of a call are read. Zeroed: not at all, the text is the answer. */
struct srv_turn_rules {
    bool parse;
    bool reasoning_open; /* the prompt has opened the reasoning */
    bool hide_reasoning; /* it is counted, but not shown */
    bool hide_calls;     /* tools were given, and calling them forbidden */
    bool parallel;       /* more than one call */
    enum tr_tool_format
        format;           /* what the checkpoint's template teaches; TR_TOOL_NONE without tools */
    struct tr_json tools; /* a root of its own; owns the node, or has none */
};

enum srv_part_kind { SRV_PART_REASONING, SRV_PART_CONTENT, SRV_PART_CALL };

struct srv_part {
    enum srv_part_kind kind;
    struct tr_buf text; /* a call's arguments */
    struct tr_buf name; /* of a call */
    int call;           /* number of the call, from 0 */
};

/* A part begins, goes on, ends: one at a time, in order. */
enum srv_part_step { SRV_PART_BEGIN, SRV_PART_DELTA, SRV_PART_END };

struct srv_part_event {
    enum srv_part_step step;
    const struct srv_part *part;
    int index;        /* of the part in the turn */
    const char *text; /* DELTA: n bytes, already in the part */
    size_t n;
};

typedef void (*srv_part_fn)(struct srv_choice *ch, const struct srv_part_event *event);

/* One choice's; a zeroed one is empty. */
struct srv_turn {
    struct tr_reasoning reasoning;
    struct tr_tool_parser calls;
    struct srv_part *parts; /* owned */
    int n_parts, cap_parts;
    bool begun; /* something was taken */
    bool open;  /* the last part has not ended */
    int n_calls;
    int reasoning_tokens, seen_tokens;
};

/* The rules keep an outline of the tools: names and types. */
void srv_turn_rules_tools(struct srv_turn_rules *rules, const struct tr_json *tools);
void srv_turn_rules_done(struct srv_turn_rules *rules);
/* Whether the token is a tag, whose text counts although the token is special. */
bool srv_turn_is_tag(const struct srv_turn_rules *rules, const struct tr_tokenizer *t,
                     int32_t token);

void srv_turn_done(struct srv_turn *turn);
/* Takes the choice's new text, and its end if it has come; fn (may be NULL) hears of every step.
 * false: out of memory. */
bool srv_turn_take(struct srv_choice *ch, srv_part_fn fn);
/* The texts of all parts of a kind, joined. */
void srv_turn_text(const struct srv_turn *turn, enum srv_part_kind kind, struct tr_buf *out);

#endif
