/* What a client may ask of a generation, whatever the API: the rows that every API shares. */
#ifndef TR_SERVER_CALL_PARAMS_H
#define TR_SERVER_CALL_PARAMS_H

#include "server/call/dialog.h"
#include "server/call/fields.h"

/* Of max_tokens and max_completion_tokens that were not given; -1 is no limit. */
enum { SRV_ABSENT = -2 };

/* Every field of every generating API, after defaults. The cursors point into the request's
 * document. */
struct srv_params {
    int64_t max_tokens;            /* -1 = not given */
    int64_t max_completion_tokens; /* wins over max_tokens */
    int64_t min_tokens, n, best_of, top_k, priority, truncate_prompt_tokens;
    int64_t logprobs, prompt_logprobs; /* -1 = none */
    double temperature, top_p, min_p, typical_p;
    double presence_penalty, frequency_penalty, repetition_penalty;
    bool stream, echo, ignore_eos, skip_special_tokens, include_stop, return_token_ids,
        tokens_as_ids, add_special_tokens, cache_prompt, timings;
    struct tr_json model, prompt, seed, stop, stop_token_ids, logit_bias, allowed_token_ids,
        bad_words, stream_options, request_id, cache_salt;
    /* Constraints of the answer. */
    struct tr_json response_format, structured_outputs, guided_json, guided_regex, guided_choice,
        guided_grammar, json_schema, grammar, output_format;
    bool include_usage, continuous_usage; /* of stream_options */
    struct srv_dialog dialog;             /* of the APIs that have messages */
    struct tr_json modalities, instructions, text, include, truncation, metadata, system, thinking,
        output_config;
    bool want_logprobs, include_reasoning;
    int64_t top_logprobs; /* -1 = not given */
};

/* The rows that every generating API has. */
extern const struct srv_table srv_common_fields;

#endif
