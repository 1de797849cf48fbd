"""Checkpoints as the daemon meets them: what it answers from each kind, and how it ends on a wrong one."""
import json
import os
import re
import shutil

import numpy as np
import pytest

import fixtures as fx
import harness
import reference
from checkpoint import tool

X = fx.ids(40)


def copy(tmp_path, **config):
    """The F1 checkpoint in a folder of its own, with changes to its config (None removes a key)."""
    path = tmp_path / "model"
    shutil.copytree(harness.f1_checkpoint(), path)
    f = path / "config.json"
    c = {**json.loads(f.read_text()), **config}
    f.write_text(json.dumps({k: v for k, v in c.items() if v is not None}))
    return path


def greedy(d, prompt=X, n=12):
    r = d.complete(prompt=prompt, max_tokens=n, logprobs=1, return_token_ids=True, ignore_eos=True)
    choice = r["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"]


# ---- B10 ----


@pytest.mark.parametrize("config", [
    {"rope_theta": 500000.0},
    {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
    {"rope_theta": None, "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}}])
def test_theta_is_found(tmp_path, daemon, config):
    ids, logprobs = greedy(daemon(copy(tmp_path, **config), kv_type="f32"))
    assert ids == [125, 127, 29, 222, 222, 24, 110, 24, 72, 111, 125, 69]
    assert logprobs[0] == pytest.approx(-3.722, abs=2e-3)


def refused(path, *texts):
    """`serve` ends by itself within 5 s, with a status and a message; nothing ever listened."""
    p = harness.run("serve", "--model", path, "--port", 0, timeout=5)
    assert p.returncode == 1 and "listening" not in p.stderr and "Sanitizer" not in p.stderr, p.stderr
    for text in texts:
        assert text in p.stderr, p.stderr


def test_rope_type(tmp_path):
    refused(copy(tmp_path, rope_theta=None, rope_parameters={"rope_type": "frobnicate"}), "rope")


# ---- B50, B52 ----


@pytest.mark.parametrize("size", [-1, -4096, 8, 7, 0])
def test_short_file(tmp_path, size):
    path = copy(tmp_path)
    f = path / "model.safetensors"
    os.truncate(f, size if size >= 0 else f.stat().st_size + size)
    refused(path, "model.safetensors", str(f.stat().st_size))


def test_trailing_bytes(tmp_path):
    path = copy(tmp_path)
    f = path / "model.safetensors"
    os.truncate(f, f.stat().st_size + 4)
    refused(path, "model.safetensors", str(f.stat().st_size))


@pytest.fixture
def sharded(tmp_path):
    c, w = fx.f1()
    path = copy(tmp_path)
    (path / "model.safetensors").unlink()
    tool.folder(path, c, w, shards=3)
    return path


def test_shards(sharded, f1, daemon):
    assert greedy(daemon(sharded)) == greedy(f1)


def test_missing_shard(sharded):
    (sharded / "model-00002-of-00003.safetensors").unlink()
    refused(sharded, "model-00002-of-00003.safetensors")


def test_tied_head(tmp_path, daemon):
    """Equal to a checkpoint whose lm_head is a copy of the embedding table."""
    c, w = fx.f1()
    w["lm_head.weight"] = w["model.embed_tokens.weight"]
    tool.folder(tmp_path / "untied", c, w)
    del w["lm_head.weight"]
    tool.folder(tmp_path / "tied", {**c, "tie_word_embeddings": True}, w)
    assert greedy(daemon(tmp_path / "tied")) == greedy(daemon(tmp_path / "untied"))


# ---- B54 ----


@pytest.mark.parametrize("change", [lambda f: os.truncate(f, 0), lambda f: f.unlink(),
                                    lambda f: f.write_bytes(os.urandom(f.stat().st_size))])
def test_weights_change_while_serving(tmp_path, daemon, change):
    path = copy(tmp_path)
    d = daemon(path, mmap=False)
    before = greedy(d)
    change(path / "model.safetensors")
    assert greedy(d) == before and d.alive()


# ---- GGUF ----

LOGITS = json.loads((harness.GOLDEN / "gguf" / "logits.json").read_text())
# The error of 8-bit activations, in logprobs of the best token at four positions; measured 0.029.
COARSE = 0.06


@pytest.mark.parametrize("name", ["bf16", "q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k"])
@pytest.mark.parametrize("weights,tolerance", [("f32", 1e-4), ("auto", COARSE)])
def test_gguf_logits(daemon, name, weights, tolerance):
    """The best token and its logprob are the reference's, which ran on the dequantised file. Rows of the head without a
    token are never sampled, so the reference leaves them out."""
    d = daemon(harness.GOLDEN / "gguf" / f"{name}.gguf", weights=weights, kv_type="f32")
    want = LOGITS[name]
    for position, row in zip(want["positions"], want["logits"]):
        row = np.array(row)[:fx.ftok().get_vocab_size()]
        ids, logprobs = greedy(d, want["prompt"][:position + 1], 1)
        assert ids == [int(row.argmax())]
        assert logprobs[0] == pytest.approx(row.max() - np.logaddexp.reduce(row), abs=tolerance)


def test_gguf_is_the_same_model(tmp_path, daemon):
    """Hugging Face's folder and the GGUF file of the same weights: equal ids and logprobs, and an equal tokenizer."""
    c, w = fx.f1()
    path = tmp_path / "f1.gguf"
    path.write_bytes(tool.gguf_bytes(tool.metadata(c), tool.f32_tensors(tool.gguf_tensors(c, w))))
    a, b = daemon(copy(tmp_path)), daemon(path)
    assert greedy(a) == greedy(b)
    text = "hello 12345 <|im_start|>user\nabc<|im_end|> ab  \n x"
    tokens = [d.post("/tokenize", {"prompt": text}).json()["tokens"] for d in (a, b)]
    assert tokens[0] == tokens[1] and 2 in tokens[0]


def test_malformed_gguf(tmp_path):
    path = tmp_path / "m.gguf"
    data = (harness.GOLDEN / "gguf" / "q4_0.gguf").read_bytes()
    path.write_bytes(data[:-1000])
    refused(path, "m.gguf", str(len(data) - 1000))


# ---- the packed cache ----


def test_packed_cache(tmp_path, daemon):
    """The next start answers the same from it, and a damaged one is made again with a line in the log."""
    model, cache = harness.GOLDEN / "gguf" / "q4_k_m.gguf", tmp_path / "cache"
    want = greedy(daemon(model))
    d = daemon(model, packed_cache=cache)
    assert greedy(d) == want and "packed cache" not in d.log
    d.wait_log("packed weights written in")
    [file] = cache.iterdir()
    d = daemon(model, packed_cache=cache)
    assert greedy(d) == want and "packed cache" not in d.log
    d.wait_log(r"weights \S+ \S+ MiB in \S+ s \(\S+ GiB/s, packed\)")
    with open(file, "r+b") as f:
        f.seek(200_000)
        f.write(b"\0" * 64)
    d = daemon(model, packed_cache=cache)
    assert greedy(d) == want
    assert len(re.findall("packed cache", d.log)) == 1


# ---- types of weights, mixed ----


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A random model, its tensors of the types that are asked for."""
    def model(name, dtypes):
        path = tmp_path_factory.mktemp("mixed") / name
        c, w = fx.f1(num_hidden_layers=3, num_dense_layers=1, layer_types=["sliding_attention", "full_attention",
                                                                           "sliding_attention"])
        tool.folder(path, c, w, dtypes=dtypes)
        return path
    return model


def part(number, matrix):
    return lambda n: f".experts.{number}." in n and matrix in n


MIXED = {
    "one expert BF16": (part(0, ""), "BF16", "F32"),
    "another expert BF16": (part(5, ""), "BF16", "F32"),
    "one expert F32": (part(3, ""), "F32", "BF16"),
    "one expert F16 of BF16": (part(2, ""), "F16", "BF16"),
    "one gate": (part(1, "gate"), "F32", "BF16"),
    "one up": (part(4, "up"), "BF16", "F16"),
    "one down": (part(5, "down"), "BF16", "F32"),
    "one down F32": (part(6, "down"), "F32", "BF16"),
    "all gates": (lambda n: ".experts." in n and "gate" in n, "BF16", "F32"),
    "the shared expert": (lambda n: "shared_experts" in n, "BF16", "F32"),
}


def error(path, prompt, choice, echoed):
    """The largest distance of the answer's logprobs from numpy's; rows of the head without a token are never sampled."""
    tokens = prompt + choice["token_ids"]
    rows = reference.Reference(path).logprobs(tokens)[:, :fx.ftok().get_vocab_size()]
    rows -= np.logaddexp.reduce(rows, axis=1, keepdims=True)
    first = 1 if echoed else len(prompt)
    got = choice["logprobs"]["token_logprobs"][echoed:]
    return max(abs(x - rows[i - 1][tokens[i]]) for i, x in enumerate(got, first))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", MIXED)
def test_mixed_types(mixed, daemon, name, threads):
    """Whatever the type of each matrix of each expert, the answer is the model's, for one row and for many."""
    chosen, one, others = MIXED[name]
    path = mixed(name.replace(" ", "-"), lambda n: one if chosen(n) else others if ".experts." in n else "F32")
    d = daemon(path, kv_type="f32", threads=threads)
    for prompt in (fx.ids(20, 5), [7]):
        echo = len(prompt) > 1
        r = d.complete(prompt=prompt, max_tokens=8, logprobs=1, echo=echo, return_token_ids=True, ignore_eos=True)
        assert error(path, prompt, r["choices"][0], echo) < 0.02  # activations in BF16: 0.005


def test_check_says_how_weights_are_kept():
    p = harness.run("check", "--model", harness.GOLDEN / "formats" / "w4a16", "--kv-cache", "4MiB")
    assert p.returncode == 0, p.stderr
    lines = [line.removeprefix("stored as").strip() for line in p.stdout.splitlines() if line.startswith("stored as")]
    assert "int4, groups of 128, kept as q4_0, 1 matrix, exact" in lines and len(lines) == 3
    p = harness.run("check", "--model", harness.GOLDEN / "formats" / "fp8-tensor", "--kv-cache", "4MiB")
    assert "FP8, kept as q8_0, 14 matrices, rounded by 5." in p.stdout
