/*
 * The option table: the only place where an option is declared. The struct, the parsing of file,
 * environment and command line, --help, --print-config and what SIGHUP may change all come from
 * these rows.
 *
 * X(type, name, default, words, min, max, commands, flags, help)
 *   type      BOOL, INT, SIZE (bytes), DURATION (milliseconds), REAL, STRING, LIST, CHOICE
 *   name      the field, the key in a file; --like-this on the command line, TRINITYD_LIKE_THIS
 *             in the environment
 *   default   as it would stand in the environment; NULL = not set (STRING, LIST)
 *   words     CHOICE: the alternatives, in the order of the enum that names them in the code;
 *             numbers: the word for 0, or NULL
 *   min, max  bounds of numbers, in the field's unit; 0 is always allowed where it has a word
 *   commands  that know it; elsewhere it is refused on the command line and ignored in file and
 *             environment
 *   flags     RELOAD: SIGHUP may change it; SECRET: --print-config does not show it
 */
#ifndef TR_CONFIG_OPTION_TABLE_H
#define TR_CONFIG_OPTION_TABLE_H

#define TR_OPTION_MAX_SIZE ((double)(1ULL << 50))
#define TR_OPTION_MAX_MS   (30.0 * 24 * 3600 * 1000)

#define TR_OPTION_MAP(X)                                                                           \
    X(STRING, model, "config/demo", NULL, 0, 0, TR_FOR_ENGINE, 0,                                  \
      "checkpoint: a folder (config.json, *.safetensors, tokenizer.json) or a .gguf file")         \
    X(LIST, served_model_name, NULL, NULL, 0, 0, TR_FOR_CALLS, 0,                                  \
      "ids in /v1/models, the first of them the usual one; * among them answers to any; by "       \
      "default the folder's or file's name, of a hub snapshot the repository's")                   \
    X(STRING, generation_defaults, "auto", NULL, 0, 0, TR_FOR_CALLS, 0,                            \
      "sampling where a request is silent: auto (what the checkpoint recommends), none, or "       \
      "fields: temperature=0.15,top_k=50")                                                         \
    X(STRING, chat_template, NULL, NULL, 0, 0, TR_FOR_CALLS, 0,                                    \
      "a file with the chat template to use instead of the checkpoint's")                          \
    X(STRING, host, "127.0.0.1", NULL, 0, 0, TR_FOR_SERVE | TR_FOR_LOOKERS, 0,                     \
      "address to listen on")                                                                      \
    X(INT, port, "8080", NULL, 0, 65535, TR_FOR_SERVE | TR_FOR_LOOKERS, 0,                         \
      "port to listen on; 0 takes a free one")                                                     \
    X(STRING, unix_socket, NULL, NULL, 0, 0, TR_FOR_SERVE | TR_FOR_LOOKERS, 0,                     \
      "listen on this path as well")                                                               \
    X(INT, threads, "auto", "auto", 1, 1024, TR_FOR_ENGINE, 0,                                     \
      "compute threads; auto: from the affinity mask and the cgroup's CPU quota")                  \
    X(CHOICE, isa, "auto", "generic|avx2|avx512|amx|auto", 0, 0, TR_FOR_ENGINE, 0,                 \
      "the best instruction set not above this is used; changes no answer")                        \
    X(CHOICE, weights, "auto", "auto|f32|bf16|q8_0|q4_0", 0, 0, TR_FOR_ENGINE, 0,                  \
      "keep the weights as stored (auto), or convert them at load")                                \
    X(BOOL, mmap, "true", NULL, 0, 0, TR_FOR_ENGINE, 0,                                            \
      "map the checkpoint; false: read it into memory, the files may change afterwards")           \
    X(STRING, packed_cache, NULL, NULL, 0, 0, TR_FOR_ENGINE, 0,                                    \
      "folder that keeps packed weights for a quick next start")                                   \
    X(INT, context_length, "auto", "auto", 1, 1 << 30, TR_FOR_ENGINE, 0,                           \
      "longest prompt and answer together, in tokens; auto: the checkpoint's")                     \
    X(SIZE, kv_cache, "auto", "auto", 1 << 16, TR_OPTION_MAX_SIZE, TR_FOR_ENGINE, 0,               \
      "bytes for keys and values; auto: a share of what is left after the weights")                \
    X(CHOICE, kv_type, "bf16", "f32|bf16|q8", 0, 0, TR_FOR_ENGINE, 0,                              \
      "how keys and values are kept")                                                              \
    X(INT, page_tokens, "auto", "auto", 16, 256, TR_FOR_ENGINE, 0,                                 \
      "tokens in a cache page, a power of two; changes no answer")                                 \
    X(BOOL, prefix_cache, "true", NULL, 0, 0, TR_FOR_ENGINE, 0,                                    \
      "reuse the keys and values of equal prefixes")                                               \
    X(BOOL, verify, "false", NULL, 0, 0, TR_FOR_ENGINE, 0,                                         \
      "check every reused page's checksum and recompute a sample of the hits")                     \
    X(INT, overcommit, "0", NULL, 0, 400, TR_FOR_ENGINE, 0,                                        \
      "percent of the cache to promise beyond its size; recomputes when all is claimed")           \
    X(INT, max_batch_tokens, "512", NULL, 1, 65536, TR_FOR_ENGINE, 0,                              \
      "tokens in one engine step: decoding sequences first, the rest prefill")                     \
    X(INT, max_sequences, "64", NULL, 1, 4096, TR_FOR_ENGINE, 0, "sequences in one engine step")   \
    X(INT, max_queue, "256", NULL, 1, 1 << 20, TR_FOR_ENGINE, 0,                                   \
      "waiting requests; beyond it 429")                                                           \
    X(CHOICE, speculation, "none", "none|ngram", 0, 0, TR_FOR_ENGINE, 0,                           \
      "draft tokens from the text so far; changes no answer")                                      \
    X(STRING, snapshot_dir, NULL, NULL, 0, 0, TR_FOR_SERVE, 0,                                     \
      "folder where cache snapshots may be saved")                                                 \
    X(SIZE, snapshot_quota, "none", "none", 1, TR_OPTION_MAX_SIZE, TR_FOR_SERVE, 0,                \
      "bytes that snapshots may take together")                                                    \
    X(STRING, batch_dir, NULL, NULL, 0, 0, TR_FOR_SERVE, 0,                                        \
      "folder for /v1/files and /v1/batches, which are off without it")                            \
    X(SIZE, batch_quota, "none", "none", 1, TR_OPTION_MAX_SIZE, TR_FOR_SERVE, 0,                   \
      "bytes that files may take together")                                                        \
    X(SIZE, max_file, "200MiB", NULL, 1024, TR_OPTION_MAX_SIZE, TR_FOR_SERVE, TR_RELOAD,           \
      "largest file at /v1/files")                                                                 \
    X(SIZE, max_body, "32MiB", NULL, 1024, 1 << 30, TR_FOR_CALLS, TR_RELOAD,                       \
      "largest request body; beyond it 413")                                                       \
    X(SIZE, request_memory, "256MiB", NULL, 1 << 20, TR_OPTION_MAX_SIZE, TR_FOR_SERVE, TR_RELOAD,  \
      "what requests keep while they wait: prompts, lists, grammars; beyond it 429")               \
    X(INT, max_connections, "4096", NULL, 1, 1 << 16, TR_FOR_SERVE, 0,                             \
      "open connections; at the limit idle ones give way")                                         \
    X(INT, max_choices, "128", NULL, 1, 4096, TR_FOR_CALLS, TR_RELOAD,                             \
      "answers that one request may ask for: prompts times n")                                     \
    X(DURATION, request_timeout, "none", "none", 1, TR_OPTION_MAX_MS, TR_FOR_CALLS, TR_RELOAD,     \
      "longest life of a request, its time in the queue included")                                 \
    X(DURATION, idle_timeout, "75s", NULL, 100, TR_OPTION_MAX_MS, TR_FOR_SERVE, TR_RELOAD,         \
      "idle keep-alive connections are closed after this, and bodies and answers that move less "  \
      "than 1000 bytes a second in it; 16 KiB a second are always enough")                         \
    X(SIZE, stream_buffer, "1MiB", NULL, 4096, 1 << 30, TR_FOR_SERVE, TR_RELOAD,                   \
      "unread bytes of a stream at which its request pauses")                                      \
    X(DURATION, stream_stall, "60s", NULL, 100, TR_OPTION_MAX_MS, TR_FOR_SERVE, TR_RELOAD,         \
      "a stream that is not read for this long is cancelled; a reader of 16 KiB a second never "   \
      "is")                                                                                        \
    X(DURATION, stream_ping, "10s", "off", 10, TR_OPTION_MAX_MS, TR_FOR_SERVE, TR_RELOAD,          \
      "a comment line on a stream that was silent this long")                                      \
    X(DURATION, drain_delay, "0s", NULL, 0, TR_OPTION_MAX_MS, TR_FOR_SERVE, TR_RELOAD,             \
      "after SIGTERM, how long to go on accepting while not ready")                                \
    X(DURATION, drain_timeout, "30s", NULL, 0, TR_OPTION_MAX_MS, TR_FOR_SERVE, TR_RELOAD,          \
      "then, how long running requests may go on")                                                 \
    X(LIST, api_key, NULL, NULL, 0, 0, TR_FOR_SERVE | TR_FOR_TOP, TR_RELOAD | TR_SECRET,           \
      "bearer keys that are let in")                                                               \
    X(STRING, api_key_file, NULL, NULL, 0, 0, TR_FOR_SERVE | TR_FOR_TOP, TR_RELOAD,                \
      "file with more keys, one a line, or a table of keys and their limits (JSON)")               \
    X(LIST, priority_key, NULL, NULL, 0, 0, TR_FOR_SERVE, TR_RELOAD | TR_SECRET,                   \
      "more keys that are let in: the priority of their requests counts before other keys'")       \
    X(LIST, admin_key, NULL, NULL, 0, 0, TR_FOR_SERVE, TR_RELOAD | TR_SECRET,                      \
      "more keys that are let in: they may have the checkpoint loaded again (/admin/reload)")      \
    X(LIST, allowed_hosts, NULL, NULL, 0, 0, TR_FOR_SERVE, TR_RELOAD,                              \
      "Host names that are answered; none: any, or local ones when bound to the loopback")         \
    X(BOOL, protect_metrics, "false", NULL, 0, 0, TR_FOR_SERVE, TR_RELOAD,                         \
      "/metrics needs an API key, too")                                                            \
    X(LIST, cors_origin, NULL, NULL, 0, 0, TR_FOR_SERVE, TR_RELOAD,                                \
      "origins whose pages may call from a browser; * = any")                                      \
    X(STRING, tls_cert, NULL, NULL, 0, 0, TR_FOR_SERVE | TR_FOR_LOOKERS, TR_RELOAD,                \
      "certificate chain (PEM) for HTTPS")                                                         \
    X(STRING, tls_key, NULL, NULL, 0, 0, TR_FOR_SERVE | TR_FOR_LOOKERS, TR_RELOAD,                 \
      "its private key (PEM)")                                                                     \
    X(STRING, user, NULL, NULL, 0, 0, TR_FOR_SERVE, 0,                                             \
      "become this user (name or number) once the port is bound")                                  \
    X(CHOICE, confine, "auto", "auto|off|strict", 0, 0, TR_FOR_CALLS, 0,                           \
      "give up privileges, files and system calls that serving does not need; strict: or do not "  \
      "start")                                                                                     \
    X(BOOL, page, "true", NULL, 0, 0, TR_FOR_SERVE, TR_RELOAD, "serve the page for browsers at /") \
    X(BOOL, strict, "false", NULL, 0, 0, TR_FOR_CALLS, TR_RELOAD, "refuse unknown request fields") \
    X(BOOL, reasoning_alias, "false", NULL, 0, 0, TR_FOR_CALLS, TR_RELOAD,                         \
      "send reasoning_content under the name reasoning, too")                                      \
    X(CHOICE, metrics_compat, "none", "none|vllm|llamacpp|all", 0, 0, TR_FOR_SERVE, TR_RELOAD,     \
      "print the metrics under another server's names as well")                                    \
    X(CHOICE, log_level, "info", "error|warn|info|debug", 0, 0, TR_FOR_ALL, TR_RELOAD,             \
      "what the log shows")                                                                        \
    X(BOOL, log_prompts, "false", NULL, 0, 0, TR_FOR_SERVE, TR_RELOAD,                             \
      "log how each request's body begins")                                                        \
    X(CHOICE, log_format, "text", "text|json", 0, 0, TR_FOR_ALL, TR_RELOAD,                        \
      "form of the log lines on stderr")                                                           \
    X(STRING, otlp_endpoint, NULL, NULL, 0, 0, TR_FOR_SERVE, 0,                                    \
      "http://HOST:PORT/v1/traces: a collector that gets a span of each request (OTLP as JSON; "   \
      "no TLS)")                                                                                   \
    X(INT, max_tokens, "256", NULL, 1, 1 << 30, TR_FOR_GENERATE, 0, "longest answer")              \
    X(REAL, temperature, "1", NULL, 0, 100, TR_FOR_GENERATE, 0, "0 takes the best token")          \
    X(INT, top_k, "off", "off", 1, 1 << 30, TR_FOR_GENERATE, 0, "keep the k best tokens")          \
    X(REAL, top_p, "1", NULL, 0, 1, TR_FOR_GENERATE, 0,                                            \
      "keep the best tokens with this share of the probability")                                   \
    X(REAL, min_p, "0", NULL, 0, 1, TR_FOR_GENERATE, 0,                                            \
      "keep tokens with this share of the best one's probability")                                 \
    X(INT, seed, "0", NULL, 0, 2147483647, TR_FOR_GENERATE, 0, "equal seeds give equal answers")   \
    X(INT, reference, "0", NULL, 0, 4096, TR_FOR_CHECK, 0,                                         \
      "also compare this many tokens with a dense fp32 pass; needs the weights in fp32 in memory") \
    X(BOOL, self_test, "false", NULL, 0, 0, TR_FOR_CHECK, 0,                                       \
      "compare a prompt longer than the window with a dense fp32 pass, and fail beyond a "         \
      "tolerance; needs the weights in fp32 in memory")                                            \
    X(BOOL, tensors, "false", NULL, 0, 0, TR_FOR_CHECK, 0,                                         \
      "also list every tensor: name, shape, type as stored and as kept")                           \
    X(SIZE, memory, "none", "none", 1, TR_OPTION_MAX_SIZE, TR_FOR_CHECK, 0,                        \
      "also say what fits into a machine with this much memory")                                   \
    X(LIST, prefill, "512", NULL, 0, 0, TR_FOR_BENCH, 0, "prompt lengths to measure")              \
    X(LIST, decode, "1,8,16", NULL, 0, 0, TR_FOR_BENCH, 0, "batch sizes to measure")               \
    X(INT, context, "128", NULL, 1, 1 << 20, TR_FOR_BENCH, 0, "tokens before the decoded ones")    \
    X(INT, repeat, "3", NULL, 1, 1000, TR_FOR_BENCH, 0, "runs of each test; the median counts")    \
    X(INT, width, "auto", "auto", 1, 4096, TR_FOR_BATCH, 0, "questions asked at the same time")    \
    X(BOOL, ordered, "false", NULL, 0, 0, TR_FOR_BATCH, 0,                                         \
      "write the answers in the order of the questions, by this process alone")                    \
    X(BOOL, json, "false", NULL, 0, 0, TR_FOR_BENCH | TR_FOR_CHECK, 0, "one JSON object a line")   \
    X(DURATION, every, "2s", NULL, 100, 3600 * 1000, TR_FOR_TOP, 0, "between two readings")        \
    X(BOOL, once, "false", NULL, 0, 0, TR_FOR_TOP, 0, "show one reading and end")

#endif
