/* Options: where a value comes from, which values are refused and with which words, and that
 * what is printed can be read back. */
#include "config/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/json.h"

#define MAX_WORDS 24

/* Splits at blanks into a NULL-terminated array. */
static int split(char *text, char **words)
{
    int n = 0;
    for (char *w = strtok(text, " "); w && n < MAX_WORDS; w = strtok(NULL, " "))
        words[n++] = w;
    words[n] = NULL;
    return n;
}

struct sources {
    char argv_text[512], env_text[1024];
    char *argv[MAX_WORDS + 1], *envp[MAX_WORDS + 1];
};

/* Parses "trinityd ARGS" under an environment; both are lists separated by blanks. */
static int parse(struct sources *s, struct tr_options *o, const char *args, const char *env,
                 struct tr_err *err)
{
    snprintf(s->argv_text, sizeof s->argv_text, "trinityd %s", args);
    snprintf(s->env_text, sizeof s->env_text, "%s", env);
    int argc = split(s->argv_text, s->argv);
    split(s->env_text, s->envp);
    return tr_options_parse(o, argc, s->argv, s->envp, err);
}

static char path[64];

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/trinityd-options-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* The contract's table. */
static void test_defaults(void **state)
{
    (void)state;
    struct sources s;
    struct tr_options o;
    assert_int_equal(parse(&s, &o, "", "", NULL), 0);
    assert_int_equal(o.command, TR_COMMAND_SERVE);
    assert_int_equal(o.action, TR_ACTION_RUN);
    assert_string_equal(o.model, "config/demo");
    assert_int_equal(o.served_model_name.n, 0);
    assert_string_equal(o.host, "127.0.0.1");
    assert_int_equal(o.port, 8080);
    assert_true(o.mmap && o.prefix_cache);
    assert_int_equal(o.kv_cache, 0);
    assert_int_equal(o.kv_type, 1);
    assert_int_equal(o.max_batch_tokens, 512);
    assert_int_equal(o.max_sequences, 64);
    assert_int_equal(o.max_queue, 256);
    assert_int_equal(o.max_body, 32 << 20);
    assert_int_equal(o.request_timeout, 0);
    assert_int_equal(o.idle_timeout, 75000);
    assert_int_equal(o.stream_ping, 10000);
    assert_int_equal(o.drain_delay, 0);
    assert_int_equal(o.drain_timeout, 30000);
    assert_int_equal(o.api_key.n, 0);
    assert_int_equal(o.log_level, 2);
    assert_int_equal(o.log_format, 0);
    tr_options_done(&o);
}

static void test_precedence(void **state)
{
    (void)state;
    static const struct {
        const char *file, *env, *args;
        int port;
    } cases[] = {
        {"{}", "", "", 8080},
        {"{\"port\": 1}", "", "", 1},
        {"{\"port\": 1}", "TRINITYD_PORT=2", "", 2},
        {"{\"port\": 1}", "TRINITYD_PORT=2", "--port 3", 3},
        {"{\"port\": 1}", "TRINITYD_PORT=2", "--port=3", 3},
        {"{\"port\": 1}", "", "--port 3", 3},
        {"{\"port\": 1}", "TRINITYD_PORT=", "", 1},
        {"{\"port\": null}", "", "", 8080},
        {"{\"port\": 1}", "", "--port 3 --port 4", 4},
        {"{\"port\": 5.0}", "", "", 5},
        {"{}", "", "--port 0", 0},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct sources s;
        struct tr_options o;
        struct tr_err err;
        char args[256];
        write_file(cases[i].file);
        snprintf(args, sizeof args, "%s --config %s", cases[i].args, path);
        assert_int_equal(parse(&s, &o, args, cases[i].env, &err), 0);
        assert_int_equal(o.port, cases[i].port);
        tr_options_done(&o);
        /* The file may be named in the environment, too. */
        snprintf(args, sizeof args, "TRINITYD_CONFIG=%s %s", path, cases[i].env);
        assert_int_equal(parse(&s, &o, cases[i].args, args, &err), 0);
        assert_int_equal(o.port, cases[i].port);
        tr_options_done(&o);
    }
}

static void test_forms_of_values(void **state)
{
    (void)state;
    struct sources s;
    struct tr_options o;
    struct tr_err err;
    assert_int_equal(
        parse(&s, &o,
              "serve --kv-cache 4GiB --max_body=512KiB --no-mmap --verify --prefix-cache=false "
              "--idle-timeout 1500ms --stream-ping off --drain-timeout 2m --request-timeout 5",
              "TRINITYD_KV_TYPE=q8 TRINITYD_THREADS=auto TRINITYD_SNAPSHOT_QUOTA=12345", &err),
        0);
    assert_true(o.kv_cache == 4ULL << 30);
    assert_true(o.max_body == 512 << 10);
    assert_false(o.mmap);
    assert_true(o.verify);
    assert_false(o.prefix_cache);
    assert_true(o.idle_timeout == 1500);
    assert_true(o.stream_ping == 0);
    assert_true(o.drain_timeout == 120000);
    assert_true(o.request_timeout == 5000);
    assert_int_equal(o.kv_type, 2);
    assert_int_equal(o.threads, 0);
    assert_true(o.snapshot_quota == 12345);
    tr_options_done(&o);

    write_file(
        "{\"kv_cache\": 1048576, \"idle_timeout\": 20, \"mmap\": false, \"cors_origin\": "
        "[\"http://a\", "
        "\"http://b\"],\n \"stream_ping\": \"500ms\", \"isa\": \"generic\", \"host\": null}");
    char args[128];
    snprintf(args, sizeof args, "--config=%s", path);
    assert_int_equal(parse(&s, &o, args, "", &err), 0);
    assert_true(o.kv_cache == 1 << 20);
    assert_true(o.idle_timeout == 20000);
    assert_true(o.stream_ping == 500);
    assert_false(o.mmap);
    assert_int_equal(o.isa, 0);
    assert_string_equal(o.host, "127.0.0.1");
    assert_int_equal(o.cors_origin.n, 2);
    assert_string_equal(o.cors_origin.items[1], "http://b");
    tr_options_done(&o);
}

static void test_lists(void **state)
{
    (void)state;
    struct sources s;
    struct tr_options o;
    assert_int_equal(parse(&s, &o, "", "TRINITYD_API_KEY=k1,k2", NULL), 0);
    assert_int_equal(o.api_key.n, 2);
    assert_string_equal(o.api_key.items[0], "k1");
    tr_options_done(&o);
    /* Repetition adds within the command line, which replaces the environment. */
    assert_int_equal(parse(&s, &o, "--api-key a --api-key b,c", "TRINITYD_API_KEY=k1,k2", NULL), 0);
    assert_int_equal(o.api_key.n, 3);
    assert_string_equal(o.api_key.items[2], "c");
    tr_options_done(&o);
    write_file("# keys\n\n  \nfile-key\r\nother\n");
    char args[128];
    snprintf(args, sizeof args, "--api-key a --api-key-file %s", path);
    assert_int_equal(parse(&s, &o, args, "", NULL), 0);
    assert_int_equal(o.api_key.n, 3);
    assert_string_equal(o.api_key.items[1], "file-key");
    assert_string_equal(o.api_key.items[2], "other");
    tr_options_done(&o);
    /* A key with a right of its own shuts the door as any other. */
    assert_int_equal(parse(&s, &o, "--priority-key p", "TRINITYD_API_KEY=k", NULL), 0);
    assert_int_equal(o.api_key.n, 2);
    assert_string_equal(o.api_key.items[1], "p");
    tr_options_done(&o);
    assert_int_equal(parse(&s, &o, "--admin-key p", "", NULL), 0);
    assert_int_equal(o.api_key.n, 1);
    tr_options_done(&o);
}

static void test_commands(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        enum tr_command command;
        enum tr_option_action action;
        const char *text;
    } cases[] = {
        {"serve", TR_COMMAND_SERVE, TR_ACTION_RUN, NULL},
        {"--port 1", TR_COMMAND_SERVE, TR_ACTION_RUN, NULL},
        {"generate", TR_COMMAND_GENERATE, TR_ACTION_RUN, NULL},
        {"generate --temperature 0 once", TR_COMMAND_GENERATE, TR_ACTION_RUN, "once"},
        {"generate once --seed 3", TR_COMMAND_GENERATE, TR_ACTION_RUN, "once"},
        {"generate -- --seed", TR_COMMAND_GENERATE, TR_ACTION_RUN, "--seed"},
        {"generate serve", TR_COMMAND_GENERATE, TR_ACTION_RUN, "serve"},
        {"check --model x", TR_COMMAND_CHECK, TR_ACTION_RUN, NULL},
        {"bench --json", TR_COMMAND_BENCH, TR_ACTION_RUN, NULL},
        {"health --port 3", TR_COMMAND_HEALTH, TR_ACTION_RUN, NULL},
        {"--help", TR_COMMAND_SERVE, TR_ACTION_HELP, NULL},
        {"bench --help", TR_COMMAND_BENCH, TR_ACTION_HELP, NULL},
        {"--version", TR_COMMAND_SERVE, TR_ACTION_VERSION, NULL},
        {"--port 3 --print-config", TR_COMMAND_SERVE, TR_ACTION_PRINT_CONFIG, NULL},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct sources s;
        struct tr_options o;
        struct tr_err err;
        assert_int_equal(parse(&s, &o, cases[i].args, "", &err), 0);
        assert_int_equal(o.command, cases[i].command);
        assert_int_equal(o.action, cases[i].action);
        if (cases[i].text)
            assert_string_equal(o.text, cases[i].text);
        else
            assert_null(o.text);
        tr_options_done(&o);
    }
}

/* Every refusal names the option and where the value stands. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *file, *env, *args, *param, *message;
    } cases[] = {
        {"{}", "", "--prot 3", "prot", "no such option (command line)"},
        {"{}", "", "--port", "port", "needs a value (command line)"},
        {"{}", "", "--port x", "port", "expected a whole number from 0 to 65535 (command line)"},
        {"{}", "", "--port 65536", "port", "(command line)"},
        {"{}", "", "--port -1", "port", "(command line)"},
        {"{}", "", "--port 1.5", "port", "(command line)"},
        {"{}", "", "--port 0x10", "port", "(command line)"},
        {"{}", "", "--port 1e400", "port", "(command line)"},
        {"{}", "", "--port=", "port", "(command line)"},
        {"{}", "", "--port 80KiB", "port", "(command line)"},
        {"{}", "", "--no-port", "port", "no such option: --no-port"},
        {"{}", "", "--no-nothing", "nothing", "no such option"},
        {"{}", "", "--mmap=maybe", "mmap", "expected true or false"},
        {"{}", "", "--kv-cache 4GB", "kv_cache", "units KiB, MiB, GiB"},
        {"{}", "", "--kv-cache 1", "kv_cache", "from 64KiB to 1024TiB"},
        {"{}", "", "--kv-cache nan", "kv_cache", "or auto"},
        {"{}", "", "--stream-ping 1us", "stream_ping", "a duration from 10ms"},
        {"{}", "", "--kv-type f8", "kv_type", "one of f32, bf16, q8"},
        {"{}", "", "--kv-type f32|bf16", "kv_type", "one of f32, bf16, q8"},
        {"{}", "", "--page-tokens 512", "page_tokens", "from 16 to 256"},
        {"{}", "", "--tls-cert x", "tls_key", "together"},
        {"{}", "", "--api-key a,,b", "api_key", "not empty"},
        {"{}", "", "--api-key-file /nowhere/keys", "api_key_file", "No such file"},
        {"{}", "", "-p 3", "", "two dashes"},
        {"{}", "", "text", "", "takes no text"},
        {"{}", "TRINITYD_FOO=1", "", "foo", "no such option (environment TRINITYD_FOO)"},
        {"{}", "TRINITYD_port=1", "", "port", "no such option"},
        {"{}", "TRINITYD_PORT=x", "", "port", "(environment TRINITYD_PORT)"},
        {"{\n\"mmap\": true,\n \"prot\": 1}", "", "", "prot", "line 3)"},
        {"{\"isa\": \"\\\"{,\",\n \"port\":\n 1}", "", "", "isa", "line 1)"},
        {"{\"mmap\": true, \"cors_origin\": [\"a\", \"b\"],\n\n\"port\": \"x\"}", "", "", "port",
         "line 3)"},
        {"{\"port\": [1]}", "", "", "port", "line 1)"},
        {"{\"port\": true}", "", "", "port", "whole number"},
        {"{\"mmap\": 1}", "", "", "mmap", "true or false"},
        {"{\"mmap\": \"true\"}", "", "", "mmap", "true or false"},
        {"{\"host\": 5}", "", "", "host", "text"},
        {"{\"api_key\": [\"a\", 5]}", "", "", "api_key", "line 1)"},
        {"{\"port\": 1, \"port\": 2}", "", "", "", "duplicate"},
        {"{\"port\": 1", "", "", "", "line 1"},
        {"[]", "", "", "", "expected object"},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct sources s;
        struct tr_options o;
        struct tr_err err;
        char args[256];
        write_file(cases[i].file);
        snprintf(args, sizeof args, "--config %s %s", path, cases[i].args);
        if (parse(&s, &o, args, cases[i].env, &err) != TR_ECONFIG)
            fail_msg("case %zu is not refused", i);
        if (strcmp(err.param, cases[i].param) != 0 || !strstr(err.msg, cases[i].message))
            fail_msg("case %zu: param \"%s\", message \"%s\"", i, err.param, err.msg);
    }
}

static void test_refusals_of_a_command(void **state)
{
    (void)state;
    struct sources s;
    struct tr_options o;
    struct tr_err err;
    assert_int_equal(parse(&s, &o, "generate a b", "", &err), TR_ECONFIG);
    assert_int_equal(parse(&s, &o, "generate --port 3", "", &err), TR_ECONFIG);
    assert_non_null(strstr(err.msg, "not an option of `generate`"));
    assert_int_equal(parse(&s, &o, "--config /nowhere/x.json", "", &err), TR_ECONFIG);
    assert_non_null(strstr(err.msg, "/nowhere/x.json"));
    /* Help is there even if the rest is wrong. */
    assert_int_equal(parse(&s, &o, "--help", "TRINITYD_PORT=x", &err), 0);
    tr_options_done(&o);
}

static void test_help_names_every_option(void **state)
{
    (void)state;
    static const char *const commands[] = {"serve", "generate", "check", "bench",
                                           "batch", "health",   "top"};
    struct tr_buf all = {0};
    for (size_t i = 0; i < TR_ARRAY_LEN(commands); i++) {
        struct sources s;
        struct tr_options o;
        assert_int_equal(parse(&s, &o, commands[i], "", NULL), 0);
        tr_options_help(&o, &all);
        tr_options_done(&o);
    }
    static const char *const names[] = {
#define X(type, name, ...) #name,
        TR_OPTION_MAP(X)
#undef X
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(names); i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "%s", names[i]);
        for (char *c = flag; *c; c++)
            *c = *c == '_' ? '-' : *c;
        if (!strstr(all.data, flag))
            fail_msg("no help for %s", flag);
    }
    tr_buf_done(&all);
}

static void print(const struct tr_options *o, struct tr_buf *out)
{
    tr_options_print(o, out);
    assert_false(out->oom);
}

static void test_printed_config_reads_back(void **state)
{
    (void)state;
    static const char *const args[] = {
        "",
        "--kv-cache 3MiB --idle-timeout 1001ms --stream-ping off --host ::1 --cors-origin "
        "*,http://x --isa avx2 "
        "--no-mmap --threads 3",
        "generate --temperature 0.7 --top-p 0.95 --seed 7 --top-k 40",
        "bench --decode 1,2 --json",
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(args); i++) {
        struct sources s;
        struct tr_options o;
        struct tr_err err;
        struct tr_buf first = {0}, second = {0};
        assert_int_equal(parse(&s, &o, args[i], "", &err), 0);
        print(&o, &first);
        enum tr_command command = o.command;
        tr_options_done(&o);
        write_file(first.data);
        char again[128];
        static const char *const names[] = {"serve", "generate", "check", "bench",
                                            "batch", "health",   "top"};
        snprintf(again, sizeof again, "%s --config %s", names[command], path);
        assert_int_equal(parse(&s, &o, again, "", &err), 0);
        print(&o, &second);
        tr_options_done(&o);
        assert_string_equal(first.data, second.data);
        tr_buf_done(&first);
        tr_buf_done(&second);
    }
}

static void test_secrets_are_not_printed(void **state)
{
    (void)state;
    struct sources s;
    struct tr_options o;
    struct tr_buf out = {0};
    assert_int_equal(parse(&s, &o, "--api-key hunter2,hunter3", "", NULL), 0);
    print(&o, &out);
    assert_null(strstr(out.data, "hunter"));
    assert_non_null(strstr(out.data, "\"api_key\": [\"(secret)\", \"(secret)\"]"));
    tr_buf_done(&out);
    tr_options_done(&o);
}

/* The file that is shipped says what the table says. */
static void test_shipped_file(void **state)
{
    (void)state;
    struct sources s;
    struct tr_options o;
    struct tr_err err;
    struct tr_buf preset = {0}, shipped = {0};
    assert_int_equal(parse(&s, &o, "", "", &err), 0);
    print(&o, &preset);
    tr_options_done(&o);
    assert_int_equal(parse(&s, &o, "--config config/trinityd.json", "", &err), 0);
    print(&o, &shipped);
    tr_options_done(&o);
    assert_string_equal(preset.data, shipped.data);
    tr_buf_done(&preset);
    tr_buf_done(&shipped);
}

static void test_reload(void **state)
{
    (void)state;
    struct sources s;
    struct tr_options o, fresh;
    struct tr_err err;
    struct tr_buf refused = {0};
    char args[128];
    write_file("{\"port\": 1, \"log_level\": \"warn\", \"api_key\": [\"old\"], \"model\": \"m1\"}");
    snprintf(args, sizeof args, "--max-queue 9 --config %s", path);
    assert_int_equal(parse(&s, &o, args, "TRINITYD_IDLE_TIMEOUT=3s", &err), 0);

    write_file("{\"port\": 2, \"log_level\": \"debug\", \"api_key\": [\"new\", \"newer\"], "
               "\"model\": \"m2\", "
               "\"max_queue\": 10, \"idle_timeout\": \"9s\"}");
    assert_int_equal(tr_options_reload(&fresh, &o, &refused, &err), 0);
    assert_int_equal(fresh.log_level, 3);
    assert_int_equal(fresh.api_key.n, 2);
    assert_string_equal(fresh.api_key.items[1], "newer");
    assert_int_equal(fresh.port, 1);
    assert_string_equal(fresh.model, "m1");
    assert_int_equal(fresh.max_queue, 9);
    assert_int_equal(fresh.idle_timeout, 3000);
    assert_string_equal(refused.data, "model, port");
    tr_options_done(&fresh);

    write_file("{\"log_level\": \"loud\"}");
    assert_int_equal(tr_options_reload(&fresh, &o, &refused, &err), TR_ECONFIG);
    assert_string_equal(err.param, "log_level");

    /* a daemon that has asked for keys does not stop asking */
    write_file("{\"log_level\": \"warn\"}");
    assert_int_equal(tr_options_reload(&fresh, &o, &refused, &err), TR_ECONFIG);
    assert_string_equal(err.param, "api_key");
    tr_buf_done(&refused);
    tr_options_done(&o);
}

/* Key files as editors and secret managers leave them; NULL: refused, with a message that says why. */
static void test_key_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *keys; /* separated by blanks */
    } cases[] = {
        {"k1\nk2\n", "k1 k2"},
        {"k1\r\nk2\r\n", "k1 k2"},
        {"\xEF\xBB\xBFk1\nk2", "k1 k2"},
        {"  k1  \n\tk2\n # no key\n\n", "k1 k2"},
        {"", NULL},
        {"\n", NULL},
        {"\xEF\xBB\xBF", NULL},
        {"# k1\n  #k2\n", NULL},
        {"\n {\"keys\":\n[]}", ""}, /* a table is no list of keys */
        {"\xEF\xBB\xBF{}", ""},
    };
    char args[128];
    snprintf(args, sizeof args, "--api-key-file %s", path);
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct sources s;
        struct tr_options o;
        struct tr_err err;
        char keys[64] = "";
        write_file(cases[i].text);
        int r = parse(&s, &o, args, "", &err);
        if (!cases[i].keys) {
            assert_int_equal(r, TR_ECONFIG);
            assert_string_equal(err.param, "api_key_file");
            assert_non_null(strstr(err.msg, "no key"));
            continue;
        }
        assert_int_equal(r, 0);
        for (size_t k = 0; k < o.api_key.n; k++) {
            strcat(keys, k ? " " : "");
            strcat(keys, o.api_key.items[k]);
        }
        assert_string_equal(keys, cases[i].keys);
        assert_int_equal(o.key_table, !*cases[i].keys);
        tr_options_done(&o);
    }
}

/* Every pod is told about the Services of its namespace; own options count beside that. */
static void test_service_links(void **state)
{
    (void)state;
    static const char *const services[] = {"", "NANO_", "METRICS_", "MODEL_", "HOST_"};
    for (size_t i = 0; i < TR_ARRAY_LEN(services); i++) {
        struct sources s;
        struct tr_options o;
        struct tr_err err;
        char env[512];
        const char *n = services[i];
        snprintf(env, sizeof env,
                 "TRINITYD_%sSERVICE_HOST=10.0.0.1 TRINITYD_%sSERVICE_PORT=80 "
                 "TRINITYD_%sSERVICE_PORT_HTTP=80 TRINITYD_%sPORT=tcp://10.0.0.1:80 "
                 "TRINITYD_%sPORT_80_TCP=tcp://10.0.0.1:80 TRINITYD_%sPORT_80_TCP_PROTO=tcp "
                 "TRINITYD_%sPORT_80_TCP_PORT=80 TRINITYD_%sPORT_80_TCP_ADDR=10.0.0.1 "
                 "TRINITYD_MAX_QUEUE=7",
                 n, n, n, n, n, n, n, n);
        assert_int_equal(parse(&s, &o, "", env, &err), 0);
        assert_int_equal(o.port, 8080);
        assert_int_equal(o.max_queue, 7);
        tr_options_done(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_forms_of_values),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refusals_of_a_command),
        cmocka_unit_test(test_help_names_every_option),
        cmocka_unit_test(test_printed_config_reads_back),
        cmocka_unit_test(test_secrets_are_not_printed),
        cmocka_unit_test(test_shipped_file),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_key_files),
        cmocka_unit_test(test_service_links),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
