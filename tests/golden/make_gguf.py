"""GGUF golden files: one checkpoint in F32, and quantised by llama.cpp's own llama-quantize, with reference logits.

    python make_gguf.py LLAMA_QUANTIZE OUT_DIR      (pip install torch transformers gguf safetensors tokenizers numpy)

Reference logits: the file's tensors are dequantised with the gguf package and run through transformers' AfmoeForCausalLM in fp32.
"""
import json
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGUFReader, GGUFWriter
from safetensors.torch import save_file
from transformers import AfmoeForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import fixtures as fx

OVER = dict(hidden_size=256, intermediate_size=512, moe_intermediate_size=256, num_hidden_layers=4, num_attention_heads=2,
            num_key_value_heads=1, head_dim=128, num_experts=4, num_experts_per_tok=2, num_dense_layers=1, sliding_window=8,
            vocab_size=320, route_scale=2.826)
GLOBAL = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
LAYER = {"input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
         "pre_mlp_layernorm.weight": "ffn_norm.weight", "post_mlp_layernorm.weight": "post_ffw_norm.weight",
         "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight", "self_attn.v_proj.weight": "attn_v.weight",
         "self_attn.o_proj.weight": "attn_output.weight", "self_attn.gate_proj.weight": "attn_gate.weight",
         "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
         "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight",
         "mlp.router.gate.weight": "ffn_gate_inp.weight", "mlp.expert_bias": "exp_probs_b.bias",
         "mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight", "mlp.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
         "mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight"}


def gguf_tensors(c, w):
    out = {GLOBAL[k]: w[k] for k in GLOBAL if k in w}
    for i in range(c["num_hidden_layers"]):
        for k, v in LAYER.items():
            if f"model.layers.{i}.{k}" in w:
                out[f"blk.{i}.{v}"] = w[f"model.layers.{i}.{k}"]
        if i >= c["num_dense_layers"]:
            for p in ("gate", "up", "down"):
                out[f"blk.{i}.ffn_{p}_exps.weight"] = np.stack([w[f"model.layers.{i}.mlp.experts.{e}.{p}_proj.weight"] for e in range(c["num_experts"])])
    return out


def hf_tensors(c, t):
    w = {k: t[v] for k, v in GLOBAL.items() if v in t}
    for i in range(c["num_hidden_layers"]):
        for k, v in LAYER.items():
            if f"blk.{i}.{v}" in t:
                w[f"model.layers.{i}.{k}"] = t[f"blk.{i}.{v}"]
        if i >= c["num_dense_layers"]:
            for p in ("gate", "up", "down"):
                for e in range(c["num_experts"]):
                    w[f"model.layers.{i}.mlp.experts.{e}.{p}_proj.weight"] = t[f"blk.{i}.ffn_{p}_exps.weight"][e]
    return w


def write(path, c, tensors):
    g = GGUFWriter(str(path), "afmoe")
    g.add_name("golden")
    g.add_block_count(c["num_hidden_layers"])
    g.add_context_length(c["max_position_embeddings"])
    g.add_embedding_length(c["hidden_size"])
    g.add_feed_forward_length(c["intermediate_size"])
    g.add_head_count(c["num_attention_heads"])
    g.add_head_count_kv(c["num_key_value_heads"])
    g.add_key_length(c["head_dim"])
    g.add_value_length(c["head_dim"])
    g.add_layer_norm_rms_eps(c["rms_norm_eps"])
    g.add_sliding_window(c["sliding_window"])
    g.add_rope_freq_base(c["rope_theta"])
    g.add_rope_dimension_count(c["head_dim"])
    g.add_vocab_size(c["vocab_size"])
    g.add_expert_count(c["num_experts"])
    g.add_expert_used_count(c["num_experts_per_tok"])
    g.add_expert_shared_count(c["num_shared_experts"])
    g.add_expert_feed_forward_length(c["moe_intermediate_size"])
    g.add_leading_dense_block_count(c["num_dense_layers"])
    g.add_expert_weights_norm(True)
    g.add_expert_weights_scale(c["route_scale"])
    g.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    tok = json.loads(fx.ftok().to_str())
    vocab = {**tok["model"]["vocab"], **{a["content"]: a["id"] for a in tok["added_tokens"]}}
    special = {a["content"]: (3 if a["special"] else 4) for a in tok["added_tokens"]}
    names = {v: k for k, v in vocab.items()}
    text = [names.get(i, f"[PAD{i}]") for i in range(c["vocab_size"])]
    g.add_tokenizer_model("gpt2")
    g.add_tokenizer_pre("afmoe")
    g.add_token_list(text)
    g.add_token_types([special.get(t, 5 if t.startswith("[PAD") else 1) for t in text])
    g.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in tok["model"]["merges"]])
    g.add_bos_token_id(0)
    g.add_eos_token_id(3)
    g.add_pad_token_id(1)
    g.add_add_bos_token(False)
    for k, v in tensors.items():
        g.add_tensor(k, np.ascontiguousarray(v, np.float32))
    g.write_header_to_file()
    g.write_kv_data_to_file()
    g.write_tensors_to_file()
    g.close()


def reference(path, c):
    t = {x.name: gguf.quants.dequantize(x.data, x.tensor_type) for x in GGUFReader(str(path)).tensors}
    d = path.parent / "hf"
    d.mkdir(exist_ok=True)
    (d / "config.json").write_text(json.dumps(c))
    save_file({k: torch.from_numpy(np.array(v, np.float32)) for k, v in hf_tensors(c, t).items()}, str(d / "model.safetensors"), metadata={"format": "pt"})
    m = AfmoeForCausalLM.from_pretrained(str(d), dtype=torch.float32, attn_implementation="eager").eval()
    prompt, cur, greedy = fx.ids(24), fx.ids(24), []
    with torch.no_grad():
        logits = m(torch.tensor([prompt])).logits[0]
        for _ in range(16):
            greedy.append(int(m(torch.tensor([cur]), use_cache=False).logits[0, -1].argmax()))
            cur.append(greedy[-1])
    return {"prompt": prompt, "positions": [0, 7, 8, 23], "logits": [[round(float(x), 6) for x in logits[p]] for p in (0, 7, 8, 23)], "greedy": greedy}


if __name__ == "__main__":
    quantize, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    c, w = fx.f1(**OVER)
    full = out / "f32.gguf"
    write(full, c, gguf_tensors(c, w))
    (out / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    docs = {"f32": reference(full, c)}
    for q in ("BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q5_K_M", "Q6_K"):
        p = out / f"{q.lower()}.gguf"
        subprocess.run([quantize, str(full), str(p), q], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        docs[q.lower()] = reference(p, c)
        print(q, p.stat().st_size, sorted({x.tensor_type.name for x in GGUFReader(str(p)).tensors}), docs[q.lower()]["greedy"])
    (out / "logits.json").write_text(json.dumps(docs) + "\n")
