"""GGUF: every type gives the values that the gguf package reads; every malformed field is refused in one line."""
import json

import gguf
import numpy as np
import pytest

import fixtures as fx
import harness
from checkpoint import tool

T = gguf.GGUFValueType
GOLDEN = harness.GOLDEN / "gguf"


def model(**kw):
    """(config, GGUF metadata, GGUF tensors as arrays)"""
    c, w = fx.f1(**{**tool.TINY, "layer_types": ["sliding_attention"] * 3, **kw})
    return c, tool.metadata(c), tool.gguf_tensors(c, w)


def write(path, meta, tensors, **kw):
    path.write_bytes(tool.gguf_bytes(meta, tool.f32_tensors(tensors), **kw))
    return path


# ---- what must load ----


@pytest.mark.parametrize("mmap", [0, 1])
@pytest.mark.parametrize("name", ["bf16", "q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k"])
def test_values(tmp_path, name, mmap):
    """Files by llama.cpp's own quantiser, dequantised here and by the gguf package."""
    path = GOLDEN / f"{name}.gguf"
    config = json.loads((GOLDEN / "config.json").read_text())
    want = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}
    got = tool.dump(path, tmp_path, choice="f32", mmap=mmap)
    exact = name in ("bf16", "q8_0", "q4_0", "q6_k")
    tool.compare(got, want, config, naming=1, rtol=0 if exact else 1e-6)


def test_mixed_types_are_kept():
    assert tool.facts(GOLDEN / "q4_k_m.gguf")["types"] == "q4_K+q6_K"
    assert tool.facts(GOLDEN / "q8_0.gguf")["types"] == "q8_0"


def test_config(tmp_path):
    c, meta, tensors = model()
    f = tool.facts(write(tmp_path / "m.gguf", meta, tensors))
    assert f["kinds"] == "lll" and f["window"] == 8 and f["context"] == 256 and f["ids"] == [0, 3, 1]
    assert f["embed_scale"] == pytest.approx(32 ** 0.5, rel=1e-7) and f["route_scale"] == 2.5
    assert f["tokens"] == 285 and f["template"] == 0


@pytest.mark.parametrize("version,alignment", [(2, 32), (3, 32), (3, 64), (3, 8), (2, 4096)])
def test_versions(tmp_path, version, alignment):
    c, meta, tensors = model()
    meta["general.alignment"] = (T.UINT32, alignment)
    path = write(tmp_path / "m.gguf", meta, tensors, version=version, alignment=alignment)
    tool.compare(tool.dump(path, tmp_path), tensors, c, naming=1)


def test_fused_qkv_and_tied_head(tmp_path):
    c, meta, tensors = model()
    fused = dict(tensors)
    for i in range(3):
        fused[f"blk.{i}.attn_qkv.weight"] = np.concatenate([fused.pop(f"blk.{i}.attn_{x}.weight") for x in "qkv"])
    del fused["output.weight"]
    path = write(tmp_path / "m.gguf", meta, fused)
    tool.compare(tool.dump(path, tmp_path), {**tensors, "output.weight": tensors["token_embd.weight"]}, c, naming=1)
    assert tool.facts(path)["tied"] == 1


def test_router_without_loss(tmp_path):
    """An F32 router takes half the memory if it was a BF16 one; its values are the same."""
    c, meta, tensors = model()
    full = tool.facts(write(tmp_path / "a.gguf", meta, tensors))["memory_bytes"]
    for n in tensors:
        if "gate_inp" in n:
            tensors[n] = tool.bf16(tensors[n])[1].reshape(tensors[n].shape)
    path = write(tmp_path / "b.gguf", meta, tensors)
    assert tool.facts(path)["memory_bytes"] == full - 2 * 2 * 32 * 2
    tool.compare(tool.dump(path, tmp_path), tensors, c, naming=1)


def test_chat_template(tmp_path):
    c, meta, tensors = model()
    meta["tokenizer.chat_template"] = (T.STRING, fx.TEMPLATE)
    assert tool.facts(write(tmp_path / "m.gguf", meta, tensors))["template"] == 1


# Metadata that says less, or the same in other words.
GOOD = {
    "route_norm missing": ({"afmoe.expert_weights_norm": None}, dict(route_norm=1)),
    "route_norm false": ({"afmoe.expert_weights_norm": (T.BOOL, False)}, dict(route_norm=0)),
    "gating missing": ({"afmoe.expert_gating_func": None}, {}),
    "scale missing": ({"afmoe.expert_weights_scale": None}, dict(route_scale=1)),
    "scale 0": ({"afmoe.expert_weights_scale": (T.FLOAT32, 0)}, dict(route_scale=1)),
    "theta missing": ({"afmoe.rope.freq_base": None}, dict(rope_theta=10000)),
    "theta": ({"afmoe.rope.freq_base": (T.FLOAT32, 5e5)}, dict(rope_theta=5e5)),
    "theta of the window, equal": ({"afmoe.rope.freq_base_swa": (T.FLOAT32, 1e4)}, dict(rope_theta=1e4)),
    "theta of the window only": ({"afmoe.rope.freq_base": None, "afmoe.rope.freq_base_swa": (T.FLOAT32, 5e5)},
                                 dict(rope_theta=5e5)),
    "vocab_size missing": ({"afmoe.vocab_size": None}, dict(vocab_size=285)),
    "value_length missing": ({"afmoe.attention.value_length": None}, {}),
    "dimension_count missing": ({"afmoe.rope.dimension_count": None}, {}),
    "no scaling": ({"afmoe.rope.scaling.type": (T.STRING, "none")}, {}),
    "factor 1": ({"afmoe.rope.scaling.factor": (T.FLOAT32, 1)}, {}),
    "period 2": ({"afmoe.attention.sliding_window_pattern": (T.UINT32, 2)}, dict(kinds="lgl")),
    "period 1": ({"afmoe.attention.sliding_window_pattern": (T.UINT32, 1)}, dict(kinds="ggg")),
    "period 0": ({"afmoe.attention.sliding_window_pattern": (T.UINT32, 0)}, dict(kinds="lll")),
    "flags": ({"afmoe.attention.sliding_window_pattern": ([T.BOOL], [False, True, False])}, dict(kinds="glg")),
    "flags as integers": ({"afmoe.attention.sliding_window_pattern": ([T.UINT32], [1, 1, 0])}, dict(kinds="llg")),
    "no window needed": ({"afmoe.attention.sliding_window_pattern": (T.UINT32, 1), "afmoe.attention.sliding_window": None},
                         dict(kinds="ggg", window=0)),
    "integers of other widths": ({"afmoe.block_count": (T.UINT16, 3), "afmoe.expert_count": (T.UINT8, 2),
                                  "afmoe.context_length": (T.INT32, 77)}, dict(context=77)),
    "eps as a double": ({"afmoe.attention.layer_norm_rms_epsilon": (T.FLOAT64, 1e-5)}, dict(norm_eps=9.99999975e-06)),
    "one group": ({"afmoe.expert_group_count": (T.UINT32, 1)}, {}),
    "no token types": ({"tokenizer.ggml.token_type": None}, dict(tokens=285)),
    "keys nobody knows": ({"general.name": (T.STRING, "x"), "a.b": ([T.FLOAT64], [1, 2])}, {}),
    "no ids": ({"tokenizer.ggml.padding_token_id": None, "tokenizer.ggml.bos_token_id": None}, dict(ids=[-1, 3, -1])),
}


def changed(meta, change):
    return {k: v for k, v in {**meta, **change}.items() if v is not None}


@pytest.mark.parametrize("name", GOOD)
def test_good(tmp_path, name):
    change, want = GOOD[name]
    c, meta, tensors = model()
    got = tool.facts(write(tmp_path / "m.gguf", changed(meta, change), tensors))
    assert {k: got[k] for k in want} == want


def test_period_of_four(tmp_path):
    """No pattern: every fourth layer is global, as the only converter means it."""
    c, meta, tensors = model(num_hidden_layers=9, layer_types=["sliding_attention"] * 9)
    assert tool.facts(write(tmp_path / "m.gguf", meta, tensors))["kinds"] == "lllglllgl"


# ---- metadata that must be refused ----


REQUIRED = ["general.architecture", "afmoe.block_count", "afmoe.context_length", "afmoe.embedding_length",
            "afmoe.feed_forward_length", "afmoe.attention.head_count", "afmoe.attention.head_count_kv",
            "afmoe.attention.key_length", "afmoe.attention.layer_norm_rms_epsilon", "afmoe.attention.sliding_window",
            "afmoe.expert_count", "afmoe.expert_used_count", "afmoe.expert_shared_count",
            "afmoe.expert_feed_forward_length", "afmoe.leading_dense_block_count", "tokenizer.ggml.model",
            "tokenizer.ggml.tokens", "tokenizer.ggml.merges"]


@pytest.mark.parametrize("key", REQUIRED)
def test_missing(tmp_path, key):
    c, meta, tensors = model()
    text = "afmoe.vocab_size" if key == "tokenizer.ggml.tokens" else key.removeprefix("afmoe.")
    if key == "tokenizer.ggml.tokens":
        meta["afmoe.vocab_size"] = None
    tool.refused(write(tmp_path / "m.gguf", changed(meta, {key: None}), tensors), "m.gguf", text)


BAD = {
    "another arch": ({"general.architecture": (T.STRING, "arcee")}, "general.architecture"),
    "arch is a number": ({"general.architecture": (T.UINT32, 1)}, "general.architecture"),
    "softmax": ({"afmoe.expert_gating_func": (T.UINT32, 1)}, "afmoe.expert_gating_func"),
    "unknown gating": ({"afmoe.expert_gating_func": (T.UINT32, 3)}, "afmoe.expert_gating_func"),
    "scale NaN": ({"afmoe.expert_weights_scale": (T.FLOAT32, float("nan"))}, "afmoe.expert_weights_scale"),
    "scale negative": ({"afmoe.expert_weights_scale": (T.FLOAT32, -1)}, "afmoe.expert_weights_scale"),
    "scale an integer": ({"afmoe.expert_weights_scale": (T.UINT32, 1)}, "afmoe.expert_weights_scale"),
    "norm an integer": ({"afmoe.expert_weights_norm": (T.UINT32, 1)}, "afmoe.expert_weights_norm"),
    "norm 2": ({"afmoe.expert_weights_norm": (T.BOOL, 2)}, "afmoe.expert_weights_norm"),
    "groups": ({"afmoe.expert_group_count": (T.UINT32, 2)}, "afmoe.expert_group_count"),
    "two thetas": ({"afmoe.rope.freq_base_swa": (T.FLOAT32, 5e5)}, "afmoe.rope.freq_base_swa"),
    "scaling": ({"afmoe.rope.scaling.type": (T.STRING, "yarn")}, "afmoe.rope.scaling.type"),
    "linear": ({"afmoe.rope.scaling.type": (T.STRING, "linear")}, "afmoe.rope.scaling.type"),
    "factor": ({"afmoe.rope.scaling.factor": (T.FLOAT32, 2)}, "afmoe.rope.scaling.factor"),
    "old factor": ({"afmoe.rope.scale_linear": (T.FLOAT32, 4)}, "afmoe.rope.scale_linear"),
    "partial rotation": ({"afmoe.rope.dimension_count": (T.UINT32, 8)}, "afmoe.rope.dimension_count"),
    "value length": ({"afmoe.attention.value_length": (T.UINT32, 32)}, "afmoe.attention.value_length"),
    "eps 0": ({"afmoe.attention.layer_norm_rms_epsilon": (T.FLOAT32, 0)}, "epsilon"),
    "pattern too short": ({"afmoe.attention.sliding_window_pattern": ([T.BOOL], [True, False])}, "sliding_window_pattern"),
    "pattern of twos": ({"afmoe.attention.sliding_window_pattern": ([T.UINT32], [1, 2, 0])}, "sliding_window_pattern"),
    "pattern of floats": ({"afmoe.attention.sliding_window_pattern": ([T.FLOAT32], [1, 0, 0])}, "sliding_window_pattern"),
    "period text": ({"afmoe.attention.sliding_window_pattern": (T.STRING, "4")}, "sliding_window_pattern"),
    "heads by layer": ({"afmoe.attention.head_count": ([T.UINT32], [2, 2, 2])}, "head_count"),
    "heads do not divide": ({"afmoe.attention.head_count_kv": (T.UINT32, 3)}, "head_count_kv"),
    "layers": ({"afmoe.block_count": (T.UINT32, 513)}, "block_count"),
    "layers 2^63": ({"afmoe.block_count": (T.UINT64, 2**63)}, "block_count"),
    "layers of 64 bits": ({"afmoe.block_count": (T.UINT64, 3)}, "block_count"),
    "layers of 64 bits, signed": ({"afmoe.block_count": (T.INT64, 3)}, "block_count"),
    "layers a fraction": ({"afmoe.block_count": (T.FLOAT32, 3)}, "block_count"),
    "head beyond the kernels": ({"afmoe.attention.key_length": (T.UINT32, 514)}, "key_length"),
    "context beyond the rotation": ({"afmoe.context_length": (T.UINT32, 1 << 24)}, "context_length"),
    "soft cap": ({"afmoe.final_logit_softcapping": (T.FLOAT32, 30)}, "final_logit_softcapping"),
    "best groups": ({"afmoe.expert_group_used_count": (T.UINT32, 2)}, "expert_group_used_count"),
    "scaled logits": ({"afmoe.logit_scale": (T.FLOAT32, 0.5)}, "logit_scale"),
    "layers negative": ({"afmoe.block_count": (T.INT32, -1)}, "block_count"),
    "layers bool": ({"afmoe.block_count": (T.BOOL, 1)}, "block_count"),
    "active": ({"afmoe.expert_used_count": (T.UINT32, 3)}, "expert_used_count"),
    "end beyond the vocabulary": ({"tokenizer.ggml.eos_token_id": (T.UINT32, 285)}, "eos_token_id"),
    "alignment 0": ({"general.alignment": (T.UINT32, 0)}, "general.alignment"),
    "alignment 24": ({"general.alignment": (T.UINT32, 24)}, "general.alignment"),
    "alignment 2^31": ({"general.alignment": (T.UINT32, 2**31)}, "general.alignment"),
    "tokens of numbers": ({"tokenizer.ggml.tokens": ([T.UINT32], [1] * 285)}, "tokenizer.ggml.tokens"),
    "too few tokens": ({"tokenizer.ggml.tokens": ([T.STRING], ["a"])}, "tokenizer.ggml.tokens"),
    "token types": ({"tokenizer.ggml.token_type": ([T.INT32], [7] * 285)}, "tokenizer.ggml.token_type"),
    "too many tokens": ({"tokenizer.ggml.tokens": ([T.STRING], [f"t{i}" for i in range(286)])}, "286"),
    "too few types": ({"tokenizer.ggml.token_type": ([T.INT32], [1])}, "tokenizer.ggml.token_type"),
    "another tokenizer": ({"tokenizer.ggml.model": (T.STRING, "llama")}, "tokenizer.ggml.model"),
    "template with NUL": ({"tokenizer.chat_template": (T.STRING, "a\0b")}, "tokenizer.chat_template"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad(tmp_path, name):
    change, key = BAD[name]
    c, meta, tensors = model()
    tool.refused(write(tmp_path / "m.gguf", changed(meta, change), tensors), "m.gguf", key)


# ---- the container ----


@pytest.fixture(scope="module")
def pieces():
    c, meta, tensors = model()
    return tool.gguf_pieces(meta, tool.f32_tensors(tensors))


def replace(pieces, what, data):
    """The file with one field's bytes changed; the data begin at a multiple of 32 again."""
    assert sum(name == what for name, _ in pieces) == 1
    changed = [(name, data if name == what else b) for name, b in pieces]
    size = sum(len(b) for name, b in changed if name != "padding" and not name.startswith("data"))
    return b"".join(bytes(-size % 32) if name == "padding" else b for name, b in changed)


def refuse(tmp_path, data, *texts):
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    return tool.refused(path, *texts)


def test_truncated_at_every_field(tmp_path, pieces):
    """B50 for GGUF: the file ends inside each field in turn, and between them."""
    at = 0
    for name, b in pieces:
        for cut in sorted({at, at + 1, at + len(b) // 2, at + len(b) - 1}):
            if name.startswith(("key", "value", "name")) and cut != at + len(b) // 2:
                continue  # the middle of the many strings is enough
            refuse(tmp_path, b"".join(x for _, x in pieces)[:cut], "m.gguf")
        at += len(b)


COUNTS = [2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**60]
FIRST = "token_embd.weight"


@pytest.mark.parametrize("value", COUNTS)
@pytest.mark.parametrize("what", ["n_tensors", "n_keys"])
def test_counts(tmp_path, pieces, what, value):
    refuse(tmp_path, replace(pieces, what, tool.u64(value)), "m.gguf")


@pytest.mark.parametrize("value", COUNTS + [0])
def test_lengths_of_strings(tmp_path, pieces, value):
    key = "general.architecture"
    body = key.encode()
    refuse(tmp_path, replace(pieces, "key " + key, tool.u64(value) + body), "m.gguf")
    if value:
        refuse(tmp_path, replace(pieces, "value " + key, tool.u32(8) + tool.u64(value) + b"afmoe"), "m.gguf")
    refuse(tmp_path, replace(pieces, "name " + FIRST, tool.u64(value) + FIRST.encode()), "m.gguf")


@pytest.mark.parametrize("kind", [0, 6, 8, 10])
@pytest.mark.parametrize("value", COUNTS)
def test_lengths_of_arrays(tmp_path, pieces, kind, value):
    data = tool.u32(9) + tool.u32(kind) + tool.u64(value) + bytes(16)
    refuse(tmp_path, replace(pieces, "value tokenizer.ggml.merges", data), "m.gguf")


@pytest.mark.parametrize("kind", [13, 14, 2**16, 2**32 - 1])
def test_unknown_value_type(tmp_path, pieces, kind):
    refuse(tmp_path, replace(pieces, "value afmoe.block_count", tool.u32(kind) + tool.u32(3)), "m.gguf", "type")
    refuse(tmp_path, replace(pieces, "value afmoe.block_count", tool.u32(9) + tool.u32(kind) + tool.u64(0)), "type")


def test_nested_arrays(tmp_path, pieces):
    deep = (tool.u32(9) + tool.u64(1)) * 1000
    refuse(tmp_path, replace(pieces, "value afmoe.block_count", tool.u32(9) + deep), "m.gguf", "type 9")


def test_string_length_inside_an_array(tmp_path, pieces):
    data = tool.u32(9) + tool.u32(8) + tool.u64(2) + tool.gguf_string("a b") + tool.u64(2**31 + 7) + b"c d"
    refuse(tmp_path, replace(pieces, "value tokenizer.ggml.merges", data), "m.gguf", "2147483655")


@pytest.mark.parametrize("dims", [[0, 285], [32, 0], [2**42 + 1, 2**22], [2**63 - 1, 2], [2**64 - 1, 1], [2**32, 2**32],
                                  [2**61, 8], [31, 285], [33, 285], [285, 32], [32, 284], [32, 286], [9120], [32, 285, 1]])
def test_dimensions(tmp_path, pieces, dims):
    both = [("n_dims " + FIRST, tool.u32(len(dims)) + b"".join(map(tool.u64, dims)))
            if n == "n_dims " + FIRST else (n, b) for n, b in pieces if n != "dims " + FIRST]
    refuse(tmp_path, replace(both, "magic", b"GGUF"), "m.gguf")


@pytest.mark.parametrize("n", [0, 5, 9, 2**32 - 1])
def test_number_of_dimensions(tmp_path, pieces, n):
    refuse(tmp_path, replace(pieces, "n_dims " + FIRST, tool.u32(n)), FIRST, "dimensions")


@pytest.mark.parametrize("kind", [4, 5, 9, 31, 36, 43, 255, 2**31, 2**32 - 1])
def test_unknown_tensor_type(tmp_path, pieces, kind):
    refuse(tmp_path, replace(pieces, "type " + FIRST, tool.u32(kind)), FIRST, "type")


@pytest.mark.parametrize("kind", [1, 2, 12, 24, 28, 30])
def test_other_tensor_type(tmp_path, pieces, kind):
    """Another size than the directory's offsets say."""
    refuse(tmp_path, replace(pieces, "type " + FIRST, tool.u32(kind)), "m.gguf")


def test_type_that_no_weight_may_have(tmp_path):
    c, meta, tensors = model()
    t = tool.f32_tensors(tensors)
    kind, dims, data = t["blk.0.attn_q.weight"]
    t["blk.0.attn_q.weight"] = (26, dims, data)  # I32: of the same size
    refuse(tmp_path, tool.gguf_bytes(meta, t), "blk.0.attn_q.weight", "quantised", "I32")


def test_quantised_norm(tmp_path):
    c, meta, tensors = model()
    t = tool.f32_tensors(tensors)
    t["output_norm.weight"] = (8, (32,), bytes(34))
    refuse(tmp_path, tool.gguf_bytes(meta, t), "output_norm.weight", "F32, F16 or BF16", "Q8_0")


@pytest.mark.parametrize("value", [1, 32, 2**31, 2**63, 2**64 - 1, 2**64 - 32])
def test_offsets(tmp_path, pieces, value):
    refuse(tmp_path, replace(pieces, "offset " + FIRST, tool.u64(value)), FIRST, str(value))
    refuse(tmp_path, replace(pieces, "offset output.weight", tool.u64(value)), "output.weight", str(value))


def test_two_huge_tensors(tmp_path):
    """Sizes whose sum wraps to what the file has."""
    c, meta, tensors = model()
    t = tool.f32_tensors(tensors)
    p = dict(tool.gguf_pieces(meta, t))
    half = b"".join(map(tool.u64, (2**61, 1)))
    for n in (FIRST, "output.weight"):
        p["dims " + n] = half
        p["n_dims " + n] = tool.u32(2)
    refuse(tmp_path, b"".join(p.values()), "m.gguf", "output.weight", "ends at byte")


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "ä", "a b", "x" * 256, ""])
def test_odd_names(tmp_path, pieces, name):
    refuse(tmp_path, replace(pieces, "name " + FIRST, tool.gguf_string(name)), "m.gguf", "not printable")


@pytest.mark.parametrize("name,text", [("token_embd.wight", FIRST), ("output.weight", "twice")])
def test_renamed_tensor(tmp_path, pieces, name, text):
    refuse(tmp_path, replace(pieces, "name " + FIRST, tool.gguf_string(name)), "m.gguf", text)


@pytest.mark.parametrize("version", [0, 1, 4, 3 << 24, 2**32 - 1])
def test_version(tmp_path, pieces, version):
    refuse(tmp_path, replace(pieces, "version", tool.u32(version)), "m.gguf", "version")


@pytest.mark.parametrize("magic", [b"GGML", b"gguf", b"PK\3\4", b"\0" * 4])
def test_magic(tmp_path, pieces, magic):
    refuse(tmp_path, replace(pieces, "magic", magic), "m.gguf", "not a GGUF file")


@pytest.mark.parametrize("extra", [1, 4, 31, 32, 1 << 20])
def test_trailing_bytes(tmp_path, pieces, extra):
    refuse(tmp_path, b"".join(b for _, b in pieces) + bytes(extra), "m.gguf", "bytes")


def test_duplicate_key(tmp_path, pieces):
    refuse(tmp_path, replace(pieces, "key afmoe.expert_count", tool.gguf_string("afmoe.vocab_size")), "occurs twice")


def test_all_missing_tensors_in_one_message(tmp_path):
    c, meta, tensors = model()
    gone = ["blk.1.exp_probs_b.bias", "blk.2.ffn_down_exps.weight", "token_embd.weight"]
    tool.refused(write(tmp_path / "m.gguf", meta, {n: x for n, x in tensors.items() if n not in gone}), "3 tensors", *gone)


# ---- split files ----


def split(tmp_path, count=3, first=True, **kw):
    """A set of files; the first without tensors unless `first`. Returns (config, tensors, paths)."""
    c, meta, tensors = model()
    names = list(tensors)
    parts = [names[i::count] for i in range(count)] if first else [[]] + [names[i::count - 1] for i in range(count - 1)]
    paths = []
    for i, part in enumerate(parts):
        keys = {"split.no": (T.UINT16, i), "split.count": (T.UINT16, count), "split.tensors.count": (T.INT32, len(names)),
                **kw.get(f"part{i}", {})}
        keys = changed({**(meta if i == 0 else {}), **keys}, {})
        paths.append(write(tmp_path / f"m-{i + 1:05d}-of-{count:05d}.gguf", keys, {n: tensors[n] for n in part}))
    return c, tensors, paths


@pytest.mark.parametrize("first", [True, False])
def test_split(tmp_path, first):
    c, tensors, paths = split(tmp_path, first=first)
    tool.compare(tool.dump(paths[0], tmp_path), tensors, c, naming=1)


def test_split_first_part_unpadded(tmp_path):
    """Without tensors nothing pads the header."""
    c, tensors, paths = split(tmp_path, first=False)
    _, meta, _ = model()
    meta.update({"split.no": (T.UINT16, 0), "split.count": (T.UINT16, 3)})
    paths[0].write_bytes(b"".join(b for n, b in tool.gguf_pieces(meta, {}) if n != "padding"))
    tool.compare(tool.dump(paths[0], tmp_path), tensors, c, naming=1)


def test_split_other_part_given(tmp_path):
    _, _, paths = split(tmp_path)
    tool.refused(paths[1], paths[1].name, "split.no")


def test_split_part_missing(tmp_path):
    _, _, paths = split(tmp_path)
    paths[2].unlink()
    tool.refused(paths[0], paths[2].name)


def test_split_renamed(tmp_path):
    _, _, paths = split(tmp_path)
    tool.refused(paths[0].rename(tmp_path / "m.gguf"), "m.gguf", "split.count")


@pytest.mark.parametrize("part,keys", [
    (1, {"split.no": (T.UINT16, 2)}), (2, {"split.count": (T.UINT16, 4)}), (1, {"split.no": None}),
    (0, {"split.count": (T.UINT16, 65535)}), (0, {"split.tensors.count": (T.INT32, 7)}), (0, {"split.no": (T.INT16, -1)})])
def test_split_contradictions(tmp_path, part, keys):
    _, _, paths = split(tmp_path, **{f"part{part}": keys})
    tool.refused(paths[0], paths[part].name, "split.")


def test_split_truncated(tmp_path):
    _, _, paths = split(tmp_path)
    b = paths[1].read_bytes()
    paths[1].write_bytes(b[:-33])
    tool.refused(paths[0], paths[1].name, str(len(b) - 33))


def test_tensor_in_two_parts(tmp_path):
    _, tensors, paths = split(tmp_path, part0={"split.tensors.count": None})
    again = [list(tensors)[0], *list(tensors)[1::3]]
    write(paths[1], {"split.no": (T.UINT16, 1), "split.count": (T.UINT16, 3)}, {n: tensors[n] for n in again})
    tool.refused(paths[0], again[0], "twice", paths[0].name, paths[1].name)
