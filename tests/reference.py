"""The model once more, in numpy and float64, as plainly as it can be said: one sequence, no cache, no batch.

It exists to be compared with, and shares nothing with the engine but the checkpoint.
"""
import json
from pathlib import Path

import numpy as np


def read_safetensors(path):
    """{name: float64 array} of F32, F16 and BF16 tensors."""
    data = Path(path).read_bytes()
    n = int.from_bytes(data[:8], "little")
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        raw = data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            x = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[t["dtype"]])
        out[name] = x.astype(np.float64).reshape(t["shape"])
    return out


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Reference:
    def __init__(self, folder):
        self.c = json.loads((Path(folder) / "config.json").read_text())
        self.w = read_safetensors(Path(folder) / "model.safetensors")

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * self.w[name + ".weight"]

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T

    def rotate(self, x):
        half = x.shape[-1] // 2
        theta = self.c.get("rope_theta") or self.c["rope_parameters"]["rope_theta"]
        angle = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, x, layer, p):
        n, d = len(x), self.c["head_dim"]
        local = self.c["layer_types"][layer] == "sliding_attention"
        q, k, v = (self.linear(x, f"{p}.{m}_proj").reshape(n, -1, d) for m in "qkv")
        q, k = self.norm(q, p + ".q_norm"), self.norm(k, p + ".k_norm")
        if local:
            q, k = self.rotate(q), self.rotate(k)
        k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
        back = np.arange(n)[:, None] - np.arange(n)
        seen = (back >= 0) & ((back < self.c["sliding_window"]) | (not local))
        s = np.where(seen, np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d), -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        out = np.einsum("hij,jhd->ihd", s / s.sum(-1, keepdims=True), v).reshape(n, -1)
        return self.linear(out * sigmoid(self.linear(x, p + ".gate_proj")), p + ".o_proj")

    def mlp(self, x, p):
        gate = self.linear(x, p + ".gate_proj")
        return self.linear(gate * sigmoid(gate) * self.linear(x, p + ".up_proj"), p + ".down_proj")

    def experts(self, x, p):
        score = sigmoid(self.linear(x, p + ".router.gate"))
        out = self.mlp(x, p + ".shared_experts")
        for row, s in enumerate(score):
            best = np.argsort(-(s + self.w[p + ".expert_bias"]), kind="stable")[:self.c["num_experts_per_tok"]]
            for e, weight in zip(best, s[best] / s[best].sum() * self.c["route_scale"]):
                out[row] += weight * self.mlp(x[row], f"{p}.experts.{e}")
        return out

    def logprobs(self, ids):
        """(len(ids), vocabulary): the log probability of every next token."""
        h = self.w["model.embed_tokens.weight"][ids]
        if self.c.get("mup_enabled"):
            h = h * np.sqrt(self.c["hidden_size"])
        for i in range(self.c["num_hidden_layers"]):
            p = f"model.layers.{i}"
            x = self.attention(self.norm(h, p + ".input_layernorm"), i, p + ".self_attn")
            h = h + self.norm(x, p + ".post_attention_layernorm")
            x = self.norm(h, p + ".pre_mlp_layernorm")
            x = self.mlp(x, p + ".mlp") if i < self.c["num_dense_layers"] else self.experts(x, p + ".mlp")
            h = h + self.norm(x, p + ".post_mlp_layernorm")
        head = self.w.get("lm_head.weight", self.w["model.embed_tokens.weight"])
        z = self.norm(h, "model.norm") @ head.T
        z -= z.max(-1, keepdims=True)
        return z - np.log(np.exp(z).sum(-1, keepdims=True))
