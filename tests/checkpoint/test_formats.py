"""Quantised safetensors of every scheme: the formats' own files give the values that an independent decoder reads, wrong
readings are noticed, and each field that is wrong is refused in one line."""
import importlib.util
import json
import shutil

import numpy as np
import pytest

import fixtures as fx
import harness
from checkpoint import tool
from checkpoint.test_daemon import COARSE, greedy

GOLDEN = harness.GOLDEN / "formats"
FOLDERS = sorted(p.parent.name for p in GOLDEN.glob("*/config.json"))
LOGITS = json.loads((GOLDEN / "logits.json").read_text())
WEIGHTS = json.loads((GOLDEN / "weights.json").read_text())
CODES = json.loads((GOLDEN / "codes.json").read_text())

spec = importlib.util.spec_from_file_location("decode", GOLDEN / "decode.py")
decode = importlib.util.module_from_spec(spec)
spec.loader.exec_module(decode)

# What the quantised matrices become in memory, and whether that is without loss.
KEPT = {
    "awq": ("q5_0", True), "fp8-block": ("q8_0", False), "fp8-deepseek": ("q8_0", False), "fp8-tensor": ("q8_0", False),
    "gptq": ("q8_0", False), "mixed-fp8-int8": ("q8_0", False), "mlx-4bit": ("q4_1", True), "mlx-6bit": ("q8_0", False),
    "mxfp4": ("mxfp4", True), "nvfp4": ("nvfp4", True), "nvfp4-modelopt": ("nvfp4", True), "w4a16": ("q4_0", True),
    "w4a16-actorder": ("q8_0", False), "w4a16-asym": ("q5_0", True), "w8a16": ("q8_0", True)}


def decoded(folder):
    """(config, {name: values}) by decode.py, the tied head too."""
    c, w, how = decode.decode(folder)
    w.setdefault("lm_head.weight", w["model.embed_tokens.weight"])
    return c, w


# ---- values ----


def test_all_schemes_are_here():
    assert set(FOLDERS) == set(KEPT) == set(LOGITS) == set(WEIGHTS)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", FOLDERS)
def test_values(tmp_path, name, threads):
    c, w = decoded(GOLDEN / name)
    got = tool.dump(GOLDEN / name, tmp_path, choice="f32", threads=threads)
    tool.compare(got, w, c)
    assert tool.facts(GOLDEN / name)["warnings"] == ""


@pytest.mark.parametrize("name", FOLDERS)
def test_values_by_the_packages(tmp_path, name):
    """What the formats' own packages read, as far as it was written down. Norms of branches hide a factor from logits."""
    c, w = decoded(GOLDEN / name)
    got = tool.dump(GOLDEN / name, tmp_path, choice="f32")
    names = {}
    for part, layer, expert in got:
        if part not in ("embed", "head", "final_norm"):
            names[f"model.layers.{layer}." + tool.layer_name(part, layer, expert, c["num_dense_layers"], 0)] = (part, layer, expert)
    seen = 0
    for weight, want in WEIGHTS[name].items():
        if weight not in names:
            continue
        x = got[names[weight]].astype(np.float64)
        assert list(x.shape) == want["shape"] or list(x.shape[1:]) == want["shape"], weight
        np.testing.assert_allclose(x.ravel()[:4], want["first"], rtol=1e-6, err_msg=weight)
        np.testing.assert_allclose(x.ravel()[-4:], want["last"], rtol=1e-6, err_msg=weight)
        np.testing.assert_allclose(x.sum(), want["sum"], rtol=1e-6, atol=1e-5, err_msg=weight)
        np.testing.assert_allclose((x * x).sum(), want["squares"], rtol=1e-6, err_msg=weight)
        seen += 1
    assert seen >= len(WEIGHTS[name]) - 3


@pytest.mark.parametrize("name", FOLDERS)
def test_what_it_becomes(name):
    kept, exact = KEPT[name]
    f = tool.facts(GOLDEN / name)
    assert kept in f["types"].split("+")
    lines = f["formats"].split("\n")
    assert all(", kept as " in line for line in lines)
    assert all(line.endswith(", exact") for line in lines) == exact, lines
    for line in lines:
        if "rounded by" in line:
            assert float(line.split()[-1]) < 6e-3, line


@pytest.mark.parametrize("choice", ["bf16", "q8_0", "q4_0"])
@pytest.mark.parametrize("name", FOLDERS)
def test_conversion(name, choice):
    f = tool.facts(GOLDEN / name, choice=choice)
    assert f["types"] == choice
    assert f["fingerprint"] != tool.facts(GOLDEN / name, choice="f32")["fingerprint"]


def test_codes_are_taken_over():
    """Not through floats: int4 in q8_0 and q5_0's codes lose nothing, whatever was asked for."""
    for name, choice in (("w4a16", "q4_0"), ("awq", "q8_0"), ("mxfp4", "q8_0"), ("w4a16-asym", "q8_0")):
        lines = tool.facts(GOLDEN / name, choice=choice)["formats"].split("\n")
        assert all(line.endswith("exact") for line in lines if line.startswith(("int", "AWQ", "MXFP4"))), lines


def test_powers_of_two_stay_exact_in_bf16():
    lines = tool.facts(GOLDEN / "fp8-block", choice="bf16")["formats"].split("\n")
    assert all(line.endswith("exact") for line in lines), lines


def test_embedding_of_mlx(tmp_path):
    """It is kept in 4 bits, and rows of it are read back exactly."""
    c, w = decoded(GOLDEN / "mlx-4bit")
    got = tool.dump(GOLDEN / "mlx-4bit", tmp_path)
    rows = [k for k in got if k[0] == "embed"]
    assert len(rows) == 41
    for key in rows:
        np.testing.assert_allclose(got[key][0], w["model.embed_tokens.weight"][key[1]], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("weights,tolerance", [("f32", 1e-4), ("auto", 2 * COARSE)])
def test_logits(daemon, name, weights, tolerance):
    """The likeliest token and its logprob are those that transformers computes from the decoded weights."""
    d = daemon(GOLDEN / name, weights=weights, kv_type="f32")
    want = LOGITS[name]
    for position, row in zip(want["positions"], want["logits"]):
        row = np.array(row)[:fx.ftok().get_vocab_size()]
        ids, logprobs = greedy(d, want["prompt"][:position + 1], 1)
        assert logprobs[0] == pytest.approx(row[ids[0]] - np.logaddexp.reduce(row), abs=tolerance)
        assert row[ids[0]] >= row.max() - tolerance


def test_sharded(tmp_path):
    """A module's parts may lie in different files, as indexes split them."""
    tensors = decode.read(GOLDEN / "w4a16-asym")
    for i, names in enumerate((sorted(tensors)[0::2], sorted(tensors)[1::2])):
        part = {n: (tensors[n][0], tensors[n][1].shape, tensors[n][1].tobytes()) for n in names}
        (tmp_path / f"part-{i}.safetensors").write_bytes(tool.pack(*tool.header_of(part)))
    index = {n: f"part-{i % 2}.safetensors" for i, n in enumerate(sorted(tensors))}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    for f in ("config.json", "tokenizer.json"):
        shutil.copy(GOLDEN / "w4a16-asym" / f, tmp_path)
    c, w = decoded(GOLDEN / "w4a16-asym")
    tool.compare(tool.dump(tmp_path, tmp_path, choice="f32"), w, c)


def test_parts_are_part_of_the_fingerprint(tmp_path):
    """Another scale, zero point or factor is another model."""
    for name, part in (("w4a16-asym", "weight_zero_point"), ("w8a16", "weight_scale"), ("nvfp4", "weight_global_scale"),
                       ("gptq", "g_idx"), ("mlx-4bit", "biases"), ("awq", "qzeros")):
        path = tmp_path / name
        edit(path, name, lambda t: change_bytes(t, part))
        assert tool.facts(path)["fingerprint"] != tool.facts(GOLDEN / name)["fingerprint"], name


# ---- all codes ----


def module_of(path, config, parts, module="model.layers.0.self_attn.q_proj"):
    """A model whose only quantised module is this one; parts: {suffix: (dtype, array)}."""
    c, w = fx.f1(**tool.TINY, **config)
    path.mkdir(exist_ok=True)
    tensors = {n: ("F32", x.shape, x.tobytes()) for n, x in w.items() if n != module + ".weight"}
    tensors.update({f"{module}.{s}": (d, x.shape, np.ascontiguousarray(x).tobytes()) for s, (d, x) in parts.items()})
    (path / "model.safetensors").write_bytes(tool.pack(*tool.header_of(tensors)))
    (path / "config.json").write_text(json.dumps(c))
    fx.ftok().save(str(path / "tokenizer.json"))
    return path


def test_every_e4m3(tmp_path):
    codes = np.arange(32 * 32, dtype=np.int64).reshape(32, 32).astype(np.uint8)
    codes[(codes & 0x7F) == 0x7F] = 0
    path = module_of(tmp_path / "m", dict(quantization_config={"quant_method": "fp8"}),
                     {"weight": ("F8_E4M3", codes), "weight_scale": ("F32", np.ones(1, np.float32))})
    want = np.array([x if isinstance(x, float) else 0 for x in CODES["e4m3"]], np.float32)[codes]
    np.testing.assert_array_equal(tool.dump(path, tmp_path, choice="f32")["q", 0, -1], want)
    for nan in (0x7F, 0xFF):
        codes[3, 5] = nan
        module_of(path, dict(quantization_config={"quant_method": "fp8"}),
                  {"weight": ("F8_E4M3", codes), "weight_scale": ("F32", np.ones(1, np.float32))})
        tool.refused(path, "q_proj.weight", "row 3", "no number")


FP4 = dict(quantization_config={"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"})


def test_every_e2m1_and_e8m0(tmp_path):
    pairs = np.arange(32 * 16, dtype=np.int64).reshape(32, 16).astype(np.uint8)
    values = np.array(CODES["e2m1"], np.float32)
    for first in range(0, 256, 32):
        scale = np.arange(first, first + 32, dtype=np.uint8).reshape(32, 1)
        path = module_of(tmp_path / "m", FP4, {"weight_packed": ("U8", pairs), "weight_scale": ("U8", scale)})
        if first + 31 == 255:
            tool.refused(path, "q_proj.weight", "row 31", "scale")
            scale[31] = 240
            module_of(path, FP4, {"weight_packed": ("U8", pairs), "weight_scale": ("U8", scale)})
        powers = np.array([x if isinstance(x, float) else 0 for x in CODES["e8m0"]], np.float64)[scale]
        want = np.stack([values[pairs & 15], values[pairs >> 4]], -1).reshape(32, 32) * powers
        got = tool.run(path, choice="f32", dump=tmp_path / "d")
        if np.abs(want).max() > np.finfo(np.float32).max:
            assert got.returncode == 1 and "not finite" in got.stderr
            continue
        want[np.abs(want) < np.finfo(np.float32).tiny] = 0  # as everywhere that computes
        np.testing.assert_array_equal(tool.dump(path, tmp_path, choice="f32")["q", 0, -1], want.astype(np.float32))


# ---- every width ----

RNG = np.random.default_rng(11)
N = K = 32  # q_proj of tool.TINY


def words(*shape):
    return RNG.integers(0, 2**32, shape, dtype=np.uint32)


def halves(*shape):
    return (RNG.uniform(0.01, 0.1, shape)).astype(np.float16)


def packed(bits, zeros):
    weights = dict(num_bits=bits, type="int", symmetric=not zeros)
    parts = {"weight_packed": ("I32", words(N, bits)), "weight_scale": ("F16", halves(N, 1)),
             "weight_shape": ("I64", np.array([N, K], np.int64))}
    if zeros:
        parts["weight_zero_point"] = ("I32", words(bits, 1))
    return dict(quantization_config=dict(quant_method="compressed-tensors", format="pack-quantized",
                                         config_groups={"group_0": {"weights": weights}})), parts


def gptq(bits, form):
    return (dict(quantization_config=dict(quant_method="gptq", bits=bits, group_size=16, checkpoint_format=form)),
            {"qweight": ("I32", words(bits, N)), "qzeros": ("I32", words(2, bits)), "scales": ("F16", halves(2, N))})


def middle(method, bits, zeros):
    """All zero points where a symmetric matrix has them, whatever config.json says of that."""
    c = dict(quant_method=method, bits=bits, group_size=32, sym=False)
    order = words(bits, N) if method == "gptq" else words(K, N // 8)
    return (dict(quantization_config=c), {"qweight": ("I32", order), "scales": ("F16", halves(1, N)),
                                          "qzeros": ("I32", np.full((1, N * bits // 32), zeros, np.uint32))})


def mlx(bits):
    return (dict(quantization=dict(bits=bits, group_size=32)),
            {"weight": ("U32", words(N, bits)), "scales": ("F16", halves(N, 1)), "biases": ("F16", -halves(N, 1))})


def int8(*shape):
    return (dict(quantization_config=dict(quant_method="compressed-tensors", format="int-quantized")),
            {"weight": ("I8", RNG.integers(-128, 128, (N, K), dtype=np.int8)), "weight_scale": ("F16", halves(*shape))})


WIDTHS = {
    **{f"int{b}": (packed(b, False), "q4_0" if b < 5 else "q5_0" if b < 6 else "q8_0") for b in range(2, 9)},
    **{f"int{b} with zero points": (packed(b, True), "q4_0" if b < 4 else "q5_0" if b < 5 else "q8_0") for b in range(2, 9)},
    **{f"gptq {b} {form}": (gptq(b, form), "q8_0") for b in (2, 3, 4, 8) for form in ("gptq", "gptq_v2")},
    "symmetric gptq 4": (middle("gptq", 4, 0x77777777), "q4_0"),
    "symmetric gptq 8": (middle("gptq", 8, 0x7F7F7F7F), "q8_0"),
    "nearly symmetric gptq 4": (middle("gptq", 4, 0x77777767), "q5_0"),
    "symmetric awq": (middle("awq", 4, 0x88888888), "q4_0"),
    **{f"mlx {b}": (mlx(b), "q4_1" if b < 5 else "q5_1" if b < 6 else "q8_0") for b in (2, 3, 4, 5, 6, 8)},
    **{f"int8 {s}": (int8(*s), "q8_0") for s in ((1,), (N,), (N, 1), (N, 2))},
}


@pytest.mark.parametrize("name", WIDTHS)
def test_every_width(tmp_path, name):
    (config, parts), kept = WIDTHS[name]
    path = module_of(tmp_path / "m", config, parts)
    c, w, how = decode.decode(path)
    np.testing.assert_array_equal(tool.dump(path, tmp_path, choice="f32")["q", 0, -1],
                                  w["model.layers.0.self_attn.q_proj.weight"])
    f = tool.facts(path)
    assert kept in f["types"].split("+")
    exact = [line for line in f["formats"].split("\n") if f"kept as {kept}" in line][0].endswith(", exact")
    grouped_by_less = name.startswith("gptq") or name == "int8 (32, 2)"  # than a block of the types
    wide = name in ("mlx 6", "mlx 8", "int8 with zero points")
    assert exact == (not grouped_by_less and not wide)


def test_mxfp8(tmp_path):
    """As FP8 with a power of two for 32 columns."""
    codes, powers = RNG.integers(0, 0x7F, (N, K), dtype=np.uint8), RNG.integers(110, 130, (N, 1), dtype=np.uint8)
    path = module_of(tmp_path / "m", dict(quantization_config=dict(quant_method="compressed-tensors", format="mxfp8-quantized")),
                     {"weight": ("F8_E4M3", codes), "weight_scale": ("U8", powers)})
    want = np.array([x if isinstance(x, float) else 0 for x in CODES["e4m3"]])[codes] * np.exp2(powers - 127.0)
    np.testing.assert_array_equal(tool.dump(path, tmp_path, choice="f32")["q", 0, -1], want)
    assert "rounded" not in tool.facts(path, choice="bf16")["formats"].split("\n")[1]


def test_readme_names_what_it_becomes():
    table = (harness.ROOT / "README.md").read_text().split("| stored as | kept as |")[1].split("\n\n")[0]
    assert all(f"`{kept}`" in table for kept, exact in KEPT.values())


# ---- wrong readings are noticed ----


def shifted(group):
    return lambda scale, *a, **kw: group(np.roll(scale, 1, -1), *a, **kw)


WRONG = {
    "nibbles swapped": ("nvfp4", lambda m: m.setattr(decode, "fp4_pairs", lambda u, f=decode.fp4_pairs: f(u >> 4 | u << 4))),
    "zero point without one": ("gptq", lambda m: m.setattr(decode, "gptq", lambda t, p, cfg, f=decode.gptq: f(
        t, p, {**cfg, "checkpoint_format": "gptq_v2"}))),
    "g_idx passed over": ("gptq", lambda m: m.setattr(decode, "gptq", lambda t, p, cfg, f=decode.gptq: f(
        {k: v for k, v in t.items() if "g_idx" not in k}, p, cfg))),
    "g_idx of int4 passed over": ("w4a16-actorder", lambda m: m.setattr(decode, "packed_ints", lambda t, p, c, f=decode.packed_ints: f(
        {k: v for k, v in t.items() if "g_idx" not in k}, p, c))),
    "zero point passed over": ("w4a16-asym", lambda m: m.setattr(decode, "packed_ints", lambda t, p, c, f=decode.packed_ints: f(
        {k: v for k, v in t.items() if "zero" not in k}, p, c))),
    "order of AWQ": ("awq", lambda m: m.setattr(decode, "AWQ", list(range(8)))),
    "block of the neighbour": ("fp8-block", lambda m: m.setattr(decode, "spread", lambda s, n, k, block=None, f=decode.spread: f(
        s[::-1, ::-1], n, k, block))),
    "scale of the neighbour": ("w4a16", lambda m: m.setattr(decode, "number", lambda t, f=decode.number: np.roll(
        f(t), 1, -1) if t[1].ndim == 2 and t[1].shape[1] == 2 else f(t))),
    "bias passed over": ("mlx-4bit", lambda m: m.setattr(decode, "mlx", lambda t, p, cfg, name, f=decode.mlx: f(
        {k: (d, 0 * x) if k.endswith("biases") else (d, x) for k, (d, x) in t.items()}, p, cfg, name))),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_reading_is_noticed(tmp_path, monkeypatch, name):
    folder, change = WRONG[name]
    got = tool.dump(GOLDEN / folder, tmp_path, choice="f32")
    change(monkeypatch)
    c, w = decoded(GOLDEN / folder)
    with pytest.raises(AssertionError):
        tool.compare(got, w, c)


# ---- what must be refused ----


def edit(path, name, change, config=None):
    """A copy of a golden folder; change({name: [dtype, array]}) may replace, remove and add tensors."""
    tensors = {n: [d, x.copy()] for n, (d, x) in decode.read(GOLDEN / name).items()}
    change(tensors)
    path.mkdir(exist_ok=True)
    (path / "model.safetensors").write_bytes(tool.pack(*tool.header_of(
        {n: (d, x.shape, np.ascontiguousarray(x).tobytes()) for n, (d, x) in tensors.items()})))
    c = json.loads((GOLDEN / name / "config.json").read_text())
    if config:
        config(c)
    (path / "config.json").write_text(json.dumps(c))
    shutil.copy(GOLDEN / name / "tokenizer.json", path)
    return path


def first_with(tensors, suffix):
    return next(n for n in sorted(tensors) if n.endswith("." + suffix))


def change_bytes(tensors, suffix):
    """Another value of the same kind: the first element is the last one's, or one less where these are equal."""
    d, x = tensors[first_with(tensors, suffix)]
    flat = x.reshape(-1)
    flat[0] = flat[-1] if flat[0] != flat[-1] else flat[0] ^ 1 if flat.dtype.kind in "iu" else flat[0] * 2


# Scheme -> the parts that it can't do without.
PARTS = {
    "w4a16": ["weight_packed", "weight_scale", "weight_shape"], "w4a16-asym": ["weight_zero_point", "weight_scale"],
    "w4a16-actorder": ["weight_g_idx"], "w8a16": ["weight_packed", "weight_scale"], "mixed-fp8-int8": ["weight_scale"],
    "fp8-tensor": ["weight_scale"], "fp8-block": ["weight_scale"], "fp8-deepseek": ["weight_scale_inv"],
    "nvfp4": ["weight_packed", "weight_scale", "weight_global_scale"], "nvfp4-modelopt": ["weight_scale", "weight_scale_2"],
    "mxfp4": ["weight_packed", "weight_scale"], "gptq": ["qweight", "qzeros", "scales", "g_idx"],
    "awq": ["qweight", "qzeros", "scales"], "mlx-4bit": ["scales", "biases"], "mlx-6bit": ["scales", "biases"]}
EVERY = [(f, p) for f, parts in PARTS.items() for p in parts]


@pytest.mark.parametrize("name,part", EVERY)
def test_missing_part(tmp_path, name, part):
    removed = []

    def change(t):
        removed.append(first_with(t, part))
        del t[removed[0]]
    tool.refused(edit(tmp_path / "m", name, change), removed[0].rsplit(".", 1)[0])


@pytest.mark.parametrize("name,part", EVERY)
def test_part_of_another_shape(tmp_path, name, part):
    def longer(t):
        n = first_with(t, part)
        t[n][1] = np.concatenate([np.atleast_1d(t[n][1])] * 2)

    def other(t):
        n = first_with(t, part)
        t[n][1] = t[n][1].reshape(-1)[:t[n][1].size // 3]
    tool.refused(edit(tmp_path / "m", name, longer), "model.safetensors")
    if decode.read(GOLDEN / name)[first_with(decode.read(GOLDEN / name), part)][1].size > 1:
        tool.refused(edit(tmp_path / "m", name, other), "model.safetensors")


@pytest.mark.parametrize("name,part", EVERY)
def test_part_of_another_type(tmp_path, name, part):
    """Of the same size, and no type that the part may have."""
    def change(t):
        n = first_with(t, part)
        t[n][0] = {1: "BOOL", 2: "I16", 4: "F32" if t[n][0] != "F32" else "I32", 8: "F64"}[t[n][1].itemsize]
    tool.refused(edit(tmp_path / "m", name, change), "model.safetensors", part.removesuffix("_scale"))


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("extra", ["pre_quant_scale", "bias", "suh", "trellis", "weight_row_scale"])
def test_unknown_part(tmp_path, name, extra):
    """It may change the weight, or what is done with it."""
    def change(t):
        t[first_with(t, PARTS[name][0]).rsplit(".", 1)[0] + "." + extra] = ["F32", np.ones(4, np.float32)]
    tool.refused(edit(tmp_path / "m", name, change), extra, "not understood")


@pytest.mark.parametrize("name,part", [("w4a16", "weight_packed"), ("gptq", "qweight")])
def test_two_weights(tmp_path, name, part):
    def change(t):
        t[first_with(t, part).rsplit(".", 1)[0] + ".weight"] = ["F32", np.ones((4, 4), np.float32)]
    tool.refused(edit(tmp_path / "m", name, change), ".weight: stands beside " + part)


def put(part, value, dtype=None):
    def change(t):
        x = t[first_with(t, part)][1]
        x.reshape(-1)[-1] = value
    return change


VALUES = {
    "scale NaN": ("w4a16", put("weight_scale", 0x7FC0), "scale that is not finite"),
    "scale infinite": ("w8a16", put("weight_scale", 0x7F80), "scale that is not finite"),
    "scale NaN in F16": ("gptq", put("scales", np.nan), "scale that is not finite"),
    "scale NaN in E4M3": ("nvfp4", put("weight_scale", 0x7F), "scale that is not finite"),
    "scale negative": ("nvfp4", put("weight_scale", 0x83), "negative scale"),
    "scale NaN in E8M0": ("mxfp4", put("weight_scale", 0xFF), "scale that is not finite"),
    "scale NaN in F32": ("fp8-deepseek", put("weight_scale_inv", np.nan), "scale that is not finite"),
    "bias NaN": ("mlx-4bit", put("biases", 0x7FC0), "bias that is not finite"),
    "factor 0": ("nvfp4", put("weight_global_scale", 0), "weight_global_scale: is 0"),
    "factor NaN": ("nvfp4-modelopt", put("weight_scale_2", np.nan), "weight_scale_2: is nan"),
    "group beyond": ("gptq", put("g_idx", 4), "has the group 4, there are"),
    "group below 0": ("w4a16-actorder", put("weight_g_idx", -2), "has the group -2"),
    "shape with another row count": ("w4a16", lambda t: t[first_with(t, "weight_shape")][1].put(0, 127), "weight_shape: says [127"),
    "shape with other columns": ("w4a16", put("weight_shape", 130), "words a row"),
    "code NaN": ("fp8-tensor", lambda t: next(x for n, (d, x) in t.items() if d == "F8_E4M3").put(0, 0x7F), "code that is no number"),
}


@pytest.mark.parametrize("name", VALUES)
def test_bad_value(tmp_path, name):
    folder, change, text = VALUES[name]
    tool.refused(edit(tmp_path / "m", folder, change), text)


def quant(**kw):
    def change(c):
        (c["quantization_config"] if "quantization_config" in c else c["quantization"]).update(kw)
    return change


def group(**kw):
    return lambda c: c["quantization_config"]["config_groups"]["group_0"]["weights"].update(kw)


CONFIGS = {
    **{f"method {m}": ("w4a16", quant(quant_method=m), f'"{m}" is not supported') for m in
       ("exl3", "exl2", "bitsandbytes", "hqq", "aqlm", "gguf", "torchao", "quark", "auto-round", "")},
    "method is a number": ("w4a16", quant(quant_method=4), "quant_method"),
    "bits": ("w4a16", group(num_bits=8), "words a row"),
    "bits beyond": ("w4a16", group(num_bits=9), "num_bits"),
    "type of codes": ("w4a16", group(type="nf"), "type"),
    "format": ("w4a16", quant(format="marlin-24"), '"marlin-24" is not supported'),
    "sparse": ("w4a16", quant(sparsity_config={"format": "sparse-24-bitmask"}), "sparse-24-bitmask"),
    "transformed": ("w4a16", quant(transform_config={"a": 1}), "transform_config"),
    "another block": ("fp8-block", group(block_structure=[64, 64]), "weight_scale"),
    "block of 0": ("fp8-deepseek", quant(weight_block_size=[0, 128]), "weight_block_size"),
    "block of one number": ("fp8-deepseek", quant(weight_block_size=[128]), "weight_block_size"),
    "E5M2": ("fp8-deepseek", quant(fmt="e5m2"), '"e5m2" is not supported'),
    "GPTQ of marlin": ("gptq", quant(checkpoint_format="marlin"), '"marlin" is not supported'),
    "GPTQ group": ("gptq", quant(group_size=64), "scales"),
    "GPTQ bits": ("gptq", quant(bits=8), "scales"),
    "AWQ gemv": ("awq", quant(version="gemv"), '"gemv" is not supported'),
    "AWQ bits": ("awq", quant(bits=8), "bits"),
    "AWQ group": ("awq", quant(group_size=32), "scales"),
    "AWQ group 0": ("awq", quant(group_size=0), "group_size"),
    "MLX mode": ("mlx-4bit", quant(mode="mxfp4"), '"mxfp4" is not supported'),
    "MLX bits": ("mlx-4bit", quant(bits=8), "scales"),
    "MLX group": ("mlx-4bit", quant(group_size=32), "scales"),
    "MLX without bits": ("mlx-4bit", lambda c: c["quantization_config"].pop("bits"), "bits"),
    "no method": ("gptq", lambda c: c.pop("quantization_config"), "no method that config.json names has a qweight"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_bad_config(tmp_path, name):
    folder, change, text = CONFIGS[name]
    tool.refused(edit(tmp_path / "m", folder, lambda t: None, change), text)


def test_e5m2_is_refused(tmp_path):
    def change(t):
        for n, (d, x) in t.items():
            t[n][0] = "F8_E5M2" if d == "F8_E4M3" else d
    tool.refused(edit(tmp_path / "m", "fp8-deepseek", change), "F8_E5M2")


def test_modelopt_says_it_again(tmp_path):
    """hf_quant_config.json alone will do, and what it can't have is refused by name."""
    path = edit(tmp_path / "m", "nvfp4-modelopt", lambda t: None, lambda c: c.pop("quantization_config", None))
    tool.refused(path, "no method")
    shutil.copy(GOLDEN / "nvfp4-modelopt" / "hf_quant_config.json", path)
    assert "nvfp4" in tool.facts(path)["types"]
    f = json.loads((path / "hf_quant_config.json").read_text())
    f["quantization"]["quant_algo"] = "W4A8_AWQ"
    (path / "hf_quant_config.json").write_text(json.dumps(f))
    tool.refused(path, "hf_quant_config.json", '"W4A8_AWQ" is not supported')
