/* Command line to command to exit status: 0 clean end, 1 can't do it, 2 bad configuration. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/kernels/blas.h"
#include "server/api/routes.h"
#include "server/call/defaults.h"
#include "server/commands/commands.h"
#include "server/log.h"
#include "server/loop.h"

extern char **environ;

/* OpenBLAS chooses its kernels when it is loaded, before main, and does not know recent
 * processors: where it chose badly the program starts again, once, with the right choice in the
 * environment. */
static void restart_with_better_blas(char **argv)
{
    const char *core = tr_blas_better_core();
    if (!core || getenv("OPENBLAS_CORETYPE") || setenv("OPENBLAS_CORETYPE", core, 0) != 0)
        return;
    execv("/proc/self/exe", argv);
    srv_log(SRV_LOG_WARN, NULL, "OpenBLAS runs as %s, %s would be faster: set OPENBLAS_CORETYPE",
            tr_blas_core(), core);
}

static int serve(const struct tr_options *o)
{
    struct json_t *defaults;
    struct tr_err err;
    if (srv_defaults_open(&defaults, o->generation_defaults, NULL, &err) < 0) {
        srv_log(SRV_LOG_ERROR, NULL, "%s", err.msg);
        return 2;
    }
    tr_json_free(defaults);
    return srv_run(o, srv_routes, srv_n_routes, NULL);
}

static int run_command(struct tr_options *o)
{
    switch (o->command) {
    case TR_COMMAND_GENERATE:
        return srv_generate(o);
    case TR_COMMAND_CHECK:
        return srv_check(o);
    case TR_COMMAND_BENCH:
        return srv_bench(o);
    case TR_COMMAND_BATCH:
        return srv_batch(o, srv_routes, srv_n_routes);
    case TR_COMMAND_HEALTH:
        return srv_health_check(o);
    case TR_COMMAND_TOP:
        return srv_top(o);
    case TR_COMMAND_SERVE:
    default:
        return serve(o);
    }
}

static int print(const struct tr_options *o)
{
    struct tr_buf out = {0};
    if (o->action == TR_ACTION_HELP)
        tr_options_help(o, &out);
    else if (o->action == TR_ACTION_VERSION)
        tr_buf_adds(&out, "trinityd " TR_VERSION "\n");
    else
        tr_options_print(o, &out);
    bool ok = !out.oom && fputs(out.data, stdout) >= 0 && fflush(stdout) == 0;
    tr_buf_done(&out);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct tr_options o;
    struct tr_err err;
    if (tr_options_parse(&o, argc, argv, environ, &err) < 0) {
        fprintf(stderr, "trinityd: %s\n", err.msg);
        return err.code == TR_ENOMEM ? 1 : 2;
    }
    int status;
    if (o.action == TR_ACTION_RUN) {
        srv_log_setup((enum srv_log_level)o.log_level, o.log_format == TR_LOG_FORMAT_JSON);
        if (o.command != TR_COMMAND_HEALTH && o.command != TR_COMMAND_TOP)
            restart_with_better_blas(argv);
        tr_blas_init(); /* its threads began before any confinement, and would stay outside */
        status = run_command(&o);
    } else {
        status = print(&o);
    }
    tr_options_done(&o);
    return status;
}
