"""What README.md tells a reader is so: its commands work, its sums come out, what it names is there."""
import re
import shutil
import subprocess

import pytest

import harness

README = (harness.ROOT / "README.md").read_text()
SETUP, *COMMANDS = re.search(r"^```\n(H=.*?)^```", README, re.M | re.S)[1].splitlines()

# The published configurations: hidden size, layers, dense layers, heads, KV heads, sizes of a dense and of an expert's
# MLP, experts, chosen experts, shared experts, window. Heads have 128 numbers, a vocabulary has 200,192 rows, every
# fourth layer is global.
NANO = (1024, 56, 2, 8, 2, 3072, 256, 128, 8, 1, 2048)
MINI = (2048, 32, 2, 32, 4, 6144, 1024, 128, 8, 1, 2048)
LARGE = (3072, 60, 6, 48, 8, 12288, 3072, 256, 4, 1, 4096)


def sums(hidden, layers, dense, heads, kv, wide, narrow, experts, chosen, shared, window):
    """Parameters, those read for a token, KiB of a token in the global layers, MiB of a window in the local ones."""
    head, vocabulary = 128, 200192
    attention = hidden * head * (3 * heads + 2 * kv) + 4 * hidden + 2 * head
    expert = 3 * hidden * narrow
    router = experts * hidden + experts
    common = layers * attention + dense * 3 * hidden * wide + (layers - dense) * (shared * expert + router)
    every = common + (layers - dense) * experts * expert + 2 * vocabulary * hidden + hidden
    active = common + (layers - dense) * chosen * expert + vocabulary * hidden
    row = 2 * kv * head * 2
    return every, active, layers // 4 * row / 2**10, (layers - layers // 4) * row * window / 2**20


def rows(text):
    """first cell -> the others, of every line of a table."""
    return {c[0]: c[1:] for c in ([x.strip() for x in line.strip("|").split("|")] for line in text.splitlines()
                                  if line.startswith("|"))}


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("command", COMMANDS)
def test_curl_line_is_answered(demo, command):
    setup = SETUP.replace("http://127.0.0.1:8080", demo.url)
    line = command.replace("curl ", "curl --fail-with-body ", 1)
    r = subprocess.run(["sh", "-c", f"{setup}\n{line}"], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert r.returncode == 0 and r.stdout, r.stdout + r.stderr


def test_endpoints_told_are_those_served(demo):
    served = {p.replace("{id}", "ID") for p in demo.get("/openapi.json").json()["paths"]}
    table = re.search(r"^## API\n(.*?)^```", README, re.M | re.S)[1]
    told = {p for first in rows(table) for p in re.findall(r"`(?:POST |GET |DELETE )?(/[\w./-]*)`", first)}
    assert told == served


@pytest.mark.parametrize("column, shape", [(0, NANO), (1, MINI), (2, LARGE)])
def test_sums_of_the_published_checkpoints(column, shape):
    every, active, token, window = sums(*shape)
    table = rows(README)

    def told(row):
        return float(table[row][column].split()[0])
    assert told("parameters") == pytest.approx(every / 1e9, rel=0.004)
    assert told("cache, global layers, a token") == token
    assert told("cache, local layers, a sequence") == window
    for name, bits in {"BF16 (16 bits)": 16, "Q8_0 (8.5 bits)": 8.5, "Q4_0 and Q4_K (4.5 bits)": 4.5}.items():
        assert told(f"weights, {name}") == pytest.approx(every * bits / 8e9, rel=0.004)
        assert told(f"read for a token, {name.split(' (')[0]}") == pytest.approx(active * bits / 8e9, rel=0.01)
    speed = re.search(r"at 40 GB/s, Nano in Q4_0 gives at most (\d+) tokens/s,\s+Mini (\d+), Large (\d+)", README)
    assert int(speed[column + 1]) == int(40e9 / (active * 4.5 / 8))


@pytest.mark.parametrize("column, shape", [(0, NANO), (1, MINI), (2, LARGE)])
def test_tables_of_the_capacity_page(column, shape):
    every, active, token, window = sums(*shape)
    table = rows((harness.ROOT / "deploy/capacity.md").read_text())

    def sequence(tokens):
        return window + token * tokens / 1024
    for tokens in (4096, 32768):
        assert float(table[f"a sequence of {tokens:,} tokens"][column].split()[0].replace(",", "")) == sequence(tokens)
    for first, cells in table.items():
        for k, bits in enumerate((8.5, 4.5)):
            if m := re.fullmatch(r"(\d+) GiB", first):
                n = (int(m[1]) * 2**30 - every * bits / 8 - 2**30) / (sequence(4096) * 2**20)
                assert cells[2 * column + k] == (f"{int(n):,}" if n >= 1 else "-"), (first, bits)
            elif m := re.fullmatch(r"(\d+) GB/s", first):
                assert float(cells[1 + 2 * column + k]) == pytest.approx(int(m[1]) * 1e9 / (active * bits / 8), rel=0.05)


def test_the_commands_it_names_exist():
    helped = subprocess.run(["make", "help"], cwd=harness.ROOT, capture_output=True, text=True, check=True).stdout
    targets = {line.split()[0] for line in helped.splitlines()}
    assert set(re.findall(r"\bmake ([a-z][a-z-]+)\b(?! (?:it|the))", README)) <= targets
    words = subprocess.run([harness.TRINITYD, "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"--(?:\[no-\])?([a-z0-9-]+)", words))
    blocks = "\n".join(re.findall(r"^ *```\n(.*?)^ *```", README, re.M | re.S))
    for line in re.findall(r"build/trinityd.*", blocks):
        assert set(re.findall(r"--(?:no-)?([a-z][a-z0-9-]+)", line)) <= options | {"temperature"}, line
    for option in re.findall(r"\(`(\w+)`: f32|fixed.*`(\w+)`|Weights \+ `(\w+)`", README):
        assert all(o.replace("_", "-") in options for o in option if o)


def test_every_folder_of_tests_is_explained():
    listed = subprocess.run(["git", "ls-files", "tests"], cwd=harness.ROOT, capture_output=True, text=True).stdout
    folders = {f"`tests/{p.split('/')[1]}/`" for p in listed.split() if p.count("/") > 1}
    told = set(rows(README))
    if not folders:
        pytest.skip("not a git tree")
    assert folders <= told


def test_every_room_is_in_the_reading_order():
    rooms = {f"`{p}/`" for top in ("engine", "server") for p in
             (str(d.relative_to(harness.ROOT)) for d in (harness.ROOT / top).iterdir() if d.is_dir())}
    assert rooms <= set(rows(README))


@pytest.mark.parametrize("model", ["config/demo"])
def test_the_demo_is_checked_as_told(model):
    r = subprocess.run([harness.TRINITYD, "check", "--model", model, "--weights", "q8_0"], cwd=harness.ROOT,
                       capture_output=True, text=True, env=harness.environment())
    assert r.returncode == 0 and "3.28 million" in r.stdout, r.stdout + r.stderr
