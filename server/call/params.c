#include "server/call/params.h"

#include <limits.h>

#include "server/call/outbox.h"

#define MAX_LENGTH INT64_MAX

#define AT(member) offsetof(struct srv_params, member)

static const struct srv_field common[] = {
    SRV_VALUE_FIELD("model", AT(model), "\"type\":[\"string\",\"null\"]",
                    "the served model's id; absent: that model"),
    SRV_OPT_INT_FIELD("max_completion_tokens", AT(max_completion_tokens), -1, MAX_LENGTH,
                      SRV_ABSENT, "longest answer; wins over max_tokens"),
    SRV_INT_FIELD("min_tokens", AT(min_tokens), 0, INT_MAX, 0,
                  "no end and no stop before so many tokens"),
    SRV_NUMBER_FIELD("temperature", AT(temperature), 0, 2, 1, "0 takes the best token"),
    SRV_NUMBER_FIELD("top_p", AT(top_p), 0, 1, 1,
                     "keep the best tokens with this share of the probability; 0: the best only"),
    SRV_INT_FIELD("top_k", AT(top_k), -1, INT_MAX, 0, "keep the k best tokens; 0 and -1: all"),
    SRV_NUMBER_FIELD("min_p", AT(min_p), 0, 1, 0,
                     "keep tokens with this share of the best one's probability"),
    SRV_ABOVE_FIELD("typical_p", AT(typical_p), 0, 1, 1, "locally typical sampling; 1: off"),
    SRV_NUMBER_FIELD("presence_penalty", AT(presence_penalty), -2, 2, 0,
                     "subtracted from the logit of every token generated before"),
    SRV_NUMBER_FIELD("frequency_penalty", AT(frequency_penalty), -2, 2, 0,
                     "the same, times how often it was generated"),
    SRV_NUMBER_FIELD("repetition_penalty", AT(repetition_penalty), 0.01, 100, 1,
                     "divides positive and multiplies negative logits of tokens seen; 1: off"),
    SRV_INT_FIELD("n", AT(n), 1, 128, 1, "answers to each prompt"),
    SRV_VALUE_FIELD("seed", AT(seed),
                    "\"type\":[\"integer\",\"null\"],\"minimum\":-9223372036854775808,"
                    "\"maximum\":18446744073709551615",
                    "equal seeds give equal answers; absent: a random one"),
    SRV_VALUE_FIELD("stop", AT(stop),
                    "\"anyOf\":[{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096},"
                    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1,"
                    "\"maxLength\":4096},\"maxItems\":64},{\"type\":\"null\"}]",
                    "the answer ends before the first of these texts"),
    SRV_VALUE_FIELD("stop_token_ids", AT(stop_token_ids),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"integer\",\"minimum\":0,"
                    "\"maximum\":@},"
                    "\"maxItems\":1024",
                    "token ids that end the answer"),
    SRV_BOOL_FIELD("include_stop_str_in_output", AT(include_stop), false,
                   "the text that ended the answer belongs to it"),
    SRV_BOOL_FIELD("ignore_eos", AT(ignore_eos), false,
                   "the model's end tokens do not end the answer"),
    SRV_VALUE_FIELD("logit_bias", AT(logit_bias),
                    "\"type\":[\"object\",\"null\"],\"additionalProperties\":"
                    "{\"type\":\"number\",\"minimum\":-100,\"maximum\":100},"
                    "\"propertyNames\":{\"pattern\":\"^[0-9]+$\"}",
                    "token id to what is added to its logit"),
    SRV_VALUE_FIELD("allowed_token_ids", AT(allowed_token_ids),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"integer\",\"minimum\":0,"
                    "\"maximum\":@},"
                    "\"minItems\":1",
                    "only these tokens may be generated"),
    SRV_VALUE_FIELD("bad_words", AT(bad_words),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\",\"minLength\":1,"
                    "\"maxLength\":1024},\"maxItems\":1024",
                    "texts whose tokens are never generated"),
    SRV_BOOL_FIELD("skip_special_tokens", AT(skip_special_tokens), true,
                   "control tokens leave no text"),
    SRV_BOOL_FIELD("stream", AT(stream), false, "answer by server-sent events"),
    SRV_VALUE_FIELD("stream_options", AT(stream_options),
                    "\"type\":[\"object\",\"null\"],\"properties\":{"
                    "\"include_usage\":{\"type\":[\"boolean\",\"null\"]},"
                    "\"continuous_usage_stats\":{\"type\":[\"boolean\",\"null\"]},"
                    "\"include_obfuscation\":{\"type\":[\"boolean\",\"null\"]}}",
                    "usage in a last chunk, or in every chunk"),
    SRV_BOOL_FIELD("return_token_ids", AT(return_token_ids), false,
                   "add token_ids and prompt_token_ids"),
    SRV_BOOL_FIELD("return_tokens_as_token_ids", AT(tokens_as_ids), false,
                   "name tokens token_id:N in logprobs"),
    SRV_OPT_INT_FIELD("prompt_logprobs", AT(prompt_logprobs), 0, SRV_MAX_LOGPROBS, -1,
                      "log probabilities of the prompt's tokens and so many alternatives"),
    SRV_OPT_INT_FIELD("truncate_prompt_tokens", AT(truncate_prompt_tokens), 1, INT_MAX, 0,
                      "keep the last tokens of the prompt only"),
    SRV_INT_FIELD("priority", AT(priority), INT_MIN, INT_MAX, 0,
                  "lower is served earlier, among the requests of one key (see priority_key)"),
    SRV_VALUE_FIELD("request_id", AT(request_id),
                    "\"type\":[\"string\",\"null\"],\"maxLength\":128",
                    "becomes part of the answer's id"),
    SRV_VALUE_FIELD("cache_salt", AT(cache_salt), "\"type\":[\"string\",\"null\"]",
                    "prefixes are shared between equal salts only"),
    SRV_BOOL_FIELD("cache_prompt", AT(cache_prompt), true,
                   "reuse and keep the prompt's keys and values"),
    SRV_BOOL_FIELD("timings", AT(timings), false, "add what the request cost"),
    SRV_VALUE_FIELD("response_format", AT(response_format),
                    "\"anyOf\":[{\"type\":\"object\",\"properties\":{\"type\":{\"enum\":[\"text\","
                    "\"json_object\",\"json_schema\"]},\"json_schema\":{\"type\":\"object\","
                    "\"properties\":{\"schema\":{\"type\":[\"object\",\"boolean\"]}}}},"
                    "\"required\":[\"type\"]},{\"type\":\"null\"}]",
                    "the answer is any text, a JSON object, or JSON that the schema allows"),
    SRV_VALUE_FIELD("structured_outputs", AT(structured_outputs),
                    "\"type\":[\"object\",\"null\"],\"properties\":{\"json\":{},\"regex\":"
                    "{\"type\":[\"string\",\"null\"]},\"choice\":{\"type\":[\"array\",\"null\"],"
                    "\"items\":{\"type\":\"string\"}},\"grammar\":{\"type\":[\"string\",\"null\"]},"
                    "\"json_object\":{\"type\":[\"boolean\",\"null\"]},"
                    "\"disable_any_whitespace\":{\"type\":[\"boolean\",\"null\"]}}",
                    "the same by schema, regular expression, list of texts or EBNF grammar"),
    SRV_VALUE_FIELD("guided_json", AT(guided_json),
                    "\"type\":[\"object\",\"boolean\",\"string\",\"null\"]",
                    "the answer is JSON that this schema allows"),
    SRV_VALUE_FIELD("guided_regex", AT(guided_regex), "\"type\":[\"string\",\"null\"]",
                    "the answer matches this expression"),
    SRV_VALUE_FIELD("guided_choice", AT(guided_choice),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\"}",
                    "the answer is one of these texts"),
    SRV_VALUE_FIELD("guided_grammar", AT(guided_grammar), "\"type\":[\"string\",\"null\"]",
                    "the answer is a text of this EBNF grammar"),
    SRV_VALUE_FIELD("json_schema", AT(json_schema),
                    "\"type\":[\"object\",\"boolean\",\"string\",\"null\"]",
                    "the answer is JSON that this schema allows"),
    SRV_VALUE_FIELD("grammar", AT(grammar), "\"type\":[\"string\",\"null\"]",
                    "the answer is a text of this GBNF grammar"),
    SRV_REFUSED_FIELD("use_beam_search", "beam search"),
    SRV_REFUSED_FIELD("mirostat", "mirostat sampling"),
    SRV_REFUSED_FIELD("dry_multiplier", "DRY sampling"),
    SRV_REFUSED_FIELD("xtc_probability", "XTC sampling"),
    SRV_REFUSED_FIELD("logits_processors", "code from the caller"),
    SRV_IGNORED_FIELD("user", "who asks"),
    SRV_IGNORED_FIELD("metadata", "notes of the caller"),
    SRV_IGNORED_FIELD("store", "nothing is stored"),
    SRV_IGNORED_FIELD("service_tier", "there is one"),
    SRV_IGNORED_FIELD("safety_identifier", "who asks"),
    SRV_IGNORED_FIELD("prompt_cache_key", "prefixes are found by content"),
    SRV_IGNORED_FIELD("prompt_cache_retention", "prefixes stay while there is room"),
    SRV_IGNORED_FIELD("spaces_between_special_tokens", "byte-level tokens bring their own blanks"),
    SRV_IGNORED_FIELD("detokenize", "text is always made"),
};
const struct srv_table srv_common_fields = {common, TR_ARRAY_LEN(common)};
