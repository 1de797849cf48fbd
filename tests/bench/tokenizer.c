/*
 * Speed of encoding: tokenizer DIR VOCAB_SIZE FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config/buf.h"
#include "engine/text/tokenizer.h"

static double seconds(void) /* of this thread on a processor */
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int read_all(const char *name, struct tr_buf *b)
{
    FILE *f = fopen(name, "re");
    size_t n = 0;

    if (!f)
        return -1;
    do {
        b->len += n;
        n = tr_buf_reserve(b, 1 << 16) ? fread(b->data + b->len, 1, 1 << 16, f) : 0;
    } while (n > 0);
    fclose(f);
    return b->oom ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct tr_tokenizer *t = NULL;
    struct tr_err err = {0};
    struct tr_buf text = {0};
    struct tr_ids ids = {0};
    double best = 1e9, begin = seconds();

    if (argc != 4) {
        fprintf(stderr, "usage: %s DIR VOCAB_SIZE FILE\n", argv[0]);
        return 2;
    }
    if (tr_tokenizer_load(&t, argv[1], atoi(argv[2]), &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    printf("load     %8.3f s\n", seconds() - begin);
    if (read_all(argv[3], &text)) {
        perror(argv[3]);
        return 1;
    }
    for (int i = 0; i < 5; i++) {
        ids.n = 0;
        begin = seconds();
        if (tr_tokenizer_encode(t, text.data, text.len, TR_ENCODE_SPECIAL, 0, &ids)) {
            fprintf(stderr, "%s: cannot be encoded\n", argv[3]);
            return 1;
        }
        best = TR_MIN(best, seconds() - begin);
    }
    printf("encode   %8.2f MB/s, %zu bytes, %zu tokens\n", 1e-6 * (double)text.len / best, text.len,
           ids.n);
    free(ids.ids);
    tr_buf_done(&text);
    tr_tokenizer_free(t);
    return 0;
}
