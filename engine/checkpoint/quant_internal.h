/*
 * What the files quant*.c share: a module while it is looked at, and what becomes of its rows.
 */
#ifndef TR_ENGINE_CHECKPOINT_QUANT_INTERNAL_H
#define TR_ENGINE_CHECKPOINT_QUANT_INTERNAL_H

#include "engine/checkpoint/quant_rows.h"

/* A module while it is looked at. */
struct tr_module {
    const struct tr_source *source;
    const struct tr_quant_config *config;
    const char *prefix; /* the name with its dot at the end */
    const struct tr_tensor *carrier;
    struct tr_quant *q;
    struct tr_err *err;
};

/* "FILE: TENSOR: text"; returns TR_EFORMAT. */
int tr__quant_fail(const struct tr_module *m, const struct tr_tensor *t, const char *fmt, ...)
    TR_PRINTF(3, 4);
/* Finds the parts of the module whose codes are in m->carrier, of that suffix, and checks all that
 * can be without reading the weights (quant_schemes.c). */
TR_NODISCARD int tr__quant_scheme(struct tr_module *m, const char *suffix);

/* A row's codes less their zero points, scales and biases, in r's arrays (quant_rows.c). */
TR_NODISCARD int tr__quant_take_apart(struct tr_quant_rows *r, int i, struct tr_err *err);
/* The scales and biases alone. */
TR_NODISCARD int tr__quant_take_scales(struct tr_quant_rows *r, int i, struct tr_err *err);
/* "row N has TEXT"; returns TR_EFORMAT. */
int tr__quant_bad_row(const struct tr_quant_rows *r, int i, const char *text, struct tr_err *err);
/* What a code counts. */
double tr__quant_unit(const struct tr_quant *q);

#endif
