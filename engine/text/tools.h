/*
 * Finds tool calls in an answer while it grows: <tool_call> blocks with a JSON object (Hermes), or
 * with <function=...> and <parameter=...> lines (Qwen3-Coder).
 *
 * A call is reported when it is complete, so that none that the answer was cut in, or that turns
 * out malformed, ever is; malformed ones are content. The parser sees text, not tokens, and gives
 * the same events however the text is cut (content may come in other pieces).
 */
#ifndef TR_ENGINE_TEXT_TOOLS_H
#define TR_ENGINE_TEXT_TOOLS_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"
#include "config/json.h"

enum tr_tool_format { TR_TOOL_NONE, TR_TOOL_HERMES, TR_TOOL_XML };

/* The format that a chat template teaches the model. */
enum tr_tool_format tr_tool_format_of(const char *template_source, size_t n);

/* Of a value, as far as a schema tells. */
enum { TR_TOOL_OTHER = 1, TR_TOOL_STRING = 2, TR_TOOL_NULLED = 4, TR_TOOL_ANY = 7 };

/* Each parameter that is named, perhaps more than once. */
typedef void tr_tool_name_fn(void *arg, const char *name);
void tr_tool_parameter_names(const struct tr_json *parameters, tr_tool_name_fn *fn, void *arg);
/* At least the types of a parameter's values, by the schema of all parameters: through its local
 * references, unions and values. name NULL: of parameters that it does not name. */
unsigned tr_tool_parameter_types(const struct tr_json *parameters, const char *name);

/* ---- calls as a grammar ---- */

enum tr_tool_demand {
    TR_TOOL_FORCED, /* the answer is calls */
    TR_TOOL_BESIDE, /* calls, or the rule part-N */
    TR_TOOL_FREE    /* the rule part-N, then calls if any; thoughts before it */
};

struct tr_tool_name {
    const char *text;
    size_t n;
};

struct tr_tool_grammar {
    enum tr_tool_format format; /* not TR_TOOL_NONE */
    enum tr_tool_demand demand;
    /* Of N functions; the arguments of the i-th are rule part-i. */
    const struct tr_tool_name *names;
    int n_names;
    bool parallel; /* more than one call */
    /* Tags that are control tokens, not text. */
    bool call_tokens, thought_tokens;
};

#define TR_TOOL_OPEN  "<tool_call>"
#define TR_TOOL_CLOSE "</tool_call>"

/* Writes GBNF of answers that the parser below reads as calls of these functions. out->oom says
 * whether memory was left. */
void tr_tool_grammar_write(struct tr_buf *out, const struct tr_tool_grammar *g);

/* ---- calls from an answer ---- */

enum tr_tool_event_kind {
    TR_TOOL_CONTENT,   /* text: the next part of the answer's content */
    TR_TOOL_CALL,      /* index: a call begins; text: its name */
    TR_TOOL_ARGUMENTS, /* text: the next part of the call's arguments, a JSON object as text */
    TR_TOOL_CALL_END
};

struct tr_tool_event {
    enum tr_tool_event_kind kind;
    int index;        /* of the call, from 0 */
    const char *text; /* n bytes, valid during the call */
    size_t n;
};

/* Returns 0, or a TR_E code that ends the parsing and comes out of it. */
typedef int (*tr_tool_fn)(void *arg, const struct tr_tool_event *event);

struct tr_tool_parser {
    enum tr_tool_format format;
    const struct tr_json *tools; /* the request's, for the types of parameters; may be NULL */
    bool parallel;               /* false: calls after the first are dropped */
    tr_tool_fn fn;
    void *arg;

    /* Private. A zeroed rest is the start. */
    struct tr_buf held; /* owned: white space, then perhaps a call or its beginning */
    bool in_call;
    size_t tag;   /* in a call: where its tag is in held */
    size_t scan;  /* in a call: text up to here has been looked at */
    size_t begin; /* XML: text of the body before it is white space */
    int depth;    /* Hermes: open brackets before scan */
    bool in_string, escaped;
    size_t json, json_end; /* Hermes: the object in held; json_end 0 = not complete */
    int n_calls, n_malformed;
};

void tr_tool_parser_done(struct tr_tool_parser *p);
/* Takes the next bytes of the content. */
TR_NODISCARD int tr_tool_parser_add(struct tr_tool_parser *p, const char *text, size_t n);
/* The answer has ended. stopped: the model ended it; else it was cut, and an incomplete call is
 * dropped without a trace. */
TR_NODISCARD int tr_tool_parser_end(struct tr_tool_parser *p, bool stopped);

#endif
