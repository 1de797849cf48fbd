"""Tiny checkpoints for tests, made from nothing but a seed.

`f1` is a random AFMoE (8 layers, window 8, one global layer in four) whose every tensor depends only on its own name.
`fscript` is an AFMoE whose layers add exactly nothing: the next token depends on the last one alone, by a table that
the test chooses, so it says any text, cut into any tokens, with any distribution. `ftok` is their tokenizer: bytes, a
few merges, the special tokens and the pre-tokenizer of the Trinity family.
"""
import json
import zlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

BASE = dict(
    vocab_size=285, hidden_size=64, intermediate_size=128, moe_intermediate_size=32, num_hidden_layers=8,
    num_dense_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_experts=8, num_experts_per_tok=2,
    num_shared_experts=1, route_scale=2.5, sliding_window=8, global_attn_every_n_layers=4, rms_norm_eps=1e-5,
    rope_theta=10000.0, max_position_embeddings=256, mup_enabled=True, tie_word_embeddings=False, score_func="sigmoid",
    route_norm=True, hidden_act="silu", architectures=["AfmoeForCausalLM"], model_type="afmoe", torch_dtype="float32",
    bos_token_id=0, pad_token_id=1, eos_token_id=3)

# ChatML with the Hermes tool block: a chat ends with the byte \n, where every script of `fscript` starts.
TEMPLATE = """\
{%- if tools -%}
{{ '<|im_start|>system\\n' }}
{%- if messages and messages[0].role == 'system' -%}{{ messages[0].content + '\\n\\n' }}{%- endif -%}
{{ '# Tools\\n\\nYou may call one or more functions.\\n\\n<tools>' }}
{%- for tool in tools -%}{{ '\\n' + (tool | tojson) }}{%- endfor -%}
{{ '\\n</tools>\\n\\nCall one like this:\\n<tool_call>\\n{"name": <name>, "arguments": <object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages and messages[0].role == 'system' -%}
{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif -%}
{%- for m in messages -%}
{%- if m.role == 'tool' -%}
{{ '<|im_start|>tool\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role != 'system' or not loop.first -%}
{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] -%}
{{ '\\n<tool_call>\\n{"name": ' + (c.function.name | tojson) + ', "arguments": ' + (c.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""


# ---- weights ----


def shapes(c):
    """Every tensor of configuration c: name -> shape."""
    hidden, q = c["hidden_size"], c["num_attention_heads"] * c["head_dim"]
    kv = c["num_key_value_heads"] * c["head_dim"]
    s = {"model.embed_tokens.weight": (c["vocab_size"], hidden), "lm_head.weight": (c["vocab_size"], hidden),
         "model.norm.weight": (hidden,)}

    def mlp(p, inner):
        s[p + "gate_proj.weight"] = s[p + "up_proj.weight"] = (inner, hidden)
        s[p + "down_proj.weight"] = (hidden, inner)

    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for n in ("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"):
            s[p + n + ".weight"] = (hidden,)
        a = p + "self_attn."
        s[a + "q_proj.weight"] = s[a + "gate_proj.weight"] = (q, hidden)
        s[a + "k_proj.weight"] = s[a + "v_proj.weight"] = (kv, hidden)
        s[a + "o_proj.weight"] = (hidden, q)
        s[a + "q_norm.weight"] = s[a + "k_norm.weight"] = (c["head_dim"],)
        if i < c["num_dense_layers"]:
            mlp(p + "mlp.", c["intermediate_size"])
            continue
        s[p + "mlp.router.gate.weight"] = (c["num_experts"], hidden)
        s[p + "mlp.expert_bias"] = (c["num_experts"],)
        mlp(p + "mlp.shared_experts.", c["moe_intermediate_size"] * c["num_shared_experts"])
        for e in range(c["num_experts"]):
            mlp(p + f"mlp.experts.{e}.", c["moe_intermediate_size"])
    return s


def rnd(name, shape):
    x = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if "norm" in name:
        x = 1 + 0.1 * x
    elif name.endswith("expert_bias"):
        x = 0.3 * x
    elif "embed" in name:
        x = 0.125 * x
    else:
        x = x / np.sqrt(shape[-1])
    return x.astype(np.float32)


def f1(**kw):
    """(config, weights) of the random model; keywords change the configuration."""
    c = {**BASE, **kw}
    c.setdefault("layer_types", ["full_attention" if i % 4 == 3 else "sliding_attention"
                                 for i in range(c["num_hidden_layers"])])
    return c, {n: rnd(n, s) for n, s in shapes(c).items()}


def ids(n, seed=1):
    """A prompt of n random byte tokens."""
    return np.random.default_rng(seed).integers(5, 281, n).tolist()


# ---- tokenizer ----

# The byte-level alphabet: a printable character for every byte.
_printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
_rest = [b for b in range(256) if b not in _printable]
ALPHABET = {**{b: chr(b) for b in _printable}, **{b: chr(256 + k) for k, b in enumerate(_rest)}}

SP = ["<|begin_of_text|>", "<|pad|>", "<|im_start|>", "<|im_end|>", "<|unk|>"]
ADD = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
MERGES = [
    (b"1", b"2"), (b"12", b"3"), (b"a", b"a"), (b"aa", b"aa"), (b"h", b"e"), (b"l", b"l"), (b"he", b"ll"),
    (b"hell", b"o"), (b" ", b" "), (b"\n", b"\n"), (b"\xf0", b"\x9f"), (b"\xe4", b"\xbd"), (b" ", b"a"), (b"b", b"c"),
    (b"ab", b"c"), (b"a", b"b"), (b"x", b"y"), (b"\xac", b"\xed"), (b"\xb2", b"3"), (b"\xbd", b"k")]
RX = [
    r"\p{Nd}{1,510}(?=(?>\p{Nd}{510})*(?:\P{Nd}|$))|\G\p{Nd}{510}",
    r"\A\p{Nd}{1,2}(?=\p{Nd}{3}+\z)",
    r"\A\p{Nd}{3}|\G\p{Nd}{3}",
    r"(?:[\u4E00-\u9FFF\u3040-\u309F\u30A0-\u30FF\u3400-\u4DBF\uf900-\uFAFF\uFF65-\uFF9F\u2F00-\u2FDF]+"
    r"|[\u0E00-\u0E7F]+|[\u0E80-\u0EFF]+|[\u1780-\u17FF]+|[\u1000-\u109F\uAA60-\uAA7F\uA9E0-\uA9FF]+"
    r"|[\uAC00-\uD7AF\u1100-\u11FF]+)",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""]


def enc(data):
    """Bytes in the byte-level alphabet."""
    return "".join(ALPHABET[b] for b in data)


def ftok(pieces=(), added=(), **bpe):
    """The tokenizer; `pieces` are vocabulary entries (bytes) that only output can hold, with ids from 281 up."""
    vocab = {s: i for i, s in enumerate(SP)}
    vocab.update({ALPHABET[b]: len(SP) + b for b in range(256)})
    merges = [(enc(x), enc(y)) for x, y in MERGES]
    for piece in [x + y for x, y in merges] + [enc(p) for p in pieces]:
        vocab.setdefault(piece, len(vocab))
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, **bpe))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r), "isolated") for r in RX]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, normalized=False) for s in SP])
    t.add_tokens([AddedToken(s, normalized=False) for s in ADD] + list(added))
    return t


# ---- scripted answers ----


def fscript(edges, pieces=(), **kw):
    """(config, weights, tokenizer) of a model that follows `edges`: {token: {next token: logit}}.

    A token is a piece (bytes), a special token (str) or an id; logits that are not listed are 0.
    """
    t = ftok(pieces)

    def token_id(k):
        return k if isinstance(k, int) else t.token_to_id(k if isinstance(k, str) else enc(k))

    vocab = t.get_vocab_size()
    hidden = -(-vocab // 64) * 64
    c = {**BASE, "vocab_size": vocab, "hidden_size": hidden, "num_hidden_layers": 4, "num_dense_layers": 1,
         "num_experts": 2, "num_experts_per_tok": 1, **kw}
    c["layer_types"] = ["sliding_attention"] * 3 + ["full_attention"]
    w = {k: rnd(k, s) for k, s in shapes(c).items()}
    for k in w:
        if k.endswith(("post_attention_layernorm.weight", "post_mlp_layernorm.weight")):
            w[k][:] = 0
    w["model.norm.weight"][:] = 1
    w["model.embed_tokens.weight"] = np.eye(vocab, hidden, dtype=np.float32)
    head = w["lm_head.weight"] = np.zeros((vocab, hidden), np.float32)
    for u, row in edges.items():
        for v, logit in row.items():
            head[token_id(v), token_id(u)] = logit / np.sqrt(hidden)
    return c, w, t


def chain(*pieces, start=b"\n", end="<|im_end|>"):
    """Edges of one fixed answer: start -> each piece in turn -> end. Pieces must be distinct."""
    seq = [start, *pieces, end]
    return {a: {b: 30.0} for a, b in zip(seq, seq[1:])}


def write(folder, config, weights, tokenizer, template=TEMPLATE):
    """A Hugging Face checkpoint folder; returns its path."""
    d = Path(folder)
    d.mkdir(parents=True, exist_ok=True)
    (d / "config.json").write_text(json.dumps(config))
    tokenizer.save(str(d / "tokenizer.json"))
    save_file(weights, str(d / "model.safetensors"), metadata={"format": "pt"})
    (d / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": SP[0], "eos_token": SP[3], "pad_token": SP[1], "add_bos_token": False,
        "chat_template": template}))
    return d
