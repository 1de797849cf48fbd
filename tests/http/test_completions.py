"""POST /v1/completions: what comes back, whole and streamed."""
import json
import math

import numpy as np
import pytest

import harness
from answers import both, read_stream

ids = harness.fx.ids
X = ids(40)


def test_shape(demo):
    r = demo.complete(prompt="Once upon a time", max_tokens=8)
    assert set(r) == {"id", "object", "created", "model", "system_fingerprint", "choices", "usage"}
    assert r["id"].startswith("cmpl-") and r["object"] == "text_completion"
    assert r["choices"][0] == {"index": 0, "text": r["choices"][0]["text"], "logprobs": None, "finish_reason": "length",
                               "stop_reason": None}
    assert r["usage"]["prompt_tokens"] == 4 and r["usage"]["completion_tokens"] == 8 and r["usage"]["total_tokens"] == 12


def test_every_form_of_prompt_in_prompt_major_order(demo):
    texts = ["Once upon a time", "The secret number", "Greta"]
    lists = [demo.post("/tokenize", {"prompt": t}).json()["tokens"] for t in texts]
    alone = [demo.complete(prompt=t, max_tokens=5)["choices"][0]["text"] for t in texts]
    assert [demo.complete(prompt=i, max_tokens=5)["choices"][0]["text"] for i in lists] == alone
    for prompt in (texts, lists):
        r = both(demo, prompt=prompt, max_tokens=5)
        assert [c["text"] for c in r["choices"]] == alone
        assert [c["index"] for c in r["choices"]] == [0, 1, 2]
        assert r["usage"]["prompt_tokens"] == sum(map(len, lists)) and r["usage"]["completion_tokens"] == 15
    r = both(demo, prompt=texts, n=2, max_tokens=5)
    assert [c["text"] for c in r["choices"]] == [t for t in alone for _ in range(2)]
    assert [c["index"] for c in r["choices"]] == list(range(6))


@pytest.fixture(scope="module")
def exact():
    """The random model with its cache in fp32, as the reference numbers have it."""
    with harness.Daemon(harness.f1_checkpoint(), kv_type="f32") as d:
        yield d


def test_logprobs_of_the_random_model(exact):
    """B01's numbers through the API; window of eight keys."""
    want = {7: (14, -2.877), 8: (55, -2.927), 9: (125, -3.869), 10: (22, -3.342), 16: (138, -3.485), 17: (45, -3.386),
            33: (125, -3.191), 40: (125, -3.133)}
    for n, (token, logprob) in want.items():
        c = exact.complete(prompt=X[:n], max_tokens=1, logprobs=2, return_token_ids=True)["choices"][0]
        assert c["token_ids"] == [token] and c["prompt_token_ids"] == X[:n]
        assert abs(c["logprobs"]["token_logprobs"][0] - logprob) < 2e-3
        assert max(c["logprobs"]["top_logprobs"][0].values()) == c["logprobs"]["token_logprobs"][0]


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_echo_with_logprobs(exact, max_tokens):
    """B39: what lm-eval reads."""
    r = both(exact, prompt=X[:5], echo=True, logprobs=3, max_tokens=max_tokens)
    c = r["choices"][0]
    lp = c["logprobs"]
    assert {len(v) for v in lp.values()} == {5 + max_tokens}
    assert lp["token_logprobs"][0] is None and lp["top_logprobs"][0] is None
    assert np.allclose(lp["token_logprobs"][1:5], [-5.102, -6.083, -6.935, -4.357], atol=2e-3)
    assert lp["text_offset"][0] == 0 and lp["text_offset"] == sorted(lp["text_offset"])
    assert c["finish_reason"] == "length" and r["usage"]["completion_tokens"] == max_tokens
    if max_tokens:
        top = sorted(lp["top_logprobs"][5].values(), reverse=True)
        assert np.allclose(top[:3], [-3.299, -3.508, -3.551], atol=2e-3)


def test_max_tokens_0_needs_something_to_say(f1):
    assert f1.post("/v1/completions", {"prompt": X, "max_tokens": 0}).error["param"] == "max_tokens"
    c = f1.complete(prompt=X[:5], max_tokens=0, echo=True)["choices"][0]
    assert c["text"] and c["logprobs"] is None and c["finish_reason"] == "length"
    assert len(f1.complete(prompt=[X[:5], X[:3]], max_tokens=0, echo=True)["choices"]) == 2
    r = f1.complete(prompt=X[:5], max_tokens=0, prompt_logprobs=1)["choices"][0]
    assert r["prompt_logprobs"][0] is None and len(r["prompt_logprobs"]) == 5
    for at, entry in enumerate(r["prompt_logprobs"][1:], 1):
        assert str(X[at]) in entry and len(entry) in (1, 2)


def test_echoed_arrays_are_the_same_with_a_warm_cache(f1):
    asked = {"prompt": X, "echo": True, "logprobs": 2, "max_tokens": 2}
    first = f1.complete(**asked)["choices"]
    assert [f1.complete(**asked)["choices"] for _ in range(2)] == [first] * 2


def test_text_offsets_point_into_the_text(demo):
    text = "Once upon a time there was a painter named Greta."
    for stream in (False, True):
        body = {"prompt": text, "echo": True, "logprobs": 1, "max_tokens": 12}
        c = read_stream(demo, **body)[0][0] if stream else demo.complete(**body)["choices"][0]
        lp = c["logprobs"]
        assert c["text"].startswith(text)
        for token, at in zip(lp["tokens"], lp["text_offset"]):
            assert c["text"][at:].startswith(token)


def test_echo_rebuilds_characters_that_span_tokens(demo):
    text = "é漢🙂x"
    c = demo.complete(prompt=text, echo=True, logprobs=0, max_tokens=0)["choices"][0]
    assert c["text"] == text
    raw = b""
    for token in c["logprobs"]["tokens"]:
        raw += bytes.fromhex(token[6:].replace("\\x", "")) if token.startswith("bytes:") else token.encode()
    assert raw == text.encode()
    assert all(list(t.values()) == [p] for t, p in zip(c["logprobs"]["top_logprobs"][1:], c["logprobs"]["token_logprobs"][1:]))


def test_logprobs_are_finite_json(f1):
    bias = {str(i): -100 for i in range(5, 281) if i != 50}
    c = f1.complete(prompt=X, max_tokens=4, logprobs=20, logit_bias=bias, ignore_eos=True)["choices"][0]
    for top in c["logprobs"]["top_logprobs"]:
        assert 20 <= len(top) <= 21 and all(-9999 <= v <= 0 and math.isfinite(v) for v in top.values())


def test_tokens_as_ids(f1):
    c = f1.complete(prompt=X, max_tokens=1, logprobs=1, return_tokens_as_token_ids=True)["choices"][0]
    assert c["logprobs"]["tokens"] == ["token_id:125"] and "token_id:125" in c["logprobs"]["top_logprobs"][0]


# ---- stops ----

PIECES = (b"al", b"pha be", b"ta ga", b"mma de", b"lta")


@pytest.mark.parametrize("stop,text,reason", [
    ("beta gamma", "alpha ", "beta gamma"), (["gamma", "beta"], "alpha ", "beta"), ("zzz", "alpha beta gamma delta", None),
    (["a d"], "alpha beta gamm", "a d"), (["delta!"], "alpha beta gamma delta", None), (None, "alpha beta gamma delta", None),
    ([], "alpha beta gamma delta", None), ("al", "", "al"), ("\n", "alpha beta gamma delta", None)], ids=repr)
def test_stop_strings(script, stop, text, reason):
    """B37: matched across tokens, cut before the match, no byte of it sent."""
    d = script(*PIECES)
    c = both(d, prompt="\n", max_tokens=20, stop=stop)["choices"][0]
    assert (c["text"], c["finish_reason"], c["stop_reason"]) == (text, "stop", reason)


def test_text_is_held_no_longer_than_a_match_needs(script):
    d = script(*PIECES)
    _, chunks = read_stream(d, prompt="\n", max_tokens=20, stop=["a d!"])
    texts = [c["choices"][0]["text"] for c in chunks]
    assert texts == ["al", "pha be", "ta g", "amma de", "lt", "a"]


def test_stop_string_in_output(script):
    d = script(*PIECES)
    c = both(d, prompt="\n", max_tokens=20, stop="beta", include_stop_str_in_output=True)["choices"][0]
    assert c["text"] == "alpha beta" and c["finish_reason"] == "stop"


def test_stop_reasons(script):
    """By string, by token id, by the end, by length."""
    d = script(b"a", b"b", b"c", b"d")
    tokens = d.complete(prompt="\n", max_tokens=9, return_token_ids=True)["choices"][0]["token_ids"]
    for body, want in (({"stop": "c"}, ("ab", "stop", "c")), ({"stop_token_ids": [tokens[2]]}, ("ab", "stop", tokens[2])),
                       ({"stop_token_ids": [tokens[2]], "include_stop_str_in_output": True}, ("abc", "stop", tokens[2])),
                       ({}, ("abcd", "stop", None)), ({"max_tokens": 3}, ("abc", "length", None))):
        c = both(d, prompt="\n", **{"max_tokens": 9, **body})["choices"][0]
        assert (c["text"], c["finish_reason"], c["stop_reason"]) == want, body


def test_stops_wait_for_min_tokens(script):
    d = script(b"a", b"b", b"c", b"d", edges={**harness.fx.chain(b"a", b"b", b"c", b"d"), b"d": {b"a": 30.0}})
    a, b, _, _ = d.complete(prompt="\n", max_tokens=4, return_token_ids=True)["choices"][0]["token_ids"]
    for minimum in (0, 3):
        for body in ({"stop": "b"}, ):
            c = both(d, prompt="\n", max_tokens=12, min_tokens=minimum, **body)["choices"][0]
            assert c["text"] == ("abcda" if minimum else "a")
    c = both(d, prompt="\n", max_tokens=12, min_tokens=3, stop_token_ids=[d_id(d, "d")])["choices"][0]
    assert c["text"] == "abc" and c["finish_reason"] == "stop"


def d_id(d, text):
    return d.complete(prompt="\n", max_tokens=4, return_token_ids=True)["choices"][0]["token_ids"]["abcd".index(text)]


def test_end_token_and_its_text(script):
    """ignore_eos goes on, min_tokens masks, and the end's text shows only when asked for."""
    d = script(b"a", b"b")
    r = both(d, prompt="\n", max_tokens=9)
    assert r["choices"][0]["text"] == "ab" and r["usage"]["completion_tokens"] == 3
    r = both(d, prompt="\n", max_tokens=9, skip_special_tokens=False)
    assert r["choices"][0]["text"] == "ab"
    r = both(d, prompt="\n", max_tokens=9, skip_special_tokens=False, include_stop_str_in_output=True)
    assert r["choices"][0]["text"] == "ab<|im_end|>"
    r = both(d, prompt="\n", max_tokens=3, ignore_eos=True, skip_special_tokens=False)
    assert r["choices"][0]["text"] == "ab<|im_end|>" and r["choices"][0]["finish_reason"] == "length"
    r = both(d, prompt="\n", max_tokens=9, min_tokens=5)
    assert r["usage"]["completion_tokens"] >= 5


# ---- characters ----


def test_a_character_split_over_tokens_arrives_whole(script):
    """B18's bytes: every chunk is text by itself, no replacement character."""
    d = script(b"A", b"\xf0\x9f", b"\x98", b"\x80B", b"\xe4", b"\xbd", b"\xa0", b"C")
    r = both(d, prompt="\n", max_tokens=20)
    assert r["choices"][0]["text"] == "A😀B你C" and r["usage"]["completion_tokens"] == 9
    _, chunks = read_stream(d, prompt="\n", max_tokens=20)
    assert "".join(c["choices"][0]["text"] for c in chunks) == "A😀B你C"
    assert len(chunks) == 9 and not any("\ufffd" in c["choices"][0]["text"] for c in chunks)


def test_an_unfinished_character_is_dropped_when_the_answer_is_cut(script):
    d = script(b"A", b"\xf0\x9f", b"\x98", b"\x80B")
    assert both(d, prompt="\n", max_tokens=3)["choices"][0]["text"] == "A"


def test_bytes_that_are_no_text(script):
    """B20: as Python's replace has it, and the model's own end makes an unfinished character one too."""
    d = script(b"A", b"\xff", b"B", b"\xe4\xbd", b"C", b"\xc3")
    c = both(d, prompt="\n", max_tokens=20, logprobs=2)["choices"][0]
    assert c["text"] == b"A\xffB\xe4\xbdC\xc3".decode("utf-8", "replace")
    assert c["logprobs"]["tokens"][1] == "bytes:\\xff"


# ---- n ----


def test_n_choices(script):
    """B41: independent draws of one seed, prompt counted once."""
    pieces = [b"Q%02d" % i for i in range(64)]
    d = script(*pieces, edges={b"\n": {p: 30.0 for p in pieces}, **{p: {"<|im_end|>": 30.0} for p in pieces}})
    body = {"prompt": "\n", "n": 8, "seed": 7, "temperature": 1, "max_tokens": 5}
    r = both(d, **body)
    texts = [c["text"] for c in r["choices"]]
    assert [c["index"] for c in r["choices"]] == list(range(8)) and len(set(texts)) >= 4
    assert [c["text"] for c in d.complete(**body)["choices"]] == texts
    one = d.complete(**{**body, "n": 1})["usage"]
    assert r["usage"]["prompt_tokens"] == one["prompt_tokens"]
    assert r["usage"]["completion_tokens"] == 8 * one["completion_tokens"]
    assert len({c["text"] for c in d.complete(**{**body, "temperature": 0, "n": 3})["choices"]}) == 1
    assert d.complete(**body, best_of=8)["choices"] == r["choices"]
    assert len({d.complete(prompt="\n", temperature=1, max_tokens=2)["choices"][0]["text"] for _ in range(20)}) >= 2


def test_usage_sums(f1):
    r = both(f1, prompt=[ids(5), ids(7)], n=3, ignore_eos=True, max_tokens=5)
    assert r["usage"]["prompt_tokens"] == 12 and r["usage"]["completion_tokens"] == 30 and r["usage"]["total_tokens"] == 42
    r = both(f1, prompt=[ids(5), ids(7)], n=2, ignore_eos=True, max_tokens=5, echo=True, logprobs=1)
    assert r["usage"]["completion_tokens"] == 20


# ---- streams ----


def test_chunks(script):
    """B38: one chunk a token, usage as asked for, one finish_reason a choice."""
    d = script(*PIECES)
    asked = {"prompt": "\n", "max_tokens": 20}
    whole = d.complete(**asked)
    for options, last in (({"include_usage": True}, True), ({"include_usage": False}, False), ({}, False), (None, False)):
        _, chunks = read_stream(d, stream_options=options, **asked)
        tokens = [c for c in chunks if c["choices"]]
        assert len(tokens) == whole["usage"]["completion_tokens"]
        assert [c["choices"][0]["finish_reason"] for c in tokens] == [None] * (len(tokens) - 1) + ["stop"]
        if last:
            assert all(c["usage"] is None for c in tokens) and chunks[-1]["choices"] == []
            assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
        else:
            assert not any("usage" in c for c in chunks) and len(chunks) == len(tokens)
    _, chunks = read_stream(d, stream_options={"include_usage": True, "continuous_usage_stats": True}, **asked)
    assert [c["usage"]["completion_tokens"] for c in chunks] == [1, 2, 3, 4, 5, 6, 6]


def test_bytes_of_a_stream(demo):
    """Lines end in LF, `data: ` has one blank, one event a line, [DONE] last: clients split on just that."""
    with demo.stream("/v1/completions", {"prompt": "Once", "max_tokens": 3}) as s:
        body = b"".join(s.body())
        headers = s.headers
    assert headers["content-type"] == "text/event-stream; charset=utf-8" and headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no" and headers["transfer-encoding"] == "chunked"
    assert b"\r" not in body and body.endswith(b"data: [DONE]\n\n")
    for event in body.removesuffix(b"\n\n").split(b"\n\n"):
        assert event.startswith(b"data: ") and b"\n" not in event and event[6:7] != b" "


def test_errors_before_the_stream_are_http_errors(f1):
    for extra in ({"prompt": ids(300)}, {"logit_bias": {"999": 1}}, {"temperature": 9}):
        r = f1.post("/v1/completions", {"prompt": X, "stream": True, **extra})
        assert r.status == 400 and r.error


def test_timings_on_demand(demo):
    r = demo.complete(prompt="Once upon a time", max_tokens=4, timings=True)
    t = r["timings"]
    assert t["prefill_tokens"] + t["cached_tokens"] == 4 and t["decode_steps"] >= 3 and t["mean_batch"] >= 1
    assert "timings" not in demo.complete(prompt="Once", max_tokens=1)
    _, chunks = read_stream(demo, prompt="Once upon a time", max_tokens=4, timings=True)
    assert chunks[-1]["choices"] == [] and chunks[-1]["timings"]["decode_steps"] >= 3


def test_tokenize_and_back(demo):
    text = "Once upon a time <|im_end|> é漢🙂"
    r = demo.post("/tokenize", {"prompt": text, "return_token_strs": True}).json()
    assert r["count"] == len(r["tokens"]) == len(r["token_strs"]) and r["max_model_len"] == 4096
    assert demo.post("/detokenize", {"tokens": r["tokens"]}).json() == {"prompt": text, "content": text}
    plain = demo.post("/tokenize", {"prompt": text, "parse_special": False}).json()["tokens"]
    assert 3 in r["tokens"] and 3 not in plain
    assert demo.post("/detokenize", {"tokens": plain}).json()["content"] == text
    llama = demo.post("/tokenize", {"content": text}).json()
    assert llama == {"tokens": r["tokens"]}
    pieces = demo.post("/tokenize", {"content": text, "with_pieces": True}).json()["tokens"]
    assert b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces) == text.encode()
    for bad in ({}, {"prompt": "a", "content": "b"}, {"prompt": 5}, {"content": []}):
        assert demo.post("/tokenize", bad).error["param"] in ("prompt", "content")
    for bad in ({}, {"tokens": "x"}, {"tokens": [-1]}, {"tokens": [10**7]}, {"tokens": [1.5]}):
        assert demo.post("/detokenize", bad).error["param"].startswith("tokens")
    info = demo.get("/tokenizer_info").json()
    assert info["eos_token"] == "<|im_end|>" and info["tokenizer_class"]


def test_models(demo):
    m = demo.get("/v1/models").json()
    assert m["object"] == "list" and m["data"][0]["max_model_len"] == 4096 and m["data"][0]["object"] == "model"
    assert m["data"][0]["meta"]["n_vocab"] > 0 and m["data"][0]["meta"]["n_params"] > 3e6
    for path in ("/health", "/readyz", "/livez", "/ping"):
        assert demo.get(path).json()["status"] == "ok"
    assert demo.get("/version").json()["version"]


def test_two_tokens_with_the_same_text(tmp_path, daemon):
    """None hides the other in the legacy object."""
    folder = tmp_path / "twins"
    config, weights, tokenizer = harness.fx.fscript({b"\n": {b"same": 30.0, "same ": 29.0}}, [b"same"])
    harness.fx.write(folder, config, weights, tokenizer)
    d = daemon(folder)
    top = d.complete(prompt="\n", max_tokens=1, logprobs=5)["choices"][0]["logprobs"]["top_logprobs"][0]
    assert len(top) >= 5


def test_start_token(tmp_path, daemon):
    """B22: put before a text prompt if the tokenizer says so and the text has none; never before ids; not echoed."""
    for adds in (True, False):
        folder = tmp_path / str(adds)
        harness.fx.write(folder, *harness.fx.f1(), harness.fx.ftok())
        config = folder / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "add_bos_token": adds}))
        d = daemon(folder)

        def prompt_ids(prompt, **body):
            r = d.complete(prompt=prompt, max_tokens=1, return_token_ids=True, echo=True, logprobs=0, **body)
            c = r["choices"][0]
            assert r["usage"]["prompt_tokens"] == len(c["prompt_token_ids"]) == len(c["logprobs"]["tokens"]) - 1
            if isinstance(prompt, str):
                assert c["text"].startswith(prompt)
            return c["prompt_token_ids"]

        assert prompt_ids("hello") == ([0, 268] if adds else [268])
        assert prompt_ids("<|begin_of_text|>hello") == [0, 268]
        assert prompt_ids("hello", add_special_tokens=False) == [268]
        assert prompt_ids([268]) == [268]
        assert d.post("/tokenize", {"prompt": "hello"}).json()["tokens"] == ([0, 268] if adds else [268])
        assert d.post("/tokenize", {"content": "hello"}).json()["tokens"] == [268]
        empty = d.post("/v1/completions", {"prompt": "", "max_tokens": 1})
        assert empty.status == (200 if adds else 400)
