/* POST /tokenize and /detokenize, GET /tokenizer_info: the tokenizer over HTTP, in the forms of
 * vLLM and llama-server. */
#ifndef TR_SERVER_API_TOKENIZE_H
#define TR_SERVER_API_TOKENIZE_H

#include "server/http/route.h"

extern const struct srv_route srv_tokenize_route, srv_detokenize_route, srv_tokenizer_info_route;

#endif
