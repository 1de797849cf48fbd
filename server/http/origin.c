#include "server/http/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "server/http/conn.h"
#include "server/http/listen.h"
#include "server/server.h"

enum { NAME_BYTES = 256 };

/* The name or address of a Host header: no port, no brackets, no last dot. false: too long. */
static bool name_of(const char *host, char ret[NAME_BYTES])
{
    bool v6 = host[0] == '[';
    size_t n = v6 ? strcspn(++host, "]") : strcspn(host, ":");
    if (n >= NAME_BYTES)
        return false;
    memcpy(ret, host, n);
    ret[n] = '\0';
    if (n > 1 && ret[n - 1] == '.')
        ret[n - 1] = '\0';
    return true;
}

static bool ends_in(const char *name, const char *domain)
{
    size_t n = strlen(name), k = strlen(domain);
    return n > k && strcasecmp(name + n - k, domain) == 0;
}

/* What a page can't make its own name resolve to: an address, or a name that has no dot or belongs
 * to a domain that is nobody's. */
static bool is_local(const char *name)
{
    unsigned char address[16];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1 ||
           !strchr(name, '.') || ends_in(name, ".localhost") || ends_in(name, ".local") ||
           ends_in(name, ".internal");
}

static bool knows_host(const struct srv *s, const char *host)
{
    const struct tr_strings *allowed = &s->options->allowed_hosts;
    char name[NAME_BYTES];
    if (!host || (allowed->n == 0 && !s->listen->loopback))
        return true;
    if (!name_of(host, name))
        return false;
    for (size_t i = 0; i < allowed->n; i++)
        if (strcmp(allowed->items[i], "*") == 0 || strcasecmp(allowed->items[i], name) == 0)
            return true;
    return is_local(name);
}

static const char *allowed_of(const struct srv *s, const char *origin)
{
    const struct tr_strings *known = &s->options->cors_origin;
    bool allowed = origin && (tr_strings_has(known, "*") || tr_strings_has(known, origin));
    return allowed ? origin : NULL;
}

/* What no origin of cors_origin sent. */
static bool is_foreign(const struct srv_head *head)
{
    const char *authority = head->origin ? strstr(head->origin, "://") : NULL;
    if (!head->origin)
        return head->fetch_site && strcasecmp(head->fetch_site, "cross-site") == 0;
    return !authority || !head->host || strcasecmp(authority + 3, head->host) != 0;
}

struct srv_origin srv_origin_of(const struct srv_req *req, const struct srv_head *head)
{
    struct srv_origin o = {.allowed = allowed_of(req->srv, head->origin)};
    o.foreign = !o.allowed && is_foreign(head);
    o.known_host = req->conn->unix_peer || knows_host(req->srv, head->host);
    return o;
}
