/*
 * One file of a checkpoint: read by position, or mapped whole.
 *
 * Reading is the rule, mapping the exception for what stays in the file's own format: a file that
 * shrinks while it is read is then an error, not a SIGBUS.
 */
#ifndef TR_ENGINE_CHECKPOINT_FILE_H
#define TR_ENGINE_CHECKPOINT_FILE_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

struct tr_file {
    char *path;         /* owned */
    const char *name;   /* last component of path, printable ASCII: for messages */
    int fd;             /* -1 after tr__file_forget */
    uint64_t size;      /* bytes, when it was opened */
    int64_t mtime_ns;   /* last change, when it was opened */
    const uint8_t *map; /* the whole file, read-only; NULL = not mapped */
};

/* Opens a regular file. TR_EIO, TR_EFORMAT (not a regular file), TR_ENOMEM; *f is then empty. */
TR_NODISCARD int tr__file_open(struct tr_file *f, const char *path, struct tr_err *err);
/* Closes the descriptor; a mapping stays. */
void tr__file_forget(struct tr_file *f);
/* Frees everything; an empty or zeroed struct is fine. */
void tr__file_done(struct tr_file *f);
/* Exactly n bytes from offset; TR_EIO also when the file has become shorter. Thread-safe. */
TR_NODISCARD int tr__file_read(const struct tr_file *f, uint64_t offset, void *dst, size_t n,
                               struct tr_err *err);
/* Maps the file; false where the file system can't, which is no error: read it then. */
bool tr__file_map(struct tr_file *f);

#endif
