/* A safetensors file: whatever is accepted describes tensors that lie inside it, one after the other. */
#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_source source;
    struct tr_err err = {0};
    char path[64];
    int file, fd = memfd_create("fuzz", MFD_CLOEXEC);

    assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert(tr__source_init(&source, &err) == 0 &&
           tr__source_add_file(&source, path, &file, &err) == 0);
    int rc = tr__safetensors_add(&source, file, &err);
    if (rc == 0)
        rc = tr__source_seal(&source, &err);
    assert(rc == 0 || err.msg[0] != '\0');
    uint64_t total = 0;
    for (size_t i = 0; rc == 0 && i < source.n_tensors; i++) {
        const struct tr_tensor *t = &source.tensors[i];
        assert(t->offset >= 10 && t->offset + t->bytes <= size);
        assert(tr__source_find(&source, t->name) == t);
        total += t->bytes;
    }
    assert(total <= size);
    tr__source_done(&source);
    close(fd);
    return 0;
}
