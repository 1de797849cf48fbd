"""Every type of GGUF, block by block: the bytes decoded here and by the gguf package, bit for bit.

rows.json holds a row that llama-quantize made of each type and what the package reads in it; random blocks have every code, scale
and sign that there is. The package has no decoder for Q1_0 and Q2_0: theirs is written down here from ggml's.
"""
import json
import re
import subprocess

import gguf
import numpy as np
import pytest

import harness

PROGRAM = harness.BUILD / "tests" / "tools" / "blocks"
ROWS = json.loads((harness.GOLDEN / "formats" / "gguf" / "rows.json").read_text())
NUMBERS = {name: i for i, name in enumerate(
    re.findall(r"TR_W_(\w+)", re.search(r"enum tr_wtype \{.*?\};", (harness.ROOT / "engine/kernels/kernels.h").read_text(), re.S)[0]))}
TYPES = [name for name in NUMBERS if name not in ("F32", "F16", "BF16", "COUNT")]
SIZES = {"Q2_0": (64, 18)} | {t.name: size for t, size in gguf.GGML_QUANT_SIZES.items()}
# the half that is a block's scale, to be finite; IQ1_M has it in the top nibbles of its last four words
SCALES = {"Q6_K": (208,), "Q3_K": (108,), "Q2_K": (80, 82), "TQ1_0": (52,), "TQ2_0": (64,), "MXFP4": (), "NVFP4": (), "IQ1_M": (),
          "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2)}


def decode(name, data, k):
    p = subprocess.run([PROGRAM, str(NUMBERS[name]), str(k)], input=data, capture_output=True, timeout=harness.PATIENCE, check=True)
    return np.frombuffer(p.stdout, np.float32)


def reference(name, blocks):
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    if name == "Q1_0":
        return np.where(np.unpackbits(blocks[:, 2:], axis=1, bitorder="little"), d, -d).reshape(-1)
    if name == "Q2_0":
        q = (blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        return ((q.reshape(len(blocks), 64).astype(np.float32) - 1) * d).reshape(-1)
    with np.errstate(over="ignore"):
        return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float32).reshape(-1)


def same(got, want):
    assert got.shape == want.shape
    bad = np.flatnonzero(got.view(np.uint32) != want.view(np.uint32))
    assert not len(bad), (len(bad), bad[0], got[bad[0]], want[bad[0]])


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    row = ROWS[name]
    same(decode(name, bytes.fromhex(row["bytes"]), len(row["values"])), np.array(row["values"], np.float32))


def random_blocks(name, n, rng):
    blocks = rng.integers(0, 256, (n, SIZES[name][1]), dtype=np.uint8)
    for at in SCALES.get(name, (0,)):
        d = (rng.normal(size=n) * np.exp2(rng.integers(-16, 4, n))).astype(np.float16)
        d[:4] = [0, -0.0, 2.0 ** -24, 65504]
        blocks[:, at:at + 2] = d.view(np.uint8).reshape(n, 2)
    if name == "IQ1_M":
        blocks[:, -1] &= 0xBF  # an exponent below 31
    if name == "MXFP4":
        blocks[:, 0] = np.arange(n)
    if name == "NVFP4":
        blocks[:64, :4] = np.arange(256, dtype=np.uint8).reshape(64, 4)
    return blocks


@pytest.mark.parametrize("name", TYPES)
def test_random_blocks(name):
    size = SIZES[name][0]
    blocks = random_blocks(name, 1024, np.random.default_rng(NUMBERS[name]))
    same(decode(name, blocks.tobytes(), 4 * size), reference(name, blocks))


@pytest.mark.parametrize("name", TYPES)
def test_every_byte_matters(name):
    """No field is skipped: each byte of a block changes some value of it, and none of another block."""
    size, length = SIZES[name]
    blocks = random_blocks(name, 64, np.random.default_rng(7))[8:10]
    before = decode(name, blocks.tobytes(), 2 * size)
    for at in range(length):
        changed = blocks.copy()
        changed[0, at] ^= 0x35  # a bit of each pair, nibble and half
        after = decode(name, changed.tobytes(), 2 * size)
        differ = before.view(np.uint32) != after.view(np.uint32)
        assert differ[:size].any() and not differ[size:].any(), at
