/* Answers with calls as a grammar: what the parsers read, in the one form that templates show. */
#include <string.h>

#include "engine/text/reasoning.h"
#include "engine/text/tools.h"

/* Text between the quotes of a GBNF string. */
static void add_escaped(struct tr_buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == '"' || c == '\\')
            tr_buf_addf(out, "\\x%02x", c);
        else
            tr_buf_addc(out, (char)c);
    }
}

static void add_tag(struct tr_buf *out, const char *tag, bool token)
{
    tr_buf_addf(out, token ? " %s " : " \"%s\" ", tag);
}

/* ---- one function ---- */

static void add_hermes(struct tr_buf *out, const struct tr_tool_name *name, int i)
{
    struct tr_buf quoted = {0};

    tr_json_quote(&quoted, name->text, name->n);
    tr_buf_adds(out, "\"{\\\"name\\\":\" sp \"");
    add_escaped(out, quoted.data, quoted.len);
    tr_buf_addf(out, ",\" sp \"\\\"arguments\\\":\" sp part-%d \"}\"\n", i);
    out->oom |= quoted.oom;
    tr_buf_done(&quoted);
}

static void add_xml(struct tr_buf *out, const struct tr_tool_name *name, int i)
{
    tr_buf_adds(out, "\"<function=");
    add_escaped(out, name->text, name->n);
    tr_buf_addf(out, ">\\n\" part-%d \"</function>\"\n", i);
}

/* ---- the answer ---- */

static void add_root(struct tr_buf *out, const struct tr_tool_grammar *g)
{
    tr_buf_adds(out, "root ::= ");
    if (g->demand == TR_TOOL_BESIDE)
        tr_buf_addf(out, "part-%d | ", g->n_names);
    if (g->demand == TR_TOOL_FREE)
        tr_buf_addf(out, "%spart-%d ", g->thought_tokens ? "thought? " : "", g->n_names);
    tr_buf_adds(out, g->demand == TR_TOOL_FREE ? "calls?\n" : "calls\n");
    tr_buf_addf(out, "calls ::= call%s\n", g->parallel ? " (\"\\n\"? call)*" : "");
    if (g->demand == TR_TOOL_FREE && g->thought_tokens) {
        tr_buf_adds(out, "thought ::= <think> (.");
        if (g->call_tokens)
            tr_buf_adds(out, " | " TR_TOOL_OPEN " | " TR_TOOL_CLOSE);
        tr_buf_adds(out, ")* " TR_REASONING_CLOSE "\n");
    }
}

void tr_tool_grammar_write(struct tr_buf *out, const struct tr_tool_grammar *g)
{
    add_root(out, g);
    tr_buf_adds(out, "sp ::= \" \"?\nline ::= [ \\n]?\ncall ::=");
    add_tag(out, TR_TOOL_OPEN, g->call_tokens);
    tr_buf_adds(out, "line function line");
    add_tag(out, TR_TOOL_CLOSE, g->call_tokens);
    tr_buf_adds(out, "\nfunction ::= ");
    for (int i = 0; i < g->n_names; i++)
        tr_buf_addf(out, i > 0 ? " | function-%d" : "function-%d", i);
    tr_buf_adds(out, "\n");
    for (int i = 0; i < g->n_names; i++) {
        tr_buf_addf(out, "function-%d ::= ", i);
        (g->format == TR_TOOL_XML ? add_xml : add_hermes)(out, &g->names[i], i);
    }
}
