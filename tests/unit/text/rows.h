/* The files tests/golden/tokens-*.json: texts with the ids and the decodings of Hugging Face tokenizers. */
#ifndef TESTS_UNIT_TEXT_ROWS_H
#define TESTS_UNIT_TEXT_ROWS_H

#include <stddef.h>
#include <stdint.h>

struct row {
    const char *text, *decoded;
    size_t n_text, n_decoded;
    int32_t *ids;
    size_t n_ids;
};

struct rows {
    struct row *rows;
    size_t n;
    struct json_t *doc; /* holds the texts */
};

struct rows read_rows(const char *file); /* the test fails if it cannot be read */
void free_rows(struct rows *rows);

#endif
