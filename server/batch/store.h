/*
 * What clients leave here: files and batches, in a folder.
 *
 * Each key has a folder of its own, named by its SHA-256; what it does not hold is not there. An
 * object has an id (file-HEX, batch_HEX) and files named by it: ID.json is what clients are shown
 * of it, ID.data what a file holds, ID.part what a batch has gathered. Ids begin with the time:
 * their order is that of their making. Names come from ids alone, never from a client's text.
 * Whatever appears under its name is whole.
 *
 * All functions wait for the disk: no loop thread calls them. Thread-safe.
 */
#ifndef TR_SERVER_BATCH_STORE_H
#define TR_SERVER_BATCH_STORE_H

#include <stdbool.h>

#include "config/buf.h"
#include "config/err.h"

#define SRV_STORE_FILE  "file-"
#define SRV_STORE_BATCH "batch_"

enum {
    SRV_STORE_SHA = 32,
    SRV_STORE_ID = 32,        /* bytes of an id and its NUL */
    SRV_STORE_OBJECTS = 1000, /* of a kind, that a key may have */
    SRV_STORE_RECORD = 256 * 1024
};

struct srv_store;

/* A key's. */
struct srv_owner {
    struct srv_store *store;
    unsigned char sha[SRV_STORE_SHA];
};

/* quota: bytes of everything together, 0 = any. Makes the folder; removes what was left unfinished.
 * TR_ECONFIG: nothing can be written there. */
TR_NODISCARD int srv_store_open(struct srv_store **ret, const char *dir, uint64_t quota,
                                struct tr_err *err);
void srv_store_close(struct srv_store *st); /* NULL ok */
/* Calls fn for each key that has a folder. */
void srv_store_owners(struct srv_store *st, void (*fn)(void *arg, const struct srv_owner *o),
                      void *arg);

void srv_store_new_id(char ret[SRV_STORE_ID], const char *prefix);
bool srv_store_is_id(const char *id, const char *prefix);

/* Ids of a kind, the newest first: n, to be freed. */
TR_NODISCARD int srv_store_list(const struct srv_owner *o, const char *prefix,
                                char (**ret)[SRV_STORE_ID], size_t *ret_n, struct tr_err *err);
/* Appends the record. TR_ENOTFOUND. */
TR_NODISCARD int srv_store_read(const struct srv_owner *o, const char *id, struct tr_buf *ret,
                                struct tr_err *err);
/* Writes the record in place of what was there. TR_EFULL. */
TR_NODISCARD int srv_store_write(const struct srv_owner *o, const char *id,
                                 const struct tr_buf *record, struct tr_err *err);
/* Opens ID.SUFFIX, with flags of open(2); -1 with errno. */
int srv_store_file(const struct srv_owner *o, const char *id, const char *suffix, int flags);
/* The path of ID.SUFFIX; NULL: no memory. */
char *srv_store_path(const struct srv_owner *o, const char *id, const char *suffix);
/* Gives ID.FROM another name. */
TR_NODISCARD int srv_store_rename(const struct srv_owner *o, const char *id, const char *from,
                                  const char *to_id, const char *to, struct tr_err *err);
/* Removes one of an object's files, or all of them (suffix NULL), and gives back their room. */
bool srv_store_remove(const struct srv_owner *o, const char *id, const char *suffix);
/* Takes n bytes of the quota. TR_EFULL. */
TR_NODISCARD int srv_store_take(struct srv_store *st, uint64_t n, struct tr_err *err);
void srv_store_give(struct srv_store *st, uint64_t n);
/* Takes them whether there is room or not: answers. */
void srv_store_charge(struct srv_store *st, uint64_t n);
/* Whether n bytes more would be too many. */
bool srv_store_full(struct srv_store *st, uint64_t n);
/* Writes all of it at the file's place. TR_EFULL, TR_EIO. */
TR_NODISCARD int srv_store_put(int fd, const char *bytes, size_t n, struct tr_err *err);

/* Writes a file's record, which makes it one: its data stands there under `id`. */
TR_NODISCARD int srv_store_add_file(const struct srv_owner *o, const char *id, uint64_t bytes,
                                    const char *name, size_t name_bytes, const char *purpose,
                                    struct tr_err *err);

#endif
