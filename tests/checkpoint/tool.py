"""The program `weights` (tests/tools/weights.c) and what its answers are compared with."""
import json
import os
import subprocess

import gguf
import numpy as np

import fixtures as fx
import harness

PROGRAM = harness.BUILD / "tests" / "tools" / "weights"

LAYER = {
    "input_norm": ("input_layernorm.weight", "attn_norm.weight"),
    "post_attn_norm": ("post_attention_layernorm.weight", "post_attention_norm.weight"),
    "pre_mlp_norm": ("pre_mlp_layernorm.weight", "ffn_norm.weight"),
    "post_mlp_norm": ("post_mlp_layernorm.weight", "post_ffw_norm.weight"),
    "q": ("self_attn.q_proj.weight", "attn_q.weight"),
    "k": ("self_attn.k_proj.weight", "attn_k.weight"),
    "v": ("self_attn.v_proj.weight", "attn_v.weight"),
    "o": ("self_attn.o_proj.weight", "attn_output.weight"),
    "attn_gate": ("self_attn.gate_proj.weight", "attn_gate.weight"),
    "q_norm": ("self_attn.q_norm.weight", "attn_q_norm.weight"),
    "k_norm": ("self_attn.k_norm.weight", "attn_k_norm.weight"),
    "router": ("mlp.router.gate.weight", "ffn_gate_inp.weight"),
    "expert_bias": ("mlp.expert_bias", "exp_probs_b.bias"),
}
DENSE = {n: (f"mlp.{n}_proj.weight", f"ffn_{n}.weight") for n in ("gate", "up", "down")}
SHARED = {n: (f"mlp.shared_experts.{n}_proj.weight", f"ffn_{n}_shexp.weight") for n in ("gate", "up", "down")}
WHOLE = {"final_norm": ("model.norm.weight", "output_norm.weight"), "head": ("lm_head.weight", "output.weight"),
         "embed": ("model.embed_tokens.weight", "token_embd.weight")}


def run(path, **options):
    """Runs the program; sanitizers' reports are failures of their own."""
    p = subprocess.run([PROGRAM, str(path), *(f"{k}={v}" for k, v in options.items())], cwd=harness.ROOT,
                       env=harness.environment(), capture_output=True, encoding="utf-8", timeout=harness.PATIENCE)
    assert "Sanitizer" not in p.stderr and "runtime error" not in p.stderr, p.stderr
    return p


def facts(path, **options):
    """What it says of a checkpoint that must load."""
    p = run(path, **options)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def refused(path, *texts, **options):
    """It must not load, and the one line of the message must hold every text."""
    p = run(path, **options)
    assert p.returncode == 1, (p.returncode, p.stdout, p.stderr)
    assert p.stderr.count("\n") == 1 and p.stderr.isascii(), p.stderr
    for text in texts:
        assert text in p.stderr, (text, p.stderr)
    return p.stderr


def dump(path, tmp_path, **options):
    """{(name, layer, expert): array} of everything that is kept in F32."""
    out = tmp_path / "dump"
    d = facts(path, dump=out, **options)
    flat = np.fromfile(out, np.float32)
    arrays, at = {}, 0
    for name, layer, expert, n, k in d["dump"]:
        arrays[name, layer, expert] = flat[at:at + n * k].reshape(n, k)
        at += n * k
    assert at == flat.size
    os.unlink(out)
    return arrays


def layer_name(part, layer, expert, dense, naming):
    if expert >= 0:
        return (f"mlp.experts.{expert}.{part}_proj.weight", f"ffn_{part}_exps.weight")[naming]
    tables = LAYER if part in LAYER else DENSE if layer < dense else SHARED
    return tables[part][naming]


def expected(key, weights, dense, naming=0):
    """The array that `dump` must hold at key; weights are {name: array} by Hugging Face's (0) or GGUF's (1) names."""
    part, layer, expert = key
    if part == "embed":
        return weights[WHOLE[part][naming]][layer:layer + 1]
    if part in WHOLE:
        w = weights[WHOLE[part][naming]]
    else:
        prefix = (f"model.layers.{layer}.", f"blk.{layer}.")[naming]
        w = weights[prefix + layer_name(part, layer, expert, dense, naming)]
        if naming == 1 and expert >= 0:
            w = w[expert]
    return w.reshape(-1, w.shape[-1])


def compare(arrays, weights, config, naming=0, rtol=0.0):
    """Every array equals the file's, and every weight of the file is there."""
    for key, got in arrays.items():
        want = expected(key, weights, config["num_dense_layers"], naming)
        assert got.shape == want.shape, key
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * np.abs(want).max(), err_msg=str(key))
    c = config
    moe = c["num_hidden_layers"] - c["num_dense_layers"]
    count = (-(-c["vocab_size"] // 7) + c["num_hidden_layers"] * 11 + c["num_dense_layers"] * 3
             + moe * (2 + 3 * (c["num_shared_experts"] > 0) + 3 * c["num_experts"]) + 2)
    assert len(arrays) == count


# ---- files ----


def bf16(x):
    """Rounded to the nearest bf16, as bytes and as floats."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    u = ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)
    return u, (u.astype(np.uint32) << 16).view(np.float32)


def stored(x, dtype):
    """(bytes, values) of an array in a safetensors type."""
    if dtype == "BF16":
        u, back = bf16(x)
        return u.tobytes(), back.reshape(x.shape)
    y = x.astype({"F32": np.float32, "F16": np.float16}[dtype])
    return y.tobytes(), y.astype(np.float32)


def header_of(tensors):
    """A safetensors header and the data behind it; tensors: {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    return header, b"".join(data for _, _, data in tensors.values())


def pack(header, data, pad=0):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * pad
    return len(text).to_bytes(8, "little") + text + data


def folder(path, config, weights, dtypes=lambda name: "F32", shards=1, pad=0):
    """A checkpoint folder with the tokenizer of `fixtures`; returns the values as they are stored."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    fx.ftok().save(str(path / "tokenizer.json"))
    tensors, values = {}, {}
    for name, x in weights.items():
        data, values[name] = stored(x, dtypes(name))
        tensors[name] = (dtypes(name), x.shape, data)
    names = sorted(tensors)
    if shards == 1:
        (path / "model.safetensors").write_bytes(pack(*header_of(tensors), pad))
        return values
    index = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: tensors[n] for n in names[i::shards]}
        (path / file).write_bytes(pack(*header_of(part), pad))
        index.update(dict.fromkeys(part, file))
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return values


# Smaller than fx.BASE: what the tests of malformed files load a hundred times.
TINY = dict(hidden_size=32, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=3, num_dense_layers=1,
            num_attention_heads=2, num_key_value_heads=1, head_dim=16, num_experts=2, num_experts_per_tok=1,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"])


def gguf_tensors(c, w):
    """Hugging Face's weights under GGUF's names, the experts stacked."""
    out = {WHOLE[p][1]: w[WHOLE[p][0]] for p in WHOLE if WHOLE[p][0] in w}
    for i in range(c["num_hidden_layers"]):
        tables = {**LAYER, **(DENSE if i < c["num_dense_layers"] else SHARED)}
        for hf, g in tables.values():
            if f"model.layers.{i}.{hf}" in w:
                out[f"blk.{i}.{g}"] = w[f"model.layers.{i}.{hf}"]
        if i >= c["num_dense_layers"]:
            for p in ("gate", "up", "down"):
                out[f"blk.{i}.ffn_{p}_exps.weight"] = np.stack(
                    [w[f"model.layers.{i}.mlp.experts.{e}.{p}_proj.weight"] for e in range(c["num_experts"])])
    return out


def metadata(c):
    """The keys that llama.cpp's converter writes: {key: (type, value)}."""
    T = gguf.GGUFValueType
    u = lambda x: (T.UINT32, x)
    tok = json.loads(fx.ftok().to_str())
    vocab = {**tok["model"]["vocab"], **{a["content"]: a["id"] for a in tok["added_tokens"]}}
    special = {a["content"]: (3 if a["special"] else 4) for a in tok["added_tokens"]}
    names = {v: k for k, v in vocab.items()}
    text = [names.get(i, f"[PAD{i}]") for i in range(c["vocab_size"])]
    return {
        "general.architecture": (T.STRING, "afmoe"),
        "afmoe.block_count": u(c["num_hidden_layers"]),
        "afmoe.context_length": u(c["max_position_embeddings"]),
        "afmoe.embedding_length": u(c["hidden_size"]),
        "afmoe.feed_forward_length": u(c["intermediate_size"]),
        "afmoe.attention.head_count": u(c["num_attention_heads"]),
        "afmoe.attention.head_count_kv": u(c["num_key_value_heads"]),
        "afmoe.attention.key_length": u(c["head_dim"]),
        "afmoe.attention.value_length": u(c["head_dim"]),
        "afmoe.attention.layer_norm_rms_epsilon": (T.FLOAT32, c["rms_norm_eps"]),
        "afmoe.attention.sliding_window": u(c["sliding_window"]),
        "afmoe.rope.freq_base": (T.FLOAT32, c["rope_theta"]),
        "afmoe.rope.dimension_count": u(c["head_dim"]),
        "afmoe.vocab_size": u(c["vocab_size"]),
        "afmoe.expert_count": u(c["num_experts"]),
        "afmoe.expert_used_count": u(c["num_experts_per_tok"]),
        "afmoe.expert_shared_count": u(c["num_shared_experts"]),
        "afmoe.expert_feed_forward_length": u(c["moe_intermediate_size"]),
        "afmoe.leading_dense_block_count": u(c["num_dense_layers"]),
        "afmoe.expert_weights_norm": (T.BOOL, c["route_norm"]),
        "afmoe.expert_weights_scale": (T.FLOAT32, c["route_scale"]),
        "afmoe.expert_gating_func": u(2),
        "tokenizer.ggml.model": (T.STRING, "gpt2"),
        "tokenizer.ggml.pre": (T.STRING, "afmoe"),
        "tokenizer.ggml.tokens": ([T.STRING], text),
        "tokenizer.ggml.token_type": ([T.INT32],
                                      [special.get(t, 5 if t.startswith("[PAD") else 1) for t in text]),
        "tokenizer.ggml.merges": ([T.STRING],
                                  [" ".join(m) if isinstance(m, list) else m for m in tok["model"]["merges"]]),
        "tokenizer.ggml.bos_token_id": u(0),
        "tokenizer.ggml.eos_token_id": u(3),
        "tokenizer.ggml.padding_token_id": u(1),
        "tokenizer.ggml.add_bos_token": (T.BOOL, False),
    }


_FORMAT = {"UINT8": "<u1", "INT8": "<i1", "UINT16": "<u2", "INT16": "<i2", "UINT32": "<u4", "INT32": "<i4",
           "FLOAT32": "<f4", "BOOL": "<u1", "UINT64": "<u8", "INT64": "<i8", "FLOAT64": "<f8"}


def u32(x):
    return int(x).to_bytes(4, "little")


def u64(x):
    return int(x).to_bytes(8, "little")


def gguf_string(s):
    b = s if isinstance(s, bytes) else s.encode()
    return u64(len(b)) + b


def gguf_value(kind, value):
    """Type and value, as bytes; a list of one type stands for an array of it."""
    def one(t, v):
        return gguf_string(v) if t.name == "STRING" else np.array([v]).astype(_FORMAT[t.name]).tobytes()
    if isinstance(kind, list):
        return u32(9) + u32(kind[0].value) + u64(len(value)) + b"".join(one(kind[0], v) for v in value)
    return u32(kind.value) + one(kind, value)


def gguf_pieces(meta, tensors, version=3, alignment=32):
    """A GGUF file as a list of (what, bytes), so that a test can change any one field.

    tensors: {name: (type id, dims with the fastest first, bytes)}
    """
    out = [("magic", b"GGUF"), ("version", u32(version)), ("n_tensors", u64(len(tensors))), ("n_keys", u64(len(meta)))]
    for key, (kind, value) in meta.items():
        out += [("key " + key, gguf_string(key)), ("value " + key, gguf_value(kind, value))]
    at = 0
    for name, (kind, dims, data) in tensors.items():
        out += [("name " + name, gguf_string(name)), ("n_dims " + name, u32(len(dims)))]
        out += [("dims " + name, b"".join(map(u64, dims))), ("type " + name, u32(kind)), ("offset " + name, u64(at))]
        at += -(-len(data) // alignment) * alignment
    size = sum(len(b) for _, b in out)
    out.append(("padding", bytes(-size % alignment)))
    for name, (_, _, data) in tensors.items():
        out.append(("data " + name, data + bytes(-len(data) % alignment)))
    return out


def gguf_bytes(*args, **kw):
    return b"".join(b for _, b in gguf_pieces(*args, **kw))


def f32_tensors(tensors):
    return {n: (0, x.shape[::-1], np.ascontiguousarray(x, np.float32).tobytes()) for n, x in tensors.items()}
