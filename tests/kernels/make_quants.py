"""Blocks of every quantised format with what the gguf package makes of them: `python make_quants.py > quants_golden.h`."""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

rng = np.random.default_rng(1)


def array(kind, name, values, form, per_line):
    print(f"\nstatic const {kind} {name}[] = {{")
    for i in range(0, len(values), per_line):
        print("    " + " ".join(form(v) + "," for v in values[i:i + per_line]))
    print("};")


def octets(name, data):
    array("uint8_t", name, data.reshape(-1).tolist(), lambda v: f"{v}", 20)


def floats(name, data):
    array("float", name, data.reshape(-1).tolist(), lambda v: f"{float(v).hex()}F", 5)


print("/* Made by make_quants.py with the gguf package. */\n/* clang-format off */")
print("#include <stdint.h>")
x = rng.normal(size=128).astype(np.float32)
x[64:96] = 0
x[96:] *= 1e-3
floats("quants_x", x)
for t in (T.Q8_0, T.Q4_0):
    octets(f"quants_{t.name.lower()}", quantize(x, t))
for t, size, scales in ((T.Q4_K, 144, (0, 2)), (T.Q5_K, 176, (0, 2)), (T.Q6_K, 210, (208,))):
    block = rng.integers(0, 256, size, dtype=np.uint8)
    for at in scales:
        block[at:at + 2] = np.frombuffer(np.float16(rng.uniform(0.01, 0.1)).tobytes(), np.uint8)
    octets(f"quants_{t.name.lower()}", block)
    floats(f"quants_{t.name.lower()}_y", dequantize(block, t).astype(np.float32))
