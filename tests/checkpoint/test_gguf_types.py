"""GGUF files of every quantised type, for every tensor that may have it; the blocks themselves: test_blocks.py."""
import json

import gguf
import numpy as np
import pytest

import fixtures as fx
import harness
from checkpoint import test_blocks as blocks
from checkpoint import tool

GOLDEN = harness.GOLDEN / "formats" / "gguf"
GOLDENS = json.loads((GOLDEN / "logits.json").read_text())
IDS = {"Q2_0": 42} | {t.name: t.value for t in gguf.GGMLQuantizationType}
WIDE = dict(hidden_size=256, intermediate_size=256, moe_intermediate_size=256, num_hidden_layers=2, num_dense_layers=1,
            num_attention_heads=2, num_key_value_heads=1, head_dim=128, num_experts=2, num_experts_per_tok=1,
            layer_types=["sliding_attention", "full_attention"])


def block_tensor(name, shape, rng):
    """(GGUF tensor of random blocks, its values)"""
    size, length = blocks.SIZES[name]
    raw = blocks.random_blocks(name, int(np.prod(shape)) // size, rng)
    if name == "MXFP4":  # exponents whose numbers are neither infinite nor denormal
        raw[:, 0] = rng.integers(100, 140, len(raw))
    return (IDS[name], shape[::-1], raw.tobytes()), blocks.reference(name, raw).reshape(shape)


def model(types):
    """(config, metadata, tensors, values): matrices in the types of the list in turn, vectors and routers in BF16 and F16."""
    c, w = fx.f1(**WIDE)
    rng = np.random.default_rng(5)
    tensors, values, turn = {}, {}, 0
    for name, x in tool.gguf_tensors(c, w).items():
        if name.endswith("_exps.weight") or (x.ndim == 2 and "gate_inp" not in name):
            tensors[name], values[name] = block_tensor(types[turn % len(types)], x.shape, rng)
            turn += 1
        elif "gate_inp" in name or "q_norm" in name:
            values[name] = x.astype(np.float16).astype(np.float32)
            tensors[name] = (1, x.shape[::-1], x.astype(np.float16).tobytes())
        elif "bias" in name:
            values[name] = x
            tensors[name] = (0, x.shape[::-1], x.tobytes())
        else:
            bits, back = tool.bf16(x)
            tensors[name], values[name] = (30, x.shape[::-1], bits.tobytes()), back.reshape(x.shape)
    return c, tool.metadata(c), tensors, values


def write(path, meta, tensors):
    path.write_bytes(tool.gguf_bytes(meta, tensors))
    return path


@pytest.mark.parametrize("mmap", [0, 1])
@pytest.mark.parametrize("name", GOLDENS)
def test_golden_values(tmp_path, name, mmap):
    """Files by llama.cpp's own quantiser with an importance matrix, every value as the gguf package reads it."""
    path = GOLDEN / f"{name}.gguf"
    want = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}
    if "output.weight" not in want:
        want["output.weight"] = want["token_embd.weight"]
    tool.compare(tool.dump(path, tmp_path, choice="f32", mmap=mmap), want, GOLDENS[name]["config"], naming=1)


@pytest.mark.parametrize("name", blocks.TYPES)
def test_one_type(tmp_path, name):
    c, meta, tensors, values = model([name])
    path = write(tmp_path / "m.gguf", meta, tensors)
    tool.compare(tool.dump(path, tmp_path, choice="f32"), values, c, naming=1)
    f = tool.facts(path)
    assert f["types"].lower() == name.lower() and f["warnings"] == ""
    for choice in ("q8_0", "q4_0"):
        assert tool.facts(path, choice=choice)["types"] == choice


@pytest.mark.parametrize("first", range(0, len(blocks.TYPES), 5))
def test_any_mix(tmp_path, first):
    c, meta, tensors, values = model(blocks.TYPES[first:] + blocks.TYPES[:first])
    tool.compare(tool.dump(write(tmp_path / "m.gguf", meta, tensors), tmp_path, choice="f32"), values, c, naming=1)


# ---- the factors of NVFP4 ----


def scaled(**changes):
    """A model of NVFP4 matrices, the embedding excepted, with a scale beside some of them."""
    c, meta, tensors, values = model(["NVFP4"])
    for name in ("token_embd.weight", "output.weight"):
        tensors[name], values[name] = block_tensor("Q8_0", values[name].shape, np.random.default_rng(6))
    scales = {"blk.0.attn_q": [0.37], "blk.0.ffn_down": [1.0], "blk.1.attn_output": [-2.5e-3], "blk.1.ffn_up_exps": [0.11, 7.3],
              "blk.1.ffn_down_exps": [1e-4, 1e-4]}
    for name, x in scales.items():
        x = np.array(x, np.float32)
        tensors[name + ".scale"] = (0, x.shape, x.tobytes())
        values[name + ".weight"] = values[name + ".weight"] * x.reshape(-1, *[1] * (values[name + ".weight"].ndim - 1))
    tensors["blk.0.attn_q.input_scale"] = (0, (1,), np.float32(3).tobytes())
    for name, tensor in changes.items():
        tensors[name.replace("__", ".")] = tensor
    return c, meta, tensors, values


def test_scales(tmp_path):
    c, meta, tensors, values = scaled()
    path = write(tmp_path / "m.gguf", meta, tensors)
    tool.compare(tool.dump(path, tmp_path, choice="f32"), values, c, naming=1)
    f = tool.facts(path)
    assert f["types"] == "nvfp4+q8_0" and f["warnings"] == ""
    tensors["blk.0.attn_q.scale"] = (0, (1,), np.float32(0.38).tobytes())
    assert tool.facts(write(path, meta, tensors))["fingerprint"] != f["fingerprint"]


@pytest.mark.parametrize("name,tensor,text", [
    ("blk__0__attn_q__scale", (0, (2,), bytes(8)), "1 numbers"),
    ("blk__1__ffn_up_exps__scale", (0, (1,), bytes(4)), "2 numbers"),
    ("blk__1__ffn_up_exps__scale", (0, (2, 1), bytes(8)), "2 numbers"),
    ("blk__0__attn_q__scale", (1, (1,), bytes(2)), "F32"),
    ("blk__0__attn_q__scale", (0, (1,), np.float32(np.nan).tobytes()), "not finite"),
    ("blk__1__ffn_up_exps__scale", (0, (2,), np.array([1, np.inf], np.float32).tobytes()), "not finite"),
    ("output__scale", (0, (1,), np.float32(1).tobytes()), "only matrices of NVFP4"),
    ("token_embd__scale", (0, (1,), np.float32(1).tobytes()), "only matrices of NVFP4"),
    ("output_norm__scale", (0, (1,), np.float32(1).tobytes()), "only matrices of NVFP4"),
])
def test_bad_scales(tmp_path, name, tensor, text):
    c, meta, tensors, values = scaled(**{name: tensor})
    tool.refused(write(tmp_path / "m.gguf", meta, tensors), name.replace("__", "."), text)


# ---- types that there are not ----


@pytest.mark.parametrize("kind", [43, 57, 255])
def test_newer_type(tmp_path, kind):
    c, meta, tensors, values = model(["Q8_0"])
    _, dims, data = tensors["blk.0.attn_q.weight"]
    tensors["blk.0.attn_q.weight"] = (kind, dims, data)
    tool.refused(write(tmp_path / "m.gguf", meta, tensors), "blk.0.attn_q.weight", f"type {kind},", "newer")


@pytest.mark.parametrize("name", blocks.TYPES)
def test_rows_of_no_whole_blocks(tmp_path, name):
    size, length = blocks.SIZES[name]
    c, meta, tensors, values = model(["Q8_0"])
    tensors["blk.0.attn_q.weight"] = (IDS[name], (size // 2, 2), bytes(length))
    tool.refused(write(tmp_path / "m.gguf", meta, tensors), "blk.0.attn_q.weight", "shape")


@pytest.mark.parametrize("name", blocks.TYPES)
def test_cut_off(tmp_path, name):
    c, meta, tensors, values = model([name])
    data = tool.gguf_bytes(meta, tensors)
    path = tmp_path / "m.gguf"
    for n in (1, 33, len(data) // 2):
        path.write_bytes(data[:-n])
        tool.refused(path, "m.gguf")


# ---- files that went wrong on their way ----

CORPUS = harness.ROOT / "tests" / "fuzz" / "corpus" / "gguf" / "types.gguf"


def every_type():
    """The smallest file with a matrix of every type: rows of 256, or of 32 where a block is that short."""
    c, w = fx.f1(**{**WIDE, "intermediate_size": 32, "moe_intermediate_size": 32, "num_attention_heads": 1, "head_dim": 16})
    rng = np.random.default_rng(9)
    small = sorted(blocks.TYPES, key=lambda t: blocks.SIZES[t][1] / blocks.SIZES[t][0])  # the embedding comes first
    turns = {32: [t for t in small if blocks.SIZES[t][0] == 32],
             256: [t for t in small if blocks.SIZES[t][0] > 32 and t not in ("Q4_K", "Q5_K")]}
    used, tensors = set(), {}
    for name, x in tool.gguf_tensors(c, w).items():
        k = x.shape[-1]
        if x.ndim > 1 and k in turns and "gate_inp" not in name:
            kind = turns[k][len(used & set(turns[k])) % len(turns[k])]
            used.add(kind)
            tensors[name], _ = block_tensor(kind, x.shape, rng)
        else:
            tensors[name] = (0, x.shape[::-1], np.ascontiguousarray(x, np.float32).tobytes())
    assert not set(turns[256]) - used, set(turns[256]) - used
    [scaled] = [n for n, t in tensors.items() if t[0] == IDS["NVFP4"]]
    factors = np.array([0.5, 2][:2 if "_exps" in scaled else 1], np.float32)
    tensors[scaled.replace(".weight", ".scale")] = (0, factors.shape, factors.tobytes())
    return tool.gguf_bytes(tool.metadata(c), tensors)


def test_corpus():
    """The fuzzer starts from a file with all types, which every_type makes."""
    assert CORPUS.read_bytes() == every_type()
    assert tool.facts(CORPUS)["warnings"] == ""


@pytest.mark.parametrize("seed", range(40))
def test_mutations(tmp_path, seed):
    """Whatever is changed in the header or the data, it loads, or it is refused in a line."""
    rng = np.random.default_rng(seed)
    data = bytearray(CORPUS.read_bytes())
    header = data.index(b"blk.0.attn_q.weight") + 4096
    for at in rng.integers(0, header if seed % 4 else len(data), 1 + seed % 7):
        data[at] = int(rng.integers(256))
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    p = tool.run(path, choice=("auto", "f32", "q8_0", "q4_0", "bf16")[seed % 5])
    assert p.returncode in (0, 1) and p.stderr.count("\n") == p.returncode, (p.returncode, p.stderr)


def test_packed_cache(tmp_path):
    """A second start takes the same weights from the cache; another factor of NVFP4 is another model."""
    c, meta, tensors, values = scaled()
    path = write(tmp_path / "m.gguf", meta, tensors)
    (tmp_path / "cache").mkdir()
    first = tool.facts(path, cache=tmp_path / "cache")
    again = tool.facts(path, cache=tmp_path / "cache")
    assert again["warnings"] == "" and again["fingerprint"] == first["fingerprint"]
    tensors["blk.0.attn_q.scale"] = (0, (1,), np.float32(0.38).tobytes())
    other = tool.facts(write(path, meta, tensors), cache=tmp_path / "cache")
    assert "stale" in other["warnings"] and other["fingerprint"] != first["fingerprint"]
