#include "server/batch/finish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int srv_finish_expired(struct srv_batch_output *out, struct srv_record *b, struct tr_err *err)
{
    int r = 0;
    for (size_t i = 0; i < out->in->n && r == 0; i++) {
        struct srv_question q;
        struct tr_buf line = {0};
        if (out->done[i])
            continue;
        r = srv_batch_input_read(out->in, i, &q, err);
        if (r < 0)
            break;
        tr_buf_addf(&line,
                    "{\"id\":\"batch_req_%016llx\",\"custom_id\":%s,\"response\":null,\"error\":{"
                    "\"code\":\"batch_expired\",\"message\":\"not answered within the "
                    "completion_window\"}}\n",
                    (unsigned long long)out->in->lines[i].id.lo, q.id);
        r = line.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory")
                     : srv_batch_output_add(out, &line, err);
        srv_question_done(&q);
        tr_buf_done(&line);
        b->failed += r == 0;
    }
    return r;
}

void srv_finish_name(struct srv_record *b)
{
    if (b->completed > 0 && !b->output[0])
        srv_store_new_id(b->output, SRV_STORE_FILE);
    if (b->failed > 0 && !b->error[0])
        srv_store_new_id(b->error, SRV_STORE_FILE);
}

static int add_record(const struct srv_owner *o, const struct srv_record *b, const char *id,
                      uint64_t bytes, struct tr_err *err)
{
    char name[SRV_STORE_ID + 24];
    int n = snprintf(name, sizeof name, "%s_%s.jsonl", b->id,
                     strcmp(id, b->output) == 0 ? "output" : "error");
    return srv_store_add_file(o, id, bytes, name, (size_t)n, "batch_output", err);
}

/* All answers are of one kind: their file is the one that gathered them. The record comes first: a
 * file without one would be swept away. */
static int rename_all(const struct srv_owner *o, const struct srv_record *b, const char *id,
                      uint64_t bytes, struct tr_err *err)
{
    int r = add_record(o, b, id, bytes, err);
    if (r == 0)
        r = srv_store_rename(o, b->id, "part", id, "data", err);
    if (r == 0)
        srv_store_charge(o->store, bytes);
    return r;
}

static int split_lines(FILE *from, FILE *good, FILE *bad, struct tr_err *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int r = 0;
    while (r == 0 && (n = getline(&line, &room, from)) > 0) {
        if (line[n - 1] != '\n') /* torn by a kill */
            break;
        FILE *to = srv_batch_line_good(line, (size_t)n) ? good : bad;
        if (fwrite(line, 1, (size_t)n, to) != (size_t)n)
            r = TR_EFULL;
    }
    free(line);
    if (r == 0 && (fflush(good) != 0 || fflush(bad) != 0))
        r = TR_EFULL;
    return r < 0 ? tr_err_set(err, r, NULL, "the answers cannot be written: %s", strerror(errno))
                 : 0;
}

static FILE *open_data(const struct srv_owner *o, const char *id, const char *suffix, int flags,
                       const char *mode)
{
    int fd = srv_store_file(o, id, suffix, flags);
    FILE *f = fd < 0 ? NULL : fdopen(fd, mode);
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

static int keep(const struct srv_owner *o, const struct srv_record *b, const char *id, FILE *f,
                struct tr_err *err)
{
    struct stat st;
    if (fstat(fileno(f), &st) < 0)
        return tr_err_set(err, TR_EIO, NULL, "the answers cannot be written");
    srv_store_charge(o->store, (uint64_t)st.st_size);
    return add_record(o, b, id, (uint64_t)st.st_size, err);
}

static int split(const struct srv_owner *o, const struct srv_record *b, struct tr_err *err)
{
    FILE *from = open_data(o, b->id, "part", O_RDONLY, "r");
    FILE *good = open_data(o, b->output, "data", O_WRONLY | O_CREAT | O_TRUNC, "w");
    FILE *bad = open_data(o, b->error, "data", O_WRONLY | O_CREAT | O_TRUNC, "w");
    int r = from && good && bad ? split_lines(from, good, bad, err)
                                : tr_err_set(err, errno == ENOSPC ? TR_EFULL : TR_EIO, NULL,
                                             "the answers cannot be written: %s", strerror(errno));
    if (r == 0)
        r = keep(o, b, b->output, good, err);
    if (r == 0)
        r = keep(o, b, b->error, bad, err);
    if (from)
        fclose(from);
    if (good)
        fclose(good);
    if (bad)
        fclose(bad);
    return r;
}

int srv_finish_files(const struct srv_owner *o, const struct srv_record *b, struct tr_err *err)
{
    struct stat st = {0};
    int r = 0, fd = srv_store_file(o, b->id, "part", O_RDONLY);
    if (fd < 0) /* they are made */
        return 0;
    if (fstat(fd, &st) < 0)
        r = tr_err_set(err, TR_EIO, NULL, "the answers cannot be read");
    close(fd);
    if (r == 0 && b->output[0] && b->error[0])
        r = split(o, b, err);
    else if (r == 0 && (b->output[0] || b->error[0]))
        r = rename_all(o, b, b->output[0] ? b->output : b->error, (uint64_t)st.st_size, err);
    if (r == 0)
        srv_store_remove(o, b->id, "part");
    return r;
}
