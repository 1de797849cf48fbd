"""Constrained answers over HTTP: schema, object, expression, choice and grammar, in every API and by every name."""
import json
import re
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

import harness

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "Hello"}]
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "n": {"type": "integer", "minimum": 3, "maximum": 40}},
          "required": ["name", "n"], "additionalProperties": False}
SCHEMAS = [
    PERSON,
    {"type": "array", "items": {"enum": ["red", "blue", 5, None]}, "minItems": 2, "maxItems": 4},
    {"anyOf": [{"const": "x"}, {"type": "boolean"}, {"type": "number", "minimum": 0, "maximum": 1}]},
    {"type": "object", "properties": {"day": {"type": "string", "format": "date"}, "kind": {"$ref": "#/$defs/kind"}},
     "required": ["day", "kind"], "additionalProperties": False, "$defs": {"kind": {"enum": ["a", "b"]}}},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
]


def by_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}


def check(text, schema):
    jsonschema.validate(json.loads(text), schema, format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize("name", ["demo", "f1"])
def test_answers_that_end_are_valid(name, request):
    d = request.getfixturevalue(name)
    ended = 0
    for schema in SCHEMAS:
        r = d.chat(USER, temperature=1.5 if name == "demo" else 1, n=4, seed=1, max_tokens=100, response_format=by_schema(schema))
        for c in r["choices"]:
            if c["finish_reason"] == "stop":
                ended += 1
                check(c["message"]["content"], schema)
    assert ended >= 10
    r = d.chat(USER, temperature=1, n=4, seed=2, max_tokens=100, response_format={"type": "json_object"})
    for c in r["choices"]:
        text = c["message"]["content"]
        assert text.startswith("{")
        if c["finish_reason"] == "stop":
            assert isinstance(json.loads(text), dict)


def test_streamed_is_whole(demo):
    for schema in SCHEMAS:
        body = {"messages": USER, "max_tokens": 80, "temperature": 1, "seed": 7, "response_format": by_schema(schema)}
        whole = demo.post(CHAT, body).json()["choices"][0]
        text, reason = "", None
        with demo.stream(CHAT, body) as s:
            for chunk in s:
                for c in chunk["choices"]:
                    text += c["delta"].get("content") or ""
                    reason = c["finish_reason"] or reason
        assert (text, reason) == (whole["message"]["content"], whole["finish_reason"])


def test_together_is_alone(demo):
    """Different constraints in one batch, and none, with log probabilities: the same to the last digit."""
    bodies = [{"prompt": "Once", "max_tokens": 60, "temperature": 1, "seed": i, "logprobs": 2, **constraint} for i, constraint in enumerate(
        [{"guided_json": s} for s in SCHEMAS] + [{"guided_regex": "[a-z ]{20,40}"}, {"guided_choice": ["yes", "no"]}, {}] * 2)]

    def ask(body):
        r = demo.post("/v1/completions", body)
        assert r.status == 200, r.text
        return r.json()["choices"]

    alone = [ask(b) for b in bodies]
    with ThreadPoolExecutor(len(bodies)) as pool:
        assert list(pool.map(ask, bodies)) == alone


@pytest.mark.parametrize("body,want", [
    ({"guided_regex": "[a-c]{3,5}x"}, "[a-c]{3,5}x"),
    ({"structured_outputs": {"regex": r"\d{4}-\d\d"}}, r"\d{4}-\d\d"),
    ({"guided_choice": ["yes", "no", "maybe so"]}, "yes|no|maybe so"),
    ({"structured_outputs": {"choice": ["ja", "nein"]}}, "ja|nein"),
    ({"grammar": 'root ::= "ab" ("c" | "d"){2,3} "e"'}, "ab[cd]{2,3}e"),
    ({"guided_grammar": 'root ::= "ab" [cd] "e"'}, "ab[cd]e"),
    ({"structured_outputs": {"grammar": 'root ::= "ab" [cd] "e"'}}, "ab[cd]e"),
    ({"structured_outputs": {"json": {"enum": [[1, 2]]}, "disable_any_whitespace": True}}, r"\[1,2\]"),
    ({"guided_json": '{"const": "x"}'}, '"x"'), ({"json_schema": {"const": 7}}, "7"), ({"guided_json": {"const": True}}, "true"),
    ({"response_format": {"type": "json_object", "schema": {"const": "o"}}}, '"o"'),
    ({"guided_choice": ["yes"], "ignore_eos": True}, "yes"), ({"guided_choice": ["yes"], "min_tokens": 9}, "yes"),
], ids=repr)
def test_every_name(f1, body, want):
    for path, more, text in (("/v1/completions", {"prompt": "x"}, lambda c: c["text"]),
                             (CHAT, {"messages": USER}, lambda c: c["message"]["content"])):
        r = f1.post(path, {"max_tokens": 40, "temperature": 1, "n": 4, "seed": 3, **more, **body})
        assert r.status == 200, r.text
        for c in r.json()["choices"]:
            assert c["finish_reason"] == "stop" and re.fullmatch(want, text(c)), c


def test_responses_and_messages(demo):
    for form in ({"type": "json_schema", "name": "p", "schema": PERSON}, {"type": "json_object"}):
        schema = form.get("schema", {"type": "object"})
        r = demo.post("/v1/responses", {"input": "Hi", "temperature": 0, "max_output_tokens": 60, "text": {"format": form}}).json()
        text = r["output"][0]["content"][0]["text"]
        assert r["text"] == {"format": form}
        if r["status"] == "completed":
            check(text, schema)
        assert r["status"] == "completed" or "schema" not in form
        for body in ({"output_config": {"format": form}}, {"output_format": form}):
            m = demo.post("/v1/messages", {"messages": USER, "temperature": 0, "max_tokens": 60, **body}).json()
            assert m["content"][0]["text"].startswith("{") and (m["stop_reason"] == "end_turn" or "schema" not in form)
            if m["stop_reason"] == "end_turn":
                check(m["content"][0]["text"], schema)


BAD_TYPE = {"type": "object", "properties": {"a": {"type": "strin"}}}


@pytest.mark.parametrize("body,param", [
    ({"response_format": by_schema(BAD_TYPE)}, "response_format.json_schema.schema#/properties/a/type"),
    ({"guided_json": BAD_TYPE}, "guided_json#/properties/a/type"),
    ({"structured_outputs": {"json": BAD_TYPE}}, "structured_outputs.json#/properties/a/type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.schema"), ({"response_format": {"type": "xml"}}, "response_format"),
    ({"response_format": by_schema({"$ref": "#/$defs/none"})}, "response_format.json_schema.schema#/$ref"),
    ({"guided_regex": "a("}, "guided_regex"), ({"guided_regex": 5}, "guided_regex"), ({"guided_choice": ["a", 5]}, "guided_choice[1]"),
    ({"guided_choice": "a"}, "guided_choice"), ({"grammar": "root ::= x"}, "grammar"), ({"grammar": "x"}, "grammar"),
    ({"guided_json": "{"}, "guided_json"), ({"structured_outputs": []}, "structured_outputs"),
    ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
    ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"), ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
], ids=repr)
def test_what_cannot_be_is_refused(f1, body, param):
    r = f1.post(CHAT, {"messages": USER, "max_tokens": 2, **body})
    assert r.status == 400 and r.error["message"], r.text
    assert r.error["param"] == param


def test_nothing_asked_for(f1):
    want = f1.chat(USER, max_tokens=3)["choices"]
    names = ["response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "json_schema", "grammar"]
    assert f1.chat(USER, max_tokens=3, **dict.fromkeys(names))["choices"] == want
    assert f1.chat(USER, max_tokens=3, structured_outputs={"json": None, "json_object": False}, guided_choice=[], grammar="")["choices"] == want


def test_thoughts_are_free(tmp_path, daemon):
    """Where the prompt opens the reasoning, the constraint holds behind it, and no end comes before."""
    template = tmp_path / "think.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}{{ '<think>\n' }}")
    d = daemon(harness.f1_checkpoint(), chat_template=template)
    close, end = (d.post("/tokenize", {"prompt": t, "add_special_tokens": False}).json()["tokens"] for t in ("</think>", "<|im_end|>"))
    assert len(close) == len(end) == 1
    r = d.chat(USER, temperature=1, n=16, seed=1, max_tokens=120, guided_choice=["yes", "no"],
               logit_bias={str(close[0]): 4, str(end[0]): 4})
    ended = [c for c in r["choices"] if c["finish_reason"] == "stop"]
    assert len(ended) > 8 and any(c["message"].get("reasoning_content") for c in ended)
    assert {c["message"]["content"] for c in ended} == {"yes", "no"}
