"""The commands that need no server, as a user runs them: output, exit status, and what an error says."""
import re
import json
import shutil
import subprocess
import time

import pytest

import harness

CASES = json.loads((harness.GOLDEN / "demo.json").read_text())


def one_line_error(r, status):
    """The run failed with this status and exactly one line, which it returns."""
    assert r.returncode == status, r.stderr
    lines = r.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("trinityd: "), r.stderr
    return lines[0]


# ---- generate ----

@pytest.mark.parametrize("case", CASES[:6], ids=lambda c: c["prompt"][:20])
def test_generate_is_the_reference(case):
    r = harness.run("generate", "--weights=f32", "--kv-type=f32", "--temperature=0", "--log-level=error",
                    f"--max-tokens={len(case['greedy'])}", case["prompt"])
    assert r.returncode == 0, r.stderr
    assert r.stdout == case["text"] + "\n"
    assert r.stderr == ""


def test_generate_reads_standard_input():
    args = ["--weights=f32", "--kv-type=f32", "--temperature=0", "--max-tokens=2"]
    r = subprocess.run([harness.TRINITYD, "generate", *args], env=harness.environment(), cwd=harness.ROOT,
                       input="Hello", capture_output=True, encoding="utf-8", timeout=harness.PATIENCE)
    assert (r.returncode, r.stdout) == (0, "!\n"), r.stderr


def test_generate_depends_on_the_seed_alone():
    def text(seed, *more):
        r = harness.run("generate", "--max-tokens=40", f"--seed={seed}", *more, "Once upon a time")
        assert r.returncode == 0, r.stderr
        return r.stdout

    first = text(1)
    assert text(1, "--threads=1", "--page-tokens=16") == first
    assert len({text(seed) for seed in range(2, 6)} | {first}) > 1


@pytest.mark.parametrize("args,words", [
    (["generate", ""], ["text", "empty"]),
    (["generate", "--context-length=8", "one two three four five six seven eight nine"], ["prompt"]),
    (["generate", "--model=/nowhere", "x"], ["/nowhere", "No such file"]),
])
def test_generate_that_can_not(args, words):
    r = harness.run(*args, "--log-level=error")
    line = one_line_error(r, 1)
    assert all(w in line for w in words), line
    assert r.stdout == ""


# ---- check ----

def test_check_says_what_it_is():
    r = harness.run("check")
    assert r.returncode == 0, r.stderr
    for words in ["demo", "8: 6 local (window 32), 2 global", "1024 rows", "bf16", "fingerprint", "4096 tokens"]:
        assert words in r.stdout, r.stdout


def test_check_says_what_a_sequence_takes():
    """The closed form: keys and values of one global layer and token are 2 * heads * head size * 2 bytes in bf16."""
    c = json.loads((harness.DEMO / "config.json").read_text())
    per_token = c["layer_types"].count("full_attention") * 2 * c["num_key_value_heads"] * c["head_dim"] * 2
    r = harness.run("check", "--kv-type=bf16")
    assert f"{per_token} bytes a token" in r.stdout


def test_check_as_json():
    """The same facts for programs; layers as config.json has them, and the plan by its own arithmetic."""
    c = json.loads((harness.DEMO / "config.json").read_text())
    r = harness.run("check", "--json", "--memory=64MiB", "--kv-cache=8MiB", "--reference=16")
    assert r.returncode == 0, r.stderr
    line, = r.stdout.splitlines()
    told = json.loads(line)
    assert told["layers"] == "".join("G" if t == "full_attention" else "L" for t in c["layer_types"])
    assert (told["local_layers"], told["global_layers"]) == (6, 2)
    assert (told["window"], told["experts"], told["active_experts"]) == (32, 8, 2)
    assert (told["vocabulary"], told["context_length"], told["cache_bytes"]) == (1024, 4096, 8 << 20)
    assert told["model"] == "demo" and told["warnings"] == [] and told["chat_template"] is True
    assert told["memory_cache_bytes"] == (64 << 20) - told["weight_bytes"] - told["buffer_bytes"]
    each = told["local_bytes_per_sequence"] + told["global_bytes_per_token"] * 4096
    assert told["memory_sequences"] == told["memory_cache_bytes"] // each > 0
    assert told["most_tokens_per_second"] == pytest.approx(told["read_bytes_per_second"] / told["token_bytes"])
    # an expert has 3 matrices of 128 x 96 in bf16; all but 2 of 8 in 6 layers are not read for a token
    expert = 3 * 128 * 96 * 2
    assert told["weight_bytes"] - told["token_bytes"] >= 6 * 6 * expert
    assert told["token_bytes"] >= 6 * 2 * expert
    assert told["reference_tokens"] == 15 and told["reference_worst_difference"] < 0.2
    assert "kinds         LLLGLLLG" in harness.run("check").stdout


def test_check_plans_for_a_machine():
    r = harness.run("check", "--memory=1MiB")
    assert re.search(r"^in 1.00 MiB +weights and buffers lack [0-9.]+ MiB$", r.stdout, re.M), r.stdout
    r = harness.run("check", "--memory=1GiB")
    assert re.search(r"^in 1.00 GiB +[0-9.]+ MiB are left for the cache: \d+ sequences of 4096 tokens$", r.stdout, re.M)
    assert re.search(r"^speed +weights are read at [0-9.]+ GB/s: one sequence decodes at most [0-9.]+ tokens/s$",
                     r.stdout, re.M)


def stored(folder):
    """The header of the checkpoint's one file of weights, and where the values begin."""
    data = (folder / "model.safetensors").read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return header, 8 + n


def test_check_lists_tensors():
    header, _ = stored(harness.DEMO)
    r = harness.run("check", "--json", "--tensors", "--weights=q8_0")
    assert r.returncode == 0, r.stderr
    told = json.loads(r.stdout)
    assert {t["name"]: (t["shape"], t["stored"]) for t in told["tensors"]} == \
        {name: (t["shape"], t["dtype"]) for name, t in header.items()}
    kept = {t["name"]: t["kept"] for t in told["tensors"]}
    assert kept["model.embed_tokens.weight"] == "bf16" and kept["model.norm.weight"] == "f32"
    assert kept["model.layers.5.mlp.experts.7.up_proj.weight"] == kept["lm_head.weight"] == "q8_0"
    assert told["zero_tensors"] == told["nan_tensors"] == told["infinite_tensors"] == []
    lines = [line.split() for line in harness.run("check", "--tensors").stdout.splitlines() if line.startswith("tensor ")]
    assert len(lines) == len(header) and ["tensor", "lm_head.weight", "[1024,", "128]", "BF16", "bf16"] in lines


def put(name, values):
    """Writes BF16 values over the first of a tensor; None: zeros over all."""
    def change(folder):
        header, base = stored(folder)
        begin, end = header[name]["data_offsets"]
        data = bytes(end - begin) if values is None else b"".join(v.to_bytes(2, "little") for v in values)
        with open(folder / "model.safetensors", "r+b") as f:
            f.seek(base + begin)
            f.write(data)
    return change


NAN, INFINITE = 0x7fc1, 0xff80


@pytest.mark.parametrize("name,values,word,kind", [
    ("model.layers.3.mlp.experts.2.up_proj.weight", [NAN], "NaN", "nan_tensors"),
    ("model.layers.2.self_attn.o_proj.weight", [0, INFINITE], "infinite", "infinite_tensors"),
])
def test_check_refuses_values(tmp_path, name, values, word, kind):
    folder = damaged_demo(tmp_path / "m", put(name, values))
    r = harness.run("check", f"--model={folder}", "--weights=bf16")
    line = one_line_error(r, 1)
    assert word in line and f"in 1 tensor: {name}" in line
    r = harness.run("check", f"--model={folder}", "--weights=bf16", "--json")
    assert r.returncode == 1
    told = json.loads(r.stdout)
    assert told.pop(kind) == [name]
    assert not any(told[k] for k in ("zero_tensors", "nan_tensors", "infinite_tensors") if k in told)


def test_check_warns_of_zeros(tmp_path):
    name = "model.layers.1.self_attn.gate_proj.weight"
    r = harness.run("check", f"--model={damaged_demo(tmp_path / 'm', put(name, None))}")
    assert r.returncode == 0 and r.stderr == ""
    assert f"warning       all values are zero in 1 tensor: {name}\n" in r.stdout


def test_check_tries_tokenizer_and_template(tmp_path, daemon):
    added = len(json.loads((harness.DEMO / "tokenizer.json").read_text())["added_tokens"])
    told = json.loads(harness.run("check", "--json").stdout)
    assert told["tokenizer_exact"] is True and told["tokenizer_texts"] >= 12
    assert told["tokenizer_added"] == added > 0 and told["template_tokens"] > 0
    sulky = tmp_path / "template.jinja"
    sulky.write_text("{% if messages[0].role != 'system' %}{{ raise_exception('a system message first') }}{% endif %}")
    folder = damaged_demo(tmp_path / "m", lambda f: shutil.copy(sulky, f / "chat_template.jinja"))
    r = harness.run("check", f"--model={folder}")
    assert r.returncode == 0 and "warning       " in r.stdout and "a system message first" in r.stdout
    with daemon(model=folder) as d:
        d.wait_log("refuses a plain question.*a system message first")


def test_self_test():
    """Longer than the window of 32, in whatever types the daemon would serve."""
    r = harness.run("check", "--self-test", "--json", "--weights=q4_0", "--kv-type=q8", "--max-batch-tokens=48")
    assert r.returncode == 0, r.stderr
    told = json.loads(r.stdout)
    assert told["self_test_tokens"] == 32 + 48 + 2 * told["page_tokens"] - 1
    assert told["self_test_mean_difference"] < told["self_test_tolerance"] and told["weights"] == "q4_0"
    assert "window" in one_line_error(harness.run("check", "--self-test", "--context-length=32"), 1)


def damaged_demo(folder, change):
    shutil.copytree(harness.DEMO, folder)
    change(folder)
    return folder


def truncate(folder):
    f = folder / "model.safetensors"
    f.write_bytes(f.read_bytes()[:100000])


def wrong_config(folder):
    f = folder / "config.json"
    f.write_text(f.read_text().replace('"num_hidden_layers": 8', '"num_hidden_layers": "8"'))


@pytest.mark.parametrize("change,words", [
    (lambda f: (f / "model.safetensors").unlink(), ["model.safetensors"]),
    (lambda f: (f / "config.json").unlink(), ["config.json", "No such file"]),
    (lambda f: (f / "tokenizer.json").write_text("{"), ["tokenizer.json", "line 1"]),
    (truncate, ["model.safetensors"]),
    (wrong_config, ["config.json", "num_hidden_layers", "expected integer, found string"]),
], ids=["no weights", "no config", "bad tokenizer", "truncated", "wrong type"])
@pytest.mark.parametrize("command", ["check", "serve"])
def test_damaged_checkpoint(tmp_path, command, change, words):
    folder = damaged_demo(tmp_path / "m", change)
    begun = time.monotonic()
    port = ["--port=0", "--log-level=error"] if command == "serve" else []
    r = harness.run(command, f"--model={folder}", *port)
    assert r.returncode == 1, r.stderr
    assert all(w in r.stderr for w in words), r.stderr
    assert len(r.stderr.splitlines()) == 1, r.stderr
    assert time.monotonic() - begun < 5


# ---- health ----

def test_health(daemon, tmp_path):
    d = daemon(unix_socket=tmp_path / "socket")
    d.wait_log("ready|listening")
    harness.wait_for(lambda: harness.run("health", f"--port={d.port}").returncode == 0, 30)
    assert harness.run("health", env={"TRINITYD_UNIX_SOCKET": str(tmp_path / "socket")}).returncode == 0
    assert harness.run("health", f"--port={d.port}", "--host=0.0.0.0").returncode == 0
    d.stop()
    line = one_line_error(harness.run("health", f"--port={d.port}"), 1)
    assert "Connection refused" in line


# ---- bench ----

def test_bench_lines():
    args = ["bench", "--prefill=64", "--decode=1,3", "--context=16", "--repeat=1", "--json"]
    first, second = harness.run(*args), harness.run(*args, "--threads=1", "--page-tokens=16")
    assert first.returncode == 0 == second.returncode, first.stderr + second.stderr
    lines = [json.loads(line) for line in first.stdout.splitlines()]
    assert [(x["test"], x["size"]) for x in lines] == \
        [("prefill", 64), ("decode", 1), ("decode", 3)]
    assert all(x["tokens_per_second"] > 0 and x["gb_per_second"] > 0 and x["gflops"] > 0 for x in lines)
    # The numbers do not depend on threads or pages.
    assert [x["hash"] for x in lines] == [json.loads(line)["hash"] for line in second.stdout.splitlines()]
    assert len({x["hash"] for x in lines}) == 3


def test_bench_refuses_bad_sizes():
    assert "expected numbers" in one_line_error(harness.run("bench", "--decode=1,x"), 2)


# ---- options ----

def test_help_and_version():
    r = harness.run("--help")
    assert r.returncode == 0 and "--kv-cache SIZE" in r.stdout and r.stderr == ""
    assert "--top-k" in harness.run("generate", "--help").stdout
    r = harness.run("--version")
    assert r.returncode == 0 and r.stdout.startswith("trinityd ")


def test_print_config(tmp_path):
    f = tmp_path / "c.json"
    f.write_text('{"port": 1, "max_queue": 2, "host": "::1", "api_key": ["hunter2"]}')
    r = harness.run("--config", f, "--port", "3", "--print-config", env={"TRINITYD_MAX_QUEUE": "4"})
    assert r.returncode == 0, r.stderr
    c = json.loads(r.stdout)
    assert (c["port"], c["max_queue"], c["host"], c["max_sequences"]) == (3, 4, "::1", 64)
    assert "hunter2" not in r.stdout


@pytest.mark.parametrize("args,env,words", [
    (["--prot=1"], {}, ["prot", "command line"]),
    (["--port=x"], {}, ["port", "0 to 65535", "command line"]),
    ([], {"TRINITYD_KV_TYPE": "f8"}, ["kv_type", "environment TRINITYD_KV_TYPE"]),
    (["--config=/nowhere/c.json"], {}, ["/nowhere/c.json", "No such file"]),
])
def test_bad_configuration(args, env, words):
    line = one_line_error(harness.run(*args, env=env), 2)
    assert all(w in line for w in words), line


def test_check_compares_with_a_dense_pass():
    r = harness.run("check", "--reference=48", "--weights=f32", "--kv-type=f32", "--threads=2")
    assert r.returncode == 0, r.stderr
    line = next(x for x in r.stdout.splitlines() if x.startswith("reference"))
    most = float(re.search(r"([0-9.e-]+) at most", line).group(1))
    assert most < 1e-3 and line.endswith("equal at 47"), line
