/* The metadata as gguf.c has read it and gguf_values.c looks it up. */
#ifndef TR_ENGINE_CHECKPOINT_GGUF_INTERNAL_H
#define TR_ENGINE_CHECKPOINT_GGUF_INTERNAL_H

#include "engine/checkpoint/gguf.h"

/* Offsets, not pointers: the header's bytes move while it is read. */
struct tr_gguf_entry {
    size_t key, key_bytes; /* not NUL-terminated */
    size_t value;
    enum tr_gguf_type type; /* of the elements, if it is an array */
    bool array;
    uint64_t count;
};

struct tr_gguf {
    char *name;
    uint8_t *header;               /* the file from its start to somewhere behind the directory */
    struct tr_gguf_entry *entries; /* sorted by key */
    size_t n_entries;
};

/* Bytes of a value, or the least of a string. */
extern const uint8_t tr__gguf_value_bytes[TR_GGUF_TYPES];

/* As memcmp, for texts of different lengths. */
int tr__gguf_compare(const void *a, size_t n_a, const void *b, size_t n_b);

#endif
