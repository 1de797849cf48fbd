"""safetensors checkpoints: every layout and type gives the file's own values; a wrong file is refused in one line."""
import json
import subprocess
import time

import numpy as np
import pytest

import fixtures as fx
import harness
from checkpoint import tool


def tiny(path, **kw):
    """A folder with a small random model; (config, values)."""
    c, w = fx.f1(**tool.TINY)
    return c, tool.folder(path, c, w, **kw)


def mixed(name):
    """Some of every type, so that each kind of weight occurs in each."""
    return ("F32", "BF16", "F16")[sum(name.encode()) % 3]


# ---- what must load ----


@pytest.mark.parametrize("mmap", [0, 1])
@pytest.mark.parametrize("shards,dtypes,pad", [(1, lambda n: "F32", 0), (1, lambda n: "BF16", 0), (3, mixed, 5),
                                               (1, lambda n: "F16", 3), (4, lambda n: "F32", 1)])
def test_values(tmp_path, shards, dtypes, pad, mmap):
    c, values = tiny(tmp_path / "m", dtypes=dtypes, shards=shards, pad=pad)
    got = tool.dump(tmp_path / "m", tmp_path, choice="f32", mmap=mmap)
    tool.compare(got, values, c)


def test_facts(tmp_path):
    c, values = tiny(tmp_path, dtypes=lambda n: "BF16")
    f = tool.facts(tmp_path)
    n = sum(v.size for v in values.values())
    assert (f["n_params"], f["file_bytes"], f["types"], f["warnings"]) == (n, 2 * n, "bf16", "")
    assert f["progress"][0] == f["progress"][1] > 0
    assert f["kinds"] == "lgl" and f["embed_scale"] == pytest.approx(32 ** 0.5, rel=1e-7)


def test_fused_experts(tmp_path):
    """transformers 5's own layout of the experts."""
    c, w = fx.f1(**tool.TINY)
    fused = {n: x for n, x in w.items() if ".mlp.experts." not in n}
    for i in range(c["num_dense_layers"], c["num_hidden_layers"]):
        p = f"model.layers.{i}.mlp.experts."
        part = lambda e, s: w[f"{p}{e}.{s}_proj.weight"]
        n = range(c["num_experts"])
        fused[p + "gate_up_proj"] = np.stack([np.concatenate([part(e, "gate"), part(e, "up")]) for e in n])
        fused[p + "down_proj"] = np.stack([part(e, "down") for e in n])
    tool.folder(tmp_path / "m", c, fused)
    tool.compare(tool.dump(tmp_path / "m", tmp_path, choice="f32"), w, c)


def test_tied_head(tmp_path):
    """B52: with tie_word_embeddings a missing lm_head is the embedding table."""
    c, w = fx.f1(**tool.TINY, tie_word_embeddings=True)
    del w["lm_head.weight"]
    tool.folder(tmp_path / "m", c, w)
    w["lm_head.weight"] = w["model.embed_tokens.weight"]
    tool.compare(tool.dump(tmp_path / "m", tmp_path, choice="f32"), w, c)


def test_no_shared_expert(tmp_path):
    c, w = fx.f1(**tool.TINY, num_shared_experts=0)
    w = {n: x for n, x in w.items() if "shared" not in n}
    tool.folder(tmp_path / "m", c, w)
    tool.compare(tool.dump(tmp_path / "m", tmp_path, choice="f32"), w, c)


def test_unused_tensors_are_named_once(tmp_path):
    c, w = fx.f1(**tool.TINY)
    w["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(8, np.float32)
    w["model.layers.0.extra"] = np.zeros((2, 3), np.float32)
    w["model.layers.3.input_layernorm.weight"] = np.zeros(32, np.float32)
    tool.folder(tmp_path, c, w)
    warning = tool.facts(tmp_path)["warnings"]
    assert warning.count("\n") == 0 and warning.startswith("2 tensors are not used")
    assert "model.layers.0.extra" in warning and "model.layers.3.input_layernorm.weight" in warning


def test_unused_tensor_of_any_type(tmp_path):
    """Types that no weight may have are fine where nothing is read."""
    tiny(tmp_path)
    header, data = read(tmp_path / "model.safetensors")
    header["x"] = {"dtype": "I64", "shape": [], "data_offsets": [len(data), len(data) + 8]}
    (tmp_path / "model.safetensors").write_bytes(tool.pack(header, data + bytes(8)))
    assert "x" in tool.facts(tmp_path)["warnings"]


@pytest.mark.parametrize("choice,name,bits", [("bf16", "bf16", 16), ("q8_0", "q8_0", 8.5), ("q4_0", "q4_0", 4.5)])
def test_conversion(tmp_path, choice, name, bits):
    """Matrices are converted, and take what the type takes; norms, router and bias are as they were."""
    c, w = fx.f1(moe_intermediate_size=64)
    values = tool.folder(tmp_path / "m", c, w, dtypes=lambda n: "BF16")
    f = tool.facts(tmp_path / "m", choice=choice)
    assert f["types"] == name
    matrices = sum(v.size for n, v in values.items() if v.ndim == 2 and "router" not in n and "embed" not in n)
    small = f["memory_bytes"] - values["model.embed_tokens.weight"].size * 2
    assert 0 <= small - matrices * bits / 8 < 32768  # norms and routers; columns padded to 16, weights to 64 bytes
    got = tool.dump(tmp_path / "m", tmp_path, choice=choice)
    assert {k[0] for k in got} == {"embed", "input_norm", "post_attn_norm", "pre_mlp_norm", "post_mlp_norm", "q_norm",
                                   "k_norm", "router", "expert_bias", "final_norm"}
    for key, x in got.items():
        np.testing.assert_array_equal(x, tool.expected(key, values, c["num_dense_layers"]))


def test_conversion_that_does_not_fit(tmp_path):
    c, w = fx.f1(**{**tool.TINY, "moe_intermediate_size": 24})
    tool.folder(tmp_path, c, w)
    tool.facts(tmp_path, choice="bf16")
    tool.refused(tmp_path, "model.safetensors", "down_proj.weight", "24", "q8_0", choice="q8_0")


def test_fingerprint(tmp_path):
    """The same for every way of loading, another for every other weight or shape."""
    c, w = fx.f1(**tool.TINY)
    tool.folder(tmp_path / "a", c, w)
    base = tool.facts(tmp_path / "a")["fingerprint"]
    assert base == tool.facts(tmp_path / "a", mmap=0, threads=1)["fingerprint"]
    assert base == tool.facts(tmp_path / "a", threads=5)["fingerprint"]
    others = [tool.facts(tmp_path / "a", choice="q8_0")["fingerprint"]]
    for i, key in enumerate(["model.norm.weight", "model.layers.2.mlp.experts.1.down_proj.weight", "lm_head.weight"]):
        changed = {n: x.copy() for n, x in w.items()}
        changed[key].flat[-1] += 0.5
        tool.folder(tmp_path / f"b{i}", c, changed)
        others.append(tool.facts(tmp_path / f"b{i}")["fingerprint"])
    tool.folder(tmp_path / "c", {**c, "sliding_window": 9}, w)
    others.append(tool.facts(tmp_path / "c")["fingerprint"])
    tool.folder(tmp_path / "d", {**c, "layer_types": c["layer_types"][::-1][:2] + ["full_attention"]}, w)
    others.append(tool.facts(tmp_path / "d")["fingerprint"])
    assert len({base, *others}) == 1 + len(others)


def test_mmap_that_fails(tmp_path):
    """B54: a file system that can't map is read instead."""
    (tmp_path / "nomap.c").write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <errno.h>\n#include <sys/mman.h>\n"
        "void *mmap(void *a, size_t n, int p, int f, int fd, off_t o) {\n"
        " if (fd >= 0) { errno = ENODEV; return MAP_FAILED; }\n"
        " return ((void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, \"mmap\"))(a, n, p, f, fd, o); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "nomap.so", tmp_path / "nomap.c"], check=True)
    c, values = tiny(tmp_path / "m")
    p = subprocess.run([tool.PROGRAM, tmp_path / "m"], capture_output=True, encoding="utf-8",
                       env=harness.environment({"LD_PRELOAD": str(tmp_path / "nomap.so")}))
    if "Sanitizer" in p.stderr or "runtime" in p.stderr:
        pytest.skip("a sanitizer's run time must come first")
    assert p.returncode == 0, p.stderr
    assert json.loads(p.stdout)["fingerprint"] == tool.facts(tmp_path / "m")["fingerprint"]


# ---- what must be refused ----


def read(path):
    b = path.read_bytes()
    n = int.from_bytes(b[:8], "little")
    return json.loads(b[8:8 + n]), b[8 + n:]


@pytest.mark.parametrize("cut", [-1, -4096, 8, 7, 0, +4])
def test_wrong_length(tmp_path, cut):
    """B50"""
    tiny(tmp_path)
    f = tmp_path / "model.safetensors"
    b = f.read_bytes()
    f.write_bytes(b + bytes(cut) if cut == 4 else b[:cut])
    start = time.monotonic()
    message = tool.refused(tmp_path, "model.safetensors", str(f.stat().st_size))
    if cut in (-1, -4096, 4):
        assert str(len(b)) in message
    assert time.monotonic() - start < 5


NORM = "model.norm.weight"


def edit(tmp_path, change):
    """Changes the header (a dict) or returns other bytes for it."""
    tiny(tmp_path)
    f = tmp_path / "model.safetensors"
    header, data = read(f)
    result = change(header, data)
    if isinstance(result, bytes):
        f.write_bytes(result)
    else:
        f.write_bytes(tool.pack(header, data))


def entry(**fields):
    return lambda h, d: h[NORM].update(fields)


HEADERS = {
    "unknown type": (entry(dtype="F33"), [NORM, "dtype"]),
    "type is a number": (entry(dtype=5), [NORM, "dtype", "expected string"]),
    "no type": (lambda h, d: h[NORM].pop("dtype") and None, [NORM, "dtype", "missing"]),
    "wrong type, same size": (entry(dtype="I32"), [NORM, "F32, F16 or BF16", "I32"]),
    "shape too small": (entry(shape=[31]), [NORM, "128", "124"]),
    "shape too large": (entry(shape=[33]), [NORM, "128", "132"]),
    "other shape, same size": (entry(shape=[4, 8]), [NORM, "[32]", "[4, 8]"]),
    "dimension with a point": (entry(shape=[32.0]), [NORM, "shape"]),
    "offset with a point": (lambda h, d: h[NORM].update(data_offsets=[float(x) for x in h[NORM]["data_offsets"]]),
                            [NORM, "data_offsets"]),
    "offset as text": (lambda h, d: h[NORM].update(data_offsets=[str(x) for x in h[NORM]["data_offsets"]]),
                       [NORM, "data_offsets"]),
    "negative dimension": (entry(shape=[-32]), [NORM, "shape"]),
    "fraction": (entry(shape=[32.5]), [NORM, "shape"]),
    "product wraps": (entry(shape=[1 << 62, 1 << 62]), [NORM, "shape"]),
    "product wraps to the right size": (entry(shape=[(1 << 61) + 8, 16]), [NORM, "shape"]),
    "bits wrap": (entry(shape=[1 << 61]), [NORM, "shape"]),
    "many dimensions": (entry(shape=[1] * 9), [NORM, "shape"]),
    "shape is a number": (entry(shape=32), [NORM, "shape", "expected array"]),
    "huge integer": (lambda h, d: tool.pack(json.dumps(h).replace("[32]", "[99999999999999999999]", 1).encode(), d), []),
    "no offsets": (lambda h, d: h[NORM].pop("data_offsets") and None, [NORM, "data_offsets", "missing"]),
    "one offset": (entry(data_offsets=[0]), [NORM, "data_offsets"]),
    "backwards": (lambda h, d: h[NORM]["data_offsets"].reverse(), [NORM, "data_offsets"]),
    "negative offset": (entry(data_offsets=[-128, 0]), [NORM, "data_offsets"]),
    "far beyond": (entry(data_offsets=[(1 << 63) - 129, (1 << 63) - 1]), ["model.safetensors"]),
    "overlap": (entry(data_offsets=[0, 128]), ["model.safetensors", "begins at byte"]),
    "entry is a list": (lambda h, d: h.update({NORM: []}), [NORM]),
    "metadata is a list": (lambda h, d: h.update(__metadata__=[]), ["__metadata__"]),
    "unprintable name": (lambda h, d: h.update({"a\n\x1b[31m": h.pop(NORM)}), ["not printable"]),
    "name of other letters": (lambda h, d: h.update({"schön": h.pop(NORM)}), ["not printable"]),
    "empty name": (lambda h, d: h.update({"": h.pop(NORM)}), ["not printable"]),
    "long name": (lambda h, d: h.update({"a" * 256: h.pop(NORM)}), ["not printable"]),
    "no JSON": (lambda h, d: tool.pack(b"{]", d), ["model.safetensors", "header"]),
    "not an object": (lambda h, d: tool.pack(b"[]", d), ["model.safetensors", "expected object"]),
    "empty header": (lambda h, d: tool.pack(b"", d), ["model.safetensors"]),
    "no tensors": (lambda h, d: tool.pack(b"{}", b""), ["missing"]),
    "header length 2^64-1": (lambda h, d: b"\xff" * 8 + b"{}", ["model.safetensors", str(2**64 - 1)]),
    "header length 2^63": (lambda h, d: (1 << 63).to_bytes(8, "little") + b"{}", ["model.safetensors"]),
    "header as long as the file": (lambda h, d: (10).to_bytes(8, "little") + b"{}", ["10"]),
    "deep": (lambda h, d: tool.pack(b'{"a":' * 100000 + b"}" * 100000, d), ["header"]),
    "duplicate": (lambda h, d: tool.pack(json.dumps(h).encode()[:-1] + b', "' + NORM.encode() + b'": {}}', d), []),
}


@pytest.mark.parametrize("name", HEADERS)
def test_wrong_header(tmp_path, name):
    change, texts = HEADERS[name]
    edit(tmp_path, change)
    tool.refused(tmp_path, *texts)


def test_gap(tmp_path):
    """Bytes that belong to no tensor hide something."""
    tiny(tmp_path)
    f = tmp_path / "model.safetensors"
    header, data = read(f)
    for e in header.values():
        e["data_offsets"] = [x + 64 for x in e["data_offsets"]]
    f.write_bytes(tool.pack(header, bytes(64) + data))
    tool.refused(tmp_path, "model.safetensors", "begins at byte")


def test_all_missing_names_in_one_message(tmp_path):
    c, w = fx.f1(**tool.TINY)
    gone = ["model.layers.1.mlp.expert_bias", "model.layers.2.self_attn.gate_proj.weight", "lm_head.weight"]
    tool.folder(tmp_path, c, {n: x for n, x in w.items() if n not in gone})
    tool.refused(tmp_path, "3 tensors", *gone)


def test_very_many_missing_names(tmp_path):
    """A config that asks for far more than there is ends soon, with the first names and the number."""
    c, w = fx.f1(**tool.TINY)
    tool.folder(tmp_path, {**c, "num_hidden_layers": 512, "num_experts": 1024, "layer_types": None}, w)
    start = time.monotonic()
    tool.refused(tmp_path, "tensors are missing: model.layers.1.mlp.experts.2.gate_proj.weight", " more")
    assert time.monotonic() - start < 20


def test_wrong_shape_names_everything(tmp_path):
    c, w = fx.f1(**tool.TINY)
    key = "model.layers.1.mlp.experts.1.up_proj.weight"
    w[key] = np.ascontiguousarray(w[key].T[:, :30])
    tool.folder(tmp_path, c, w)
    tool.refused(tmp_path, "model.safetensors", key, "[32, 32]", "[32, 30]")


def shard_names(path):
    return sorted(p.name for p in path.glob("model-*.safetensors"))


def edit_index(path, change):
    f = path / "model.safetensors.index.json"
    index = json.loads(f.read_text())
    change(index)
    f.write_text(json.dumps(index))


def move(key, shard):
    return lambda i: i["weight_map"].update({key: shard})


def test_index_missing_shard(tmp_path):
    """B52"""
    tiny(tmp_path, shards=3)
    (tmp_path / shard_names(tmp_path)[1]).unlink()
    tool.refused(tmp_path, "model.safetensors.index.json", "model-00002-of-00003.safetensors")


def test_index_beside_a_whole_file(tmp_path):
    """The index counts, and the other file, here of another model, is named."""
    c, values = tiny(tmp_path, shards=3)
    for name in shard_names(tmp_path):
        f = tmp_path / name
        f.rename(tmp_path / name.replace("model-", "part-"))
    edit_index(tmp_path, lambda i: i["weight_map"].update(
        {k: v.replace("model-", "part-") for k, v in i["weight_map"].items()}))
    want = tool.facts(tmp_path)
    assert want["warnings"] == ""
    _, w = fx.f1(**tool.TINY)
    tool.folder(tmp_path, c, {n: x + 1 for n, x in w.items()})
    f = tool.facts(tmp_path)
    assert f["fingerprint"] == want["fingerprint"]
    assert f["warnings"].startswith("model.safetensors is not read")


def test_index_that_names_the_whole_file(tmp_path):
    c, values = tiny(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict.fromkeys(values, "model.safetensors")}))
    assert tool.facts(tmp_path)["warnings"] == ""


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.1.self_attn.q_norm.weight",
                                  "model.layers.0.input_layernorm.weight", "model.layers.2.mlp.expert_bias",
                                  "model.layers.1.mlp.router.gate.weight"])
def test_small_tensors_are_finite(tmp_path, name, dtype, value):
    c, w = fx.f1(**tool.TINY)
    w[name].flat[w[name].size - 1] = value
    tool.folder(tmp_path, c, w, dtypes=lambda n: dtype)
    tool.refused(tmp_path, "model.safetensors", name, f"element {w[name].size - 1} is {value}")


def test_index_wrong_shard(tmp_path):
    """B52"""
    tiny(tmp_path, shards=3)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    key = next(n for n, s in index.items() if s.startswith("model-00001"))
    edit_index(tmp_path, move(key, "model-00003-of-00003.safetensors"))
    tool.refused(tmp_path, key, "model-00003-of-00003.safetensors")


def test_index_and_shards_without_a_tensor(tmp_path):
    """B52"""
    c, w = fx.f1(**tool.TINY)
    key = "model.layers.2.mlp.experts.0.down_proj.weight"
    del w[key]
    tool.folder(tmp_path, c, w, shards=3)
    tool.refused(tmp_path, key)


def test_renamed_head(tmp_path):
    """B52"""
    c, w = fx.f1(**tool.TINY)
    w["lm_head.wight"] = w.pop("lm_head.weight")
    tool.folder(tmp_path, c, w, shards=2)
    tool.refused(tmp_path, "lm_head.weight")


def test_tensor_in_two_shards(tmp_path):
    tiny(tmp_path, shards=2)
    a, b = (tmp_path / n for n in shard_names(tmp_path))
    header, data = read(a)
    h2, d2 = read(b)
    name = next(iter(h2))
    lo, hi = h2[name]["data_offsets"]
    header[name] = {**h2[name], "data_offsets": [len(data), len(data) + hi - lo]}
    a.write_bytes(tool.pack(header, data + d2[lo:hi]))
    tool.refused(tmp_path, name, a.name, b.name)


@pytest.mark.parametrize("shard", ["../x.safetensors", "/etc/passwd", "", ".", "a\nb", 5, None])
def test_index_with_odd_file_names(tmp_path, shard):
    tiny(tmp_path, shards=2)
    edit_index(tmp_path, move(NORM, shard))
    tool.refused(tmp_path, "model.safetensors.index.json", NORM)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": '])
def test_malformed_index(tmp_path, text):
    tiny(tmp_path, shards=2)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    tool.refused(tmp_path, "model.safetensors.index.json")


def test_no_weights(tmp_path):
    tiny(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    tool.refused(tmp_path, "model.safetensors")


def test_folder_instead_of_a_file(tmp_path):
    tiny(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors").mkdir()
    tool.refused(tmp_path, "model.safetensors", "not a regular file")


def test_no_such_model(tmp_path):
    tool.refused(tmp_path / "nowhere", "nowhere", "No such file")
