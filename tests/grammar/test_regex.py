"""Regular expressions against Python's own, as whole matches."""
import random
import re

import pytest

from grammar.tool import Tool

ATOMS = ["a", "b", "c", "é", "€", "😀", ".", "[ab]", "[^a]", "[a-c]", "\\d", "\\w", "\\s", "\\D", "[^\\w]", "\\.", "\\x61", "\\u00e9",
         "[\\d€-😀]", "-", "0", "[]x]"[1:3] + "x", "[a\\-c]", "\"", "\\\\"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{3,}", "*?", "+?", "{2,4}?"]
COUNTED = ["{0,70}", "{65}", "{1,90}"]  # of characters only: re would take ages over groups
LETTERS = "aabbc é€😀0-1_ .\"\\A"


@pytest.fixture(scope="module")
def tool():
    t = Tool()
    yield t
    t.close()


def make(rng, depth):
    kind = rng.randrange(10)
    if depth == 0 or kind < 4:
        e = rng.choice(ATOMS)
        if rng.random() < 0.05:
            return e + rng.choice(COUNTED)
    elif kind < 6:
        e = "(" + rng.choice(["", "?:"]) + "|".join(make(rng, depth - 1) for _ in range(rng.randint(1, 3))) + ")"
    else:
        return "".join(make(rng, depth - 1) for _ in range(rng.randint(0, 4)))
    return e + rng.choice(QUANTIFIERS) if rng.random() < 0.35 else e


def test_fuzz_against_re(tool):
    rng = random.Random(14)
    hits = compiled = 0
    while compiled < 2000:
        pattern = make(rng, 3)
        try:
            expected = re.compile(pattern, re.ASCII)
        except re.error:
            continue
        compiled += 1
        strings = ["".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 8))) for _ in range(12)]
        answer = tool.ask(kind="regex", text=pattern, strings=strings, walks=2, steps=12, seed=compiled)
        assert "error" not in answer, (pattern, answer)
        strings += [w for w in answer["walks"] if isinstance(w, str)]
        got = answer["accepted"] + [True] * (len(strings) - 12)
        assert all(w == 1 for w in answer["walks"] if not isinstance(w, str)), (pattern, answer)
        for s, ok in zip(strings, got):
            if len(s) > 10:  # re backtracks: not for nested repetitions
                continue
            # ECMA's \s knows white space beyond ASCII, and a dot does not match its line ends.
            if re.search("[\r\u2028\u2029\x1c-\x1f\x85\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\ufeff]", s):
                continue
            assert ok == bool(expected.fullmatch(s)), (pattern, s)
            hits += ok
    assert hits > 2000


@pytest.mark.parametrize("pattern, yes, no", [
    ("^ab$", ["ab"], ["a", "abb"]),
    ("^a|b$", ["a", "b"], ["ab", ""]),
    ("(^a|b)(c|d$)", ["ac", "bd", "ad", "bc"], ["a", "acd"]),
    ("(a*)*b", ["b", "aaab"], ["a", ""]),
    ("((a{0,3}){2,3}){2}", ["", "a" * 18], ["a" * 19, "b"]),
    ("(ab?){70,80}", ["ab" * 70, "a" * 80], ["a" * 69, "a" * 81]),
    (".{2,100000}", ["ab", "é" * 1000], ["a", "a\nb"]),
    ("[ab]*a[ab]{40}", ["a" * 41, "b" + "a" * 41], ["a" * 40, "a" + "b" * 39]),
    ("\\u{1F600}|\\ud83d\\ude01", ["😀", "😁"], ["a"]),
    ("a{,3}", ["a{,3}"], ["aaa"]),
    ("[^]", ["a", "\n"], ["", "ab"]),
    ("\\p{L}+\\p{Nd}", ["Wörter7", "語٣"], ["7", "a"]),
    ("\\P{L}", ["7", "-"], ["a"]),
    ("", [""], ["a"]),
    ("(?<name>a)|(?:b)", ["a", "b"], ["ab"]),
])
def test_ecma(tool, pattern, yes, no):
    assert tool.accepts(yes + no, kind="regex", text=pattern) == [True] * len(yes) + [False] * len(no)


@pytest.mark.parametrize("pattern, words", [
    ("(?<=a)b", "look-around"), ("(?!a)b", "look-around"), ("(a)\\1", "back-references"), ("\\bword", "\\b"), ("(", ")"), (")", "("),
    ("[a", "]"), ("*a", "repeat"), ("a**", "repeat"), ("a{2,1}", "order"), ("[b-a]", "order"), ("\\p{Greek}", "\\p"), ("(^a)*", "anchor"),
    ("(" * 100000, "deeply"), ("[]", "satisfy"), ("a" * 1000000, "large"), ("a{9999999}", "million"), ("(?i)a", "group"),
])
def test_refused(tool, pattern, words):
    answer = tool.ask(kind="regex", text=pattern)
    assert answer.get("code") in (-1, -14) and words in answer["error"], answer


@pytest.mark.parametrize("pattern", [
    "((((a{1,99}){1,99}){1,99}){1,99}){1,99}", "(((a*)*)*)*", "(a|a)*" * 200, "(((x{0,1000}){0,1000}){0,1000})y",
    "(" * 199 + "a" + "){1,9}" * 199, ".*" * 1000, "\\p{L}{5}" * 50, "(.{0,1000}|a{0,1000}){0,1000}",
])
def test_hostile_is_exact_or_refused(tool, pattern):
    answer = tool.ask(kind="regex", text=pattern, walks=1, steps=30)
    assert "error" in answer or all(isinstance(w, str) or w in (1, -14) for w in answer["walks"])
    assert answer.get("bytes", 0) < 32 << 20
