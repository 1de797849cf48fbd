"""Choosing tokens, asked for over HTTP: filters, biases, penalties on distributions that the test writes."""
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import harness

END = "<|im_end|>"
PIECES = (b"PA", b"PB", b"PC", b"PD")
PA, PB, PC, PD = range(281, 285)
SHARES = (.5, .25, .125, .125)


def dist(first):
    return {b"\n": first, **{p: {END: 30.0} for p in PIECES}}


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """PA, PB, PC, PD with one half, a quarter, and twice an eighth; then the end."""
    folder = tmp_path_factory.mktemp("four")
    harness.script_checkpoint(folder, dist({p: 40 + np.log(x) for p, x in zip(PIECES, SHARES)}), PIECES)
    with harness.Daemon(folder) as d:
        yield d


def draws(d, **body):
    """The first tokens of 400 answers, as shares."""
    counts = Counter()
    for seed in range(4):
        for c in d.complete(prompt="\n", max_tokens=2, n=100, seed=seed, **{"temperature": 1, **body})["choices"]:
            counts[c["text"]] += 1
    assert sum(counts.values()) == 400
    return {k: v / 400 for k, v in counts.items()}


@pytest.mark.parametrize("body,want", [
    ({"temperature": 0}, {"PA": 1}), ({"top_p": 0}, {"PA": 1}), ({"top_k": 1}, {"PA": 1}),
    ({"top_k": 0}, dict(zip(("PA", "PB", "PC", "PD"), SHARES))), ({"top_k": -1}, dict(zip(("PA", "PB", "PC", "PD"), SHARES))),
    ({"top_p": 0.6}, {"PA": 2 / 3, "PB": 1 / 3}), ({"min_p": 0.3}, {"PA": 2 / 3, "PB": 1 / 3}),
    ({"temperature": 2}, {"PA": 0.369, "PB": 0.261, "PC": 0.185, "PD": 0.185}),
    ({"temperature": 1e-45}, {"PA": 1}), ({"min_p": 1}, {"PA": 1}), ({"top_k": 3}, {"PA": 4 / 7, "PB": 2 / 7, "PC": 1 / 7}),
], ids=repr)
def test_filters(four, body, want):
    """B61. A share of 400 draws is within 0.08 of what it should be, by a wide margin."""
    got = draws(four, **body)
    assert set(got) == set(want)
    for text, share in want.items():
        assert abs(got[text] - share) < 0.08, got


def test_ties_go_to_the_lowest_id(script):
    d = script(*PIECES, edges=dist({b"PA": 30.0, b"PB": 30.0}))
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(d.complete, prompt="\n", max_tokens=1) for _ in range(20)]
        assert {r.result()["choices"][0]["text"] for r in asked} == {"PA"}


def test_logit_bias(four):
    """B62."""
    def text(bias):
        return four.complete(prompt="\n", max_tokens=1, logit_bias=bias)["choices"][0]["text"]

    assert text({str(PA): -100}) == "PB" and text({str(PC): 100}) == "PC" and text({}) == "PA"
    assert text({str(i): 0.5 for i in range(285)}) == "PA"
    with ThreadPoolExecutor(8) as pool:
        biases = [{str(i): 100} for i in (PA, PB, PC, PD)] * 5
        assert list(pool.map(text, biases)) == ["PA", "PB", "PC", "PD"] * 5


def test_allowed_ids_and_bad_words(four):
    def text(**body):
        return four.complete(prompt="\n", max_tokens=1, **body)["choices"][0]["text"]

    assert text(allowed_token_ids=[PC, PD]) == "PC"
    assert text(allowed_token_ids=[PC, PD], logit_bias={str(PD): 1}) == "PD"


def test_penalties_count_what_was_generated(script):
    """B63: the prompt counts for the repetition penalty only."""
    d = script(*PIECES, edges={t: {b"PA": 35.0, b"PB": 34.5} for t in (b"\n", b"PA", b"PB")})

    def text(**body):
        return d.complete(prompt=[PA, PA, PA, 15], max_tokens=7, **body)["choices"][0]["text"]

    assert text() == "PA" * 7
    assert text(presence_penalty=1.0) == "PAPBPAPAPAPAPA"
    assert text(frequency_penalty=0.3) == "PAPAPBPAPBPAPB"
    assert text(repetition_penalty=1.1).startswith("PB")


def test_min_tokens_and_ignored_ends(script):
    """The matrix of min_tokens, ignore_eos and stop ids: masked, ignored, or the end."""
    d = script(*PIECES, edges={t: {END: 35.0, b"PA": 34.0} for t in (b"\n", b"PA", END)})
    for minimum in (0, 3):
        for ignore in (False, True):
            for stop in ([], [PA]):
                c = d.complete(prompt="\n", max_tokens=6, min_tokens=minimum, ignore_eos=ignore, stop_token_ids=stop,
                               return_token_ids=True)["choices"][0]
                ids = c["token_ids"]
                assert 3 not in ids[:minimum] and not set(stop) & set(ids[:minimum])
                ends = ({0, 3} if not ignore else set()) | set(stop)  # <|begin_of_text|> ends as well
                assert not ends & set(ids[:-1])
                assert c["finish_reason"] == ("stop" if ids[-1] in ends else "length")
                assert len(ids) == 6 or ids[-1] in ends


def test_seeds(four):
    """Equal seeds give equal answers alone and in company; no seed, different ones."""
    asked = [{"prompt": "\n", "max_tokens": 2, "temperature": 1, "seed": s, "n": 16} for s in range(20)]
    alone = [four.complete(**a)["choices"] for a in asked]
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(lambda a: four.complete(**a)["choices"], asked)) == alone
    assert len({str(a) for a in alone}) > 10
    assert len({four.complete(prompt="\n", max_tokens=1, temperature=1)["choices"][0]["text"] for _ in range(40)}) >= 2


# ---- what holds where a request is silent ----


def capability(d, name):
    return d.get("/v1/capabilities").json()["endpoints"]["/v1/completions"]["properties"][name]["default"]


def test_the_checkpoints_recommendation_is_the_default(demo, daemon):
    """generation_config.json of the demo says temperature 0.7 and top_p 0.95."""
    def ask(d, **body):
        return d.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 24, "seed": 7, **body}).json()["choices"][0]["text"]

    assert ask(demo) == ask(demo, temperature=0.7, top_p=0.95) == ask(demo, temperature=None)
    assert ask(demo) != ask(demo, temperature=1, top_p=1)
    assert (capability(demo, "temperature"), capability(demo, "top_p"), capability(demo, "top_k")) == (0.7, 0.95, 0)

    none = daemon(generation_defaults="none")
    assert ask(none) == ask(demo, temperature=1, top_p=1) and capability(none, "temperature") == 1
    own = daemon(generation_defaults="temperature=0.15,top_k=50,repetition_penalty=1.2")
    assert ask(own) == ask(demo, temperature=0.15, top_p=1, top_k=50, repetition_penalty=1.2)
    assert ask(own, temperature=1, top_k=0, repetition_penalty=1) == ask(none)
    assert capability(own, "top_k") == 50
    fingerprints = {d.complete(prompt="a", max_tokens=1)["system_fingerprint"] for d in (demo, none, own)}
    assert len(fingerprints) == 3, "equal fingerprints promise equal answers"


def test_messages_and_responses_have_the_same_defaults(demo):
    r = demo.post("/v1/responses", {"input": "u", "max_output_tokens": 1}).json()
    assert (r["temperature"], r["top_p"]) == (0.7, 0.95)


def test_defaults_that_cannot_hold(daemon):
    for text, word in (("temperature=3", "temperature"), ("temp=1", "expected"), ("top_k", "expected"), ("top_p=x", "JSON")):
        p = harness.run("serve", "--generation-defaults", text)
        assert p.returncode == 2 and word in p.stderr, p.stderr


def test_every_prompt_draws_its_own_seed(demo):
    """Equal prompts of one request get different answers, like samples of one; a seed makes them equal again."""
    ask = {"temperature": 1.5, "top_p": 1, "max_tokens": 24}
    for body in ({"prompt": ["Once upon a time"] * 4}, {"prompt": "Once upon a time", "n": 4},
                 {"prompt": ["Once upon a time"] * 2, "n": 2}):
        assert len({c["text"] for c in demo.complete(**ask, **body)["choices"]}) == 4
    same = demo.complete(**ask, prompt=["Once upon a time"] * 3, seed=2**64 - 1)["choices"]
    assert len({c["text"] for c in same}) == 1


def test_allowed_ids_may_come_twice(demo):
    body = {"prompt": "Once", "max_tokens": 4, "ignore_eos": True, "return_token_ids": True}
    once, twice = (demo.complete(**body, allowed_token_ids=ids)["choices"][0]["token_ids"]
                   for ids in ([400, 410, 420], [420, 400, 420, 410, 400]))
    assert once == twice and set(once) <= {400, 410, 420}
