/* POST /tokenize and /detokenize, GET /tokenizer_info: the tokenizer over HTTP, in the forms of vLLM and llama-server. */
#ifndef TR_SERVER_TOKENIZE_H
#define TR_SERVER_TOKENIZE_H

#include "server/fields.h"
#include "server/http.h"

void srv_tokenize(struct srv_req *req);
void srv_detokenize(struct srv_req *req);
void srv_tokenizer_info(struct srv_req *req);

extern const struct srv_table srv_tokenize_fields, srv_detokenize_fields;

#endif
