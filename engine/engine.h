/*
 * The public face of the engine: one loaded checkpoint, many jobs, one event callback.
 *
 * The server sees this header (with job.h and types.h), grammar/grammar.h and engine/text/
 * (tokenizer, detokenizer, stop strings, chat template), nothing else; of the engine only
 * engine/run/ includes it. The engine knows no HTTP, never logs and never exits.
 *
 * Threads: tr_engine_open starts the engine thread (compute thread 0) and its helpers. submit,
 * cancel, pause, resume, drain and stats may be called from any thread. Events are delivered on the
 * engine thread, one at a time; their pointers are valid only during the call. The callback must
 * not block and must not call back into the engine.
 *
 * Numeric contract: a job's tokens and logprobs depend on the job and the checkpoint and on nothing
 * else (not on batch mates, chunking, page size, prefix reuse, preemption, or threads), bit for
 * bit.
 */
#ifndef TR_ENGINE_ENGINE_H
#define TR_ENGINE_ENGINE_H

#include "engine/job.h"
#include "engine/stats.h"

struct tr_engine;
struct tr_tokenizer;

struct tr_engine_options {
    const char *model; /* a checkpoint folder or a .gguf file */
    enum tr_weights_choice weights;
    bool use_mmap;
    const char *packed_cache; /* folder for packed weights, NULL = none */
    /* NULL: they are written before opening ends. Else after, on a thread of its own, which tells
     * how that ended (err NULL: well); closing the engine cuts it short. */
    void (*on_packed)(void *arg, double seconds, const struct tr_err *err);
    void *on_packed_arg;
    enum tr_isa isa;         /* the best level not above it is used */
    int threads;             /* compute threads; 0 = from affinity and cgroup quota */
    int context_length;      /* 0 = the checkpoint's */
    uint64_t kv_cache_bytes; /* both pools together; 0 = a share of what memory is left */
    enum tr_kv_type kv_type;
    int page_tokens; /* power of two, 16..256; 0 = default */
    bool prefix_cache;
    bool verify; /* recompute checksums of pages at each reuse, and a sampled share of hits */
    /* admit this much beyond the closed form, recompute when it does not work out */
    int overcommit_percent;
    int max_batch_tokens; /* rows of one step */
    int max_sequences;    /* sequences in one step */
    int max_queue;        /* waiting jobs; beyond it TR_EQUEUE */
    bool speculation;     /* n-gram drafts */
    bool poison_pages;    /* fill freed cache pages with NaN: tests show that nobody reads them */
    const char *snapshot_dir;
    uint64_t snapshot_quota;  /* bytes, 0 = no limit */
    tr_checked_fn on_checked; /* NULL, or asked once, on the thread that opens */
    void *on_checked_arg;
    tr_progress_fn progress; /* may be NULL */
    void *progress_arg;
    tr_event_fn on_event;
    void *event_arg;
};

/* Loads, checks everything, allocates everything a step needs, starts the threads. On failure *ret
 * is untouched and err names file, tensor, expected and actual. */
TR_NODISCARD int tr_engine_open(struct tr_engine **ret, const struct tr_engine_options *options,
                                struct tr_err *err);
/* Cancels what runs (events are delivered), joins the threads, frees. NULL ok; returns NULL. */
struct tr_engine *tr_engine_close(struct tr_engine *e);

/* Facts fixed at open; the pointers live as long as the engine. */
struct tr_engine_info {
    const char *name; /* last component of the model path, without .gguf */
    /* 32 hex digits: weights, numeric options, build; equal = equal bits */
    const char *fingerprint;
    const char *isa;     /* level in use: "avx2", ... */
    const char *blas;    /* OpenBLAS core type in use */
    const char *weights; /* e.g. "bf16", "q4_0", "q4_K+q6_K" */
    /* lines separated by \n: how matrices are stored, what they are kept as, at what loss */
    const char *formats;
    /* lines about tensors and keys that are not used; "" = none */
    const char *warnings;
    int threads;
    int context_length;
    int vocab_size; /* rows of the head */
    int n_layers, n_local_layers, n_global_layers, window, hidden_size;
    uint64_t n_params;
    uint64_t file_bytes;   /* of the checkpoint's weights on disk */
    uint64_t weight_bytes; /* in memory */
    double load_seconds;   /* what loading them took */
    bool from_packed;      /* they came from the packed cache */
    uint64_t step_bytes;   /* of these, read by every step that samples: no embedding, no experts */
    uint64_t expert_bytes; /* of these, all experts of all layers */
    uint64_t token_flops;  /* 2 x the weights that a prompt token meets; the head is not one */
    int n_experts, n_active_experts; /* of a layer; active: per token */
    uint64_t kv_cache_bytes;         /* budget of both pools */
    uint64_t buffer_bytes;           /* fixed buffers of a step */
    int page_tokens;
    enum tr_kv_type kv_type;
    uint64_t local_bytes_per_token;    /* all local layers, within the window */
    uint64_t local_bytes_per_sequence; /* bound for one sequence, all local layers */
    uint64_t global_bytes_per_token;   /* all global layers */
    int longest_sequence;  /* prompt and answer that fit the cache, at most context_length */
    int max_running;       /* choices at most, paused or waiting for their turn included, */
    uint64_t choice_bytes; /* and what one of them takes at most beside its pages */
    int max_sequences, max_batch_tokens, max_queue;
    struct tr_sampling_defaults sampling; /* recommended by the checkpoint (types.h) */
};
const struct tr_engine_info *tr_engine_info(const struct tr_engine *e);
const struct tr_tokenizer *tr_engine_tokenizer(const struct tr_engine *e);
/* The checkpoint's chat template source (chat_template.jinja, tokenizer_config.json or GGUF); NULL
 * = none. */
const char *tr_engine_chat_template(const struct tr_engine *e);

/* On success the engine owns *job, on failure the caller does. TR_ETOOLONG, TR_ENOFIT, TR_EQUEUE,
 * TR_EDRAIN, TR_EINVAL with the field in err->param. */
TR_NODISCARD int tr_engine_submit(struct tr_engine *e, struct tr_job *job, uint64_t *ret_id,
                                  struct tr_err *err);
/* Ends a job, or one choice of it (choice >= 0), in whatever state, within one step. An id that is
 * unknown or finished is ignored. DONE still comes. */
void tr_engine_cancel(struct tr_engine *e, uint64_t id, int choice);
/* A paused job leaves the batch: for slow readers. It keeps its pages until others need them. */
void tr_engine_pause(struct tr_engine *e, uint64_t id, bool paused);
/* From now on submit answers TR_EDRAIN; what was accepted goes on. */
void tr_engine_drain(struct tr_engine *e);

struct tr_engine_stats {
    int waiting, running, paused; /* of pages used: held by sequences; cached: prefix only */
    int local_pages_used, local_pages_cached, local_pages_total;
    int global_pages_used, global_pages_cached, global_pages_total;
    uint64_t steps, step_ns, rows, prefill_rows, decode_rows; /* step_ns: within steps */
    /* of experts' weights read by these steps: of each layer those that some row chose */
    uint64_t expert_bytes;
    uint64_t prompt_tokens, generated_tokens, draft_tokens, accepted_tokens;
    uint64_t prefix_queries, prefix_hits; /* tokens looked up, tokens reused */
    uint64_t preemptions, page_mismatches, verified_hits;
    uint64_t choice_bytes; /* of running choices and those to be recomputed, beside pages */
    int expected_tokens;   /* promised to an answer without max_tokens */
    struct tr_bound_stats bound;
    struct tr_run_stats run;
    uint64_t finished[TR_FINISH_ERROR + 1];
    int64_t heartbeat_ns; /* CLOCK_MONOTONIC of the last turn of the engine thread's loop */
    /* recent, smoothed; 0 = not measured yet */
    double prefill_tokens_per_second, decode_tokens_per_second;
    uint64_t queued_prompt_tokens, queued_decode_tokens; /* work that waits */
};
/* A consistent snapshot, taken without waiting for a step. */
void tr_engine_stats(struct tr_engine *e, struct tr_engine_stats *ret);

/* Sequences of `tokens` tokens (prompt and answer) that fit the cache at once, by the closed form
 * of admission. */
int64_t tr_engine_capacity(const struct tr_engine *e, int tokens);

/* ---- snapshots ---- */

/* Computed prefixes as files in snapshot_dir. The calls block for as long as the file takes: make
 * them on a thread that may wait, and do not close the engine meanwhile. Names have 1
 * to 64 letters, digits, '.', '_', '-'. Errors say what a file is refused for. */

struct tr_snapshot {
    char name[65];
    int64_t tokens;  /* of the prefix, whole pages */
    uint64_t bytes;  /* of the file */
    int64_t created; /* seconds since 1970 */
};
/* A salt may differ from process to process; the owner stays, and only it finds its files. */
struct tr_snapshot_scope {
    uint64_t salt[2]; /* of the jobs whose prefixes are meant */
    uint64_t owner[2];
};
/* Saves what the cache holds of ids[0, n_ids), finished or still running: whole pages.
 * TR_ENOTFOUND: nothing; TR_ENOMEM: running requests need the cache; TR_ENOFIT: beyond the
 * quota. */
TR_NODISCARD int tr_engine_snapshot_save(struct tr_engine *e, const char *name, const int32_t *ids,
                                         int n_ids, const struct tr_snapshot_scope *scope,
                                         struct tr_snapshot *ret, struct tr_err *err);
/* Puts a saved prefix into the cache, where the next prompt that begins with it finds it. */
TR_NODISCARD int tr_engine_snapshot_restore(struct tr_engine *e, const char *name,
                                            const struct tr_snapshot_scope *scope,
                                            struct tr_snapshot *ret, struct tr_err *err);
/* *ret [*ret_n] is the caller's (free). owner NULL: of all. */
TR_NODISCARD int tr_engine_snapshot_list(struct tr_engine *e, const uint64_t owner[2],
                                         struct tr_snapshot **ret, int *ret_n, struct tr_err *err);
TR_NODISCARD int tr_engine_snapshot_delete(struct tr_engine *e, const char *name,
                                           const uint64_t owner[2], struct tr_err *err);

/* Seconds until a refused request is worth another try: from measured speed and queued
 * work, 1..120. */
int tr_engine_retry_after(struct tr_engine *e);

/* For grammars, built by the first call; NULL = out of memory. Goes with the engine. Any thread. */
const struct tr_grammar_vocab *tr_engine_grammar_vocab(struct tr_engine *e);

/* What a dense pass in fp32 through OpenBLAS, which shares no kernel, page or batch with the
 * engine, says of n tokens: logprobs[i] is the raw log softmax of tokens[i + 1] and best[i] the
 * likeliest id after tokens[0..i], i < n - 1; ids without a token string are left out. Opens the
 * checkpoint again, with its weights in fp32 in memory. */
TR_NODISCARD int tr_engine_reference(const char *model, const struct tr_tokenizer *t,
                                     const int32_t *tokens, int n, double *logprobs, int32_t *best,
                                     struct tr_err *err);

#endif
