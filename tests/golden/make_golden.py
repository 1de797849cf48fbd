"""Golden vectors for the AFMoE forward pass, made with transformers' AfmoeForCausalLM (fp32, eager attention).

    pip install torch transformers safetensors tokenizers numpy
    python make_golden.py OUT_DIR

For each case: OUT_DIR/CASE/ is a Hugging Face checkpoint, and OUT_DIR/CASE.json holds
  prompt        token ids
  positions     the positions whose logits are kept
  logits        [len(positions)][vocab] float32
  greedy        the ids that follow the prompt at temperature 0 (recomputed from scratch for every token)
  hidden        per layer: the residual stream after it, at the last position [hidden]
  gate          per layer: sigmoid(gate_proj(x)) at the last position [heads * head_dim]
  keys, values  per layer: what the cache holds for the last `window` positions [kv_heads][n][head_dim];
                rotated on sliding layers, unrotated on full ones
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AfmoeForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import fixtures as fx

S, G = "sliding_attention", "full_attention"
CASES = {
    # the plain shape: period 4, window 8
    "plain": dict(),
    # the same weights rounded to BF16: the reference computes in fp32 on the rounded weights
    "plain-bf16": dict(_bf16=True),
    # no period, a global layer first and two in a row; q width (96) is not the hidden size (64); 3 KV heads; 2 shared experts
    "irregular": dict(num_hidden_layers=7, layer_types=[G, S, S, G, G, S, S], num_attention_heads=6, num_key_value_heads=3,
                      num_dense_layers=1, num_experts=12, num_experts_per_tok=3, num_shared_experts=2, sliding_window=5,
                      route_scale=1.7, rope_theta=500000.0),
    # head_dim of the real models, one KV head, window 16, tied embeddings, no muP scale
    "wide-tied": dict(num_hidden_layers=4, hidden_size=128, head_dim=128, num_attention_heads=4, num_key_value_heads=1,
                      moe_intermediate_size=64, num_experts=16, num_experts_per_tok=4, sliding_window=16,
                      tie_word_embeddings=True, mup_enabled=False, route_scale=2.826),
}


def build(out, name, over):
    over = dict(over)
    bf16 = over.pop("_bf16", False)
    c, w = fx.f1(**over)
    if c["tie_word_embeddings"]:
        del w["lm_head.weight"]
    if bf16:
        c["torch_dtype"] = "bfloat16"
    d = out / name
    d.mkdir(parents=True, exist_ok=True)
    t = {k: torch.from_numpy(v) for k, v in w.items()}
    if bf16:
        t = {k: v if k.endswith("expert_bias") else v.to(torch.bfloat16) for k, v in t.items()}
    save_file(t, str(d / "model.safetensors"), metadata={"format": "pt"})
    (d / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    fx.ftok().save(str(d / "tokenizer.json"))
    (d / "tokenizer_config.json").write_text(json.dumps({"bos_token": fx.SP[0], "eos_token": fx.SP[3], "pad_token": fx.SP[1], "add_bos_token": False}) + "\n")
    m = AfmoeForCausalLM.from_pretrained(str(d), dtype=torch.float32, attn_implementation="eager").eval()
    prompt = fx.ids(40)
    grabbed = {}
    for i, layer in enumerate(m.model.layers):
        layer.register_forward_hook(lambda _m, _i, o, i=i: grabbed.__setitem__(("hidden", i), (o[0] if isinstance(o, tuple) else o)[0, -1]))
        layer.self_attn.gate_proj.register_forward_hook(lambda _m, _i, o, i=i: grabbed.__setitem__(("gate", i), torch.sigmoid(o[0, -1])))
    with torch.no_grad():
        r = m(torch.tensor([prompt]), use_cache=True)
    n, window = c["num_hidden_layers"], c["sliding_window"]
    f = lambda x: [round(float(v), 7) for v in x.flatten()]
    nest = lambda x: [[[round(float(v), 7) for v in row] for row in head] for head in x]
    cache = r.past_key_values
    doc = {
        "prompt": prompt, "positions": list(range(len(prompt))), "logits": [f(x) for x in r.logits[0]],
        "hidden": [f(grabbed["hidden", i]) for i in range(n)], "gate": [f(grabbed["gate", i]) for i in range(n)],
        "layer_types": c["layer_types"],
        # a sliding cache keeps window-1 rows: enough for the next token, which brings its own
        "keys": [nest(cache.layers[i].keys[0, :, -(window - 1):]) for i in range(n)],
        "values": [nest(cache.layers[i].values[0, :, -(window - 1):]) for i in range(n)],
    }
    cur, greedy = list(prompt), []
    with torch.no_grad():
        for _ in range(32):
            greedy.append(int(m(torch.tensor([cur]), use_cache=False).logits[0, -1].argmax()))
            cur.append(greedy[-1])
    doc["greedy"] = greedy
    (out / f"{name}.json").write_text(json.dumps(doc) + "\n")
    print(name, greedy)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, over in CASES.items():
        build(out, name, over)
