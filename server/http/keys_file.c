/* The file of keys and their limits: JSON, every member checked, nothing unknown let pass. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "config/json.h"
#include "server/http/keys.h"
#include "server/http/route.h"

enum { FILE_MAX = 16 << 20 };

struct source {
    const struct srv_route *const *routes;
    int n_routes;
};

/* ---- single members ---- */

static int known_members(const struct tr_json *object, const char *const *names, size_t n,
                         struct tr_err *err)
{
    void *iter = NULL;
    struct tr_json member;
    while (tr_json_next(object, &iter, &member)) {
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known |= strlen(names[i]) == member.key_bytes &&
                     memcmp(names[i], member.key, member.key_bytes) == 0;
        if (!known)
            return tr_json_fail(&member, err, "no such member");
    }
    return 0;
}

/* Decimal digits s[0, n). */
static bool take_digits(const char *s, int n, int *ret)
{
    *ret = 0;
    for (int i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        *ret = *ret * 10 + (s[i] - '0');
    }
    return true;
}

/* "2026-01-31T12:00:00Z", with a fraction (dropped) or +01:30 if need be. */
static bool take_time(const char *s, int64_t *ret)
{
    struct tm t = {0};
    int sign = 0, hours = 0, minutes = 0;
    if (strlen(s) < 20 || s[4] != '-' || s[7] != '-' || !strchr("Tt ", s[10]) || s[13] != ':' ||
        s[16] != ':' || !take_digits(s, 4, &t.tm_year) || !take_digits(s + 5, 2, &t.tm_mon) ||
        !take_digits(s + 8, 2, &t.tm_mday) || !take_digits(s + 11, 2, &t.tm_hour) ||
        !take_digits(s + 14, 2, &t.tm_min) || !take_digits(s + 17, 2, &t.tm_sec))
        return false;
    s += 19;
    if (*s == '.') {
        size_t n = strspn(s + 1, "0123456789");
        if (n == 0)
            return false;
        s += 1 + n;
    }
    if (strcmp(s, "Z") != 0 && strcmp(s, "z") != 0) {
        sign = *s == '+' ? 1 : *s == '-' ? -1 : 0;
        if (!sign || strlen(s) != 6 || s[3] != ':' || !take_digits(s + 1, 2, &hours) ||
            !take_digits(s + 4, 2, &minutes) || hours > 23 || minutes > 59)
            return false;
    }
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    struct tm same = t;
    time_t at = timegm(&same); /* brings what is out of range into it */
    if (t.tm_sec > 60 || (t.tm_sec < 60 && (same.tm_mon != t.tm_mon || same.tm_mday != t.tm_mday ||
                                            same.tm_hour != t.tm_hour || same.tm_min != t.tm_min)))
        return false;
    *ret = (int64_t)at - sign * (hours * 3600 + minutes * 60);
    return true;
}

static int take_expiry(const struct tr_json *object, int64_t *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, "expires");
    const char *text = NULL;
    int r = tr_json_opt_string(object, "expires", &text, NULL, err);
    if (r == 0 && text && !take_time(text, ret))
        r = tr_json_fail(&v, err, "expected a time as 2026-01-31T12:00:00Z");
    return r;
}

static int take_endpoints(const struct tr_json *object, const struct source *from, uint64_t *ret,
                          struct tr_err *err)
{
    struct tr_json list;
    int r = tr_json_opt_array(object, "endpoints", &list, err);
    if (r < 0 || !tr_json_given(&list))
        return r;
    *ret = 0;
    for (size_t i = 0; i < tr_json_size(&list); i++) {
        struct tr_json item = tr_json_at(&list, i);
        const char *path;
        r = tr_json_as_string(&item, &path, NULL, err);
        if (r < 0)
            return r;
        int k = 0;
        while (k < from->n_routes && strcmp(from->routes[k]->path, path) != 0)
            k++;
        if (k == from->n_routes)
            return tr_json_fail(&item, err, "no endpoint has this path");
        *ret |= 1ULL << k;
    }
    return 0;
}

static int take_limits(const struct tr_json *object, const struct source *from,
                       struct srv_limits *l, struct tr_err *err)
{
    enum { MOST = 1000000000, HEAVIEST = 1000 };
    int r = tr_json_opt_int(object, "weight", 1, HEAVIEST, &l->weight, err);
    if (r == 0)
        r = tr_json_opt_int(object, "requests_per_minute", 1, MOST, &l->requests, err);
    if (r == 0)
        r = tr_json_opt_int(object, "tokens_per_minute", 1, MOST, &l->tokens, err);
    if (r == 0)
        r = tr_json_opt_int(object, "concurrency", 1, MOST, &l->concurrency, err);
    if (r == 0)
        r = tr_json_opt_int(object, "max_priority", INT32_MIN, INT32_MAX, &l->best_priority, err);
    if (r == 0)
        r = take_endpoints(object, from, &l->routes, err);
    return r == 0 ? take_expiry(object, &l->expires, err) : r;
}

static int take_name(const struct tr_json *object, char ret[SRV_KEY_NAME + 1], struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, "name");
    const char *name;
    int r = tr_json_as_string(&v, &name, NULL, err);
    if (r < 0)
        return r;
    size_t n = strlen(name);
    if (n == 0 || n > SRV_KEY_NAME)
        return tr_json_fail(&v, err, "must have 1 to %d bytes", SRV_KEY_NAME);
    memcpy(ret, name, n + 1);
    return 0;
}

static bool take_hex(const char *hex, unsigned char ret[SRV_SHA_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(hex) != (size_t)2 * SRV_SHA_BYTES)
        return false;
    for (int i = 0; i < 2 * SRV_SHA_BYTES; i++) {
        int c = hex[i] >= 'A' && hex[i] <= 'F' ? hex[i] + ('a' - 'A') : hex[i];
        const char *at = strchr(digits, c);
        if (!at)
            return false;
        ret[i / 2] = (unsigned char)(ret[i / 2] << 4 | (at - digits));
    }
    return true;
}

static int take_secret(const struct tr_json *object, unsigned char ret[SRV_SHA_BYTES],
                       struct tr_err *err)
{
    struct tr_json key = tr_json_get(object, "key"), sha = tr_json_get(object, "sha256");
    const char *text;
    if (tr_json_given(&key) == tr_json_given(&sha))
        return tr_json_fail(object, err, "needs either key or sha256");
    int r = tr_json_as_string(tr_json_given(&key) ? &key : &sha, &text, NULL, err);
    if (r < 0)
        return r;
    if (tr_json_given(&sha))
        return take_hex(text, ret)
                   ? 0
                   : tr_json_fail(&sha, err, "expected %d hexadecimal digits", 2 * SRV_SHA_BYTES);
    for (const char *p = text; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f)
            return tr_json_fail(&key, err, "a header cannot carry it: only visible ASCII");
    if (!*text)
        return tr_json_fail(&key, err, "must not be empty");
    return srv_key_hash(ret, text, err);
}

/* ---- the file ---- */

static int take_key(struct srv_keys *keys, const struct tr_json *v, const struct source *from,
                    struct tr_err *err)
{
    static const char *const names[] = {"name",
                                        "key",
                                        "sha256",
                                        "weight",
                                        "requests_per_minute",
                                        "tokens_per_minute",
                                        "concurrency",
                                        "max_priority",
                                        "endpoints",
                                        "expires",
                                        "admin"};
    int r = tr_json_expect(v, TR_JSON_OBJECT, err);
    struct srv_key *key = r == 0 ? srv_key_new() : NULL;
    if (!key)
        return r < 0 ? r : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    r = known_members(v, names, TR_ARRAY_LEN(names), err);
    if (r == 0)
        r = take_name(v, key->name, err);
    if (r == 0)
        r = take_secret(v, key->sha, err);
    if (r == 0)
        r = take_limits(v, from, &key->limits, err);
    if (r == 0)
        r = tr_json_opt_bool(v, "admin", &key->admin, err);
    if (r < 0) {
        srv_key_unref(key);
        return r;
    }
    return srv_key_add(keys, key) < 0 ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : 0;
}

static int take_anonymous(struct srv_keys *keys, const struct tr_json *root,
                          const struct source *from, struct tr_err *err)
{
    static const char *const names[] = {"weight",      "requests_per_minute", "tokens_per_minute",
                                        "concurrency", "max_priority",        "endpoints",
                                        "expires"};
    struct tr_json v;
    int r = tr_json_opt_object(root, "anonymous", &v, err);
    if (r < 0 || !tr_json_given(&v))
        return r;
    keys->open = true;
    snprintf(keys->anonymous->name, sizeof keys->anonymous->name, "anonymous");
    r = known_members(&v, names, TR_ARRAY_LEN(names), err);
    return r == 0 ? take_limits(&v, from, &keys->anonymous->limits, err) : r;
}

static int take_document(struct srv_keys *keys, const struct tr_json *root,
                         const struct source *from, struct tr_err *err)
{
    static const char *const names[] = {"keys", "anonymous"};
    struct tr_json list;
    int r = tr_json_expect(root, TR_JSON_OBJECT, err);
    if (r == 0)
        r = known_members(root, names, TR_ARRAY_LEN(names), err);
    if (r == 0)
        r = tr_json_opt_array(root, "keys", &list, err);
    for (size_t i = 0; r == 0 && i < tr_json_size(&list); i++) {
        struct tr_json item = tr_json_at(&list, i);
        r = take_key(keys, &item, from, err);
    }
    if (r == 0)
        r = take_anonymous(keys, root, from, err);
    if (r == 0 && keys->n == 0 && !keys->open)
        r = tr_json_fail(root, err, "there is no key in it");
    return r;
}

int srv_keys_file(struct srv_keys *keys, const char *file, const struct srv_route *const *routes,
                  int n_routes, struct tr_err *err)
{
    struct source from = {routes, n_routes};
    struct json_t *doc = NULL;
    int r = tr_json_read(&doc, file, FILE_MAX, err);
    if (r == 0) {
        struct tr_json root = tr_json_root(doc, file);
        r = take_document(keys, &root, &from, err);
    }
    tr_json_free(doc);
    return r;
}
