#include "config/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/json.h"
#include "config/option_value.h"

#define ENV_PREFIX "TRINITYD_"
enum { MAX_CONFIG_BYTES = 1 << 20 };

static const char *const command_names[] = {
    [TR_COMMAND_SERVE] = "serve", [TR_COMMAND_GENERATE] = "generate",
    [TR_COMMAND_CHECK] = "check", [TR_COMMAND_BENCH] = "bench",
    [TR_COMMAND_BATCH] = "batch", [TR_COMMAND_HEALTH] = "health",
    [TR_COMMAND_TOP] = "top"};

static const struct tr_option *find_row(const char *name, size_t n)
{
    for (size_t i = 0; i < TR_OPTION_COUNT; i++)
        if (strlen(tr_option_rows[i].name) == n && memcmp(tr_option_rows[i].name, name, n) == 0)
            return &tr_option_rows[i];
    return NULL;
}

/* Adds to a message where the value stands. */
static int fail_at(int code, struct tr_err *err, const char *place)
{
    struct tr_err cause = *err;
    return tr_err_set(err, code, cause.param, "%s (%s)", cause.msg, place);
}

/* ---- file ---- */

/* The line on which the n-th member (from 0) of the object in a file begins; 0 if that can't be
 * told. jansson does not keep it. */
static int line_of_member(const char *file, size_t n)
{
    FILE *f = fopen(file, "re");
    if (!f)
        return 0;
    int line = 1, depth = 0, c;
    bool in_string = false, at_key = false;
    while ((c = getc(f)) != EOF) {
        if (c == '\n') {
            line++;
        } else if (in_string) {
            if (c == '\\')
                getc(f);
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
            if (at_key && n-- == 0)
                break;
            at_key = false;
        } else if (c == '{' || c == '[') {
            at_key = ++depth == 1;
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c == ',') {
            at_key = depth == 1;
        }
    }
    fclose(f);
    return c == EOF ? 0 : line;
}

/* A JSON scalar as the text that the environment would hold; false if the row does not take its
 * type. */
static bool text_of(const struct tr_option *row, const struct tr_json *v, struct tr_buf *out)
{
    bool wants_text = row->type == TR_OPTION_STRING || row->type == TR_OPTION_LIST ||
                      row->type == TR_OPTION_CHOICE;
    const char *s;
    double d;
    bool b;
    switch (tr_json_type(v)) {
    case TR_JSON_STRING:
        if (row->type == TR_OPTION_BOOL || tr_json_as_string(v, &s, NULL, NULL) < 0)
            return false;
        tr_buf_adds(out, s);
        return true;
    case TR_JSON_NUMBER:
        if (wants_text || row->type == TR_OPTION_BOOL ||
            tr_json_as_double(v, -HUGE_VAL, HUGE_VAL, &d, NULL) < 0)
            return false;
        tr_buf_addf(out, "%.17g", d);
        return true;
    case TR_JSON_BOOL:
        if (row->type != TR_OPTION_BOOL || tr_json_as_bool(v, &b, NULL) < 0)
            return false;
        tr_buf_adds(out, b ? "true" : "false");
        return true;
    case TR_JSON_ABSENT:
    case TR_JSON_NULL:
    case TR_JSON_ARRAY:
    case TR_JSON_OBJECT:
    default:
        return false;
    }
}

static int set_from_json(const struct tr_option *row, struct tr_options *o, const struct tr_json *v,
                         struct tr_err *err)
{
    struct tr_buf text = {0};
    int r = 0;
    tr_option_clear(row, o);
    if (row->type == TR_OPTION_LIST && tr_json_type(v) == TR_JSON_ARRAY) {
        for (size_t i = 0; i < tr_json_size(v) && r == 0; i++) {
            struct tr_json item = tr_json_at(v, i);
            tr_buf_clear(&text);
            r = tr_option_set(row, o, text_of(row, &item, &text) ? text.data : "", err);
        }
    } else {
        /* "" fits no row: it makes tr_option_set say what would. */
        r = tr_option_set(row, o, text_of(row, v, &text) ? text.data : "", err);
    }
    if (text.oom)
        r = tr_err_set(err, TR_ENOMEM, row->name, "out of memory");
    tr_buf_done(&text);
    return r;
}

static int apply_file(struct tr_options *o, const char *file, struct tr_err *err)
{
    struct json_t *doc;
    int r = tr_json_read(&doc, file, MAX_CONFIG_BYTES, err);
    if (r < 0)
        return fail_at(TR_ECONFIG, err, "configuration file");
    struct tr_json root = tr_json_root(doc, NULL), v;
    r = tr_json_expect(&root, TR_JSON_OBJECT, err);
    void *iter = NULL;
    size_t n = 0;
    while (r == 0 && tr_json_next(&root, &iter, &v)) {
        const struct tr_option *row = find_row(v.key, v.key_bytes);
        if (!row)
            r = tr_json_fail(&v, err, "no such option");
        else if (tr_json_given(&v))
            r = set_from_json(row, o, &v, err);
        n += r == 0;
    }
    if (r < 0) {
        char place[512];
        snprintf(place, sizeof place, "file %s line %d", file, line_of_member(file, n));
        r = fail_at(TR_ECONFIG, err, place);
    }
    tr_json_free(doc);
    return r;
}

/* ---- environment ---- */

/* Kubernetes tells pods about Services in variables named after them: of a Service "trinityd" or
 * "trinityd-x" they look like ours, as in TRINITYD_X_SERVICE_HOST,
 * TRINITYD_X_PORT=tcp://10.0.0.1:80 and TRINITYD_X_PORT_80_TCP_ADDR. */
static bool is_service_link(const char *name, const char *value)
{
    static const char *const ends[] = {"SERVICE_HOST", "SERVICE_PORT", "_TCP",       "_UDP",
                                       "_SCTP",        "_TCP_PROTO",   "_UDP_PROTO", "_SCTP_PROTO",
                                       "_TCP_PORT",    "_UDP_PORT",    "_SCTP_PORT", "_TCP_ADDR",
                                       "_UDP_ADDR",    "_SCTP_ADDR"};
    if (strstr(name, "SERVICE_PORT_") || (tr_ends_with(name, "PORT") && strstr(value, "://")))
        return true;
    for (size_t i = 0; i < TR_ARRAY_LEN(ends); i++)
        if (tr_ends_with(name, ends[i]))
            return true;
    return false;
}

static int apply_variable(struct tr_options *o, const char *entry, const char *value,
                          struct tr_err *err)
{
    char name[64];
    size_t n = 0;
    for (const char *s = entry + strlen(ENV_PREFIX); *s != '=' && n + 1 < sizeof name; s++)
        name[n++] = *s;
    name[n] = '\0';
    if (is_service_link(name, value))
        return 0;
    char lower[sizeof name];
    bool plain = true;
    for (size_t i = 0; i <= n; i++) {
        lower[i] = (char)tolower((unsigned char)name[i]);
        plain = plain && (!name[i] || isupper((unsigned char)name[i]) || name[i] == '_');
    }
    char place[96];
    snprintf(place, sizeof place, "environment " ENV_PREFIX "%s", plain ? name : "?");
    const struct tr_option *row = plain ? find_row(lower, n) : NULL;
    if (!row)
        return tr_err_set(err, TR_ECONFIG, lower, "no such option (%s)", place);
    tr_option_clear(row, o);
    int r = tr_option_set(row, o, value, err);
    return r < 0 ? fail_at(r, err, place) : 0;
}

/* The value of `entry` ("NAME=value") if it is one of our variables and not empty: container
 * files often pass variables on without knowing whether they are set. */
static const char *our_value(const char *entry)
{
    const char *value = strchr(entry, '=');
    if (!value || value[1] == '\0' || strncmp(entry, ENV_PREFIX, strlen(ENV_PREFIX)) != 0)
        return NULL;
    return value + 1;
}

static int apply_environment(struct tr_options *o, struct tr_err *err)
{
    int r = 0;
    for (char *const *e = o->envp; *e && r == 0; e++) {
        const char *value = our_value(*e);
        if (value && strncmp(*e, ENV_PREFIX "CONFIG=", strlen(ENV_PREFIX "CONFIG=")) != 0)
            r = apply_variable(o, *e, value, err);
    }
    return r;
}

static const char *config_variable(char *const *envp)
{
    for (char *const *e = envp; *e; e++)
        if (our_value(*e) && strncmp(*e, ENV_PREFIX "CONFIG=", strlen(ENV_PREFIX "CONFIG=")) == 0)
            return our_value(*e);
    return NULL;
}

/* ---- command line ---- */

/* One argument taken apart: --name, --name=value, --name value, --no-name, or a text. */
struct arg {
    char name[64];               /* with underscores, without "no_"; "" for a text */
    const struct tr_option *row; /* NULL: a text, or none of the table */
    const char *value;           /* NULL = none */
};

/* Takes argv[*i] apart and moves *i behind it. */
static int next_arg(const struct tr_options *o, int *i, bool only_text, struct arg *ret,
                    struct tr_err *err)
{
    const char *s = o->argv[(*i)++];
    *ret = (struct arg){.value = s};
    if (only_text || strncmp(s, "--", 2) != 0) {
        if (!only_text && s[0] == '-' && s[1])
            return tr_err_set(err, TR_ECONFIG, NULL,
                              "options begin with two dashes (command line)");
        return 0;
    }
    const char *equals = strchr(s, '=');
    ret->value = equals ? equals + 1 : NULL;
    snprintf(ret->name, sizeof ret->name, "%.*s",
             (int)TR_MIN(equals ? (size_t)(equals - s) - 2 : strlen(s) - 2, sizeof ret->name - 1),
             s + 2);
    for (char *c = ret->name; *c; c++)
        *c = *c == '-' ? '_' : *c >= 0x20 && *c < 0x7f ? *c : '?';
    ret->row = find_row(ret->name, strlen(ret->name));
    if (!ret->row && strncmp(ret->name, "no_", 3) == 0 && !ret->value) {
        memmove(ret->name, ret->name + 3, strlen(ret->name + 3) + 1);
        ret->row = find_row(ret->name, strlen(ret->name));
        ret->value = "false";
        if (!ret->row || ret->row->type != TR_OPTION_BOOL)
            return tr_err_set(err, TR_ECONFIG, ret->name, "no such option: --no-%s (command line)",
                              ret->name);
    }
    if (ret->row && !(ret->row->commands & 1U << o->command))
        return tr_err_set(err, TR_ECONFIG, ret->name, "%s: not an option of `%s` (command line)",
                          ret->name, command_names[o->command]);
    if (ret->row && !ret->value && ret->row->type == TR_OPTION_BOOL)
        ret->value = "true";
    if (!ret->value && (ret->row || strcmp(ret->name, "config") == 0)) {
        if (*i >= o->argc)
            return tr_err_set(err, TR_ECONFIG, ret->name, "%s: needs a value (command line)",
                              ret->name);
        ret->value = o->argv[(*i)++];
    }
    return 0;
}

static int take_text(struct tr_options *o, const char *text, bool again, struct tr_err *err)
{
    bool batch = o->command == TR_COMMAND_BATCH;
    if (!batch && o->command != TR_COMMAND_GENERATE)
        return tr_err_set(err, TR_ECONFIG, NULL, "`%s` takes no text (command line)",
                          command_names[o->command]);
    if (again)
        return 0;
    if (batch ? o->second_text != NULL : o->text != NULL)
        return tr_err_set(err, TR_ECONFIG, NULL,
                          batch ? "more than two files (command line)"
                                : "more than one text: put it in quotes (command line)");
    if (o->text)
        o->second_text = text;
    else
        o->text = text;
    return 0;
}

/* Goes through the command line: first for what is no option (set_rows false), then for the
 * options. */
static int apply_arguments(struct tr_options *o, bool set_rows, const char **ret_config,
                           struct tr_err *err)
{
    int i = 1;
    for (int c = 0; i == 1 && o->argc > 1 && c < (int)TR_ARRAY_LEN(command_names); c++)
        if (strcmp(o->argv[1], command_names[c]) == 0) {
            o->command = (enum tr_command)c;
            i = 2;
        }
    bool only_text = false;
    bool seen[TR_OPTION_COUNT] = {false};
    while (i < o->argc) {
        if (!only_text && strcmp(o->argv[i], "--") == 0) {
            only_text = true;
            i++;
            continue;
        }
        struct arg a;
        int r = next_arg(o, &i, only_text, &a, err);
        if (r < 0)
            return r;
        if (a.row) {
            size_t row = (size_t)(a.row - tr_option_rows);
            if (!set_rows)
                continue;
            if (!seen[row]) /* a repeated list option adds, but only to the command line's own */
                tr_option_clear(a.row, o);
            seen[row] = true;
            r = tr_option_set(a.row, o, a.value, err);
            if (r < 0)
                return fail_at(r, err, "command line");
        } else if (strcmp(a.name, "config") == 0) {
            *ret_config = a.value;
        } else if (strcmp(a.name, "help") == 0) {
            o->action = TR_ACTION_HELP;
        } else if (strcmp(a.name, "version") == 0) {
            o->action = TR_ACTION_VERSION;
        } else if (strcmp(a.name, "print_config") == 0) {
            o->action = TR_ACTION_PRINT_CONFIG;
        } else if (a.name[0]) {
            return tr_err_set(err, TR_ECONFIG, a.name, "%s: no such option (command line)", a.name);
        } else if ((r = take_text(o, a.value, set_rows, err)) < 0) {
            return r;
        }
    }
    return 0;
}

/* ---- all together ---- */

/* A line without the blanks around it, and without the byte order mark of the file's first one. */
static char *strip(char *line, bool first)
{
    if (first && strncmp(line, "\xEF\xBB\xBF", 3) == 0)
        line += 3;
    line += strspn(line, " \t\r\n\v\f");
    size_t n = strlen(line);
    while (n > 0 && isspace((unsigned char)line[n - 1]))
        line[--n] = '\0';
    return line;
}

/* Whether the file begins as a JSON object does, a byte order mark aside; goes back to its
 * beginning. */
static bool is_table(FILE *f)
{
    int c = getc(f);
    while (c != EOF && (isspace(c) || strchr("\xEF\xBB\xBF", c)))
        c = getc(f);
    rewind(f);
    return c == '{';
}

/* Adds the lines of api_key_file to api_key; blank lines and those that begin with # do not count.
 * A file without a key is an error: who names one does not mean to let everybody in. A table of
 * keys is left to who knows what is in it. */
static int read_keys(struct tr_options *o, struct tr_err *err)
{
    static const char name[] = "api_key_file";
    if (!o->api_key_file)
        return 0;
    FILE *f = fopen(o->api_key_file, "re");
    if (!f)
        return tr_err_set(err, TR_ECONFIG, name, "%s: %s: %s", name, o->api_key_file,
                          strerror(errno));
    o->key_table = is_table(f);
    if (o->key_table) {
        fclose(f);
        return 0;
    }
    const struct tr_option *row = find_row("api_key", strlen("api_key"));
    char *line = NULL;
    size_t cap = 0, before = o->api_key.n;
    int r = 0;
    for (bool first = true; r == 0 && getline(&line, &cap, f) >= 0; first = false) {
        const char *key = strip(line, first);
        if (*key && *key != '#' && tr_option_set(row, o, key, err) < 0)
            r = tr_err_set(err, TR_ECONFIG, name, "%s: %s: a line is no key", name,
                           o->api_key_file);
    }
    if (r == 0 && ferror(f))
        r = tr_err_set(err, TR_ECONFIG, name, "%s: %s: can't be read", name, o->api_key_file);
    if (r == 0 && o->api_key.n == before)
        r = tr_err_set(err, TR_ECONFIG, name, "%s: %s: there is no key in it", name,
                       o->api_key_file);
    free(line);
    fclose(f);
    return r;
}

/* Keys of any kind let in. */
static int add_special_keys(struct tr_options *o, struct tr_err *err)
{
    const struct tr_option *row = find_row("api_key", strlen("api_key"));
    const struct tr_strings *const kinds[] = {&o->priority_key, &o->admin_key};
    int r = 0;
    for (size_t k = 0; k < TR_ARRAY_LEN(kinds); k++)
        for (size_t i = 0; i < kinds[k]->n && r == 0; i++)
            r = tr_option_set(row, o, kinds[k]->items[i], err);
    return r;
}

/* What no single row can check. */
static int check_together(const struct tr_options *o, struct tr_err *err)
{
    if (!o->tls_cert != !o->tls_key)
        return tr_err_set(err, TR_ECONFIG, o->tls_cert ? "tls_key" : "tls_cert",
                          "tls_cert and tls_key must be given together");
    return 0;
}

int tr_options_parse(struct tr_options *ret, int argc, char *const *argv, char *const *envp,
                     struct tr_err *err)
{
    struct tr_options o = {.argc = argc, .argv = argv, .envp = envp};
    struct tr_err ignored;
    if (!err)
        err = &ignored;
    const char *config = config_variable(envp);
    int r = apply_arguments(&o, false, &config, err);
    for (size_t i = 0; i < TR_OPTION_COUNT && r == 0; i++)
        if (tr_option_rows[i].preset)
            r = tr_option_set(&tr_option_rows[i], &o, tr_option_rows[i].preset, err);
    if (r == 0 && o.action != TR_ACTION_HELP && o.action != TR_ACTION_VERSION) {
        r = config ? apply_file(&o, config, err) : 0;
        if (r == 0)
            r = apply_environment(&o, err);
        if (r == 0)
            r = apply_arguments(&o, true, &config, err);
        if (r == 0)
            r = check_together(&o, err);
        if (r == 0)
            r = read_keys(&o, err);
        if (r == 0)
            r = add_special_keys(&o, err);
    }
    if (r < 0) {
        tr_options_done(&o);
        return r;
    }
    o.file = config;
    *ret = o;
    return 0;
}

int tr_options_reload(struct tr_options *ret, const struct tr_options *old, struct tr_buf *refused,
                      struct tr_err *err)
{
    struct tr_options o;
    int r = tr_options_parse(&o, old->argc, old->argv, old->envp, err);
    if (r < 0)
        return r;
    bool had = old->api_key.n > 0 || old->key_table, has = o.api_key.n > 0 || o.key_table;
    if (had && !has) {
        tr_options_done(&o);
        return tr_err_set(err, TR_ECONFIG, "api_key",
                          "api_key: no key is left; only a restart serves without keys");
    }
    for (size_t i = 0; i < TR_OPTION_COUNT && r == 0; i++) {
        const struct tr_option *row = &tr_option_rows[i];
        if ((row->flags & TR_RELOAD) || tr_option_equal(row, &o, old))
            continue;
        tr_buf_addf(refused, "%s%s", refused->len ? ", " : "", row->name);
        r = tr_option_copy(row, &o, old);
    }
    if (r < 0) {
        tr_options_done(&o);
        return tr_err_set(err, r, NULL, "out of memory");
    }
    *ret = o;
    return 0;
}

bool tr_strings_has(const struct tr_strings *list, const char *s)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], s) == 0)
            return true;
    return false;
}

bool tr_ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

void tr_options_done(struct tr_options *o)
{
    for (size_t i = 0; i < TR_OPTION_COUNT; i++)
        tr_option_clear(&tr_option_rows[i], o);
    *o = (struct tr_options){0};
}

/* ---- output ---- */

static void help_row(const struct tr_option *row, struct tr_buf *out)
{
    static const char *const metavar[] = {
        [TR_OPTION_BOOL] = "",          [TR_OPTION_INT] = " N",      [TR_OPTION_SIZE] = " SIZE",
        [TR_OPTION_DURATION] = " TIME", [TR_OPTION_REAL] = " X",     [TR_OPTION_STRING] = " TEXT",
        [TR_OPTION_LIST] = " A,B",      [TR_OPTION_CHOICE] = " WORD"};
    tr_buf_adds(out, row->type == TR_OPTION_BOOL ? "  --[no-]" : "  --");
    for (const char *s = row->name; *s; s++)
        tr_buf_addc(out, *s == '_' ? '-' : *s);
    tr_buf_addf(out, "%s\n        %s", metavar[row->type], row->help);
    if (row->type == TR_OPTION_CHOICE) {
        tr_buf_adds(out, "; ");
        tr_option_expected(row, out);
    }
    if (row->preset)
        tr_buf_addf(out, " [%s]", row->preset);
    tr_buf_addc(out, '\n');
}

void tr_options_help(const struct tr_options *o, struct tr_buf *out)
{
    tr_buf_adds(out,
                "trinityd [serve] [options]         the daemon\n"
                "trinityd generate [options] TEXT   one completion to stdout, without a server\n"
                "trinityd check [options]           loads and checks a checkpoint; exit 0 = good\n"
                "trinityd bench [options]           speed of this checkpoint on this machine\n"
                "trinityd health [options]          asks the running daemon; exit 0 = ready\n"
                "trinityd top [options]             what the running daemon does, as it does it\n"
                "trinityd COMMAND --help | --version | --print-config\n\n"
                "Every option may also stand in the file named by --config FILE (JSON, "
                "\"kv_cache\": \"4GiB\")\n"
                "and in the environment (TRINITYD_KV_CACHE=4GiB); the command line wins, then "
                "the environment.\n"
                "Sizes take KiB MiB GiB TiB, times ms s m h (plain numbers are bytes and "
                "seconds).\n\n");
    tr_buf_addf(out, "Options of `%s`:\n", command_names[o->command]);
    for (size_t i = 0; i < TR_OPTION_COUNT; i++)
        if (tr_option_rows[i].commands & 1U << o->command)
            help_row(&tr_option_rows[i], out);
}

void tr_options_print(const struct tr_options *o, struct tr_buf *out)
{
    const char *sep = "{\n  ";
    for (size_t i = 0; i < TR_OPTION_COUNT; i++) {
        if (!(tr_option_rows[i].commands & 1U << o->command))
            continue;
        tr_buf_addf(out, "%s\"%s\": ", sep, tr_option_rows[i].name);
        tr_option_json(&tr_option_rows[i], o, out);
        sep = ",\n  ";
    }
    tr_buf_adds(out, "\n}\n");
}
