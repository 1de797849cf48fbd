"""Golden files for every published weight format of AFMoE that is not plain F32/F16/BF16: tiny checkpoints and reference logits.

    python make_formats.py OUT_DIR [--mlx] [--gguf LLAMA_QUANTIZE]
    (pip install torch transformers safetensors tokenizers numpy compressed-tensors nvidia-modelopt gguf; mlx[cpu] mlx-lm for --mlx)

compressed-tensors and modelopt files are quantised and packed by those packages (their compressors, their config writers), MLX by
mlx_lm.convert, GGUF by llama-quantize; GPTQ and AWQ, whose packages do not install without a GPU toolchain, by hand below.
Reference logits: decode.py (numpy, from the files alone; the gguf package for GGUF) and transformers' AfmoeForCausalLM in fp32.
verify.py holds decode.py against the packages' own decoders.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

here = Path(__file__).resolve().parent
for p in (os.environ.get("CASES", str(here.parent.parent)), str(here)):
    sys.path.insert(0, p)
import decode as dec
import fixtures as fx

# A: a dense and a MoE layer, groups of 128 twice in a row of 256, blocks of 128 cut by n = 64; B: one MoE layer, tied; S: with k = 64, too;
# C: k = 256 for GGUF.
A = dict(vocab_size=285, hidden_size=128, intermediate_size=256, moe_intermediate_size=128, num_hidden_layers=2, num_dense_layers=1,
         num_attention_heads=2, num_key_value_heads=1, head_dim=64, num_experts=3, num_experts_per_tok=2, sliding_window=8,
         layer_types=["sliding_attention", "full_attention"], route_scale=2.826)
B = {**A, "num_hidden_layers": 1, "num_dense_layers": 0, "num_experts": 2, "num_experts_per_tok": 1, "layer_types": ["sliding_attention"],
     "tie_word_embeddings": True}
S = {**B, "moe_intermediate_size": 64}
C = {**B, "hidden_size": 256, "moe_intermediate_size": 256, "num_attention_heads": 4, "intermediate_size": 256}
POS = [0, 7, 8, 23]


def base(shape):
    """Config and BF16 weights (torch), expert_bias in F32, as the checkpoints on the Hub have them."""
    c, w = fx.f1(**shape)
    if c["tie_word_embeddings"]:
        del w["lm_head.weight"]
    c = {k: v for k, v in c.items() if k != "torch_dtype"} | {"dtype": "bfloat16"}
    return c, {k: torch.from_numpy(v) if k.endswith("expert_bias") else torch.from_numpy(v).bfloat16() for k, v in w.items()}


def linear(name, c, attention=True, gate=True, shared=True):
    """Is it a weight that quantisers take? Never: norms, embedding, head, router, bias."""
    if not name.endswith("_proj.weight"):
        return False
    if ".self_attn." in name and (not attention or (not gate and "gate_proj" in name)):
        return False
    return shared or "shared_experts" not in name


def logits(c, w):
    from transformers import AfmoeForCausalLM
    import transformers
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as d:
        plain = {k: v for k, v in c.items() if k not in ("quantization_config", "quantization")} | {"dtype": "float32"}
        Path(d, "config.json").write_text(json.dumps(plain))
        save_file({k: torch.from_numpy(np.array(v, np.float32)) for k, v in w.items()}, d + "/model.safetensors", metadata={"format": "pt"})
        m, info = AfmoeForCausalLM.from_pretrained(d, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    bad = {k: v for k, v in info.items() if v and not (c["tie_word_embeddings"] and k == "missing_keys" and set(v) == {"lm_head.weight"})}
    assert not bad, bad
    m.eval()
    prompt, cur, greedy = fx.ids(24), fx.ids(24), []
    with torch.no_grad():
        out = m(torch.tensor([prompt])).logits[0]
        for _ in range(8):
            greedy.append(int(m(torch.tensor([cur]), use_cache=False).logits[0, -1].argmax()))
            cur.append(greedy[-1])
    return {"prompt": prompt, "positions": POS, "logits": [[round(float(x), 5) for x in out[p]] for p in POS], "greedy": greedy}


def digest(x):
    """Enough of a weight to see that it is right: RMS norms hide a factor that all of q, k, v, o or up have in common."""
    x = np.asarray(x, np.float32)
    y = x.astype(np.float64)
    return {"shape": list(x.shape), "first": [float(v) for v in x.reshape(-1)[:4]], "last": [float(v) for v in x.reshape(-1)[-4:]],
            "sum": float(y.sum()), "squares": float((y * y).sum())}


def write(out, name, c, tensors, quant, key="quantization_config"):
    d = out / name
    d.mkdir(parents=True, exist_ok=True)
    (d / "config.json").write_text(json.dumps({**c, key: quant}, indent=1) + "\n")
    save_file({k: v.contiguous() for k, v in tensors.items()}, str(d / "model.safetensors"), metadata={"format": "pt"})
    fx.ftok().save(str(d / "tokenizer.json"))
    return d


# ---- compressed-tensors -----------------------------------------------------------------------------------------------------------

def ct_scale(w, a, zp=False):
    """min-max scales as llm-compressor's observers compute them, in BF16; [n, groups] | [n, 1] | [1] | [blocks]."""
    from compressed_tensors.quantization import QuantizationStrategy as S
    from compressed_tensors.quantization.utils import calculate_qparams
    x, (n, k) = w.float(), w.shape
    if a.strategy == S.TENSOR:
        lo, hi = x.min().view(1), x.max().view(1)
    elif a.strategy == S.CHANNEL:
        lo, hi = x.amin(1, True), x.amax(1, True)
    elif a.strategy == S.BLOCK:
        bn, bk = a.block_structure
        y = torch.zeros(-(-n // bn) * bn, -(-k // bk) * bk)
        y[:n, :k] = x
        y = y.view(y.shape[0] // bn, bn, y.shape[1] // bk, bk).transpose(1, 2).flatten(2)
        lo, hi = y.amin(-1), y.amax(-1)
    else:
        y = x.view(n, k // a.group_size, a.group_size)
        lo, hi = y.amin(-1), y.amax(-1)
    return calculate_qparams(lo, hi, a)


def ct(shape, scheme, fmt, pick, edit=None, **args):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, QuantizationStatus, preset_name_to_scheme
    c, w = base(shape)
    s = preset_name_to_scheme(scheme, ["Linear"])
    if args:
        d = s.model_dump()
        d["weights"].update(args)
        s = QuantizationScheme(**d)
    s.format = fmt
    comp = BaseCompressor.get_value_from_registry(fmt)
    t, skipped = {}, []
    for k, v in w.items():
        if not pick(k, c):
            t[k] = v
            if v.ndim == 2 and "embed" not in k:
                skipped.append(k.removesuffix(".weight"))
            continue
        p, sd = k.removesuffix("weight"), {"weight": v}
        if fmt.startswith("nvfp4"):
            amax = v.float().abs().max()
            sd["weight_global_scale"] = (448 * 6 / amax).float().view(1)
            y = v.float().view(v.shape[0], -1, 16).abs().amax(-1)
            sd["weight_scale"] = (y / 6 * sd["weight_global_scale"]).to(torch.float8_e4m3fn).float()
        elif fmt.startswith("mxfp4"):
            y = v.float().view(v.shape[0], -1, 32).abs().amax(-1)
            sd["weight_scale"] = torch.exp2(torch.floor(torch.log2(y)) - 2)
        else:
            sd["weight_scale"], zp = ct_scale(v, s.weights)
            sd["weight_scale"] = sd["weight_scale"].bfloat16()
            sd["weight_zero_point"] = zp.to(torch.int8)
        if edit:
            edit(k, sd)
        for q, x in comp.compress(sd, s).items():
            t[p + q] = x
        if s.input_activations is not None and not s.input_activations.dynamic:
            t[p + "input_scale"] = torch.tensor([0.0123], dtype=torch.bfloat16)
        if fmt.startswith("nvfp4") and s.input_activations is not None:
            t[p + "input_global_scale"] = torch.tensor([3.5])
    qc = QuantizationConfig(config_groups={"group_0": s}, format=fmt, quantization_status=QuantizationStatus.COMPRESSED, ignore=sorted(skipped))
    j = json.loads(qc.model_dump_json())
    j.setdefault("quant_method", "compressed-tensors")
    return c, t, j


def all_ct(out):
    everything = lambda k, c: linear(k, c)
    mlp = lambda k, c: linear(k, c, attention=False)

    # arcee-ai/*-W4A16: int4, symmetric, groups of 128 (attention left out: its parameter count says so)
    write(out, "w4a16", *ct({**A, "tie_word_embeddings": True}, "W4A16", "pack-quantized", mlp))
    # asymmetric, groups of 32, zero points packed along rows; g_idx (activation order by group) in one module as older files have it
    c, t, j = ct(B, "W4A16_ASYM", "pack-quantized", everything, group_size=32)
    write(out, "w4a16-asym", c, t, j)
    c, t, j = ct(B, "W4A16", "pack-quantized", everything, group_size=32)
    perm = torch.from_numpy(np.random.default_rng(5).permutation(128))
    j["config_groups"]["group_0"]["weights"]["actorder"] = "group"
    for k in [k for k in t if k.endswith("weight_scale")]:                      # every k is 128 in B
        t[k.replace("weight_scale", "weight_g_idx")] = (perm // 32).to(torch.int32)
    # the columns' groups are no longer runs: quantise again with the group each column has
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
    _, w = base(B)
    for k in [k for k in t if k.endswith("weight_packed")]:
        p = k.removesuffix("weight_packed")
        x, g = w[p + "weight"].float(), (perm // 32)
        amax = torch.stack([x[:, g == i].abs().amax(1) for i in range(4)], 1)
        s = (amax / 7.5).bfloat16()
        t[p + "weight_scale"] = s
        t[k] = pack_to_int32(torch.clamp(torch.round(x / s.float()[:, g]), -8, 7).to(torch.int8), 4)
    write(out, "w4a16-actorder", c, t, j)
    write(out, "w8a16", *ct(S, "W8A16", "pack-quantized", everything, strategy="channel", group_size=None))

    # FP8: per tensor with static activations and KV scales; per channel; 128 x 128 blocks
    c, t, j = ct(S, "FP8", "float-quantized", everything)
    t["model.layers.0.self_attn.k_scale"] = torch.tensor([0.021], dtype=torch.bfloat16)
    t["model.layers.0.self_attn.v_scale"] = torch.tensor([0.019], dtype=torch.bfloat16)
    j["kv_cache_scheme"] = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
    write(out, "fp8-tensor", c, t, j)
    # a config group each: attention FP8 by channel, MLPs int8 by channel
    c, t, j = ct(S, "FP8_DYNAMIC", "float-quantized", lambda k, c: linear(k, c) and "self_attn" in k)
    _, t8, j8 = ct(S, "W8A8", "int-quantized", mlp)
    t.update({k: v for k, v in t8.items() if ".mlp." in k})
    for k in [k for k in t if k.endswith("_proj.weight") and ".mlp." in k and t[k].dtype != torch.int8]:
        del t[k]
    groups = {"group_0": {**j["config_groups"]["group_0"], "targets": ["re:.*self_attn.*"]},
              "group_1": {**j8["config_groups"]["group_0"], "targets": ["re:.*mlp.*_proj"]}}
    write(out, "mixed-fp8-int8", c, t, {**j, "config_groups": groups, "format": "mixed-precision", "ignore": ["model.layers.0.mlp.router.gate"]})

    def ue8m0(k, sd):                                                           # powers of two, as the cards of FP8-Block say
        sd["weight_scale"] = torch.exp2(torch.ceil(torch.log2(sd["weight_scale"].float()))).bfloat16()
    c, t, j = ct(A, "FP8_BLOCK", "float-quantized", everything, edit=ue8m0)
    for k in t:                                                                 # every dtype a reader may meet for one and the same number
        if k.endswith("down_proj.weight_scale"):
            t[k] = t[k].float()
        if k.endswith("gate_proj.weight_scale"):                                # not up: a norm would hide a common factor
            t[k] = t[k].float().to(torch.float8_e8m0fnu)
    write(out, "fp8-block", c, t, j)
    # the same numbers under DeepSeek's names: quant_method fp8, weight_scale_inv in F32 (it multiplies, whatever the name says)
    c, t, _ = ct(S, "FP8_BLOCK", "float-quantized", everything)
    t = {k.replace("weight_scale", "weight_scale_inv"): v.float() if k.endswith("weight_scale") else v for k, v in t.items()}
    write(out, "fp8-deepseek", c, t, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
                                      "modules_to_not_convert": ["lm_head", "model.embed_tokens"]})

    write(out, "nvfp4", *ct(S, "NVFP4", "nvfp4-pack-quantized", everything))
    write(out, "mxfp4", *ct(S, "MXFP4A16", "mxfp4-pack-quantized", everything))


# ---- modelopt ---------------------------------------------------------------------------------------------------------------------

def modelopt(out):
    """arcee-ai/*-NVFP4: MLPs only; attention, router and head stay BF16."""
    from modelopt.torch.quantization.qtensor import NVFP4QTensor
    c, w = base(B)
    t, excluded = {}, ["lm_head"]
    for k, v in w.items():
        if not linear(k, c, attention=False):
            t[k] = v
            continue
        q, s, s2 = NVFP4QTensor.quantize(v, 16)
        t[k], t[k + "_scale"], t[k + "_scale_2"] = q._quantized_data, s, s2.view(())
        t[k.replace("weight", "input_scale")] = torch.tensor(0.00037)
    excluded += ["model.layers.0.mlp.router*", "model.layers.0.self_attn*"]
    group = {"input_activations": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16},
             "weights": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}, "targets": ["Linear"]}
    producer = {"name": "modelopt", "version": "0.43.0"}
    d = write(out, "nvfp4-modelopt", c, t, {"config_groups": {"group_0": group}, "ignore": excluded, "quant_algo": "NVFP4",
                                            "producer": producer, "quant_method": "modelopt"})
    (d / "hf_quant_config.json").write_text(json.dumps({"producer": producer, "quantization": {
        "quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16, "exclude_modules": excluded}}, indent=1) + "\n")


# ---- GPTQ, AWQ --------------------------------------------------------------------------------------------------------------------

def words(q, bits=4):
    """[rows, count] of small integers to [rows, count b / 32] of int32, low bits first."""
    b = (q[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(len(q), -1)
    return torch.from_numpy(np.packbits(b, axis=1, bitorder="little").view("<i4").copy())


def affine(x, g, groups):
    """Asymmetric uint4 with an integer zero: codes, scale [n, groups] as fp16, zero [n, groups]."""
    lo = np.stack([np.minimum(x[:, g == i].min(1), 0) for i in range(groups)], 1)
    hi = np.stack([np.maximum(x[:, g == i].max(1), 0) for i in range(groups)], 1)
    s = ((hi - lo) / 15).astype(np.float16)
    z = np.clip(np.round(-lo / s.astype(np.float32)), 1, 15).astype(np.int32)
    q = np.clip(np.round(x / s.astype(np.float32)[:, g]) + z[:, g], 0, 15).astype(np.int32)
    return q, s, z


def gptq_awq(out):
    # GPTQModel's AFMoE definition leaves out the attention's gate_proj and the shared experts; desc_act: columns in any order.
    # Two modules are stored as they would be without (g_idx ascending).
    c, w = base(S)
    c["dtype"] = "float16"
    t = {}
    for i, (k, v) in enumerate(w.items()):
        if not linear(k, c, gate=False, shared=False):
            t[k] = v if v.dtype == torch.float32 else v.half()
            continue
        x, p = v.float().numpy(), k.removesuffix("weight")
        g = np.arange(x.shape[1]) // 32
        if not p.endswith(("k_proj.", "v_proj.")):
            g = np.random.default_rng(i).permutation(g)
        q, s, z = affine(x, g, x.shape[1] // 32)
        t[p + "qweight"] = words(q).T
        t[p + "qzeros"] = words((z.T - 1) & 15)
        t[p + "scales"], t[p + "g_idx"] = torch.from_numpy(s.T.copy()), torch.from_numpy(g.astype(np.int32))
    write(out, "gptq", c, t, {"bits": 4, "group_size": 32, "desc_act": True, "sym": False, "lm_head": False, "quant_method": "gptq",
                              "checkpoint_format": "gptq", "pack_dtype": "int32", "meta": {"quantizer": ["gptqmodel:5.6.0"]}})
    t, inverse = {}, np.argsort(dec.AWQ)
    for k, v in w.items():
        if not linear(k, c, gate=False, shared=False):
            t[k] = v if v.dtype == torch.float32 else v.half()
            continue
        x, p = v.float().numpy(), k.removesuffix("weight")
        q, s, z = affine(x, np.arange(x.shape[1]) // 64, x.shape[1] // 64)
        mix = lambda y: words(y.T.reshape(y.shape[1], -1, 8)[:, :, inverse].reshape(y.shape[1], -1))
        t[p + "qweight"], t[p + "qzeros"], t[p + "scales"] = mix(q), mix(z), torch.from_numpy(s.T.copy())
    write(out, "awq", c, t, {"bits": 4, "group_size": 64, "zero_point": True, "version": "gemm", "quant_method": "awq",
                             "modules_to_not_convert": ["router", "shared_experts", "self_attn.gate_proj"]})


# ---- MLX --------------------------------------------------------------------------------------------------------------------------

def mlx(out):
    import mlx.core as mx
    from mlx_lm import convert
    mx.set_default_device(mx.cpu)
    two = {**S, "num_hidden_layers": 2, "layer_types": A["layer_types"]}    # mlx-lm wants a layer of each kind
    for name, shape, bits in (("mlx-4bit", {**two, "tie_word_embeddings": False}, 4), ("mlx-6bit", two, 6)):
        c, w = base(shape)
        with tempfile.TemporaryDirectory() as d:
            src = write(Path(d), "src", c, w, None)
            cc = json.loads((src / "config.json").read_text())
            del cc["quantization_config"]
            (src / "config.json").write_text(json.dumps(cc))
            (src / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}))
            convert(str(src), str(Path(d, "dst")), quantize=True, q_bits=bits, q_group_size=64)
            (out / name).mkdir(parents=True, exist_ok=True)
            for f in ("config.json", "model.safetensors"):
                shutil.copy(Path(d, "dst", f), out / name / f)
        fx.ftok().save(str(out / name / "tokenizer.json"))


# ---- GGUF -------------------------------------------------------------------------------------------------------------------------

# file: shape, base type, the type of each tensor
MIXES = {
    "blocks32": (B, "Q5_1", {"attn_q": "q4_1", "attn_k": "q5_0", "attn_v": "q5_1", "attn_output": "iq4_nl", "attn_gate": "q4_1",
                             "ffn_gate_exps": "mxfp4", "ffn_up_exps": "q5_0", "ffn_down_exps": "mxfp4", "ffn_gate_shexp": "iq4_nl",
                             "ffn_up_shexp": "q4_1", "ffn_down_shexp": "q5_1"}),
    "q2k-q3k-iq4xs": (C, "Q3_K", {"attn_q": "q2_K", "attn_k": "iq4_xs", "attn_v": "q2_K", "attn_output": "iq4_xs", "attn_gate": "q3_K",
                                  "ffn_gate_exps": "q2_K", "ffn_up_exps": "q3_K", "ffn_down_exps": "iq4_xs", "ffn_gate_shexp": "q3_K",
                                  "ffn_up_shexp": "q2_K", "ffn_down_shexp": "q3_K"}),
    "iq2-iq3": (C, "IQ2_S", {"attn_q": "iq2_xxs", "attn_k": "iq2_xs", "attn_v": "iq2_s", "attn_output": "iq3_s", "attn_gate": "iq3_xxs",
                             "ffn_gate_exps": "iq2_xxs", "ffn_up_exps": "iq2_xs", "ffn_down_exps": "iq3_s", "ffn_gate_shexp": "iq2_s",
                             "ffn_up_shexp": "iq3_xxs", "ffn_down_shexp": "iq2_s"}),
    "iq1-tq": (C, "TQ2_0", {"attn_q": "iq1_s", "attn_k": "iq1_m", "attn_v": "tq1_0", "attn_output": "tq2_0", "attn_gate": "iq1_m",
                            "ffn_gate_exps": "iq1_s", "ffn_up_exps": "iq1_m", "ffn_down_exps": "tq1_0", "ffn_gate_shexp": "tq2_0",
                            "ffn_up_shexp": "iq1_s", "ffn_down_shexp": "tq1_0"}),
}
EMBED = {"blocks32": "q5_0", "q2k-q3k-iq4xs": "q3_K", "iq2-iq3": "iq3_xxs", "iq1-tq": "tq2_0"}


def imatrix(path, tensors):
    """A random importance matrix in llama.cpp's GGUF form: sums of squares of each input and how often each expert ran."""
    import gguf
    g = gguf.GGUFWriter(str(path), "")
    g.add_type("imatrix")
    g.add_array("imatrix.datasets", ["random"])
    g.add_uint32("imatrix.chunk_count", 1)
    g.add_uint32("imatrix.chunk_size", 512)
    rng = np.random.default_rng(3)
    for k, v in tensors.items():
        if v.ndim >= 2 and "norm" not in k:
            e = v.shape[0] if v.ndim == 3 else 1
            g.add_tensor(k + ".in_sum2", (rng.random((e, v.shape[-1])) * 400 + 50).astype(np.float32))
            g.add_tensor(k + ".counts", np.full((e, 1), 512, np.float32))
    g.write_header_to_file()
    g.write_kv_data_to_file()
    g.write_tensors_to_file()
    g.close()


def ggufs(out, quantize, docs, digests):
    import gguf
    sys.path.insert(0, os.environ.get("GOLDEN", str(here.parent)))
    import make_gguf as mg
    rows = {}
    (out / "gguf").mkdir(parents=True, exist_ok=True)
    for name, (shape, kind, types) in MIXES.items():
        c, w = fx.f1(**shape)
        w = {k: v for k, v in w.items() if "lm_head" not in k}
        with tempfile.TemporaryDirectory() as d:
            t = mg.gguf_tensors(c, w)
            mg.write(Path(d, "f32.gguf"), c, t)
            imatrix(Path(d, "imatrix.gguf"), t)
            path = out / "gguf" / f"{name}.gguf"
            flags = [x for k, v in types.items() for x in ("--tensor-type", f"{k}\\.weight={v}")]
            r = subprocess.run([quantize, "--imatrix", "imatrix.gguf", "--token-embedding-type", EMBED[name], *flags,
                                "f32.gguf", str(path.resolve()), kind, "1"], cwd=d, capture_output=True, text=True)
            assert r.returncode == 0, r.stdout + r.stderr
        read = gguf.GGUFReader(str(path)).tensors
        t = {x.name: gguf.quants.dequantize(x.data, x.tensor_type) for x in read}
        docs["gguf/" + name] = logits(c, mg.hf_tensors(c, t))
        digests["gguf/" + name] = {k: digest(v) for k, v in sorted(t.items()) if v.ndim >= 2}
        (out / "gguf" / "config").mkdir(exist_ok=True)
        (out / "gguf" / "config" / f"{name}.json").write_text(json.dumps(c) + "\n")
        for x in read:                                                         # 256 numbers of each type, for a unit test
            kind = x.tensor_type.name
            if kind in ("F32", "F16", "BF16") or kind in rows:
                continue
            size, length = gguf.GGML_QUANT_SIZES[x.tensor_type][::-1]
            raw = np.ascontiguousarray(x.data).reshape(-1)[:256 // length * size].reshape(1, -1)
            y = gguf.quants.dequantize(raw, x.tensor_type)
            rows[kind] = {"bytes": raw.tobytes().hex(), "values": [float(v) for v in y.reshape(-1)]}
        print(name, path.stat().st_size, {x.name: x.tensor_type.name for x in read if x.tensor_type.name != "F32"})
    (out / "gguf" / "rows.json").write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("out", type=Path)
    a.add_argument("--mlx", action="store_true")
    a.add_argument("--gguf")
    o = a.parse_args()
    torch.set_num_threads(1)
    all_ct(o.out)
    modelopt(o.out)
    gptq_awq(o.out)
    if o.mlx:
        mlx(o.out)
    docs, digests = {}, {}
    for d in sorted(p.parent for p in o.out.glob("*/model.safetensors")):
        c, w, how = dec.decode(d)
        assert all(np.isfinite(v).all() for v in w.values()), d
        docs[d.name] = logits(c, w)
        digests[d.name] = {k: digest(v) for k, v in sorted(w.items()) if v.ndim == 2}
        plain = base({**A, **{k: c[k] for k in A}, "tie_word_embeddings": c["tie_word_embeddings"]})[1]
        err = max(float(np.abs(w[k] - plain[k].float().numpy()).max()) for k in w)
        print(d.name, (d / "model.safetensors").stat().st_size, sorted(set(how.values())), "max weight error", round(err, 4), docs[d.name]["greedy"])
    if o.gguf:
        ggufs(o.out, o.gguf, docs, digests)
    (o.out / "logits.json").write_text(json.dumps(docs) + "\n")
    (o.out / "weights.json").write_text(json.dumps(digests) + "\n")
    u = np.arange(256)
    (o.out / "codes.json").write_text(json.dumps({"e2m1": [float(x) for x in dec.E2M1], **{          # null: not a number
        k: [None if np.isnan(x) else float(x) for x in f(u)] for k, f in (("e4m3", dec.e4m3), ("e8m0", dec.e8m0))}}) + "\n")
