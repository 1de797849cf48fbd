/* Snapshots: the engine thread only pins pages and lets them go; files are written and read on the
 * caller's thread, beside the steps. A pinned page can't change (it is sealed) or go away. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cache/snapshot.h"
#include "engine/run/run.h"

static const char suffix[] = ".snapshot";

/* Pages that no sequence holds but a file that is being written or read. */
struct pin {
    struct tr_prefix chain;
    struct tr_local_table local;
    struct tr_global_table global;
    const int32_t *ids;
    int64_t n_ids;
    int64_t n_tokens; /* pinned */
    uint64_t bytes;   /* that an empty one is to get */
    uint64_t aside;   /* bytes of local pages, kept from admission */
    bool good;        /* the pages' contents are complete */
    int status;
};

static struct tr_prefix_use use_of(struct pin *pin)
{
    return (struct tr_prefix_use){
        .chain = &pin->chain, .local = &pin->local, .global = &pin->global, .ids = pin->ids};
}

static int pin_init(struct pin *pin, const struct tr_engine *e, const int32_t *ids, int64_t n_ids,
                    const uint64_t salt[2])
{
    const struct tr_prefix_shape *s = &e->limits.shape;
    *pin = (struct pin){.ids = ids, .n_ids = n_ids};
    tr_prefix_init(&pin->chain, e->limits.fingerprint, salt);
    int r = tr_local_table_reserve(&pin->local, (int)tr_prefix_tail(s) + 1);
    return r < 0 ? r : tr_global_table_reserve(&pin->global, (int)(n_ids / s->page_tokens) + 1);
}

static void pin_done(struct pin *pin)
{
    tr_local_table_done(&pin->local);
    tr_global_table_done(&pin->global);
}

/* ---- on the engine thread ---- */

static void let_go(struct tr_engine *e, void *arg)
{
    struct pin *pin = arg;
    if (pin->good) {
        struct tr_prefix_use use = use_of(pin);
        tr_prefix_seal(e->pages, &e->limits.shape, &use, pin->n_tokens, &pin->n_tokens, 1, false);
    }
    tr_local_truncate(&pin->local, 0);
    tr_global_truncate(&pin->global, 0);
    tr_schedule_set_aside(e->schedule, -(int64_t)pin->aside);
}

/* Keeps what is pinned from admission; lets it go again if running sequences were promised it. */
static void keep_or_let_go(struct tr_engine *e, struct pin *pin)
{
    pin->aside = (uint64_t)pin->local.table.n * e->limits.local_page_cost;
    tr_schedule_set_aside(e->schedule, (int64_t)pin->aside);
    if (pin->status == 0 && tr_schedule_has_room(e->schedule, 0))
        return;
    let_go(e, pin);
    pin->status = TR_ENOMEM;
}

static void pin_found(struct tr_engine *e, void *arg)
{
    struct pin *pin = arg;
    struct tr_prefix_use use = use_of(pin);
    pin->n_tokens = tr_prefix_adopt(e->pages, &e->limits.shape, &use, 0, pin->n_ids, NULL);
    if (pin->n_tokens == 0)
        pin->status = TR_ENOTFOUND;
    else
        keep_or_let_go(e, pin);
}

/* Cached pages are pushed out only for a prefix that can stay. */
static void pin_empty(struct tr_engine *e, void *arg)
{
    struct pin *pin = arg;
    const struct tr_prefix_shape *s = &e->limits.shape;
    if (!tr_schedule_has_room(e->schedule, pin->bytes)) {
        pin->status = TR_ENOMEM;
        return;
    }
    int64_t begin = pin->n_ids - tr_prefix_tail(s) * s->page_tokens;
    pin->n_tokens = pin->n_ids;
    if ((s->window > 1 && !tr_local_extend(e->pages, &pin->local, TR_MAX(begin, 0), pin->n_ids)) ||
        !tr_global_extend(e->pages, &pin->global, pin->n_ids))
        pin->status = TR_ENOMEM;
    keep_or_let_go(e, pin);
}

/* Carries out the first step; on failure nothing is pinned. */
static int start(struct tr_engine *e, struct pin *pin, void (*step)(struct tr_engine *e, void *arg),
                 struct tr_err *err)
{
    if (!tr__inbox_call(&e->inbox, step, pin))
        return tr_err_set(err, TR_EDRAIN, NULL, "the server is shutting down");
    if (pin->status == TR_ENOTFOUND)
        return tr_err_set(err, TR_ENOTFOUND, "prompt",
                          "nothing of this prompt is in the cache: at least one page must be");
    if (pin->status < 0)
        return tr_err_set(err, pin->status, NULL, "running requests need the KV cache now");
    return 0;
}

/* If the engine closes meanwhile, the pools go as a whole. */
static void finish(struct tr_engine *e, struct pin *pin, bool good)
{
    pin->good = good;
    (void)tr__inbox_call(&e->inbox, let_go, pin);
}

/* ---- on the caller's thread ---- */

static int check(const struct tr_engine *e, const char *name, struct tr_err *err)
{
    if (!e->snapshot_dir)
        return tr_err_set(err, TR_EUNSUPPORTED, "snapshot_dir",
                          "snapshots are off: the server has no snapshot_dir");
    if (!tr_snapshot_name_ok(name))
        return tr_err_set(err, TR_EINVAL, "name",
                          "a snapshot's name has 1 to 64 letters, digits, '.', '_' or '-'");
    return 0;
}

static struct tr_snapshot_facts facts_of(const struct tr_engine *e, const uint64_t owner[2])
{
    return (struct tr_snapshot_facts){
        .fingerprint = e->limits.fingerprint,
        .owner = {owner[0], owner[1]},
        .kv_type = (uint64_t)e->options.kv_type,
        .page_tokens = (uint64_t)e->info.page_tokens,
        .window = (uint64_t)e->info.window,
        .n_local_layers = (uint64_t)e->info.n_local_layers,
        .n_global_layers = (uint64_t)e->info.n_global_layers,
        .local_page_bytes = e->local_layout.page_bytes,
        .global_page_bytes = e->global_layout.page_bytes,
    };
}

static bool is_owner(const struct tr_snapshot_content *c, const uint64_t owner[2])
{
    return c->owner[0] == owner[0] && c->owner[1] == owner[1];
}

static void describe(struct tr_snapshot *ret, const char *name, const struct tr_snapshot_content *c)
{
    *ret = (struct tr_snapshot){.tokens = c->n_tokens, .bytes = c->bytes, .created = c->created};
    memcpy(ret->name, name, strnlen(name, sizeof ret->name - 1));
}

int tr_engine_snapshot_list(struct tr_engine *e, const uint64_t owner[2], struct tr_snapshot **ret,
                            int *ret_n, struct tr_err *err)
{
    int r = check(e, "list", err);
    if (r < 0)
        return r;
    DIR *dir = opendir(e->snapshot_dir);
    if (!dir)
        return tr_err_set(err, TR_EIO, "snapshot_dir", "cannot read the snapshot folder");
    struct tr_snapshot *list = NULL;
    int n = 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
        size_t len = strlen(entry->d_name);
        if (len < sizeof suffix || strcmp(entry->d_name + len - (sizeof suffix - 1), suffix) != 0)
            continue;
        entry->d_name[len - (sizeof suffix - 1)] = 0;
        struct tr_snapshot_file *f;
        if (!tr_snapshot_name_ok(entry->d_name) ||
            tr_snapshot_open(&f, e->snapshot_dir, entry->d_name, NULL, NULL) < 0)
            continue; /* no snapshot, whatever it is called */
        struct tr_snapshot_content c = tr_snapshot_content(f);
        tr_snapshot_close(f);
        if (owner && !is_owner(&c, owner))
            continue;
        struct tr_snapshot *more = realloc(list, (size_t)(n + 1) * sizeof *list);
        if (more) {
            list = more;
            describe(&list[n++], entry->d_name, &c);
        } else {
            r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        }
    }
    closedir(dir);
    if (r < 0) {
        free(list);
        return r;
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

/* Whether `bytes` more go into the folder. A snapshot of the same name is replaced. */
static int check_quota(struct tr_engine *e, const char *name, uint64_t bytes, struct tr_err *err)
{
    if (!e->options.snapshot_quota)
        return 0;
    struct tr_snapshot *list;
    int n;
    int r = tr_engine_snapshot_list(e, NULL, &list, &n, err);
    if (r < 0)
        return r;
    for (int i = 0; i < n; i++)
        bytes += strcmp(list[i].name, name) ? list[i].bytes : 0;
    free(list);
    if (bytes <= e->options.snapshot_quota)
        return 0;
    return tr_err_set(err, TR_ENOFIT, "snapshot_quota",
                      "all snapshots would take %llu bytes, the quota is %llu",
                      (unsigned long long)bytes, (unsigned long long)e->options.snapshot_quota);
}

/* To others than its owner a snapshot does not exist. */
static int open_own(struct tr_engine *e, const char *name, const uint64_t owner[2],
                    struct tr_snapshot_file **ret, struct tr_err *err)
{
    int r = check(e, name, err);
    if (r == 0)
        r = tr_snapshot_open(ret, e->snapshot_dir, name, NULL, err);
    if (r < 0)
        return r;
    struct tr_snapshot_content c = tr_snapshot_content(*ret);
    if (is_owner(&c, owner))
        return 0;
    *ret = tr_snapshot_close(*ret);
    return tr_err_set(err, TR_ENOTFOUND, "snapshot", "there is no snapshot %s", name);
}

int tr_engine_snapshot_save(struct tr_engine *e, const char *name, const int32_t *ids, int n_ids,
                            const struct tr_snapshot_scope *scope, struct tr_snapshot *ret,
                            struct tr_err *err)
{
    int r = check(e, name, err);
    if (r < 0)
        return r;
    struct tr_snapshot_file *old = NULL;
    struct tr_err other;
    if (tr_snapshot_open(&old, e->snapshot_dir, name, NULL, &other) == 0) {
        struct tr_snapshot_content c = tr_snapshot_content(old);
        old = tr_snapshot_close(old);
        if (!is_owner(&c, scope->owner))
            return tr_err_set(err, TR_EINVAL, "name", "the name %s is taken", name);
    }
    struct pin pin;
    if (pin_init(&pin, e, ids, n_ids, scope->salt) < 0)
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r == 0)
        r = start(e, &pin, pin_found, err);
    if (r == 0) {
        uint64_t bytes = (uint64_t)pin.n_tokens * sizeof *ids +
                         (uint64_t)pin.local.table.n * e->local_layout.page_bytes +
                         (uint64_t)pin.global.table.n * e->global_layout.page_bytes;
        struct tr_snapshot_facts facts = facts_of(e, scope->owner);
        r = check_quota(e, name, bytes, err);
        if (r == 0)
            r = tr_snapshot_write(e->snapshot_dir, name, &facts, ids, pin.n_tokens, &pin.local,
                                  &pin.global, err);
        finish(e, &pin, false);
    }
    pin_done(&pin);
    if (r == 0)
        r = open_own(e, name, scope->owner, &old, err);
    if (r < 0)
        return r;
    struct tr_snapshot_content c = tr_snapshot_content(old);
    describe(ret, name, &c);
    tr_snapshot_close(old);
    return 0;
}

/* Room for the content of a snapshot. */
static int pin_content(struct pin *pin, const struct tr_engine *e, const char *name,
                       const struct tr_snapshot_content *c, const uint64_t salt[2],
                       struct tr_err *err)
{
    const struct tr_prefix_shape *s = &e->limits.shape;
    int64_t n_pages = c->n_tokens / s->page_tokens;
    if (c->n_local != TR_MIN(tr_prefix_tail(s), n_pages) || c->n_global != n_pages * s->has_global)
        return tr_err_set(err, TR_EFORMAT, "snapshot", "snapshot %s lacks pages", name);
    uint64_t bytes = (uint64_t)c->n_local * e->limits.local_page_cost +
                     (uint64_t)c->n_global * e->limits.global_page_cost;
    if (bytes > e->limits.budget_bytes)
        return tr_err_set(err, TR_ENOFIT, "snapshot",
                          "snapshot %s needs %llu bytes of the KV cache, which has %llu", name,
                          (unsigned long long)bytes, (unsigned long long)e->limits.budget_bytes);
    if (pin_init(pin, e, c->ids, c->n_tokens, salt) < 0)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    pin->bytes = bytes;
    return 0;
}

int tr_engine_snapshot_restore(struct tr_engine *e, const char *name,
                               const struct tr_snapshot_scope *scope, struct tr_snapshot *ret,
                               struct tr_err *err)
{
    struct tr_snapshot_file *f = NULL;
    struct tr_snapshot_facts facts = facts_of(e, scope->owner);
    int r = check(e, name, err);
    if (r == 0)
        r = tr_snapshot_open(&f, e->snapshot_dir, name, &facts, err);
    if (r < 0)
        return r;
    struct tr_snapshot_content c = tr_snapshot_content(f);
    struct pin pin = {0};
    r = pin_content(&pin, e, name, &c, scope->salt, err);
    if (r == 0)
        r = start(e, &pin, pin_empty, err);
    if (r == 0) {
        r = tr_snapshot_read(f, &pin.local, &pin.global, err);
        finish(e, &pin, r == 0);
    }
    if (r == 0)
        describe(ret, name, &c);
    pin_done(&pin);
    tr_snapshot_close(f);
    return r;
}

int tr_engine_snapshot_delete(struct tr_engine *e, const char *name, const uint64_t owner[2],
                              struct tr_err *err)
{
    char path[4096];
    struct tr_snapshot_file *f;
    int r = open_own(e, name, owner, &f, err);
    if (r < 0)
        return r;
    tr_snapshot_close(f);
    snprintf(path, sizeof path, "%s/%s%s", e->snapshot_dir, name, suffix);
    return unlink(path) == 0 ? 0 : tr_err_set(err, TR_EIO, "snapshot", "cannot delete %s", name);
}
