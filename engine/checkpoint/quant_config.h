/*
 * What config.json says of quantised weights. Little of it counts: which scheme a module has is
 * read from the tensors that it has (quant.h); what no shape shows is said here.
 */
#ifndef TR_ENGINE_CHECKPOINT_QUANT_CONFIG_H
#define TR_ENGINE_CHECKPOINT_QUANT_CONFIG_H

#include "config/json.h"

enum tr_quant_method {
    TR_QUANT_NONE,
    TR_QUANT_COMPRESSED, /* compressed-tensors */
    TR_QUANT_MODELOPT,
    TR_QUANT_FP8, /* DeepSeek's */
    TR_QUANT_GPTQ,
    TR_QUANT_AWQ,
    TR_QUANT_MLX
};

enum { TR_QUANT_MAX_BITS = 8 };

struct tr_quant_config {
    enum tr_quant_method method;
    unsigned bits;    /* set of 1 << b for each number of bits b of an integer code that is named */
    unsigned shifted; /* of these, those that are only named with zero points */
    bool ordered;     /* columns have an order of their own: there is a g_idx */
    int group;        /* GPTQ, AWQ, MLX: columns that share a scale; -1 = all of them */
    bool minus_one;   /* GPTQ: zero points are stored less one */
    int block[2];     /* FP8: rows and columns that share a scale; 0 = not in blocks */
    struct tr_json modules; /* MLX: what holds for single modules, by their names; borrowed */
};

/* `root` is config.json and must outlive *ret; `modelopt`, hf_quant_config.json, may be absent. A
 * method, or a variant of one, that can't be decoded is refused by its name. TR_EFORMAT. */
TR_NODISCARD int tr__quant_config_read(struct tr_quant_config *ret, const struct tr_json *root,
                                       const struct tr_json *modelopt, struct tr_err *err);

/* Bits and group of one module: MLX has exceptions. */
TR_NODISCARD int tr__quant_config_module(const struct tr_quant_config *c, const char *module,
                                         int *ret_bits, int *ret_group, struct tr_err *err);

#endif
