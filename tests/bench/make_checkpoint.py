"""Full-size checkpoints with random weights, for benchmarks.

    python make_checkpoint.py SHAPE TYPE OUT      SHAPE: nano, mini, small (8 layers of nano)
                                                  TYPE: Q4_0 Q8_0 Q4_K Q5_K Q6_K BF16 .. -> a GGUF file OUT
                                                        Q4_K_M Q5_K_M Q3_K_M IQ4_XS Q4_0+imatrix,
                                                        as llama-quantize mixes them      -> the same
                                                        W4A16 (MLPs Q4_0, the rest BF16)  -> the same
                                                        NVFP4+BF16 (experts NVFP4)        -> the same
                                                        safetensors                       -> a BF16 folder OUT

Weights are tiled from one random pool, so that a file is made at the speed of the disk; memory stays small. Packages:
gguf, numpy.
"""

import json
import struct
import sys
from pathlib import Path

import gguf
import numpy as np

SHAPES = {
    "nano": dict(layers=56, d=1024, dense_width=3072, width=256, heads=8, kv_heads=2, vocab=200192),
    "small": dict(layers=8, d=1024, dense_width=3072, width=256, heads=8, kv_heads=2, vocab=32768),
    "mini": dict(layers=32, d=2048, dense_width=6144, width=1024, heads=32, kv_heads=4, vocab=200192),
}
HEAD_DIM, EXPERTS, ACTIVE, SHARED, DENSE, WINDOW, CONTEXT, ROUTE_SCALE = 128, 128, 8, 1, 2, 2048, 131072, 2.826
SPREAD = 0.02  # of the weights
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"]


def byte_alphabet():
    """The 256 characters that stand for bytes in a byte-level vocabulary, printable bytes first."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return [chr(b) for b in keep] + [chr(256 + i) for i in range(len(rest))]


def vocabulary(size):
    """(token, ggml type) for every id, and merges: specials, bytes, pairs of letters, filler."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pairs = [(a, b) for a in letters for b in letters]
    tokens = [(t, 3) for t in SPECIAL] + [(c, 1) for c in byte_alphabet()] + [(a + b, 1) for a, b in pairs]
    tokens += [(f"<filler{i}>", 1) for i in range(len(tokens), size)]
    return tokens, pairs


def halves(*values):
    return np.array(values, np.float16).view(np.uint8)


# Fixed bytes of a K-quant's super-block, by offset. Q4_K and Q5_K: d, dmin, then every scale and minimum 32, so that
# the weights have mean 0: with another mean all rows of a batch come to agree, and choose the same experts.
K_MIDDLE = np.array([0xA0] * 8 + [0] * 4, np.uint8)
K_SCALES = {
    "Q4_K": {0: halves(SPREAD / 147, SPREAD / 147 * 7.5), 4: K_MIDDLE},
    "Q5_K": {0: halves(SPREAD / 295, SPREAD / 295 * 15.5), 4: K_MIDDLE},
    "Q6_K": {208: halves(SPREAD / 2000)},
    "Q3_K": {96: np.array([0x55] * 8 + [0xAA] * 4, np.uint8), 108: halves(SPREAD / 10)},
    "Q2_K": {0: np.array([0x11] * 16, np.uint8), 80: halves(SPREAD / 1.1, SPREAD / 1.1 * 1.5)},
    "IQ4_XS": {0: halves(SPREAD / 65), 2: np.array([0xAA] * 2 + [0x11] * 4, np.uint8)},
    "NVFP4": {0: np.full(4, 0x08, np.uint8)},
}


MIXED = ("Q4_K_M", "Q5_K_M", "Q3_K_M", "IQ4_XS", "Q4_0+imatrix")


def more_bits(i, n):
    """The layers that llama-quantize gives a larger type in a mixture."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def mix_types(mix, name, layer, n):
    """The type of a matrix of a mixture: as llama-quantize chooses it for this architecture."""
    part = name.split(".")[-2]
    down, value, out = part.startswith("ffn_down"), part == "attn_v", part == "attn_output"
    expert, mlp = part.endswith("_exps"), part.startswith("ffn_")
    if mix == "W4A16":
        return "Q4_0" if mlp else "BF16"
    if mix == "NVFP4+BF16":
        return "NVFP4" if expert else "BF16"
    if part == "output" and mix in MIXED:
        return "Q6_K"
    if mix in ("Q4_K_M", "Q5_K_M"):
        return "Q6_K" if (down or value) and more_bits(layer, n) else mix[:4]
    if mix == "Q3_K_M":
        if value:
            return "Q5_K" if layer < 2 else "Q4_K"
        if down:
            return "Q5_K" if layer < n // 16 else "Q4_K"
        return "Q4_K" if out else "Q3_K"
    if mix == "IQ4_XS":
        return "Q5_K" if value or (down and layer < n // 8) else "IQ4_XS"
    if mix == "Q4_0+imatrix":
        return "Q4_1" if down and layer < n // 8 else "Q4_0"
    return mix  # one type throughout


class Pool:
    """Random weights of one type, as bytes in rows."""

    def __init__(self, kind):
        rng = np.random.default_rng(1)
        values = (rng.standard_normal((2048, 1024)) * SPREAD).astype(np.float32)
        self.kind = kind
        if kind == "BF16":
            self.block, self.bytes = 1, 2
            data = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        else:
            quant = gguf.GGMLQuantizationType[kind]
            self.block, self.bytes = gguf.GGML_QUANT_SIZES[quant]
            try:
                data = gguf.quants.quantize(values, quant)
            except NotImplementedError:  # K-quants: random bits under fixed scales
                data = rng.integers(0, 256, (values.size // self.block, self.bytes), dtype=np.uint8)
                for at, part in K_SCALES[kind].items():
                    data[:, at : at + part.size] = part
        self.data = data.reshape(-1)

    def row_bytes(self, k):
        return k // self.block * self.bytes

    def take(self, n_bytes):
        whole, rest = divmod(n_bytes, self.data.size)
        for _ in range(whole):
            yield self.data
        yield self.data[:rest]


def matrices(s):
    """(name in GGUF, name in safetensors or a function of the expert, shape)"""
    q, kv = s["heads"] * HEAD_DIM, s["kv_heads"] * HEAD_DIM
    d, shared = s["d"], s["width"] * SHARED
    yield "token_embd.weight", "model.embed_tokens.weight", (s["vocab"], d)
    yield "output.weight", "lm_head.weight", (s["vocab"], d)
    for i in range(s["layers"]):
        b, m = f"blk.{i}.", f"model.layers.{i}."
        yield b + "attn_q.weight", m + "self_attn.q_proj.weight", (q, d)
        yield b + "attn_k.weight", m + "self_attn.k_proj.weight", (kv, d)
        yield b + "attn_v.weight", m + "self_attn.v_proj.weight", (kv, d)
        yield b + "attn_gate.weight", m + "self_attn.gate_proj.weight", (q, d)
        yield b + "attn_output.weight", m + "self_attn.o_proj.weight", (d, q)
        if i < DENSE:
            yield b + "ffn_gate.weight", m + "mlp.gate_proj.weight", (s["dense_width"], d)
            yield b + "ffn_up.weight", m + "mlp.up_proj.weight", (s["dense_width"], d)
            yield b + "ffn_down.weight", m + "mlp.down_proj.weight", (d, s["dense_width"])
            continue
        for part, shape in (("gate", (s["width"], d)), ("up", (s["width"], d)), ("down", (d, s["width"]))):
            name = lambda e, m=m, part=part: f"{m}mlp.experts.{e}.{part}_proj.weight"
            yield f"{b}ffn_{part}_exps.weight", name, (EXPERTS, *shape)
        for part, shape in (("gate", (shared, d)), ("up", (shared, d)), ("down", (d, shared))):
            yield f"{b}ffn_{part}_shexp.weight", f"{m}mlp.shared_experts.{part}_proj.weight", shape


def vectors(s):
    """(name in GGUF, name in safetensors, values): norms, router, bias; kept in fp32"""
    rng = np.random.default_rng(2)
    d = s["d"]
    yield "output_norm.weight", "model.norm.weight", np.ones(d)
    for i in range(s["layers"]):
        b, m = f"blk.{i}.", f"model.layers.{i}."
        yield b + "attn_norm.weight", m + "input_layernorm.weight", np.ones(d)
        yield b + "post_attention_norm.weight", m + "post_attention_layernorm.weight", np.full(d, 0.125)
        yield b + "ffn_norm.weight", m + "pre_mlp_layernorm.weight", np.ones(d)
        yield b + "post_ffw_norm.weight", m + "post_mlp_layernorm.weight", np.full(d, 0.125)
        yield b + "attn_q_norm.weight", m + "self_attn.q_norm.weight", np.ones(HEAD_DIM)
        yield b + "attn_k_norm.weight", m + "self_attn.k_norm.weight", np.ones(HEAD_DIM)
        if i >= DENSE:
            yield b + "ffn_gate_inp.weight", m + "mlp.router.gate.weight", rng.standard_normal((EXPERTS, d)) * 0.05
            yield b + "exp_probs_b.bias", m + "mlp.expert_bias", rng.standard_normal(EXPERTS) * 0.01


def write_gguf(s, kind, out):
    w = gguf.GGUFWriter(str(out), "afmoe")
    w.add_name(out.stem)
    w.add_block_count(s["layers"])
    w.add_context_length(CONTEXT)
    w.add_embedding_length(s["d"])
    w.add_feed_forward_length(s["dense_width"])
    w.add_head_count(s["heads"])
    w.add_head_count_kv(s["kv_heads"])
    w.add_key_length(HEAD_DIM)
    w.add_value_length(HEAD_DIM)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_sliding_window(WINDOW)
    w.add_rope_freq_base(10000.0)
    w.add_rope_dimension_count(HEAD_DIM)
    w.add_vocab_size(s["vocab"])
    w.add_expert_count(EXPERTS)
    w.add_expert_used_count(ACTIVE)
    w.add_expert_shared_count(SHARED)
    w.add_expert_feed_forward_length(s["width"])
    w.add_leading_dense_block_count(DENSE)
    w.add_expert_weights_norm(True)
    w.add_expert_weights_scale(ROUTE_SCALE)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    tokens, pairs = vocabulary(s["vocab"])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("afmoe")
    w.add_token_list([t for t, _ in tokens])
    w.add_token_types([t for _, t in tokens])
    w.add_token_merges([f"{a} {b}" for a, b in pairs])
    w.add_bos_token_id(0)
    w.add_eos_token_id(3)
    w.add_add_bos_token(False)

    pools = {}
    plan = []  # (name, shape in bytes, pool)
    for name, _, shape in matrices(s):
        layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
        k = mix_types(kind, name, layer, s["layers"])
        pool = pools[k] if k in pools else pools.setdefault(k, Pool(k))
        plan.append((name, (*shape[:-1], pool.row_bytes(shape[-1])), pool))
    small = [(name, np.asarray(v, np.float32)) for name, _, v in vectors(s)]
    for name, raw, pool in plan:
        quant = gguf.GGMLQuantizationType[pool.kind]
        w.add_tensor_info(name, raw, np.dtype(np.uint8), int(np.prod(raw)), raw_dtype=quant)
    for name, v in small:
        w.add_tensor_info(name, v.shape, v.dtype, v.nbytes)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    for _, raw, pool in plan:
        w.write_tensor_data(np.concatenate(list(pool.take(int(np.prod(raw))))).reshape(raw))
    for _, v in small:
        w.write_tensor_data(v)
    w.close()


def tokenizer(size):
    tokens, pairs = vocabulary(size)
    split = {"type": "Split", "pattern": {"Regex": r"\s+|[A-Za-z]+|[^\sA-Za-z]+"}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": t, **flags} for i, t in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "vocab": {t: i for i, (t, _) in enumerate(tokens)}, "merges": [list(p) for p in pairs]},
    }


def config(s):
    return dict(
        architectures=["AfmoeForCausalLM"], model_type="afmoe", dtype="bfloat16", vocab_size=s["vocab"], hidden_size=s["d"],
        intermediate_size=s["dense_width"], moe_intermediate_size=s["width"], num_hidden_layers=s["layers"], num_dense_layers=DENSE,
        num_attention_heads=s["heads"], num_key_value_heads=s["kv_heads"], head_dim=HEAD_DIM, hidden_act="silu",
        max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=10000.0, num_experts=EXPERTS,
        num_experts_per_tok=ACTIVE, num_shared_experts=SHARED, route_scale=ROUTE_SCALE, route_norm=True, score_func="sigmoid",
        n_group=1, topk_group=1, global_attn_every_n_layers=4, sliding_window=WINDOW, mup_enabled=True, attention_bias=False,
        layer_types=["full_attention" if i % 4 == 3 else "sliding_attention" for i in range(s["layers"])],
        bos_token_id=0, eos_token_id=3,
    )  # fmt: skip


def write_safetensors(s, out, shard_bytes=4 << 30):
    out.mkdir(parents=True, exist_ok=True)
    pool = Pool("BF16")
    tensors = []  # (name, dtype, shape, bytes or array)
    for _, name, v in vectors(s):
        if name.endswith("expert_bias"):
            tensors.append((name, "F32", v.shape, np.asarray(v, np.float32)))
        else:
            tensors.append((name, "BF16", v.shape, (np.asarray(v, np.float32).view(np.uint32) >> 16).astype(np.uint16)))
    for _, name, shape in matrices(s):
        names = [(name, shape)] if isinstance(name, str) else [(name(e), shape[1:]) for e in range(shape[0])]
        tensors += [(n, "BF16", sh, int(np.prod(sh)) * 2) for n, sh in names]
    size = lambda t: t[3] if isinstance(t[3], int) else t[3].nbytes
    shards, filled = [[]], 0
    for t in tensors:
        if filled + size(t) > shard_bytes and shards[-1]:
            shards.append([])
            filled = 0
        shards[-1].append(t)
        filled += size(t)
    where = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        header, at = {}, 0
        for t in shard:
            header[t[0]] = {"dtype": t[1], "shape": list(t[2]), "data_offsets": [at, at + size(t)]}
            at += size(t)
            where[t[0]] = file
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(out / file, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for t in shard:
                for part in pool.take(t[3]) if isinstance(t[3], int) else [t[3]]:
                    f.write(part.tobytes())
    index = {"metadata": {"total_size": sum(map(size, tensors))}, "weight_map": where}
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    (out / "config.json").write_text(json.dumps(config(s), indent=1))
    (out / "tokenizer.json").write_text(json.dumps(tokenizer(s["vocab"])))
    (out / "tokenizer_config.json").write_text(json.dumps({"bos_token": SPECIAL[0], "eos_token": SPECIAL[3], "add_bos_token": False}))


if __name__ == "__main__":
    shape, kind, out = SHAPES[sys.argv[1]], sys.argv[2], Path(sys.argv[3])
    if kind == "safetensors":
        write_safetensors(shape, out)
    else:
        write_gguf(shape, kind, out)
