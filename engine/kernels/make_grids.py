"""The grids of the IQ formats as C tables of codes: `python make_grids.py > iq_grids.h`  (pip install gguf).

They are the tables of llama.cpp's ggml-common.h (MIT licence, Copyright (c) 2023-2026 The ggml authors) as the gguf package of
the same project has them. An entry is one 16-bit number: the codes of its eight values, two bits each, or of its four values, four
bits each, the first lowest. A code is the place of the value in the format's short list of values (quants.h).
"""
import numpy as np
from gguf import quants

TABLES = ((quants.IQ2_XXS, "iq2_xxs"), (quants.IQ2_XS, "iq2_xs"), (quants.IQ2_S, "iq2_s"), (quants.IQ3_XXS, "iq3_xxs"),
          (quants.IQ3_S, "iq3_s"), (quants.IQ1_S, "iq1"))

print("""/*
 * The grids of the IQ formats, made by make_grids.py from llama.cpp's gguf package (MIT licence,
 * Copyright (c) 2023-2026 The ggml authors). An entry holds the codes of eight values, two bits
 * each, or of four values, four bits each, the first lowest.
 */
#ifndef TR_ENGINE_KERNELS_IQ_GRIDS_H
#define TR_ENGINE_KERNELS_IQ_GRIDS_H

#include <stdint.h>

/* clang-format off */""")
for cls, name in TABLES:
    cls.init_grid()
    codes = np.searchsorted(np.array(cls.grid_map, np.float32), cls.grid.reshape(cls.grid_shape))
    bits = 16 // cls.grid_shape[1]
    words = (codes << (bits * np.arange(cls.grid_shape[1]))).sum(-1)
    print(f"static const uint16_t {name}_grid[{len(words)}] = {{")
    for i in range(0, len(words), 13):
        print("    " + " ".join(f"{w}," for w in words[i:i + 13]))
    print("};")
print("/* clang-format on */\n\n#endif")
