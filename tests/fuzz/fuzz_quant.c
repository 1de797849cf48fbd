/*
 * Quantised matrices of a safetensors file: two bytes say how long config.json is, which is followed
 * by the file. Whatever is accepted can be read, as floats and in every format that is said to hold
 * it.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/checkpoint/quant_rows.h"
#include "engine/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every type that holds it, for a row that can be read as floats. */
static void read_row(struct tr_quant_rows *rows, int i, const struct tr_quant *q)
{
    float *y = malloc((size_t)q->k * sizeof *y), *back = malloc((size_t)q->k * sizeof *back);
    struct tr_err err = {0};
    assert(y && back);
    bool good = tr__quant_rows_floats(rows, i, y, &err) == 0;
    assert(good || err.msg[0]);
    for (enum tr_wtype type = TR_W_Q8_0; type < TR_W_COUNT; type++) {
        if (!tr__quant_holds(q, type))
            continue;
        size_t bytes = tr_file_row_bytes(type, q->k);
        uint8_t *row = malloc(bytes);
        assert(row && bytes);
        if (tr__quant_rows_blocks(rows, i, type, row, &err) == 0) {
            tr_dequantize_row(type, row, q->k, back);
            for (int j = 0; good && j < q->k; j++)
                assert(isfinite(back[j]) || type == TR_W_MXFP4);
        }
        free(row);
    }
    free(back);
    free(y);
}

static void read_matrix(const struct tr_source *s, const struct tr_tensor *t)
{
    const struct tr_quant *q = t->quant;
    struct tr_quant_rows rows = {0};
    struct tr_hash hash;
    struct tr_err err = {0};
    assert(q->rows >= 1 && q->k >= 1 && q->group >= 1 && q->block_rows >= 1);
    for (uint64_t first = 0; first < q->rows && first < 64; first += 16) {
        int n = (int)TR_MIN(q->rows - first, (uint64_t)16);
        if (tr__quant_rows_read(&rows, s, t, first, n, &hash, &err))
            break;
        for (int i = 0; i < n; i++)
            read_row(&rows, i, q);
    }
    tr__quant_rows_done(&rows);
}

static int find(struct tr_source *s, const char *path, const char *text, size_t n)
{
    struct json_t *doc;
    struct tr_err err = {0};
    struct tr_quant_config config;
    int file;
    int r = tr_json_parse(&doc, text, n, &err);
    if (r)
        return r;
    struct tr_json root = tr_json_root(doc, "config.json"), none = {0};
    r = tr__quant_config_read(&config, &root, &none, &err);
    if (!r)
        r = tr__source_add_file(s, path, &file, &err);
    if (!r)
        r = tr__safetensors_add(s, file, &err);
    if (!r)
        r = tr__source_seal(s, &err);
    if (!r)
        r = tr__quant_find(s, &config, &err);
    assert(!r || err.msg[0]);
    tr_json_free(doc);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_source source;
    struct tr_err err = {0};
    char path[64];
    if (size < 2)
        return 0;
    size_t n = TR_MIN((size_t)(data[0] | data[1] << 8), size - 2);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    assert(fd >= 0 && write(fd, data + 2 + n, size - 2 - n) == (ssize_t)(size - 2 - n));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert(tr__source_init(&source, &err) == 0);
    if (find(&source, path, (const char *)data + 2, n) == 0)
        for (size_t i = 0; i < source.n_tensors; i++)
            if (source.tensors[i].quant)
                read_matrix(&source, &source.tensors[i]);
    tr__source_done(&source);
    close(fd);
    return 0;
}
