/*
 * For tests in other languages: blocks TYPE K < ROWS > FLOATS dequantises rows of K elements of the
 * type of that number (enum tr_wtype), which stdin has in the files' format.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/kernels/kernels.h"

int main(int argc, char **argv)
{
    int type = argc == 3 ? atoi(argv[1]) : -1;
    int k = argc == 3 ? atoi(argv[2]) : 0;
    size_t bytes = type >= 0 && type < TR_W_COUNT ? tr_file_row_bytes((enum tr_wtype)type, k) : 0;
    uint8_t *row = malloc(bytes + 1);
    float *y = malloc((size_t)k * sizeof *y + 1);
    if (!bytes || !row || !y) {
        fprintf(stderr, "usage: blocks TYPE K\n");
        return 2;
    }
    while (fread(row, 1, bytes, stdin) == bytes) {
        tr_dequantize_row((enum tr_wtype)type, row, k, y);
        if (fwrite(y, sizeof *y, (size_t)k, stdout) != (size_t)k)
            return 1;
    }
    free(y);
    free(row);
    return ferror(stdin) || fflush(stdout) ? 1 : 0;
}
