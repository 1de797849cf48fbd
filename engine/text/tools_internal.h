/* What the parts of the tool-call parser share. */
#ifndef TR_ENGINE_TEXT_TOOLS_INTERNAL_H
#define TR_ENGINE_TEXT_TOOLS_INTERNAL_H

#include "engine/text/tools.h"

struct tr_tool_call {
    struct tr_buf name, arguments;
};

enum tr_tool_found {
    TR_TOOL_MORE,     /* the call goes on */
    TR_TOOL_COMPLETE, /* it ends: *ret_end is the end of its body, *ret_after that of its closing
                         tag */
    TR_TOOL_MALFORMED
};

/* Look on from p->scan for the end of the call in p->held. */
enum tr_tool_found tr_tool_scan_hermes(struct tr_tool_parser *p, size_t *ret_end,
                                       size_t *ret_after);
enum tr_tool_found tr_tool_scan_xml(struct tr_tool_parser *p, size_t *ret_end, size_t *ret_after);

/* Read a call's body. *ret_ok false: it is none. TR_ENOMEM. */
int tr_tool_read_hermes(const char *body, size_t n, struct tr_tool_call *ret, bool *ret_ok);
int tr_tool_read_xml(const struct tr_json *tools, const char *body, size_t n,
                     struct tr_tool_call *ret, bool *ret_ok);

size_t tr_tool_skip_space(const char *s, size_t at, size_t n);

#endif
