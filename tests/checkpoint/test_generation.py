"""What generation_config.json and a GGUF's general.sampling.* recommend, and what they may not say."""
import json

import gguf
import pytest

import fixtures as fx
from checkpoint import tool

T = gguf.GGUFValueType

# (generation_config.json, what is then recommended)
GOOD = {
    "nothing": ({}, {}),
    "Mini's card": (dict(temperature=0.15, top_k=50, top_p=0.75, min_p=0.06),
                    dict(temperature=0.15, top_k=50, top_p=0.75, min_p=0.06)),
    "ends of the ranges": (dict(temperature=0, top_k=0, top_p=1.0, min_p=0, repetition_penalty=1),
                           dict(temperature=0, top_k=0, top_p=1, min_p=0, repetition_penalty=1)),
    "top_k -1 is off": (dict(top_k=-1), dict(top_k=0)),
    "null says nothing": (dict(temperature=None, top_k=None), {}),
    "others are left alone": (dict(max_new_tokens=7, do_sample=False, num_beams=1, top_p=0.5), dict(top_p=0.5)),
}
BAD = {"temperature": ["warm", -1, 1e9, True], "top_k": [2.5, -2, "4", [4]], "top_p": [1.5, -0.1], "min_p": [2],
       "repetition_penalty": [0, "1"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("generation")
    tool.folder(path, *fx.f1(**tool.TINY))
    return path


def say(folder, value):
    (folder / "generation_config.json").write_text(json.dumps(value))
    return folder


@pytest.mark.parametrize("name", GOOD)
def test_good(folder, name):
    said, want = GOOD[name]
    assert tool.facts(say(folder, said))["sampling"] == pytest.approx(want, rel=1e-6)


def test_no_file(folder):
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert tool.facts(folder)["sampling"] == {}


@pytest.mark.parametrize("key,value", [(k, v) for k, vs in BAD.items() for v in vs])
def test_bad(folder, key, value):
    tool.refused(say(folder, {key: value}), "generation_config.json: " + key)


def test_no_object(folder):
    tool.refused(say(folder, [1]), "generation_config.json")


# ---- GGUF ----


def write(path, **keys):
    c, w = fx.f1(**{**tool.TINY, "layer_types": ["sliding_attention"] * 3})
    meta = tool.metadata(c) | {f"general.sampling.{k}": v for k, v in keys.items()}
    path.write_bytes(tool.gguf_bytes(meta, tool.f32_tensors(tool.gguf_tensors(c, w))))
    return path


def test_gguf(tmp_path):
    """The keys as the gguf package's writer has them."""
    names = {n: getattr(gguf.Keys.General, n) for n in ("SAMPLING_TEMP", "SAMPLING_TOP_K", "SAMPLING_TOP_P", "SAMPLING_MIN_P",
                                                        "SAMPLING_PENALTY_REPEAT")}
    assert set(names.values()) == {f"general.sampling.{n}" for n in ("temp", "top_k", "top_p", "min_p", "penalty_repeat")}
    path = write(tmp_path / "m.gguf", temp=(T.FLOAT32, 0.5), top_k=(T.INT32, 40), top_p=(T.FLOAT32, 0.9),
                 min_p=(T.FLOAT32, 0.05), penalty_repeat=(T.FLOAT32, 1.1))
    assert tool.facts(path)["sampling"] == pytest.approx(
        dict(temperature=0.5, top_k=40, top_p=0.9, min_p=0.05, repetition_penalty=1.1), rel=1e-6)
    assert tool.facts(write(tmp_path / "m.gguf"))["sampling"] == {}
    assert tool.facts(write(tmp_path / "m.gguf", top_k=(T.INT32, -1)))["sampling"] == {"top_k": 0}


@pytest.mark.parametrize("key,value", [("temp", (T.STRING, "1")), ("temp", (T.FLOAT32, float("nan"))), ("top_p", (T.FLOAT32, 2)),
                                       ("top_k", (T.FLOAT32, 40)), ("min_p", ([T.FLOAT32], [0.1]))])
def test_gguf_bad(tmp_path, key, value):
    tool.refused(write(tmp_path / "m.gguf", **{key: value}), "general.sampling." + key)
