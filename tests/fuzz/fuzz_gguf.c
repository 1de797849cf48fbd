/* A GGUF file from the first byte to the weights in memory: it loads or is refused, with a reason. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/checkpoint/weights.h"
#include "engine/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tr_pool *pool;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_weights *w = NULL;
    struct tr_tokenizer *t = NULL;
    struct tr_err err = {0};
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    assert(pool || tr_pool_open(&pool, 1, &err) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct tr_checkpoint *checkpoint = NULL;
    struct tr_weights_options options = {.choice = size % 2 ? TR_WEIGHTS_F32 : TR_WEIGHTS_AUTO,
                                         .pool = pool};
    if (tr_checkpoint_open(&checkpoint, path, &err) != 0) {
        assert(checkpoint == NULL && err.msg[0] != '\0');
        close(fd);
        return 0;
    }
    if (tr_weights_open(&w, checkpoint, &options, &err) == 0) {
        assert(w->file_bytes <= size &&
               w->config.n_local + w->config.n_global == w->config.n_layers);
        float *row = malloc((size_t)w->config.hidden_size * sizeof *row);
        assert(row);
        tr_weights_embed(w, w->config.vocab_size - 1, row);
        free(row);
    } else {
        assert(w == NULL && err.msg[0] != '\0');
    }
    if (tr_checkpoint_tokenizer(checkpoint, &t, &err) != 0)
        assert(t == NULL && err.msg[0] != '\0');
    tr_checkpoint_close(checkpoint);
    tr_tokenizer_free(t);
    tr_weights_close(w);
    close(fd);
    return 0;
}
