/*
 * A computed prefix as a file: the pages at which a later sequence may resume, with everything that
 * is known of them.
 *
 * Layout: a head, the token ids, then each page: its identity, its bytes. All numbers are 64-bit
 * little endian. Every part has a checksum; what belongs to another checkpoint, cache geometry or
 * owner, what is cut, longer or changed is refused, and the error says which. Writing is atomic: a
 * temporary file, synced, then renamed.
 */
#ifndef TR_ENGINE_CACHE_SNAPSHOT_H
#define TR_ENGINE_CACHE_SNAPSHOT_H

#include "engine/cache/prefix.h"

/* What a file and a cache must agree on. */
struct tr_snapshot_facts {
    struct tr_hash fingerprint;
    uint64_t owner[2]; /* whose it is; salts the keys inside the file */
    uint64_t kv_type, page_tokens, window;
    uint64_t n_local_layers, n_global_layers;
    uint64_t local_page_bytes, global_page_bytes;
};

/* Letters, digits, "._-", at most 64, no dot at the front. */
bool tr_snapshot_name_ok(const char *name);

/* Writes DIR/NAME.snapshot: n_tokens ids (full pages) with the pages of both tables. TR_EIO. */
TR_NODISCARD int tr_snapshot_write(const char *dir, const char *name,
                                   const struct tr_snapshot_facts *facts, const int32_t *ids,
                                   int64_t n_tokens, const struct tr_local_table *local,
                                   const struct tr_global_table *global, struct tr_err *err);

struct tr_snapshot_file;
/* Opens and checks everything but the pages. facts NULL: only what the file says of itself.
 * TR_ENOTFOUND, TR_EFORMAT, TR_EINVAL (of another checkpoint, geometry or owner). */
TR_NODISCARD int tr_snapshot_open(struct tr_snapshot_file **ret, const char *dir, const char *name,
                                  const struct tr_snapshot_facts *facts, struct tr_err *err);
struct tr_snapshot_file *tr_snapshot_close(struct tr_snapshot_file *f); /* NULL ok; returns NULL */

struct tr_snapshot_content {
    const int32_t *ids; /* [n_tokens]; lives as long as the file is open */
    int64_t n_tokens;
    int64_t n_local, n_global; /* pages; the local ones are the last before n_tokens */
    uint64_t owner[2];
    uint64_t bytes;  /* of the file */
    int64_t created; /* seconds since 1970 */
};
struct tr_snapshot_content tr_snapshot_content(const struct tr_snapshot_file *f);
/* Reads all pages into tables that cover them. TR_EFORMAT: a page is not what it claims to be. */
TR_NODISCARD int tr_snapshot_read(struct tr_snapshot_file *f, const struct tr_local_table *local,
                                  const struct tr_global_table *global, struct tr_err *err);

#endif
