"""Every weight of a quantised AFMoE checkpoint as fp32, from the files alone: numpy only, no quantisation package.

    python decode.py FOLDER            prints name, shape, how it was stored

A module's format is known by which tensors it has, not by `ignore` lists:
  weight_packed U8             E2M1 pairs: + weight_scale F8_E4M3 (NVFP4, weight_global_scale) or U8 (MXFP4, E8M0)
  weight_packed I32            pack-quantized integers: + weight_scale, weight_shape[, weight_zero_point][, weight_g_idx]
  weight F8_E4M3 / I8          + weight_scale | weight_scale_inv of 1, n, n x 1 or blocks
  weight U8 + weight_scale_2   modelopt NVFP4
  weight U32 + scales + biases MLX affine
  qweight I32 + qzeros + scales[+ g_idx]   GPTQ; AWQ if quant_method says so
  weight F32 F16 BF16          as it is
"""
import json
import sys
from pathlib import Path

import numpy as np

E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def e4m3(u):  # OCP E4M3 "fn": no infinities, 0x7F and 0xFF are NaN, subnormals m * 2^-9
    s, e, m = u >> 7, (u >> 3) & 15, u & 7
    x = np.where(e == 0, m * 2.0 ** -9, (8 + m) * np.exp2(e.astype(np.float64) - 10))
    x = np.where((e == 15) & (m == 7), np.nan, x)
    return np.where(s == 1, -x, x).astype(np.float32)


def e8m0(u):  # 2^(u - 127); 0xFF is NaN; u = 0 is 2^-127, a subnormal float
    return np.where(u == 255, np.nan, np.exp2(u.astype(np.float64) - 127)).astype(np.float32)


def read(folder):
    """name -> (dtype text, numpy array of the raw integers or floats)."""
    folder = Path(folder)
    index = folder / "model.safetensors.index.json"
    files = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else ["model.safetensors"]
    kinds = {"F32": "<f4", "F16": "<f2", "I8": "i1", "U8": "u1", "I16": "<i2", "I32": "<i4", "U32": "<u4", "I64": "<i8", "F64": "<f8",
             "BF16": "<u2", "F8_E4M3": "u1", "F8_E8M0": "u1", "F8_E5M2": "u1", "BOOL": "u1"}
    out = {}
    for f in files:
        b = (folder / f).read_bytes()
        n = int.from_bytes(b[:8], "little")
        for k, v in json.loads(b[8:8 + n]).items():
            if k != "__metadata__":
                lo, hi = v["data_offsets"]
                out[k] = v["dtype"], np.frombuffer(b[8 + n + lo:8 + n + hi], kinds[v["dtype"]]).reshape(v["shape"])
    return out


def number(t):
    kind, x = t
    if kind == "BF16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    if kind == "F8_E4M3":
        return e4m3(x)
    if kind == "F8_E8M0":
        return e8m0(x)
    return x.astype(np.float32)


def bits_le(words, bits, count):
    """[rows, words] of u32 -> [rows, count]: element i is bits [i b, i b + b) of the row read as one little-endian number."""
    b = np.unpackbits(np.ascontiguousarray(words).astype("<u4").view(np.uint8), axis=-1, bitorder="little")
    b = b[:, :count * bits].reshape(len(words), count, bits)
    return (b * (1 << np.arange(bits))).sum(-1).astype(np.int32)


def spread(scale, n, k, block=None):
    """A scale of 1, [n], [n, 1], [n, k / g] or [ceil(n / bn), ceil(k / bk)] elements to [n, k]."""
    if scale.size == 1:
        return np.broadcast_to(scale.reshape(1, 1), (n, k))
    scale = scale.reshape(n, 1) if scale.ndim == 1 else scale
    if block:
        bn, bk = block
    else:
        bn, bk = -(-n // scale.shape[0]), -(-k // scale.shape[1])
    return np.repeat(np.repeat(scale, bn, 0), bk, 1)[:n, :k]


def fp4_pairs(u):
    q = np.empty(u.shape[:-1] + (2 * u.shape[-1],), np.float32)
    q[..., 0::2], q[..., 1::2] = E2M1[u & 15], E2M1[u >> 4]      # the low nibble comes first
    return q


def packed_ints(t, p, cfg):
    _, words = t[p + "weight_packed"]
    n, k = (int(x) for x in t[p + "weight_shape"][1])
    scale = number(t[p + "weight_scale"])
    bits = next(g["weights"]["num_bits"] for g in cfg["config_groups"].values() if -(-k * g["weights"]["num_bits"] // 32) == words.shape[1])
    q = bits_le(words.view(np.uint32), bits, k) - (1 << bits - 1)
    group = np.minimum(np.arange(k) // (k // scale.shape[1]), scale.shape[1] - 1)
    if p + "weight_g_idx" in t and (t[p + "weight_g_idx"][1] >= 0).all():
        group = t[p + "weight_g_idx"][1]                          # column -> group; columns themselves are in their own order
    zero = 0
    if p + "weight_zero_point" in t:
        kind, z = t[p + "weight_zero_point"]
        if kind == "I32":                                         # packed along the rows: [ceil(n b / 32), groups]
            z = bits_le(z.T.view(np.uint32), bits, n).T - (1 << bits - 1)
        zero = z.astype(np.int32)[:, group]
    return (q - zero).astype(np.float32) * scale[:, group], f"pack-quantized int{bits}, {scale.shape[1]} groups"


def gptq(t, p, cfg):
    words, zeros, scales = t[p + "qweight"][1], t[p + "qzeros"][1], number(t[p + "scales"])
    bits = cfg["bits"]
    n, k = words.shape[1], words.shape[0] * 32 // bits
    q = bits_le(words.T.view(np.uint32), bits, k)                 # [n, k]: packed along k
    z = bits_le(zeros.view(np.uint32), bits, n)                   # [groups, n]
    if cfg.get("checkpoint_format", "gptq") == "gptq":            # v1 stores zero - 1
        z = (z + 1) & ((1 << bits) - 1)
    gs = k if cfg["group_size"] < 0 else cfg["group_size"]
    g = t[p + "g_idx"][1] if p + "g_idx" in t else np.arange(k) // gs
    return ((q.T - z[g]).astype(np.float32) * scales[g]).T, "gptq"


AWQ = [0, 4, 1, 5, 2, 6, 3, 7]                                    # output 8 j + i is nibble AWQ[i] of word j


def awq(t, p, cfg):
    words, zeros, scales = t[p + "qweight"][1], t[p + "qzeros"][1], number(t[p + "scales"])
    k, n = words.shape[0], 8 * words.shape[1]

    def order(x):
        return bits_le(x.view(np.uint32), 4, n).reshape(len(x), -1, 8)[:, :, AWQ].reshape(len(x), n)
    g = np.arange(k) // (k // len(scales))
    return ((order(words) - order(zeros)[g]).astype(np.float32) * scales[g]).T, "awq gemm"


def mlx(t, p, cfg, name):
    words, scales, biases = t[p + "weight"][1], number(t[p + "scales"]), number(t[p + "biases"])
    c = {**cfg, **(cfg.get(name) or {})} if isinstance(cfg.get(name), dict) else cfg
    bits, gs = c["bits"], c["group_size"]
    lead, k = words.shape[:-1], words.shape[-1] * 32 // bits
    q = bits_le(words.reshape(-1, words.shape[-1]), bits, k).reshape(*lead, k)
    return (q * np.repeat(scales, gs, -1) + np.repeat(biases, gs, -1)).astype(np.float32), f"mlx {bits} bits"


def decode(folder):
    folder = Path(folder)
    c = json.loads((folder / "config.json").read_text())
    cfg = c.get("quantization_config") or c.get("quantization") or {}
    t = read(folder)
    out, how = {}, {}

    def put(name, x, text):
        out[name], how[name] = np.ascontiguousarray(x, np.float32), text
    for name in t:
        p, last = name.rsplit(".", 1)
        p += "."
        if last == "weight_packed" and t[name][0] == "U8":
            u = t[name][1]
            s = t[p + "weight_scale"]
            if s[0] == "U8":
                x, text = fp4_pairs(u) * np.repeat(e8m0(s[1]), 32, 1), "mxfp4"
            else:                                                 # the global scale divides
                x = fp4_pairs(u) * np.repeat(number(s) / number(t[p + "weight_global_scale"]).reshape(()), 16, 1)
                text = "nvfp4-pack-quantized"
            put(p + "weight", x, text)
        elif last == "weight_packed":
            x, text = packed_ints(t, p, cfg)
            put(p + "weight", x, text)
        elif last == "qweight":
            x, text = (awq if cfg["quant_method"] == "awq" else gptq)(t, p, cfg)
            put(p + "weight", x, text)
        elif last == "weight" and t[name][0] == "U8":             # modelopt: weight_scale_2 multiplies
            s = number(t[p + "weight_scale"]) * number(t[p + "weight_scale_2"]).reshape(())
            put(name, fp4_pairs(t[name][1]) * np.repeat(s, 16, 1), "modelopt nvfp4")
        elif last == "weight" and t[name][0] == "U32":
            x, text = mlx(t, p, cfg, p[:-1])
            if ".mlp.experts." in p:                              # stacked: [experts, n, k]
                for e, y in enumerate(x):
                    put(p.replace(".experts.", f".experts.{e}.") + "weight", y, text)
            else:
                put(name, x, text)
        elif last == "weight" and t[name][0] in ("F8_E4M3", "I8"):
            s = t.get(p + "weight_scale") or t[p + "weight_scale_inv"]
            block = cfg.get("weight_block_size") or next((g["weights"].get("block_structure") for g in cfg.get("config_groups", {}).values()), None)
            n, k = t[name][1].shape
            put(name, number(t[name]) * spread(number(s), n, k, block), f"{t[name][0]} scale {s[0]}{list(s[1].shape)}")
        elif last in ("weight", "expert_bias"):
            put(name, number(t[name]), t[name][0])
    return c, out, how


if __name__ == "__main__":
    _, w, how = decode(sys.argv[1])
    for k in sorted(w):
        print(k, list(w[k].shape), how[k])
