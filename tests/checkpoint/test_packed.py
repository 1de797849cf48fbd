"""The packed cache: the second start has the first one's weights, and a file that is stale or damaged is made again."""
import fcntl
import os
import resource
import shutil
import signal
import subprocess

import pytest

import fixtures as fx
import harness
from checkpoint import tool

MODELS = {"demo": harness.DEMO, "gguf": harness.GOLDEN / "gguf" / "q4_k_m.gguf", "f32": harness.GOLDEN / "plain"}
SAME = ["fingerprint", "types", "memory_bytes", "n_params", "file_bytes"]


def copy(tmp_path, name):
    path = tmp_path / MODELS[name].name
    (shutil.copytree if MODELS[name].is_dir() else shutil.copy)(MODELS[name], path)
    return path


def cache_file(cache):
    [file] = cache.iterdir()
    return file


@pytest.fixture
def cache(tmp_path):
    path = tmp_path / "cache"
    path.mkdir()
    return path


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{}, {"choice": "q8_0"}, {"mmap": 0, "choice": "f32"}])
def test_second_start(tmp_path, cache, name, options):
    """The cache file is written once, read after that, and gives the same floats."""
    first = tool.facts(MODELS[name], **options)
    made = tool.facts(MODELS[name], cache=cache, **options)
    stamp = cache_file(cache).stat()
    again = tool.facts(MODELS[name], cache=cache, threads=3, **options)
    for f in (made, again):
        assert f["progress"][0] == f["progress"][1]
        assert f["warnings"] == "" and [f[k] for k in SAME] == [first[k] for k in SAME]
    assert (cache_file(cache).stat().st_mtime_ns, cache_file(cache).stat().st_ino) == (stamp.st_mtime_ns, stamp.st_ino)
    a = tool.dump(MODELS[name], tmp_path, cache=cache, **options)
    b = tool.dump(MODELS[name], tmp_path, **options)
    assert a.keys() == b.keys() and all((a[k] == b[k]).all() for k in a)


def test_it_is_read(tmp_path, cache):
    """With the weights gone (same size, same time) the second start still has them."""
    path = copy(tmp_path, "demo")
    want = tool.dump(path, tmp_path, cache=cache, choice="f32", mmap=0)
    weights = path / "model.safetensors"
    st = weights.stat()
    b = weights.read_bytes()
    header = 8 + int.from_bytes(b[:8], "little")
    weights.write_bytes(b[:header] + bytes(len(b) - header))
    os.utime(weights, ns=(st.st_atime_ns, st.st_mtime_ns))
    got = tool.dump(path, tmp_path, cache=cache, choice="f32", mmap=0)
    assert all((got[k] == want[k]).all() for k in want)


def flip(file, at):
    with open(file, "r+b") as f:
        f.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))


DAMAGE = {
    "first byte": (lambda f: flip(f, 0), "damaged"),
    "key": (lambda f: flip(f, 8), "stale"),
    "hash of the weights": (lambda f: flip(f, 24), "damaged"),
    "checksum": (lambda f: flip(f, 40), "damaged"),
    "size": (lambda f: flip(f, 56), "damaged"),
    "first weight": (lambda f: flip(f, 4096), "damaged"),
    "a weight": (lambda f: flip(f, 4096 + 100_000), "damaged"),
    "last weight": (lambda f: flip(f, -64), "damaged"),
    "cut by one": (lambda f: os.truncate(f, f.stat().st_size - 1), "damaged"),
    "cut in the header": (lambda f: os.truncate(f, 100), "damaged"),
    "header only": (lambda f: os.truncate(f, 4096), "damaged"),
    "empty": (lambda f: os.truncate(f, 0), "damaged"),
    "longer": (lambda f: os.truncate(f, f.stat().st_size + 1), "damaged"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged(tmp_path, cache, name):
    """One warning, the right weights, and a cache that is whole again."""
    damage, word = DAMAGE[name]
    want = tool.dump(MODELS["demo"], tmp_path, cache=cache, choice="f32")
    damage(cache_file(cache))
    f = tool.facts(MODELS["demo"], cache=cache, choice="f32")
    assert word in f["warnings"] and "packed cache" in f["warnings"] and "\n" not in f["warnings"]
    assert f["fingerprint"] == tool.facts(MODELS["demo"], choice="f32")["fingerprint"]
    assert tool.facts(MODELS["demo"], cache=cache, choice="f32")["warnings"] == ""
    got = tool.dump(MODELS["demo"], tmp_path, cache=cache, choice="f32")
    assert all((got[k] == want[k]).all() for k in want)


def test_stale(tmp_path, cache):
    """Other weights under the same name."""
    c, w = fx.f1(**tool.TINY)
    tool.folder(tmp_path / "m", c, w, dtypes=lambda n: "BF16")
    old = tool.facts(tmp_path / "m", cache=cache)
    w["lm_head.weight"] = w["lm_head.weight"] * 2
    tool.folder(tmp_path / "m", c, w, dtypes=lambda n: "BF16")
    new = tool.facts(tmp_path / "m", cache=cache)
    assert "stale" in new["warnings"] and new["fingerprint"] != old["fingerprint"]
    assert new["fingerprint"] == tool.facts(tmp_path / "m")["fingerprint"]
    assert tool.facts(tmp_path / "m", cache=cache)["warnings"] == ""
    assert cache_file(cache)


def test_stale_by_config(tmp_path, cache):
    path = copy(tmp_path, "demo")
    tool.facts(path, cache=cache)
    config = path / "config.json"
    config.write_text(config.read_text().replace('"sliding_window": 32', '"sliding_window": 31'))
    f = tool.facts(path, cache=cache)
    assert f["window"] == 31 and "stale" in f["warnings"]


def test_left_behind(cache):
    """What a crash left half written is overwritten; what another process is writing is left to it."""
    def load(warning=""):
        f = tool.facts(MODELS["demo"], cache=cache)
        assert f["warnings"] == warning
        return f["fingerprint"]
    want = load()
    part = cache_file(cache).with_name(cache_file(cache).name + ".part")
    cache_file(cache).unlink()
    part.write_bytes(b"x" * 50_000_000)
    with open(part, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        assert load("packed cache: can't be written: another process does it") == want
        assert cache_file(cache) == part and part.stat().st_size == 50_000_000
    assert load() == want and cache_file(cache) != part
    assert load() == want


def test_choices_have_their_own(cache):
    for choice in ("auto", "q8_0", "q4_0"):
        tool.facts(MODELS["demo"], cache=cache, choice=choice)
    assert len(list(cache.iterdir())) == 3
    assert tool.facts(MODELS["demo"], cache=cache, choice="q4_0")["types"] == "q4_0"


def test_folder_is_made(tmp_path):
    assert tool.facts(MODELS["demo"], cache=tmp_path / "new")["warnings"] == ""
    assert cache_file(tmp_path / "new")


@pytest.mark.parametrize("folder", ["nowhere/new", "file/x"])
def test_folder_that_can_not_be_written(tmp_path, folder):
    """The cache is a convenience: without it the checkpoint still loads, with a warning."""
    (tmp_path / "file").write_text("")
    f = tool.facts(MODELS["demo"], cache=tmp_path / folder)
    assert f["warnings"].startswith("packed cache: can't be written")


def test_no_space(tmp_path, cache):
    """A file size limit stands for a full disk: nothing is left behind."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    p = subprocess.run([tool.PROGRAM, MODELS["demo"], f"cache={cache}"], cwd=harness.ROOT, env=harness.environment(),
                       capture_output=True, encoding="utf-8", preexec_fn=limit)
    assert p.returncode == 0 and "packed cache: can't be written" in p.stdout, p.stderr
    assert list(cache.iterdir()) == []
