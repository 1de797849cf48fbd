"""Schemas made by chance, over HTTP: answers that end by themselves are valid, and streamed they are the same. And cases B65 to B67, and hostile schemas.

TRINITYD_SCHEMAS sets how many are made (400 in a full run; 60 otherwise).
"""
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

import harness
from grammar.test_schema import CHECKER, HOSTILE, decimal_multiple, make

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "u"}]
N = int(os.environ.get("TRINITYD_SCHEMAS", "60"))


def by_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}


def streamed(d, body):
    out = {}
    with d.stream(CHAT, body) as s:
        for chunk in s:
            for c in chunk["choices"]:
                text, _ = out.setdefault(c["index"], ["", None])
                out[c["index"]] = [text + (c["delta"].get("content") or ""), c["finish_reason"]]
    return [tuple(out[i]) for i in sorted(out)]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["demo", "f1"])
def test_answers_to_made_schemas_are_valid(name, request):
    d = request.getfixturevalue(name)
    rng = random.Random(400)
    schemas = [make(rng, 3) | {"$defs": {"leaf": {"type": "string", "maxLength": 3}}} for _ in range(N)]

    def ask(i):
        body = {"messages": USER, "max_tokens": 60, "temperature": 1.5, "seed": i, "n": 2, "response_format": by_schema(schemas[i])}
        r = d.post(CHAT, body)
        if r.status != 200:
            assert r.status == 400 and r.error["param"].startswith("response_format"), (schemas[i], r.text)
            return None
        answers = [(c["message"]["content"], c["finish_reason"]) for c in r.json()["choices"]]
        assert streamed(d, body | {"stream": True}) == answers, schemas[i]
        ended = [t for t, reason in answers if reason == "stop"]
        for text in ended:
            value = json.loads(text)
            if not decimal_multiple(schemas[i]):  # jsonschema divides doubles
                jsonschema.Draft202012Validator(schemas[i], format_checker=CHECKER).validate(value)
        return len(ended)

    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(ask, range(N)))
    done = [n for n in ended if n is not None]
    assert len(done) >= 0.8 * N and sum(done) >= 0.8 * N, (len(done), sum(done))


# ---- cases ----

COLOUR = {"type": "object", "properties": {"c": {"$ref": "#/$defs/C"}}, "required": ["c"], "additionalProperties": False,
          "$defs": {"C": {"enum": ["red", "grün", 3, None]}}}
TREE = {"type": "object", "required": ["tree"], "additionalProperties": False, "properties": {"tree": {"type": "object", "additionalProperties": False, "properties": {
    "left": {"anyOf": [{"type": "string", "maxLength": 3}, {"$ref": "#/properties/tree"}]},
    "right": {"$ref": "#/properties/tree/properties/left/anyOf/0"}}}}}


def test_references(f1):
    """B65"""
    for schema in (COLOUR, TREE):
        r = f1.chat(USER, n=50, temperature=1, seed=1, max_tokens=200, response_format=by_schema(schema))
        values = [json.loads(c["message"]["content"]) for c in r["choices"] if c["finish_reason"] == "stop"]
        for v in values:
            jsonschema.validate(v, schema)
        assert len(values) >= 25
        if schema is COLOUR:
            assert len(values) == 50 and len({json.dumps(v) for v in values}) >= 3 and all(set(v) == {"c"} for v in values)


@pytest.mark.parametrize("schema,word", [
    ({"not": {}}, "{}"), ({"$ref": "http://127.0.0.1:9/x"}, "$ref"), ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "$ref"),
    ({"type": "strnig"}, "type"), ({"enum": []}, "enum"), (5, "schema"), ({"pattern": "(?<=a)b"}, "pattern"),
    ({"type": "object", "properties": {"a": {"not": {}}}, "required": ["a"]}, "a"),
])
def test_what_cannot_be_done_is_refused(f1, schema, word):
    """B66"""
    r = f1.post(CHAT, {"messages": USER, "max_tokens": 2, "response_format": by_schema(schema)})
    assert r.status == 400 and word in r.error["message"] and f1.alive(), r.text


def test_what_means_anything(f1):
    """B66"""
    for schema in ({"pattern": "(a*)*b", "type": "string"}, True, {}, {"title": "t", "description": "d", "default": 1, "examples": [1], "format": "mine"}):
        r = f1.post(CHAT, {"messages": USER, "max_tokens": 40, "temperature": 1, "n": 8, "seed": 1, "response_format": by_schema(schema)})
        assert r.status == 200, r.text
        for c in r.json()["choices"]:
            if c["finish_reason"] == "stop":
                json.loads(c["message"]["content"])


def test_white_space_cannot_eat_an_answer(tmp_path, daemon):
    """B67: a model that prefers a line break to all else, then a space."""
    edges = {bytes([b]): {b"\n": 35.0, b" ": 34.0} for b in range(256)}
    d = daemon(harness.script_checkpoint(tmp_path / "white", edges))
    digit = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9, "minimum": 0}}, "required": ["a"], "additionalProperties": False}
    c = d.chat(USER, temperature=0, max_tokens=230, response_format=by_schema(digit))["choices"][0]
    text = c["message"]["content"]
    assert c["finish_reason"] == "stop" and text == text.strip()
    jsonschema.validate(json.loads(text), digit)
    text = d.chat(USER, temperature=0, max_tokens=100, response_format={"type": "json_object"})["choices"][0]["message"]["content"]
    assert text[0] == "{" and len(text.split('"')[0]) <= 67, "behind that the spaces stand in a name"


# ---- hostile ----

def test_hostile_schemas_hold_nobody_up(f1):
    """Each is refused or served; others are answered meanwhile, and the daemon does not grow with their number."""
    schemas = list(HOSTILE.values()) + [{"enum": [f"v{k} {i}" for i in range(3000)]} for k in range(30)]
    for schema in schemas:
        r = f1.post(CHAT, {"messages": USER, "max_tokens": 1, "response_format": by_schema(schema)})
        assert r.status in (200, 400, 413), r.text[:300]
        assert r.status == 200 or r.error["message"]
    assert f1.alive()
