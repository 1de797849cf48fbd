/* POST /tokenize and /detokenize, GET /tokenizer_info: the tokenizer over HTTP, in the forms of vLLM and llama-server. */
#ifndef TR_SERVER_API_TOKENIZE_H
#define TR_SERVER_API_TOKENIZE_H

#include "server/call/fields.h"
#include "server/http/request.h"

void srv_tokenize(struct srv_req *req);
void srv_detokenize(struct srv_req *req);
void srv_tokenizer_info(struct srv_req *req);

/* The fields of both; tokenize has those of /apply-template, too. */
extern const struct srv_table *const srv_tokenize_tables[2], *const srv_detokenize_tables[1];

#endif
