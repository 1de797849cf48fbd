/* JSON documents as values. */
#ifndef TR_ENGINE_TEXT_TEMPLATE_FROM_JSON_H
#define TR_ENGINE_TEXT_TEMPLATE_FROM_JSON_H

#include "config/json.h"
#include "engine/text/template/value.h"

/* The value of a JSON node, as json.loads would give it; its strings are data and borrow the
 * document's bytes. Absent is none. */
struct tpl_value tr_tpl_from_json(struct tpl_vm *vm, const struct tr_json *v);
/* Parses text; the document lives as long as the vm. False if it is no JSON. */
bool tr_tpl_parse_json(struct tpl_vm *vm, const char *s, size_t n, struct tr_json *ret);
/* The value of JSON text; fails if it is none. */
struct tpl_value tr_tpl_from_json_text(struct tpl_vm *vm, const struct tpl_str *s);

#endif
