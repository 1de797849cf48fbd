#include "server/api/page.h"

#include <stdio.h>
#include <string.h>

#include "config/hash.h"
#include "server/http/reply.h"
#include "server/server.h"

/* Puts a file of server/page/ between two labels; the folder of the build is the repository's. */
#define EMBED(label, file)                                                                         \
    __asm__(".pushsection .rodata\n" label ":\n.incbin \"server/page/" file "\"\n" label           \
            "_end:\n.byte 0\n.popsection\n")

EMBED("page_index", "index.html");
EMBED("page_style", "style.css");
EMBED("page_icon", "icon.svg");
EMBED("page_main", "main.js");
EMBED("page_base", "base.js");
EMBED("page_markdown", "markdown.js");
EMBED("page_play", "play.js");
EMBED("page_answer", "answer.js");
EMBED("page_fields", "fields.js");
EMBED("page_engine", "engine.js");
EMBED("page_charts", "charts.js");
extern const char page_index[], page_index_end[], page_style[], page_style_end[], page_icon[],
    page_icon_end[], page_main[], page_main_end[], page_base[], page_base_end[], page_markdown[],
    page_markdown_end[], page_play[], page_play_end[], page_answer[], page_answer_end[],
    page_fields[], page_fields_end[], page_engine[], page_engine_end[], page_charts[],
    page_charts_end[];

#define HTML   "text/html; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"

static const struct file {
    const char *name; /* below page/ */
    const char *begin, *end;
    const char *content_type;
} files[] = {
    {"style.css", page_style, page_style_end, "text/css; charset=utf-8"},
    {"icon.svg", page_icon, page_icon_end, "image/svg+xml"},
    {"main.js", page_main, page_main_end, SCRIPT},
    {"base.js", page_base, page_base_end, SCRIPT},
    {"markdown.js", page_markdown, page_markdown_end, SCRIPT},
    {"play.js", page_play, page_play_end, SCRIPT},
    {"answer.js", page_answer, page_answer_end, SCRIPT},
    {"fields.js", page_fields, page_fields_end, SCRIPT},
    {"engine.js", page_engine, page_engine_end, SCRIPT},
    {"charts.js", page_charts, page_charts_end, SCRIPT},
};
static const struct file root = {"", page_index, page_index_end, HTML};

/* Nothing from elsewhere, nothing written into the page, no text that becomes markup. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static const char *const headers[] = {
    "Content-Security-Policy",
    policy,
    "X-Content-Type-Options",
    "nosniff",
    "Referrer-Policy",
    "no-referrer",
    "Cache-Control",
    "no-cache",
    NULL,
};

static void send_file(struct srv_req *req, const struct file *f)
{
    size_t n = (size_t)(f->end - f->begin);
    snprintf(req->etag, sizeof req->etag, "\"%016llx\"",
             (unsigned long long)tr_hash(f->begin, n).lo);
    req->headers = headers;
    if (req->if_none_match && strstr(req->if_none_match, req->etag)) {
        srv_reply(req, 304, NULL);
        return;
    }
    tr_buf_add(&req->out, f->begin, n);
    srv_reply(req, 200, f->content_type);
}

static void get_page(struct srv_req *req)
{
    const struct file *f = *req->tail ? NULL : &root;
    for (size_t i = 0; i < TR_ARRAY_LEN(files); i++)
        if (strcmp(req->tail, files[i].name) == 0)
            f = &files[i];
    if (f && req->srv->options->page)
        send_file(req, f);
    else
        srv_refuse(req, SRV_PROBLEM_PATH, NULL, "no such path");
}

const struct srv_route srv_page_route = {
    .path = "/",
    .doc = "A page to talk to the model and to watch the engine",
    .flags = SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS,
    .get = get_page,
    .media = "text/html",
};

const struct srv_route srv_page_file_route = {
    .path = "/page/",
    .doc = "What the page is made of",
    .flags = SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS | SRV_ROUTE_PREFIX,
    .get = get_page,
    .media = "text/javascript",
};
