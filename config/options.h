/*
 * What the daemon was told: command line over environment over file over default, checked row by
 * row against the option table (config/option_table.h).
 */
#ifndef TR_CONFIG_OPTIONS_H
#define TR_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"
#include "config/option_table.h"

enum tr_command {
    TR_COMMAND_SERVE,
    TR_COMMAND_GENERATE,
    TR_COMMAND_CHECK,
    TR_COMMAND_BENCH,
    TR_COMMAND_BATCH,
    TR_COMMAND_HEALTH,
    TR_COMMAND_TOP
};

enum tr_option_commands {
    TR_FOR_SERVE = 1 << TR_COMMAND_SERVE,
    TR_FOR_GENERATE = 1 << TR_COMMAND_GENERATE,
    TR_FOR_CHECK = 1 << TR_COMMAND_CHECK,
    TR_FOR_BENCH = 1 << TR_COMMAND_BENCH,
    TR_FOR_BATCH = 1 << TR_COMMAND_BATCH,
    TR_FOR_HEALTH = 1 << TR_COMMAND_HEALTH,
    TR_FOR_TOP = 1 << TR_COMMAND_TOP,
    TR_FOR_LOOKERS = TR_FOR_HEALTH | TR_FOR_TOP, /* ask a running daemon */
    TR_FOR_CALLS = TR_FOR_SERVE | TR_FOR_BATCH,  /* the APIs */
    TR_FOR_ENGINE = TR_FOR_CALLS | TR_FOR_GENERATE | TR_FOR_CHECK | TR_FOR_BENCH,
    TR_FOR_ALL = TR_FOR_ENGINE | TR_FOR_LOOKERS
};

enum tr_option_flags { TR_RELOAD = 1, TR_SECRET = 2 };

/* What the program is to do instead of running the command. */
enum tr_option_action { TR_ACTION_RUN, TR_ACTION_HELP, TR_ACTION_VERSION, TR_ACTION_PRINT_CONFIG };

/* Values of CHOICE rows. Those of isa, weights and kv_type are the engine's, log_level's the
 * log's. */
enum tr_log_format { TR_LOG_FORMAT_TEXT, TR_LOG_FORMAT_JSON };
enum tr_speculation { TR_SPECULATION_NONE, TR_SPECULATION_NGRAM };
enum tr_confine { TR_CONFINE_AUTO, TR_CONFINE_OFF, TR_CONFINE_STRICT };
enum tr_metrics_compat {
    TR_METRICS_COMPAT_NONE,
    TR_METRICS_COMPAT_VLLM,
    TR_METRICS_COMPAT_LLAMACPP,
    TR_METRICS_COMPAT_ALL
};

struct tr_strings {
    char **items; /* owned, n strings */
    size_t n;
};

bool tr_strings_has(const struct tr_strings *list, const char *s);
bool tr_ends_with(const char *s, const char *end);

/* The C type of each option type. */
#define TR_OPTION_C_BOOL     bool
#define TR_OPTION_C_INT      int
#define TR_OPTION_C_SIZE     uint64_t /* bytes; 0 = the row's word */
#define TR_OPTION_C_DURATION int64_t  /* milliseconds; 0 = the row's word */
#define TR_OPTION_C_REAL     double
#define TR_OPTION_C_STRING   char *            /* owned; NULL = not set */
#define TR_OPTION_C_LIST     struct tr_strings /* owned */
#define TR_OPTION_C_CHOICE   int               /* index into the row's words */

struct tr_options {
    enum tr_command command;
    enum tr_option_action action;
    const char *file; /* the configuration file, borrowed; NULL = none */
    /* Arguments that are no options, borrowed from argv; NULL = not given: generate's text (or it
     * is standard input), batch's two files. */
    const char *text, *second_text;
    /* Where the values came from, borrowed for the life of the program: tr_options_reload looks
     * again. */
    int argc;
    char *const *argv;
    char *const *envp;
    bool key_table; /* api_key_file is JSON, which is not read here */
    /* One field a row; api_key also holds the lines of api_key_file. */
#define X(type, name, ...) TR_OPTION_C_##type name;
    TR_OPTION_MAP(X)
#undef X
};

/* Reads all sources. argv[0] is the program; argv and envp (NULL-terminated) must outlive *ret.
 * TR_ECONFIG: err says which option is wrong, why, and where it stands; err->param is its name.
 * After success tr_options_done. */
TR_NODISCARD int tr_options_parse(struct tr_options *ret, int argc, char *const *argv,
                                  char *const *envp, struct tr_err *err);
/* Reads file and environment again, under the same command line. *ret has the new values of the
 * rows that may change while serving and `old`'s values of all others; the names of those others
 * that would differ are appended to `refused`, separated by ", ". After success
 * tr_options_done(ret). */
TR_NODISCARD int tr_options_reload(struct tr_options *ret, const struct tr_options *old,
                                   struct tr_buf *refused, struct tr_err *err);
void tr_options_done(struct tr_options *o); /* frees what the fields own, zeroes */

/* Appends usage, and the options of o->command from the table. */
void tr_options_help(const struct tr_options *o, struct tr_buf *out);
/* Appends the effective values as a JSON object that --config takes, secrets replaced. */
void tr_options_print(const struct tr_options *o, struct tr_buf *out);

#endif
