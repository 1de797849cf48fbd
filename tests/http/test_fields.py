"""Request fields: types, ranges, nulls, and every refusal naming what is wrong."""
import json
import shutil

import pytest

import harness

GOOD = {"prompt": "Once upon a time", "max_tokens": 2, "temperature": 0}
ids = harness.fx.ids


def refused(d, body, param=..., status=400):
    r = d.post("/v1/completions", body, timeout=20)
    assert r.status == status, (body, r.text)
    e = r.error
    if param is not ...:
        assert (e["param"] or "").split("[")[0].split(".")[0] == (param or ""), e
    return e


BAD_FIELDS = [
    ("stream", "false"), ("max_tokens", "10"), ("max_tokens", 1.5), ("max_tokens", -2), ("max_tokens", True),
    ("temperature", "hot"), ("temperature", []), ("temperature", -0.1), ("temperature", 2.1), ("temperature", 1e38),
    ("stop", 5), ("stop", ""), ("stop", [""]), ("stop", ["a", 5]), ("stop", {}), ("stop", ["x"] * 65),
    ("seed", "x"), ("seed", 1.5), ("n", 0), ("n", -1), ("n", 129), ("n", 100000), ("n", 1e9), ("n", True),
    ("logit_bias", []), ("logit_bias", {"abc": 5}), ("logit_bias", {"-1": 5}), ("logit_bias", {"999999": 5}),
    ("logit_bias", {"5": "x"}), ("logit_bias", {"5": 101}), ("logit_bias", {"5": 1e39}), ("logit_bias", {"": 1}),
    ("logit_bias", {"5": 1, "05": 1}), ("logit_bias", {str(2**31): 1}), ("logit_bias", {str(i): 1 for i in range(200_000)}),
    ("top_p", -0.1), ("top_p", 1.1), ("top_k", -2), ("top_k", 1.5), ("min_p", -0.1), ("min_p", 2),
    ("typical_p", 0), ("typical_p", 1.1), ("presence_penalty", 2.1), ("frequency_penalty", -2.1), ("repetition_penalty", 0),
    ("repetition_penalty", 1e-300),
    ("repetition_penalty", -1), ("logprobs", True), ("logprobs", 21), ("logprobs", -1), ("prompt_logprobs", 21),
    ("echo", 1), ("ignore_eos", "yes"), ("min_tokens", -1), ("min_tokens", 3), ("stop_token_ids", [5, "x"]),
    ("stop_token_ids", 5), ("stop_token_ids", [-1]), ("stop_token_ids", [2**31]), ("allowed_token_ids", []),
    ("allowed_token_ids", [10**6]), ("bad_words", "x"), ("bad_words", [""]), ("bad_words", [5]), ("suffix", "x"),
    ("best_of", 2), ("stream_options", {"include_usage": True}), ("response_format", "json"),
    ("response_format", {"type": "xml"}), ("request_id", 5), ("request_id", "x" * 200), ("cache_salt", 5),
    ("priority", "high"), ("truncate_prompt_tokens", 0), ("grammar", "root ::= x"), ("guided_regex", "("),
    ("use_beam_search", True), ("mirostat", 2), ("model", 5), ("return_token_ids", "x"), ("n_predict", 5),
    ("prompt_embeds", "abcd"), ("logits_processors", ["x"]), ("xtc_probability", 0.5),
]


@pytest.mark.parametrize("field,value", BAD_FIELDS, ids=[f"{k}={json.dumps(v)[:40]}" for k, v in BAD_FIELDS])
def test_a_bad_value_is_refused_and_named(f1, field, value):
    refused(f1, {**GOOD, field: value}, field)


def test_bodies_that_are_no_requests(f1):
    for body in ("", "{", "not json", "[]", "null", '"x"', '{"a":1} x', '{"a":1,}', "{'a':1}", '{"a":NaN}', '{"a":Infinity}',
                 '{"prompt":"a","prompt":"b"}', '{"a":1e999}', '{"seed":9223372036854775808}', "\x00", "[" * 1000):
        r = f1.post("/v1/completions", body.encode())
        assert r.status == 400 and r.error["message"], body
    assert f1.complete(**GOOD)


def test_null_is_absent_and_whole_floats_are_integers(f1):
    want = f1.complete(**GOOD)["choices"]
    optional = ["model", "n", "best_of", "stream", "stream_options", "logprobs", "echo", "stop", "seed", "logit_bias", "suffix",
                "presence_penalty", "frequency_penalty", "repetition_penalty", "top_p", "top_k", "min_p", "typical_p", "user",
                "metadata", "store", "service_tier", "stop_token_ids", "ignore_eos", "min_tokens", "skip_special_tokens",
                "include_stop_str_in_output", "prompt_logprobs", "allowed_token_ids", "bad_words", "return_token_ids",
                "priority", "request_id", "cache_salt", "add_special_tokens", "truncate_prompt_tokens", "response_format",
                "structured_outputs", "timings", "cache_prompt"]
    assert f1.complete(**GOOD, **dict.fromkeys(optional))["choices"] == want
    assert f1.complete(**{**GOOD, "max_tokens": 2.0, "n": 1.0, "top_k": 0.0})["choices"] == want
    assert f1.complete(**GOOD, foo={"bar": [1]}, unknown=None)["choices"] == want
    neutral = {"best_of": 1, "suffix": "", "stop": [], "logit_bias": {}, "response_format": {"type": "text"}, "grammar": "",
               "use_beam_search": False, "mirostat": 0, "top_k": -1, "user": "me", "metadata": {"a": 1}, "bad_words": []}
    assert f1.complete(**GOOD, **neutral)["choices"] == want
    r = f1.post("/v1/completions", {"prompt": "Once", "max_tokens": None, "temperature": 0, "ignore_eos": True})
    assert r.json()["usage"]["completion_tokens"] == 16


def test_strict_refuses_unknown_fields(daemon):
    d = daemon(harness.f1_checkpoint(), strict=True)
    assert refused(d, {**GOOD, "foo": 1}, "foo")
    assert d.complete(**GOOD, user="me")


@pytest.mark.parametrize("prompt", ["", [], [""], [[]], None, 5, True, {}, [None], ["a", [5]], [[5], "a"], [5, "a"], [[5], 6],
                                    [-1], [2**31], [1e30], [3.5], [True], [[5], [-1]], [[["a"]]], [285], [10**20]], ids=repr)
def test_bad_prompts(f1, prompt):
    """An id that does not exist is refused before it gets near the cache: the same probe before and after."""
    before = f1.complete(prompt=ids(20), max_tokens=3, return_token_ids=True)["choices"]
    refused(f1, {"prompt": prompt, "max_tokens": 1}, "prompt")
    assert f1.complete(prompt=ids(20), max_tokens=3, return_token_ids=True)["choices"] == before


def test_missing_prompt(f1):
    refused(f1, {"max_tokens": 1}, "prompt")


@pytest.mark.parametrize("n", [100, 2047, 2049, 10_000, 1_000_000])
def test_nesting_is_bounded(f1, n):
    """B29: at a hundred the field is judged as any unknown one, from two thousand on the body is refused."""
    deep = "[" * n + "0" + "]" * n
    for field in ("x", "metadata"):
        r = f1.post("/v1/completions", '{"prompt":"a","max_tokens":1,"%s":%s}' % (field, deep))
        assert r.status == (200 if n == 100 else 400), r.text
        if n > 100:
            assert "nested" in r.error["message"]
    assert f1.alive()


def test_bodies_that_are_not_utf8(f1):
    """B21: refused in valid UTF-8, without repeating the bytes."""
    for bad in (b"\xc4\xe3\xba\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xc3\x28", b"\xff"):
        r = f1.post("/v1/completions", b'{"prompt":"' + bad + b'","max_tokens":1}')
        assert r.status == 400
        assert bad not in r.body and r.error
    r = f1.post("/v1/completions", b'\xef\xbb\xbf{"prompt":"a","max_tokens":1}')
    assert r.status in (200, 400)
    assert f1.alive()


def test_nul_and_surrogates(f1):
    """B31: NUL is a character, half a surrogate pair is an error."""
    def ask(text):
        return f1.post("/v1/completions", '{"prompt":"%s","max_tokens":1}' % text)

    plain = ask("aXb").json()["usage"]["prompt_tokens"]
    assert ask("a\\u0000b").json()["usage"]["prompt_tokens"] == plain
    assert ask("x\\ud83d y").status == 400 and ask("\\ude00").status == 400
    assert ask("\\ud83d\\ude00").status == 200
    assert f1.post("/v1/completions", '{"prompt":"a","max_tokens":1,"a\\u0000b":1}').status == 400


def test_nul_as_a_stop_string(script):
    d = script(b"A", b"\x00", b"B")
    assert d.complete(prompt="\n", max_tokens=9, stop=["\0"])["choices"][0]["text"] == "A"
    assert d.complete(prompt="\n", max_tokens=9)["choices"][0]["text"] == "A\0B"


def test_prompt_against_the_context(f1):
    """B56: context 256."""
    assert f1.complete(prompt=ids(255), max_tokens=1)["usage"]["completion_tokens"] == 1
    for n in (256, 257, 100_000):
        e = refused(f1, {"prompt": ids(n), "max_tokens": 1}, "prompt")
        assert e["code"] == "context_length_exceeded"
        assert "This model's maximum context length is 256 tokens" in e["message"] and str(n) in e["message"]
    e = refused(f1, {"prompt": "a b " * 100_000, "max_tokens": 1}, "prompt")
    assert e["code"] == "context_length_exceeded" and "257" in e["message"]
    assert f1.complete(prompt=ids(20), max_tokens=1)


def test_max_tokens_beyond_the_room_is_cut(f1):
    """B57: clamped to the room, `length`."""
    fields = ({"max_tokens": m} for m in (7, 1000, 2**31 - 1, 2**63 - 1))
    for extra in (*fields, {"max_completion_tokens": 1000}, {"max_tokens": 1, "max_completion_tokens": 1000}, {}):
        r = f1.complete(prompt=ids(250), ignore_eos=True, **extra)
        assert r["usage"]["total_tokens"] == 256 and r["choices"][0]["finish_reason"] == "length"
    r = f1.complete(prompt=ids(250), ignore_eos=True, max_tokens=100, max_completion_tokens=2)
    assert r["usage"]["completion_tokens"] == 2


def test_truncate_prompt_tokens(f1):
    want = f1.complete(prompt=ids(40)[-10:], max_tokens=5, return_token_ids=True)["choices"][0]
    got = f1.complete(prompt=ids(40), max_tokens=5, return_token_ids=True, truncate_prompt_tokens=10)["choices"][0]
    assert got == want
    assert f1.complete(prompt=ids(1000), max_tokens=1, truncate_prompt_tokens=255)["usage"]["prompt_tokens"] == 255


def test_model_name(f1):
    name = f1.get("/v1/models").json()["data"][0]["id"]
    assert f1.complete(**GOOD, model=name)["model"] == name
    e = refused(f1, {**GOOD, "model": "nobody\u0001" + "x" * 1000}, "model", status=404)
    assert e["code"] == "model_not_found" and len(e["message"]) < 200


def test_number_of_answers_is_bounded(daemon):
    d = daemon(harness.f1_checkpoint(), max_choices=8)
    assert len(d.complete(prompt=[ids(5)] * 4, n=2, max_tokens=1)["choices"]) == 8
    refused(d, {"prompt": [ids(5)] * 9, "max_tokens": 1}, "prompt")
    refused(d, {"prompt": [ids(5)] * 5, "n": 2, "max_tokens": 1}, "prompt")
    refused(d, {"prompt": ids(5), "n": 9, "max_tokens": 1}, "n")
    refused(d, {"prompt": [""] * 100_000, "max_tokens": 1}, "prompt")


def test_extreme_numbers_are_served_or_refused(f1):
    for extra in ({"temperature": 1e-45}, {"temperature": -0.0}, {"top_p": 1e-300}, {"min_p": 1}, {"min_p": 1e-300},
                  {"repetition_penalty": 0.01}, {"repetition_penalty": 100}, {"top_k": 2**31 - 1}, {"seed": -2**63},
                  {"seed": 2**63 - 1}, {"priority": -2**31}, {"temperature": 2, "min_p": 0.9999, "top_k": 1}):
        r = f1.complete(**{**GOOD, "temperature": 1, **extra})
        assert r["usage"]["completion_tokens"] in (1, 2), extra


def test_capabilities_come_from_the_table_that_validates(f1):
    fields = f1.get("/v1/capabilities").json()["endpoints"]["/v1/completions"]["properties"]
    assert {f for f, _ in BAD_FIELDS} <= set(fields)
    for name, schema in fields.items():
        if schema.get("x-support") == "refused":
            refused(f1, {**GOOD, name: "x"}, name)
        elif schema.get("x-support") == "ignored":
            assert f1.complete(**GOOD, **{name: {"any": ["thing"]}})
        elif schema.get("type") in (["integer", "null"], ["number", "null"]):
            low = schema.get("minimum", schema.get("exclusiveMinimum"))
            refused(f1, {**GOOD, name: schema["maximum"] * 2 + 1}, name)
            if "exclusiveMinimum" in schema:
                refused(f1, {**GOOD, name: low}, name)
            elif low > -2**31:
                refused(f1, {**GOOD, name: low - 1}, name)
            refused(f1, {**GOOD, name: str(low)}, name)
        elif schema.get("type") == ["boolean", "null"]:
            refused(f1, {**GOOD, name: "true"}, name)


def test_minus_one_is_no_limit(demo):
    """LM Studio's and llama.cpp's way to say so."""
    asked = {"prompt": "Once upon a time", "temperature": 0}
    end = demo.complete(**asked, max_tokens=4000)["choices"][0]
    assert end["finish_reason"] == "stop", "the demo ends its story"
    assert demo.complete(**asked, max_tokens=-1)["choices"][0]["text"] == end["text"]
    said = demo.chat("Tell me a story.", max_tokens=-1)["choices"]
    assert said == demo.chat("Tell me a story.")["choices"] == demo.chat("Tell me a story.", max_completion_tokens=-1)["choices"]


def test_served_names(daemon):
    ask = lambda d, model: d.post("/v1/completions", {"model": model, "prompt": "a", "max_tokens": 1, "temperature": 0})
    d = daemon(served_model_name="first,claude-x,org/name")
    assert [m["id"] for m in d.get("/v1/models").json()["data"]] == ["first", "claude-x", "org/name"]
    for name in ("first", "claude-x", "org/name", None):
        r = ask(d, name)
        assert r.status == 200 and r.json()["model"] == (name or "first")
    assert d.get("/v1/models/claude-x").json()["id"] == "claude-x"
    for name in ("demo", "", "firs", "first\0", "*"):
        assert ask(d, name).status == 404, name
    assert d.get("/v1/models/demo").status == 404 and d.get("/v1/models/*").status == 404

    d = daemon(served_model_name="mine,*")
    assert [m["id"] for m in d.get("/v1/models").json()["data"]] == ["mine"]
    for name in ("mine", "gpt-4o-mini", "demo:latest", "\u00e9"):
        assert ask(d, name).json()["model"] == name
    assert ask(d, None).json()["model"] == "mine"
    assert ask(d, "x" * 300).status == 404 and ask(d, "a\0b").status == 404
    m = d.post("/v1/messages", {"model": "claude-opus", "max_tokens": 1, "messages": [{"role": "user", "content": "u"}]}).json()
    assert m["model"] == "claude-opus"


def test_the_served_id_says_what_the_model_is(tmp_path, daemon):
    """T18: a snapshot in the hub's cache, a path with a slash, the folder itself."""
    name = lambda d: d.get("/v1/models").json()["data"][0]["id"]
    commit = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
    snapshot = tmp_path / "hub/models--acme--Tiny-Trinity/snapshots" / commit
    shutil.copytree(harness.DEMO, snapshot)
    (tmp_path / "current").symlink_to(snapshot)
    for path in (snapshot, f"{snapshot}/", tmp_path / "current", f"{tmp_path}/current/"):
        assert name(daemon(path)) == "Tiny-Trinity"
    for end in ("//", "/.", "/../demo"):
        assert name(daemon(f"{harness.DEMO}{end}")) == "demo"
