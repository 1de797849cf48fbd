"""Random tokenizers, each held against Hugging Face `tokenizers` on random texts: ids and decodings."""
import json
import os
import random
import subprocess
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, processors
from tokenizers import pre_tokenizers as pre

ROOT = Path(__file__).resolve().parents[2]
TOKENIZE = ROOT / os.environ.get("BUILD", "build") / "tests/tools/tokenize"
SPECIAL, BOS = 1, 2

# The checkpoint's own expressions. Behind an empty group they are no longer known by sight, and run as any other.
DEMO = json.loads((ROOT / "config/demo/tokenizer.json").read_text())
FAMILY = [s["pattern"]["Regex"] for s in DEMO["pre_tokenizer"]["pretokenizers"][:-1]]
OTHERS = [
    r"\s", r"\s+", r"\S+", r"\w+", r"[^\w\s]+", r"\d{1,3}", r"\p{N}{1,3}", r"[\r\n]", r"\p{Han}+", r"\P{Han}", r"\p{^Lu}+", r"\h+", r"\p{Nd}{2}+",
    r"\p{Lu}{,2}\p{Ll}+", r"a|b|ab", r"(?i:AB|c)", r"(?m:a.b)", r"^.", r".$", r"\b", r"\B", r"(?=a)", r"(?<=a)b", r"x*", r"[\u0061-\u0063]+",
    r"(?:'s|'t|'re) ?", r"\A..", r"..\z", r"\G[ab]", r"a++", r"a{2}?", r"(?>a+)b", r"[\s\d]+", r"[^\h]", r"\v", r"\x{61}", r"\x62", r"{a", r"a{1,2}+b?",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
POOLS = ["abc", "abcABC xyz 012 .,;", "0123456789", " \t\n\r", "   ", "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~\\", "éüñßçøæœ", "你好世界漢字かなカナ한글", "ไทยລາວខ្មែរမြန်",
         "🙂😀👍🏽👩\u200d🚀", "\u00a0\u2003\u3000\u200b\u180e\u0085", "٠١٢٣०१२", "²³½Ⅷ①ⓐ", "aábcàd\u0301\u0300e\u0301", "'s't're'll", "\x00\x1c\x7f", "ﬁﬀÅΩ가각\u1100\u1161", "ſK_\u203f"]
ADDED = ["<|im_end|>", "<|im|>", "<|", "<tool>", "ab", "abc", "a", "你好", "  ", "\n", "[X]", "x y", ".", "fi", "C", "12"]


def texts(r, extra):
    def piece():
        if r.random() < 0.15:
            return r.choice(extra)
        return r.choice(r.choice(POOLS)) * r.choice([1, 1, 1, 1, 2, 3, 7])
    out = ["", " ", "a", "\n", "1234567", "9" * 1021, "a  1", "don't  we'll\n\n x", "ab" * 40]
    return out + ["".join(piece() for _ in range(r.randint(1, 40))) for _ in range(40)]


def random_split(r):
    family = r.random() < 0.4
    if r.random() < 0.1:
        pattern = r.choice(["a", " ", "ab", "\n", "."])
    else:
        pattern = Regex(r.choice([r.choice(FAMILY), "(?:)" + r.choice(FAMILY)]) if family else r.choice(OTHERS))
    return pre.Split(pattern, r.choice(BEHAVIORS), invert=r.random() < 0.2)


def random_pre_tokenizer(r):
    kind = r.random()
    if kind < 0.25:
        steps = [pre.Split(Regex(("(?:)" if r.random() < 0.5 else "") + x), "isolated") for x in FAMILY]
    else:
        steps = [random_split(r) if r.random() < 0.8 else pre.Digits(individual_digits=r.random() < 0.5) for _ in range(r.randint(0, 3))]
    steps.append(pre.ByteLevel(add_prefix_space=r.random() < 0.25, use_regex=r.random() < 0.4))
    return steps[0] if len(steps) == 1 and r.random() < 0.5 else pre.Sequence(steps)


def random_normalizer(r):
    one = lambda: r.choice([
        normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Prepend("_"),
        normalizers.Replace("a", "bb"), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace(Regex("x+"), "-")])
    return r.choice([None, None, one(), normalizers.Sequence([one() for _ in range(r.randint(0, 3))])])


def random_tokenizer(r):
    """A byte-level BPE with random merges; returns it and its vocabulary's size."""
    alphabet = sorted(pre.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet)}
    if r.random() < 0.1:                                    # a byte without a token vanishes
        vocab = {c: i for i, c in enumerate(c for c in alphabet if c != "b")}
    mapped = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    common = [c for t in POOLS for c in mapped.pre_tokenize_str(t)[0][0] if c in vocab]
    merges, pool = [], list(dict.fromkeys(common))
    for _ in range(r.randint(0, 200)):
        a, b = r.choice(pool), r.choice(pool)
        if (a, b) in merges:
            continue
        merges.append((a, b))
        vocab.setdefault(a + b, len(vocab))
        pool += [a + b] * 3
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=r.random() < 0.3))
    t.normalizer = random_normalizer(r)
    t.pre_tokenizer = random_pre_tokenizer(r)
    t.decoder = decoders.ByteLevel()
    flags = lambda: dict(lstrip=r.random() < 0.3, rstrip=r.random() < 0.3, single_word=r.random() < 0.3, normalized=r.random() < 0.4)
    some = r.sample(ADDED, r.randint(0, len(ADDED)))
    normal = {(t.normalizer.normalize_str(x) if t.normalizer else x): x for x in some}
    some = [x for x in some if x in normal.values()]        # no two that look the same when normalized
    cut = r.randint(0, len(some))
    t.add_special_tokens([AddedToken(x, **flags()) for x in some[:cut]])
    t.add_tokens([AddedToken(x, **flags()) for x in some[cut:]])
    if some[:cut] and r.random() < 0.5:
        name, end = some[0], r.choice(some[:cut])
        single = [name, "$A"] + ([end] if r.random() < 0.3 else [])
        t.post_processor = processors.TemplateProcessing(single=single, special_tokens=[(x, t.token_to_id(x)) for x in {name, end}])
    return t


def check(folder, t, flags, rows, size=0):
    """Our ids and decodings of the texts equal theirs, those apart that make theirs panic."""
    rows = [x for x in rows if encode(t, x, False) is not None]
    t.save(str(folder / "tokenizer.json"))
    lines = "".join(json.dumps(x) + "\n" for x in rows)
    size = size or t.get_vocab_size()
    p = subprocess.run([TOKENIZE, folder, str(size), str(flags)], input=lines.encode(), capture_output=True, timeout=600)
    assert p.returncode == 0, p.stderr
    ours = [json.loads(x) for x in p.stdout.split(b"\n")[:-1]]
    assert len(ours) == len(rows)
    for text, mine in zip(rows, ours):
        ids, plain = encode(t, text, bool(flags & BOS)), encode(t, text, False)
        if len(ids) > len(plain) and plain[:1] == ids[:1]:
            ids = ids[1:]                                   # ours begins with the begin token once
        assert mine["ids"] == ids, repr(text)
        assert mine["decoded"] == decode(t, ids), repr(text)


def encode(t, text, around):
    try:
        return t.encode(text, add_special_tokens=around).ids
    except BaseException as e:                              # added tokens that strip what an earlier one has taken
        assert type(e).__name__ == "PanicException", e
        return None


def decode(t, ids):
    """What tokenizers decodes, but an added token is its text, whatever characters it has."""
    added = {i: a.content for i, a in t.get_added_tokens_decoder().items()}
    back = {c: bytes([b]) for b, c in byte_alphabet().items()}
    data = b"".join(added[i].encode() if i in added else b"".join(back[c] for c in t.id_to_token(i)) for i in ids)
    return data.decode("utf-8", "replace")


def byte_alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + k) for k, b in enumerate(others)}}


@pytest.mark.parametrize("seed", range(int(os.environ.get("FIRST_SEED", 0)), int(os.environ.get("LAST_SEED", 60))))
def test_random(tmp_path, seed):
    r = random.Random(seed)
    t = random_tokenizer(r)
    check(tmp_path, t, SPECIAL | (BOS if r.random() < 0.5 else 0), texts(r, ADDED))


@pytest.mark.parametrize("regex", OTHERS + FAMILY + ["(?:)" + x for x in FAMILY])
@pytest.mark.parametrize("behavior", ["isolated", "merged_with_next"])
def test_regex(tmp_path, regex, behavior):
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre.ByteLevel.alphabet()))}, merges=[], ignore_merges=True))
    t.pre_tokenizer = pre.Sequence([pre.Split(Regex(regex), behavior), pre.ByteLevel(add_prefix_space=True, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    check(tmp_path, t, SPECIAL, texts(random.Random(regex), ["ab"]))


def ours(folder, text, flags, size=285):
    p = subprocess.run([TOKENIZE, folder, str(size), str(flags)], input=json.dumps(text).encode(), capture_output=True, timeout=60)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)["ids"]


def test_ignore_merges_and_forms_of_merges(tmp_path):
    t = json.loads((ROOT / "tests/golden/plain/tokenizer.json").read_text())
    t["model"]["merges"] = [" ".join(m) for m in t["model"]["merges"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(t))
    assert ours(tmp_path, "abc", 0) == [102, 274]
    t["model"]["ignore_merges"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(t))
    assert ours(tmp_path, "abc", 0) == [275]


@pytest.mark.parametrize("add", [True, False])
def test_begin_of_text_once(tmp_path, add):
    (tmp_path / "tokenizer.json").write_text((ROOT / "tests/golden/plain/tokenizer.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|begin_of_text|>", "add_bos_token": add}))
    assert ours(tmp_path, "hello", SPECIAL | BOS) == ([0, 268] if add else [268])
    assert ours(tmp_path, "<|begin_of_text|>hello", SPECIAL | BOS) == [0, 268]
