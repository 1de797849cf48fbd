/*
 * Load of event streams on an OpenAI-like server, ours or another:  load --help
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "config/clock.h"
#include "tests/bench/load/load.h"

enum { MAX_PROMPTS = 4096, MAX_STREAMS = 4096, MAX_EVENTS = 256, TICK_MS = 20, NO_TIME = -1 };

struct load {
    const struct plan *plan;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    const char *host; /* for the Host field */
    char *prompts[MAX_PROMPTS];
    struct tr_buf solo[MAX_PROMPTS]; /* each prompt's answer when alone; empty = not asked */
    int n_prompts;
    struct stream streams[MAX_STREAMS];
    int epoll, running;
    uint64_t random;
};

static const char *const EXAMPLES[] = {
    "Once upon a time there was a fox named",
    "In a deep forest lived",
    "One day a girl found a",
    "A little bird sat on",
    "The old man had a dog",
    "Mother made a cake and",
    "It was a cold night when",
    "The boy said to his friend",
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(2);
}

/* ---- preparing ---- */

static void resolve(struct load *l)
{
    static char host[256], port[16];
    const char *url = l->plan->url;
    if (sscanf(url, "http://%255[^:/]:%15[0-9]", host, port) != 2)
        die(url, "not http://HOST:PORT");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int r = getaddrinfo(host, port, &hints, &found);
    if (r != 0)
        die(url, gai_strerror(r));
    memcpy(&l->addr, found->ai_addr, found->ai_addrlen);
    l->addr_len = found->ai_addrlen;
    l->host = host;
    freeaddrinfo(found);
}

/* One prompt a line. */
static void read_prompts(struct load *l)
{
    if (!l->plan->prompts) {
        for (size_t i = 0; i < TR_ARRAY_LEN(EXAMPLES); i++)
            l->prompts[l->n_prompts++] = strdup(EXAMPLES[i]);
        return;
    }
    FILE *f = fopen(l->plan->prompts, "re");
    if (!f)
        die(l->plan->prompts, strerror(errno));
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; l->n_prompts < MAX_PROMPTS && (n = getline(&line, &cap, f)) > 0;) {
        line[strcspn(line, "\n")] = 0;
        if (line[0])
            l->prompts[l->n_prompts++] = strdup(line);
    }
    free(line);
    fclose(f);
    if (l->n_prompts == 0)
        die(l->plan->prompts, "no prompts");
}

static struct tr_buf request_of(const struct load *l, int prompt)
{
    const struct plan *p = l->plan;
    json_t *o = json_pack("{s:i, s:f, s:b, s:{s:b}}", "max_tokens", p->max_tokens, "temperature",
                          0.0, "stream", 1, "stream_options", "include_usage", 1);
    if (p->model)
        json_object_set_new(o, "model", json_string(p->model));
    if (p->ignore_eos)
        json_object_set_new(o, "ignore_eos", json_true());
    if (p->chat)
        json_object_set_new(
            o, "messages",
            json_pack("[{s:s, s:s}]", "role", "user", "content", l->prompts[prompt]));
    else
        json_object_set_new(o, "prompt", json_string(l->prompts[prompt]));
    char *body = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (!body)
        die(l->prompts[prompt], "not UTF-8");
    struct tr_buf b = {0};
    tr_buf_addf(&b,
                "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                "Connection: close\r\nContent-Length: %zu\r\n\r\n",
                p->chat ? "/v1/chat/completions" : "/v1/completions", l->host, strlen(body));
    tr_buf_adds(&b, body);
    free(body);
    return b;
}

/* ---- running ---- */

static void begin(struct load *l, struct stream *s, int prompt, int64_t due_ns, struct list *gaps)
{
    struct tr_buf request = request_of(l, prompt);
    stream_reset(s);
    s->prompt = prompt;
    s->due_ns = due_ns;
    s->gaps = gaps;
    l->running++;
    if (stream_begin(s, (struct sockaddr *)&l->addr, l->addr_len, &request) < 0)
        return;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.ptr = s};
    epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->fd, &e);
}

/* Lets the streams go on until one of them can, or the time is over. */
static void turn(struct load *l, int64_t wait_ns)
{
    struct epoll_event events[MAX_EVENTS];
    int ms = wait_ns < 0 ? TICK_MS : (int)(wait_ns / 1000000);
    int n = epoll_wait(l->epoll, events, MAX_EVENTS, ms > TICK_MS ? TICK_MS : ms);
    for (int i = 0; i < n; i++) {
        struct stream *s = events[i].data.ptr;
        enum phase before;
        do { /* edges come once */
            before = s->phase;
            stream_turn(s);
        } while (s->phase != before && s->phase != PHASE_DONE);
    }
}

static bool is_right(const struct load *l, const struct stream *s)
{
    const struct tr_buf *solo = &l->solo[s->prompt];
    return !l->plan->check ||
           (s->text.len == solo->len && memcmp(s->text.data, solo->data, solo->len) == 0);
}

static void record(const struct load *l, struct stream *s, struct result *r)
{
    const struct plan *p = l->plan;
    if (!s->error && s->tokens == 0)
        s->error = "an answer without a token";
    if (s->error) {
        r->failed++;
        result_count_error(r, s->error);
        return;
    }
    double ttft = (double)(s->first_ns - s->start_ns) * 1e-9;
    double e2e = (double)(s->end_ns - s->start_ns) * 1e-9;
    int n = s->usage > 0 ? s->usage : s->tokens;
    r->good++;
    r->wrong += !is_right(l, s);
    r->tokens += n;
    list_add(&r->ttft, ttft);
    list_add(&r->e2e, e2e);
    if (n > 1)
        list_add(&r->tpot, (double)(s->last_ns - s->first_ns) * 1e-9 / (n - 1));
    r->within += (p->slo_ttft <= 0 || ttft <= p->slo_ttft) &&
                 (p->slo_e2e <= 0 || e2e <= p->slo_e2e) &&
                 (p->slo_gap <= 0 || s->worst_gap <= p->slo_gap);
}

static double uniform(struct load *l)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return ((double)(l->random >> 11) + 0.5) * 0x1p-53;
}

static struct stream *idle(struct load *l, int limit)
{
    for (int i = 0; i < limit; i++)
        if (l->streams[i].phase == PHASE_IDLE)
            return &l->streams[i];
    return NULL;
}

/* Ends what is over; returns how many streams there were. */
static int reap(struct load *l, struct result *r)
{
    int64_t now = tr_clock_ns();
    int n = 0;
    for (int i = 0; i < MAX_STREAMS; i++) {
        struct stream *s = &l->streams[i];
        if (s->phase == PHASE_IDLE)
            continue;
        if ((double)(now - s->start_ns) * 1e-9 > l->plan->patience)
            stream_fail(s, "too late");
        if (s->phase != PHASE_DONE)
            continue;
        record(l, s, r);
        stream_reset(s);
        l->running--;
        n++;
    }
    return n;
}

static struct result run(struct load *l)
{
    const struct plan *p = l->plan;
    struct result r = {0};
    int64_t start = tr_clock_ns(), due = start, last = start;
    int limit = p->rate > 0 ? MAX_STREAMS : p->concurrency;
    while (r.sent < p->requests || l->running > 0) {
        int64_t now = tr_clock_ns();
        struct stream *s = NULL;
        while (r.sent < p->requests && due <= now && (s = idle(l, limit))) {
            begin(l, s, r.sent++ % l->n_prompts, due, &r.gap);
            if (p->rate > 0)
                due += (int64_t)(-log(uniform(l)) / p->rate * 1e9);
        }
        turn(l, r.sent < p->requests && p->rate > 0 ? (due > now ? due - now : 0) : NO_TIME);
        if (reap(l, &r))
            last = tr_clock_ns();
    }
    r.seconds = (double)(last - start) * 1e-9;
    list_sort(&r.ttft);
    list_sort(&r.gap);
    list_sort(&r.tpot);
    list_sort(&r.e2e);
    return r;
}

/* Every prompt's answer when nobody else asks. */
static void ask_alone(struct load *l)
{
    struct stream *s = &l->streams[0];
    for (int i = 0; i < l->n_prompts && i < l->plan->requests; i++) {
        begin(l, s, i, tr_clock_ns(), NULL);
        while (s->phase != PHASE_DONE)
            turn(l, NO_TIME);
        if (s->error)
            die("an answer alone failed", s->error);
        l->solo[i] = s->text;
        s->text = (struct tr_buf){0};
        stream_reset(s);
        l->running--;
    }
}

/* ---- options ---- */

enum choice {
    URL = 'u',
    REQUESTS = 'n',
    AT_ONCE = 'c',
    RATE = 'r',
    TOKENS = 't',
    PROMPTS = 'p',
    MODEL = 'm',
    CHECK = 256,
    CHAT,
    NO_EOS,
    TTFT,
    GAP,
    E2E,
    PATIENCE,
    SEED,
    JSON,
    SVG,
    HELP
};
static const struct option OPTIONS[] = {{"url", 1, NULL, URL},
                                        {"requests", 1, NULL, REQUESTS},
                                        {"concurrency", 1, NULL, AT_ONCE},
                                        {"rate", 1, NULL, RATE},
                                        {"max-tokens", 1, NULL, TOKENS},
                                        {"prompts", 1, NULL, PROMPTS},
                                        {"model", 1, NULL, MODEL},
                                        {"check", 0, NULL, CHECK},
                                        {"chat", 0, NULL, CHAT},
                                        {"ignore-eos", 0, NULL, NO_EOS},
                                        {"slo-ttft", 1, NULL, TTFT},
                                        {"slo-gap", 1, NULL, GAP},
                                        {"slo-e2e", 1, NULL, E2E},
                                        {"patience", 1, NULL, PATIENCE},
                                        {"seed", 1, NULL, SEED},
                                        {"json", 1, NULL, JSON},
                                        {"svg", 1, NULL, SVG},
                                        {"help", 0, NULL, HELP},
                                        {0}};
static const char USAGE[] =
    "load [options]: sends requests, times their streams, prints figures and histograms.\n"
    "Exit status 0: no error and no wrong answer.\n"
    "  --url http://HOST:PORT   [http://127.0.0.1:8080]\n"
    "  --requests N             [64]\n"
    "  --concurrency N          at a time [8]\n"
    "  --rate X                 arrivals a second instead, Poisson, by --seed N [1]\n"
    "  --max-tokens N           [64]; --ignore-eos: exactly as many\n"
    "  --prompts FILE           one a line; the requests take turns\n"
    "  --chat                   chat instead of completions; --model NAME\n"
    "  --check                  asks every prompt alone first; each answer must be the same\n"
    "  --slo-ttft, --slo-gap, --slo-e2e MS   what counts for goodput\n"
    "  --patience S             a request's longest life [600]\n"
    "  --json FILE, --svg FILE  the figures; the histograms\n";

/* Whether the option is one of a number; it is set then. */
static bool read_number(struct plan *p, int c, double x)
{
    struct {
        int option;
        double *real;
        int *whole;
    } numbers[] = {
        {REQUESTS, .whole = &p->requests}, {AT_ONCE, .whole = &p->concurrency},
        {TOKENS, .whole = &p->max_tokens}, {RATE, .real = &p->rate},
        {TTFT, .real = &p->slo_ttft},      {GAP, .real = &p->slo_gap},
        {E2E, .real = &p->slo_e2e},        {PATIENCE, .real = &p->patience},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(numbers); i++) {
        if (numbers[i].option != c)
            continue;
        if (numbers[i].whole)
            *numbers[i].whole = (int)x;
        else
            *numbers[i].real = c == PATIENCE || c == RATE ? x : x / 1e3;
        return true;
    }
    return false;
}

static void read_option(struct plan *p, int c)
{
    if (c == URL)
        p->url = optarg;
    else if (c == PROMPTS)
        p->prompts = optarg;
    else if (c == MODEL)
        p->model = optarg;
    else if (c == JSON)
        p->json = optarg;
    else if (c == SVG)
        p->svg = optarg;
    else if (c == SEED)
        p->seed = (uint64_t)atoll(optarg);
    else if (c == CHECK)
        p->check = true;
    else if (c == CHAT)
        p->chat = true;
    else if (c == NO_EOS)
        p->ignore_eos = true;
    else {
        fputs(USAGE, c == HELP ? stdout : stderr);
        exit(c == HELP ? 0 : 2);
    }
}

static void read_options(struct plan *p, int argc, char **argv)
{
    for (int c; (c = getopt_long(argc, argv, "u:n:c:r:t:p:m:", OPTIONS, NULL)) != -1;)
        if (!read_number(p, c, optarg ? atof(optarg) : 0))
            read_option(p, c);
    if (optind < argc || p->requests < 1 || p->concurrency < 1 || p->concurrency > MAX_STREAMS ||
        p->rate < 0)
        die("options", "a number is out of range, or there is a word too many; --help");
}

int main(int argc, char **argv)
{
    static struct load l;
    struct plan p = {.url = "http://127.0.0.1:8080",
                     .requests = 64,
                     .concurrency = 8,
                     .max_tokens = 64,
                     .seed = 1,
                     .patience = 600};
    read_options(&p, argc, argv);
    l.plan = &p;
    l.random = p.seed * 0x9e3779b97f4a7c15u + 1;
    l.epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < MAX_STREAMS; i++)
        l.streams[i].fd = -1;
    resolve(&l);
    read_prompts(&l);
    if (p.check)
        ask_alone(&l);
    struct result r = run(&l);
    report_text(&p, &r, stdout);
    if ((p.json && report_json(&p, &r, p.json) < 0) || (p.svg && report_svg(&p, &r, p.svg) < 0))
        die("a report could not be written", strerror(errno));
    for (int i = 0; i < l.n_prompts; i++) {
        free(l.prompts[i]);
        tr_buf_done(&l.solo[i]);
    }
    free(r.ttft.v);
    free(r.gap.v);
    free(r.tpot.v);
    free(r.e2e.v);
    return r.failed || r.wrong;
}
