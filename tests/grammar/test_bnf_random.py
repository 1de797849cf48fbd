"""GBNF made by chance against a recogniser of a few lines: sets of ends, by recursion over the expression."""
import random

import pytest

from grammar.tool import Tool

RULES = ["root", "p", "q", "r"]


@pytest.fixture(scope="module")
def tool():
    t = Tool()
    yield t
    t.close()


def make(rng, depth):
    kind = rng.randrange(9)
    if kind < 3 or depth == 0:
        return ("text", rng.choice(["a", "b", "ab", "c", ""]))
    if kind == 3:
        return ("rule", rng.choice(RULES))
    if kind == 4:
        return ("or", [make(rng, depth - 1) for _ in range(rng.randint(2, 3))])
    if kind < 7:
        return ("and", [make(rng, depth - 1) for _ in range(rng.randint(1, 3))])
    lo = rng.randint(0, 3)
    return ("times", make(rng, depth - 1), lo, rng.choice([None, lo, lo + 1, lo + 90]))


def write(e):
    if e[0] == "text":
        return f'"{e[1]}"'
    if e[0] == "rule":
        return e[1]
    if e[0] == "times":
        return f"({write(e[1])}){{{e[2]},{'' if e[3] is None else e[3]}}}"
    return "(" + {"or": " | ", "and": " "}[e[0]].join(map(write, e[1])) + ")"


class Recogniser:
    def __init__(self, rules, text):
        self.rules, self.text, self.known = rules, text, {}

    def ends(self, e, at):
        key = (id(e), at)
        if key not in self.known:
            self.known[key] = frozenset()  # no left recursion: asked again only for nothing
            self.known[key] = frozenset(getattr(self, e[0] + "_")(e, at))
        return self.known[key]

    def text_(self, e, at):
        return {at + len(e[1])} if self.text.startswith(e[1], at) else set()

    def rule_(self, e, at):
        return self.ends(self.rules[e[1]], at)

    def or_(self, e, at):
        return set().union(*(self.ends(x, at) for x in e[1]))

    def and_(self, e, at):
        places = {at}
        for x in e[1]:
            places = set().union(*(self.ends(x, p) for p in places))
        return places

    def times_(self, e, at):
        places, out, n = {at}, {at} if e[2] == 0 else set(), 0
        seen = set()
        while places and (e[3] is None or n < e[3]) and (n, frozenset(places)) not in seen and n < e[2] + len(self.text) + 2:
            seen.add((n, frozenset(places)))
            places = set().union(*(self.ends(e[1], p) for p in places))
            n += 1
            if n >= e[2]:
                out |= places
        return out


def test_random_grammars(tool):
    rng = random.Random(5)
    compiled = accepted = 0
    for i in range(1500):
        rules = {name: make(rng, 3) for name in RULES}
        text = "\n".join(f"{name} ::= {write(e)}" for name, e in rules.items())
        strings = ["".join(rng.choice("aabbc") for _ in range(rng.randint(0, 9))) for _ in range(15)]
        answer = tool.ask(kind="gbnf", text=text, strings=strings, walks=3, steps=12, seed=i + 1)
        if "error" in answer:
            assert "left recursion" in answer["error"] or "satisfy" in answer["error"], (text, answer)
            continue
        compiled += 1
        walks = [w for w in answer["walks"] if isinstance(w, str) and len(w) < 14]
        for s, ok in zip(strings + walks, answer["accepted"] + [True] * len(walks)):
            r = Recogniser(rules, s)
            assert ok == (len(s) in r.ends(rules["root"], 0)), (text, s, ok)
            accepted += ok
    assert compiled > 700 and accepted > 2000, (compiled, accepted)
