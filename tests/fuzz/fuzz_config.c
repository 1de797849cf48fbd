/* A checkpoint's config.json: whatever is accepted obeys the bounds that the rest of the program relies on. */
#include <assert.h>

#include "engine/checkpoint/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tr_model_config c;
    struct tr_err err = {0};

    if (tr__model_config_parse(&c, (const char *)data, size, "config.json", &err) != 0) {
        assert(err.msg[0] != '\0');
        return 0;
    }
    assert(c.n_layers >= 1 && c.n_layers <= TR_MAX_LAYERS && c.n_local + c.n_global == c.n_layers);
    assert(c.n_kv_heads >= 1 && c.n_heads % c.n_kv_heads == 0 && c.head_dim % 2 == 0);
    assert(c.n_dense >= 0 && c.n_dense <= c.n_layers && c.context >= 1);
    assert(c.n_local == 0 || c.window >= 1);
    if (c.n_dense < c.n_layers)
        assert(c.n_active >= 1 && c.n_active <= c.n_experts && c.n_experts <= TR_MAX_EXPERTS);
    return 0;
}
