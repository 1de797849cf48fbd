#include "server/http/keys.h"

#include <gnutls/crypto.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/clock.h"
#include "config/json.h"
#include "server/http/reply.h"
#include "server/http/route.h"
#include "server/server.h"

#define MINUTE_NS (60LL * 1000000000)

_Static_assert(SRV_MAX_ROUTES <= 64, "srv_limits.routes has a bit for each");

/* ---- one key ---- */

struct srv_key *srv_key_new(void)
{
    struct srv_key *key = calloc(1, sizeof *key);
    if (!key)
        return NULL;
    key->refs = 1;
    key->limits = (struct srv_limits){
        .weight = 1, .best_priority = INT32_MIN, .routes = UINT64_MAX, .expires = INT64_MAX};
    return key;
}

void srv_key_unref(struct srv_key *key)
{
    if (key && --key->refs == 0)
        free(key);
}

int srv_key_hash(unsigned char ret[SRV_SHA_BYTES], const char *text, struct tr_err *err)
{
    int r = gnutls_hash_fast(GNUTLS_DIG_SHA256, text, strlen(text), ret);
    return r < 0 ? tr_err_set(err, TR_EINTERNAL, NULL, "SHA-256: %s", gnutls_strerror(r)) : 0;
}

/* ---- the table ---- */

int srv_key_add(struct srv_keys *keys, struct srv_key *key)
{
    /* doubles where the number is a power of two */
    if ((keys->n & (keys->n - 1)) == 0) {
        size_t cap = TR_MAX(2 * keys->n, 1);
        struct srv_key **grown = realloc(keys->items, cap * sizeof(struct srv_key *));
        if (!grown) {
            srv_key_unref(key);
            return TR_ENOMEM;
        }
        keys->items = grown;
    }
    keys->items[keys->n++] = key;
    return 0;
}

/* By hash; of equal ones those of the file, which have names, first. */
static int by_hash(const void *a, const void *b)
{
    const struct srv_key *x = *(struct srv_key *const *)a;
    const struct srv_key *y = *(struct srv_key *const *)b;
    int r = memcmp(x->sha, y->sha, SRV_SHA_BYTES);
    return r ? r : (x->name[0] == '\0') - (y->name[0] == '\0');
}

/* The hash is public in the sense that nobody gets from it to the key: the search may tell how far
 * it got, the comparison does not. */
static struct srv_key *find_hash(const struct srv_keys *keys,
                                 const unsigned char sha[SRV_SHA_BYTES])
{
    enum { PREFIX = 8 };
    size_t lo = 0, hi = keys->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (memcmp(keys->items[mid]->sha, sha, PREFIX) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < keys->n && memcmp(keys->items[lo]->sha, sha, PREFIX) == 0; lo++)
        if (gnutls_memcmp(keys->items[lo]->sha, sha, SRV_SHA_BYTES) == 0)
            return keys->items[lo];
    return NULL;
}

struct srv_key *srv_keys_find(const struct srv_keys *keys, const char *shown)
{
    unsigned char sha[SRV_SHA_BYTES];
    return keys->n > 0 && srv_key_hash(sha, shown, NULL) == 0 ? find_hash(keys, sha) : NULL;
}

struct srv_key *srv_keys_by_sha(const struct srv_keys *keys, const unsigned char sha[SRV_SHA_BYTES])
{
    if (memcmp(sha, keys->anonymous->sha, SRV_SHA_BYTES) == 0)
        return keys->open ? keys->anonymous : NULL;
    return find_hash(keys, sha);
}

static int add_plain(struct srv_keys *keys, const struct tr_strings *texts, struct tr_err *err)
{
    int r = 0;
    for (size_t i = 0; i < texts->n && r == 0; i++) {
        struct srv_key *key = srv_key_new();
        r = key ? srv_key_hash(key->sha, texts->items[i], err)
                : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        if (r < 0)
            srv_key_unref(key);
        else if (srv_key_add(keys, key) < 0)
            r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    }
    return r;
}

/* In order, each once: a key that the options name as well is the file's. */
static int arrange(struct srv_keys *keys, const char *file, struct tr_err *err)
{
    if (keys->n > 1)
        qsort(keys->items, keys->n, sizeof(struct srv_key *), by_hash);
    size_t n = 0;
    int r = 0;
    for (size_t i = 0; i < keys->n; i++) {
        struct srv_key *key = keys->items[i], *last = n > 0 ? keys->items[n - 1] : NULL;
        if (!last || memcmp(last->sha, key->sha, SRV_SHA_BYTES) != 0) {
            keys->items[n++] = key;
            continue;
        }
        if (key->name[0])
            r = tr_err_set(err, TR_ECONFIG, "api_key_file", "%s: %s and %s are the same key", file,
                           last->name, key->name);
        srv_key_unref(key);
    }
    keys->n = n;
    return r;
}

/* The key as it is now takes the place of what it was, and keeps what it has used. */
static struct srv_key *carry(struct srv_key *was, struct srv_key *now)
{
    memcpy(was->name, now->name, sizeof was->name);
    was->across = now->across;
    was->admin = now->admin;
    was->limits = now->limits;
    was->refs++;
    srv_key_unref(now);
    return was;
}

static void carry_all(const struct srv_keys *old, struct srv_keys *keys)
{
    for (size_t i = 0; i < keys->n; i++) {
        struct srv_key *now = keys->items[i];
        struct srv_key *was = now ? find_hash(old, now->sha) : NULL;
        if (was)
            keys->items[i] = carry(was, now);
    }
    keys->anonymous = carry(old->anonymous, keys->anonymous);
}

/* The fault is one of the option that names the file. */
static int name_option(struct tr_err *err)
{
    struct tr_err why = *err;
    return tr_err_set(err, TR_ECONFIG, "api_key_file", "api_key_file: %s", why.msg);
}

static int fill(struct srv_keys *keys, const struct tr_options *o,
                const struct srv_route *const *routes, int n_routes, struct tr_err *err)
{
    int r = 0;
    if (o->key_table)
        r = srv_keys_file(keys, o->api_key_file, routes, n_routes, err);
    if (r < 0 && r != TR_ENOMEM)
        return name_option(err);
    if (r == 0)
        r = add_plain(keys, &o->api_key, err);
    if (r == 0)
        r = arrange(keys, o->api_key_file, err);
    for (size_t i = 0; r == 0 && i < o->priority_key.n; i++) {
        struct srv_key *key = srv_keys_find(keys, o->priority_key.items[i]);
        if (key)
            key->across = true;
    }
    for (size_t i = 0; r == 0 && i < o->admin_key.n; i++) {
        struct srv_key *key = srv_keys_find(keys, o->admin_key.items[i]);
        if (key)
            key->admin = true;
    }
    keys->open |= keys->n == 0;
    return r;
}

int srv_keys_read(struct srv_keys **ret, const struct tr_options *options,
                  const struct srv_route *const *routes, int n_routes, struct srv_keys *old,
                  struct tr_err *err)
{
    struct srv_keys *keys = calloc(1, sizeof *keys);
    struct srv_key *anonymous = srv_key_new();
    if (!keys || !anonymous) {
        free(keys);
        free(anonymous);
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    }
    keys->anonymous = anonymous;
    int r = fill(keys, options, routes, n_routes, err);
    if (r < 0) {
        srv_keys_free(keys);
        return r;
    }
    if (old)
        carry_all(old, keys);
    *ret = keys;
    return 0;
}

void srv_keys_free(struct srv_keys *keys)
{
    if (!keys)
        return;
    for (size_t i = 0; i < keys->n; i++)
        srv_key_unref(keys->items[i]);
    srv_key_unref(keys->anonymous);
    free(keys->items);
    free(keys);
}

/* ---- counting ---- */

static void fill_bucket(struct srv_bucket *b, int64_t limit, int64_t now)
{
    double most = (double)limit;
    double more = most * (double)(now - b->at) / (double)MINUTE_NS;
    b->level = b->at ? TR_MIN(most, b->level + more) : most;
    b->at = now;
}

static void bring_up(struct srv_key *key, int64_t now)
{
    fill_bucket(&key->requests, key->limits.requests, now);
    fill_bucket(&key->tokens, key->limits.tokens, now);
    if (key->minute != now / MINUTE_NS) {
        key->minute = now / MINUTE_NS;
        key->past = key->total;
    }
}

/* Seconds until the bucket holds n. */
static double wait_for(const struct srv_bucket *b, int64_t limit, double n)
{
    return TR_MAX(n - b->level, 0.0) * 60.0 / (double)limit;
}

static void set_retry(struct srv_req *req, double seconds)
{
    req->retry_after = (int)TR_MAX(ceil(TR_MIN(seconds, 86400.0)), 1.0);
}

static bool is_short(struct srv_req *req, const struct srv_bucket *b, int64_t limit, double n)
{
    if (limit == 0 || b->level >= n)
        return false;
    set_retry(req, wait_for(b, limit, TR_MIN(n, (double)limit)));
    return true;
}

static bool admit_rate(struct srv_req *req, struct srv_key *key)
{
    const struct srv_limits *l = &key->limits;
    if (l->concurrency > 0 && key->running >= l->concurrency) {
        set_retry(req, 1);
        srv_refuse(req, SRV_PROBLEM_RATE, NULL, "this key may have %lld requests at a time",
                   (long long)l->concurrency);
        return false;
    }
    if (is_short(req, &key->requests, l->requests, 1)) {
        srv_refuse(req, SRV_PROBLEM_RATE, NULL, "this key may send %lld requests a minute",
                   (long long)l->requests);
        return false;
    }
    if (is_short(req, &key->tokens, l->tokens, 1)) {
        srv_refuse(req, SRV_PROBLEM_RATE, NULL, "this key may use %lld tokens a minute",
                   (long long)l->tokens);
        return false;
    }
    return true;
}

bool srv_key_admit(struct srv_req *req)
{
    struct srv_key *key = req->key;
    if ((int64_t)time(NULL) >= key->limits.expires) {
        srv_refuse(req, SRV_PROBLEM_KEY, NULL, "this API key has expired");
        return false;
    }
    bring_up(key, tr_clock_ns());
    if (req->route->flags & SRV_ROUTE_OWN)
        return true;
    if (!(key->limits.routes >> req->route_index & 1)) {
        srv_refuse(req, SRV_PROBLEM_ENDPOINT, NULL, "this key may not use this endpoint");
        return false;
    }
    if (req->route->flags & SRV_ROUTE_ADMIN && !key->admin) {
        srv_refuse(req, SRV_PROBLEM_ENDPOINT, NULL, "this needs a key of admin_key");
        return false;
    }
    if (req->method != SRV_METHOD_POST)
        return true;
    if (!admit_rate(req, key))
        return false;
    key->requests.level -= 1;
    key->total.requests++;
    key->running++;
    req->counted = true;
    return true;
}

bool srv_key_may_spend(struct srv_req *req, long long n)
{
    struct srv_key *key = req->key;
    if (!key)
        return true;
    bring_up(key, tr_clock_ns());
    if (!is_short(req, &key->tokens, key->limits.tokens, (double)n))
        return true;
    srv_refuse(req, SRV_PROBLEM_RATE, NULL,
               "%lld prompt tokens: this key may use %lld tokens a minute, %.0f of them now", n,
               (long long)key->limits.tokens, TR_MAX(floor(key->tokens.level), 0.0));
    return false;
}

void srv_key_spend(struct srv_key *key, struct srv_use use)
{
    if (!key)
        return;
    bring_up(key, tr_clock_ns());
    key->tokens.level -= (double)(use.prompt + use.completion);
    key->total.prompt += use.prompt;
    key->total.cached += use.cached;
    key->total.completion += use.completion;
}

void srv_key_leave(struct srv_req *req)
{
    if (req->key)
        req->key->running -= req->counted;
    srv_key_unref(req->key);
    req->key = NULL;
}

/* ---- telling ---- */

/* As the field writes durations: 20ms, 1.5s, 6m0s. */
static void write_duration(char *ret, size_t n, double seconds)
{
    long long ms = (long long)ceil(seconds * 1000.0);
    if (ms > 0 && ms < 1000) {
        snprintf(ret, n, "%lldms", ms);
    } else if (ms < 60000) {
        int digits = ms % 1000 == 0 ? 0 : ms % 100 == 0 ? 1 : 3;
        snprintf(ret, n, "%.*fs", digits, (double)ms / 1000.0);
    } else {
        long long s = (ms + 999) / 1000;
        if (s < 3600)
            snprintf(ret, n, "%lldm%llds", s / 60, s % 60);
        else
            snprintf(ret, n, "%lldh%lldm%llds", s / 3600, s % 3600 / 60, s % 60);
    }
}

static void write_time(char *ret, size_t n, int64_t at)
{
    time_t t = (time_t)at;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || strftime(ret, n, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        ret[0] = '\0';
}

/* Of one kind of limit: in the one form, and behind `prefix` (NULL: not) in the other. */
static int tell(struct srv_rate_header *h, const char *kind, const struct srv_bucket *b,
                int64_t limit, const char *prefix)
{
    enum { NAME = sizeof h->name, VALUE = sizeof h->value };
    double wait = wait_for(b, limit, (double)limit);
    long long rest = b->level > 0 ? (long long)b->level : 0;
    static const char *const parts[] = {"limit", "remaining", "reset"};
    int n = prefix ? 6 : 3;
    for (int i = 0; i < n; i++) {
        if (i < 3)
            snprintf(h[i].name, NAME, "x-ratelimit-%s-%s", parts[i], kind);
        else
            snprintf(h[i].name, NAME, "%s%s-%s", prefix, kind, parts[i - 3]);
        snprintf(h[i].value, VALUE, "%lld", i % 3 == 0 ? (long long)limit : rest);
    }
    write_duration(h[2].value, VALUE, wait);
    if (prefix)
        write_time(h[5].value, VALUE, (int64_t)time(NULL) + (int64_t)ceil(wait));
    return n;
}

int srv_key_headers(const struct srv_req *req, struct srv_rate_header ret[SRV_RATE_HEADERS])
{
    struct srv_key *key = req->key;
    int n = 0;
    if (!key || (key->limits.requests == 0 && key->limits.tokens == 0))
        return 0;
    bring_up(key, tr_clock_ns());
    const char *prefix = req->route ? req->route->rate_prefix : NULL;
    if (key->limits.requests > 0)
        n += tell(ret + n, "requests", &key->requests, key->limits.requests, prefix);
    if (key->limits.tokens > 0)
        n += tell(ret + n, "tokens", &key->tokens, key->limits.tokens, prefix);
    return n;
}

static void add_use(struct tr_buf *out, const char *name, struct srv_use now, struct srv_use past)
{
    tr_buf_addf(out,
                ",\"%s\":{\"requests\":%lld,\"prompt_tokens\":%lld,\"cached_tokens\":%lld,"
                "\"completion_tokens\":%lld}",
                name, now.requests - past.requests, now.prompt - past.prompt,
                now.cached - past.cached, now.completion - past.completion);
}

static void add_limit(struct tr_buf *out, const char *name, int64_t value, int64_t none)
{
    if (value == none)
        tr_buf_addf(out, "\"%s\":null,", name);
    else
        tr_buf_addf(out, "\"%s\":%lld,", name, (long long)value);
}

void srv_key_usage(struct tr_buf *out, struct srv_key *key)
{
    const struct srv_limits *l = &key->limits;
    char expires[40];
    bring_up(key, tr_clock_ns());
    tr_buf_adds(out, "{\"object\":\"usage\",\"key\":");
    if (key->name[0])
        tr_json_quote(out, key->name, strlen(key->name));
    else
        tr_buf_adds(out, "null");
    tr_buf_addf(out, ",\"running\":%d", key->running);
    add_use(out, "total", key->total, (struct srv_use){0});
    add_use(out, "minute", key->total, key->past);
    tr_buf_adds(out, ",\"limits\":{");
    add_limit(out, "requests_per_minute", l->requests, 0);
    add_limit(out, "tokens_per_minute", l->tokens, 0);
    add_limit(out, "concurrency", l->concurrency, 0);
    add_limit(out, "max_priority", l->best_priority, INT32_MIN);
    tr_buf_addf(out, "\"weight\":%lld,\"expires\":", (long long)l->weight);
    if (l->expires == INT64_MAX) {
        tr_buf_adds(out, "null}}");
    } else {
        write_time(expires, sizeof expires, l->expires);
        tr_buf_addf(out, "\"%s\"}}", expires);
    }
}
