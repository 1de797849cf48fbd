/*
 * What is to be loaded: one slot for every matrix and vector of the model, with the place of its
 * rows in the files, the type it is kept in, and its place in memory. A plan is complete before the
 * first weight is read, so a wrong checkpoint fails at once, and the same plan describes the packed
 * cache.
 *
 * Memory is one arena, laid out in the order in which a pass reads it: layer by layer, the experts
 * of a layer side by side, each one's gate, up and down together.
 */
#ifndef TR_ENGINE_CHECKPOINT_PLAN_H
#define TR_ENGINE_CHECKPOINT_PLAN_H

#include "engine/checkpoint/source.h"
#include "engine/checkpoint/weights.h"

enum tr_slot_kind {
    TR_SLOT_MATRIX, /* packed for its type; F32 row-major */
    TR_SLOT_VECTOR, /* fp32 */
    TR_SLOT_ROUTER, /* row-major fp32, or bf16 if that loses nothing */
    TR_SLOT_EMBED   /* rows in file format */
};

/* What is to point at a slot's weights, by its kind. */
union tr_slot_owner {
    struct tr_matrix *matrix;
    const float **vector;
    struct tr_layer *layer;     /* of the router */
    struct tr_weights *weights; /* of the embedding */
};

struct tr_slot {
    enum tr_slot_kind kind;
    struct tr_tensor *tensor; /* borrowed from the source */
    uint64_t offset;          /* of its first row in the tensor's file */
    uint64_t first;           /* that row's number in the tensor */
    int n, k;                 /* rows, columns; the rows follow each other in the file */
    enum tr_wtype type;       /* in memory */
    float factor;             /* that the rows are multiplied by: the tensor's scale, or 1 */
    union tr_slot_owner owner;
    bool in_place;  /* used where the file is mapped; not in the arena */
    uint64_t bytes; /* in memory */
    uint64_t at;    /* offset in the arena; a multiple of 64 */
    double lost;    /* after loading: sum of squares of what converting a sample of rows lost .. */
    double present; /* .. and of what there was; 0: not measured */
};

struct tr_load_plan {
    struct tr_slot *slots; /* in the order of the arena */
    size_t n, cap;
    uint64_t arena_bytes;
    uint64_t source_bytes; /* of the files' bytes that the slots are made of */
};

void tr__load_plan_done(struct tr_load_plan *plan); /* a zeroed struct is fine */
TR_NODISCARD int tr__load_plan_add(struct tr_load_plan *plan, const struct tr_slot *slot,
                                   struct tr_err *err);

/* Decides what each slot's type in memory is, which slots stay in the mapped file (use_mmap, and
 * the file system can map), and where the others go. Fails with the tensor's name if a matrix can't
 * be held in the wanted type. Reads routers and scales, nothing else. */
TR_NODISCARD int tr__load_plan_layout(struct tr_load_plan *plan, struct tr_source *s,
                                      enum tr_weights_choice choice, bool use_mmap,
                                      struct tr_err *err);

/* Lets every slot's owner point at its weights. */
void tr__load_plan_point(const struct tr_load_plan *plan, const struct tr_source *s,
                         const uint8_t *arena);

/* Appends a text that says what the weights are, save their values: equal texts and values compute
 * equal logits. With `layout` it says where they lie in the arena, too. */
void tr__load_plan_describe(const struct tr_load_plan *plan, const struct tr_model_config *config,
                            bool layout, struct tr_buf *b);

/* Appends a line for each pair of formats, stored and kept, of the matrices and the embedding, with
 * what the conversion lost, as far as loading measured it: "int4, groups of 128, kept as q4_0, 96
 * matrices, exact". */
void tr__load_plan_formats(const struct tr_load_plan *plan, struct tr_buf *b);

/* "f32", "q4_K", ... */
const char *tr__wtype_name(enum tr_wtype type);
/* Bytes in the file of so many rows of a slot. */
uint64_t tr__slot_file_bytes(const struct tr_slot *slot, int rows);

#endif
