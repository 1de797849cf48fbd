"""Which ids begin and end: what each file of a folder says of them, and which one counts."""
import json

import pytest

import fixtures as fx
from checkpoint import tool

BEGIN, IM_END = 0, 3  # <|begin_of_text|> and <|im_end|> end by their names


@pytest.fixture
def folder(tmp_path):
    c, w = fx.f1(**tool.TINY)
    tool.folder(tmp_path, c, w)

    def make(config=None, **files):
        (tmp_path / "config.json").write_text(json.dumps(c | (config or {})))
        for name, value in files.items():
            (tmp_path / (name + ".json")).write_text(json.dumps(value))
        return tmp_path
    return make


@pytest.mark.parametrize("eos,ends", [(45, [BEGIN, IM_END, 45]), ([7, IM_END, 45], [BEGIN, IM_END, 7, 45]),
                                      (None, [BEGIN, IM_END]), (-1, [BEGIN, IM_END])])
def test_config(folder, eos, ends):
    """Without generation_config.json, or where it says nothing of ends, config.json's ids count."""
    assert tool.facts(folder(dict(eos_token_id=eos)))["ends"] == ends
    assert tool.facts(folder(dict(eos_token_id=eos), generation_config={"temperature": 1}))["ends"] == ends


def test_generation_config_comes_first(folder):
    f = tool.facts(folder(dict(eos_token_id=45), generation_config={"eos_token_id": [46, 47]}))
    assert f["ends"] == [BEGIN, IM_END, 46, 47]


def test_the_tokenizers_own(folder):
    f = tool.facts(folder(dict(eos_token_id=45), tokenizer_config={"eos_token": "<|pad|>"}))
    assert f["ends"] == [BEGIN, 1, IM_END, 45] and f["named"] == [0, 1, 1]


@pytest.mark.parametrize("eos", ["<|pad|>", {"content": "<|pad|>", "lstrip": False}])
def test_special_tokens_map(folder, eos):
    """It is read where there is no tokenizer_config.json."""
    files = dict(special_tokens_map={"eos_token": eos, "bos_token": "<|unk|>"})
    f = tool.facts(folder(dict(eos_token_id=45), **files))
    assert f["ends"] == [BEGIN, 1, IM_END, 45] and f["named"][:2] == [4, 1]
    f = tool.facts(folder(dict(eos_token_id=45), **files, tokenizer_config={"eos_token": "<|im_end|>"}))
    assert f["ends"] == [BEGIN, IM_END, 45] and f["named"][:2] == [0, IM_END]


def test_names_from_ids(folder):
    """Templates ask for bos_token and eos_token; where no file names them, config.json's ids do."""
    assert tool.facts(folder(dict(bos_token_id=4, eos_token_id=1, pad_token_id=2)))["named"] == [4, 1, 2]


def test_larger_than_the_vocabulary(tmp_path):
    """An id that the model has no row for is refused with both numbers."""
    size = fx.ftok().get_vocab_size()
    c, w = fx.f1(**{**tool.TINY, "vocab_size": size - 5})
    tool.folder(tmp_path, c, w)
    tool.refused(tmp_path, "tokenizer.json", f"has {size} tokens", str(size - 5))
