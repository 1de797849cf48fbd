"""Calls that must come, and calls that must be right when they come: in both forms, in every API, streamed and not."""
import json
import random
import re

import jsonschema
import pytest

import harness

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "u"}]
NAMED = {"type": "function", "function": {"name": "f"}}
POINT = {"type": "object", "properties": {"x": {"type": "integer", "minimum": -9, "maximum": 9}, "tag": {"type": "string", "maxLength": 12}},
         "required": ["x"], "additionalProperties": False}
# One row a kind of value; the XML form writes strings as they are and the rest as JSON.
VALUES = [
    {"type": "string", "maxLength": 40}, {"enum": ["a", "b c", "é\n", "null", "</parameter>"]}, {"const": "1"}, {"type": "string", "pattern": "^[a-c<>/]{2,9}$"},
    {"type": "integer", "minimum": 0, "maximum": 99}, {"type": "number", "minimum": 0, "maximum": 1}, {"type": "boolean"}, {"type": "null"},
    {"type": ["string", "null"], "maxLength": 4}, {"anyOf": [{"type": "integer", "maximum": 9, "minimum": 0}, {"type": "null"}]},
    {"oneOf": [{"const": "on"}, {"const": 5}]}, {"enum": [1, "x", None, True]}, {"$ref": "#/$defs/point"}, {"$ref": "#/$defs/word"},
    {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 2}, {"allOf": [{"$ref": "#/$defs/word"}, {"minLength": 2}]},
    {"type": "array", "items": {"$ref": "#/$defs/point"}, "maxItems": 1}, {"type": "string", "format": "date"}, {"not": {"type": ["object", "array", "string", "number"]}},
]
DEFS = {"point": POINT, "word": {"type": "string", "maxLength": 5}}


def tool(name, parameters, **more):
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def make(rng):
    """Parameters by chance: an object of some of the values, whose root may be a reference or a union too."""
    keys = rng.sample(["a", "b_1", "Käse", "with space", "x.y"], rng.randint(0, 3))
    s = {"type": "object", "properties": {k: rng.choice(VALUES) for k in keys}, "required": [k for k in keys if rng.random() < 0.6]}
    s |= rng.choice([{"additionalProperties": False}] * 3 + [{"minProperties": len(keys) // 2, "additionalProperties": False}, {"additionalProperties": {"type": "boolean"}},
                     {"patternProperties": {"^[,z]": {"type": "null"}}, "additionalProperties": False}])
    kind = rng.randrange(8)
    if kind == 0:
        return {"$ref": "#/$defs/root", "$defs": {**DEFS, "root": s}}
    if kind == 1:
        return {"allOf": [s, {"maxProperties": 5}], "$defs": DEFS}
    return {**s, "$defs": DEFS}


XML = ("{%- if tools %}<|im_start|>system\n<function=NAME>\n<parameter=KEY>\n<|im_end|>\n{% endif -%}"
       "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor -%}{{ '<|im_start|>assistant\n' }}")


@pytest.fixture(scope="module", params=["hermes", "xml", "text tags"])
def form(request, tmp_path_factory):
    """Random weights that have the tags as tokens, under both templates; the demo checkpoint writes them as text."""
    options = {}
    if request.param == "xml":
        options["chat_template"] = tmp_path_factory.mktemp("template") / "xml.jinja"
        options["chat_template"].write_text(XML)
    model = harness.DEMO if request.param == "text tags" else harness.f1_checkpoint("f1-4096", max_position_embeddings=4096)
    with harness.Daemon(model, **options) as d:
        yield d


def demo(form):
    """It has been taught to call, and to call once."""
    return form.get("/v1/models").json()["data"][0]["id"] == "demo"


def calls_of(message):
    return [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]


def streamed(d, body):
    """Of each answer: content, calls, reason."""
    out = {}
    with d.stream(CHAT, body) as s:
        for chunk in s:
            for c in chunk["choices"]:
                content, calls, _ = out.setdefault(c["index"], ["", [], None])
                out[c["index"]][0] += c["delta"].get("content") or ""
                for t in c["delta"].get("tool_calls", []):
                    if t["index"] == len(calls):
                        calls.append((t["function"]["name"], ""))
                    calls[-1] = (calls[-1][0], calls[-1][1] + t["function"]["arguments"])
                out[c["index"]][2] = c["finish_reason"] or out[c["index"]][2]
    return [out[i] for i in sorted(out)]


def check_calls(calls, schemas):
    for name, arguments in calls:
        value = json.loads(arguments)
        jsonschema.validate(value, schemas[name], format_checker=jsonschema.FormatChecker())


def test_forced_calls_are_what_the_schema_allows(form):
    rng = random.Random(14)
    ended = several = 0
    for i in range(40):
        schemas = {n: make(rng) for n in rng.sample(["f", "g", "get-it", "ä"], rng.randint(1, 3))}
        name = rng.choice([None, *schemas])
        body = {"messages": USER, "max_tokens": 150, "temperature": 1.5, "seed": i, "n": 3, "tools": [tool(n, s) for n, s in schemas.items()],
                "tool_choice": {"type": "function", "function": {"name": name}} if name else "required", "parallel_tool_calls": i % 2 == 0}
        r = form.post(CHAT, body)
        assert r.status == 200, (body, r.text)
        choices = [(c["message"]["content"] or "", calls_of(c["message"]), c["finish_reason"]) for c in r.json()["choices"]]
        for content, calls, reason in choices:
            check_calls(calls, schemas)
            assert {n for n, _ in calls} <= ({name} if name else set(schemas))
            if reason != "length":
                ended += 1
                several += len(calls) > 1
                assert (reason, content) == ("tool_calls", ""), schemas
                assert len(calls) >= 1 and (i % 2 == 0 or len(calls) == 1)
            else:
                assert content == ""
        assert [tuple(c) for c in streamed(form, body | {"stream": True})] == choices
    assert ended >= 40 and (several > 0 or demo(form)), (ended, several)


def test_a_strict_tool_is_right_whenever_it_is_called(form):
    """Free text until the tag; behind it the schema. The other tool's arguments are an object that follows its schema, too, if it can."""
    schemas = {"f": {"type": "object", "properties": {"k": {"type": "integer", "minimum": 0, "maximum": 99}, "s": {"type": "string", "maxLength": 9}}, "required": ["k"], "additionalProperties": False},
               "g": {"type": "object", "properties": {"e": {"enum": ["x", "y"]}}, "required": ["e"]}}
    tools = [tool("f", schemas["f"], strict=True), tool("g", schemas["g"])]
    tag = form.post("/tokenize", {"prompt": "<tool_call>", "add_special_tokens": False}).json()["tokens"]
    body = {"messages": USER, "max_tokens": 150, "temperature": 1.5, "seed": 5, "n": 32, "tools": tools, "logit_bias": {str(tag[0]): 7} if len(tag) == 1 else {}}
    r = form.post(CHAT, body)
    assert r.status == 200, r.text
    called = plain = 0
    for c in r.json()["choices"]:
        calls = calls_of(c["message"])
        check_calls(calls, schemas)
        called += len(calls) > 0
        plain += c["message"]["content"] not in (None, "")
        assert "<tool_call>" not in (c["message"]["content"] or "") and (not calls or c["finish_reason"] in ("tool_calls", "length"))
    assert called > 3 and (plain > 0 or demo(form)), (called, plain)


def test_every_api_has_its_own_words(form):
    schema = {"type": "object", "properties": {"k": {"enum": [1, 2]}}, "required": ["k"], "additionalProperties": False}
    for choice in ("required", {"type": "function", "name": "f"}, {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}):
        r = form.post("/v1/responses", {"input": "u", "max_output_tokens": 300, "temperature": 1, "seed": 3, "parallel_tool_calls": False, "tool_choice": choice,
                                        "tools": [{"type": "function", "name": "f", "parameters": schema, "strict": True}]}).json()
        assert r["status"] == "completed" and r["tool_choice"] == choice, r
        item, = r["output"]
        assert (item["type"], item["name"]) == ("function_call", "f") and json.loads(item["arguments"])["k"] in (1, 2)
    for choice in ({"type": "any"}, {"type": "tool", "name": "f"}):
        m = form.post("/v1/messages", {"messages": USER, "max_tokens": 300, "temperature": 1, "seed": 3, "tools": [{"name": "f", "input_schema": schema}],
                                       "tool_choice": {**choice, "disable_parallel_tool_use": True}}).json()
        block, = m["content"]
        assert m["stop_reason"] == "tool_use" and (block["type"], block["name"]) == ("tool_use", "f") and block["input"]["k"] in (1, 2), m


def test_a_format_and_tools(form):
    """An answer is a call, or a text of the format."""
    body = {"messages": USER, "max_tokens": 100, "temperature": 1.5, "seed": 4, "n": 24, "tools": [tool("f", {"properties": {"k": {"const": 3}}, "required": ["k"], "additionalProperties": False})]}
    for constraint, valid in (({"guided_choice": ["yes", "no"]}, {"yes", "no"}),
                              ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"enum": [1, 2]}}}}, {"1", "2"})):
        r = form.post(CHAT, body | constraint)
        assert r.status == 200, r.text
        kinds = set()
        for c in r.json()["choices"]:
            calls = calls_of(c["message"])
            kinds.add(bool(calls))
            if c["finish_reason"] == "length":
                continue
            if calls:
                assert c["finish_reason"] == "tool_calls" and all(n == "f" and json.loads(a) == {"k": 3} for n, a in calls) and not c["message"]["content"]
            else:
                assert c["finish_reason"] == "stop" and c["message"]["content"] in valid, c
        assert False in kinds or demo(form)
        none = form.post(CHAT, body | constraint | {"tool_choice": "none"}).json()["choices"]
        assert all(c["message"]["content"] in valid for c in none)


@pytest.mark.parametrize("body,param", [
    ({"tool_choice": "required", "tools": []}, "tool_choice"), ({"tool_choice": NAMED, "tools": None}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"), ({"tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "tool_choice"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}, "tool_choice"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "some", "tools": [NAMED]}}}, "tool_choice"),
    ({"tools": [tool("f", {"type": "object"}, strict="yes")]}, "tools[0].function.strict"),
    ({"tools": [tool("e", {}), tool("f", {"properties": {"a": {"type": "strin"}}})], "tool_choice": "required"}, "tools[1]#/properties/a/type"),
    ({"tools": [tool("f", {"properties": {"a": {"contentSchema": 5, "$ref": "http://x/y"}}}, strict=True)]}, "tools[0]#/properties/a/$ref"),
    ({"tools": [tool("f", {"properties": {"a": False}, "required": ["a"]}, strict=True)], "tool_choice": "required"}, "tools"),
], ids=repr)
def test_what_cannot_be_is_refused(form, body, param):
    r = form.post(CHAT, {"messages": USER, "max_tokens": 2, "tools": [tool("f", {"type": "object"})], **body})
    assert r.status == 400 and r.error["param"] == param and r.error["message"], r.text


def test_what_is_not_strict_is_held_as_far_as_it_can_be(form):
    """A reference to elsewhere: with strict it is refused, without the arguments are any object."""
    schema = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}
    body = {"messages": USER, "max_tokens": 60, "temperature": 1, "seed": 1, "tool_choice": "required"}
    assert form.post(CHAT, body | {"tools": [tool("f", schema, strict=True)]}).status == 400
    r = form.post(CHAT, body | {"tools": [tool("f", schema)]})
    assert r.status == 200, r.text
    for _, arguments in calls_of(r.json()["choices"][0]["message"]):
        assert isinstance(json.loads(arguments), dict)
    lenient = {"type": "json_schema", "json_schema": {"name": "x", "strict": False, "schema": schema}}
    assert form.post(CHAT, {"messages": USER, "max_tokens": 5, "response_format": lenient}).status == 200


def test_a_template_without_calls_forces_none(tmp_path, daemon):
    template = tmp_path / "plain.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    d = daemon(harness.f1_checkpoint(), chat_template=template)
    r = d.post(CHAT, {"messages": USER, "tools": [tool("f", {})], "tool_choice": "required", "max_tokens": 3})
    assert r.status == 400 and r.error["param"] == "tool_choice" and "template" in r.error["message"]


def test_thoughts_before_a_forced_call_are_free(tmp_path, daemon):
    template = tmp_path / "think.jinja"
    template.write_text(XML.replace("<function=NAME>\n<parameter=KEY>", "<tool_call>") + "{{ '<think>\n' }}")
    d = daemon(harness.f1_checkpoint("f1-4096", max_position_embeddings=4096), chat_template=template)
    close, = d.post("/tokenize", {"prompt": "</think>", "add_special_tokens": False}).json()["tokens"]
    r = d.post(CHAT, {"messages": USER, "tools": [tool("f", {"properties": {"k": {"const": 3}}, "required": ["k"], "additionalProperties": False})],
                      "tool_choice": NAMED, "temperature": 1, "seed": 2, "n": 16, "max_tokens": 200, "logit_bias": {str(close): 4}})
    ended = [c["message"] for c in r.json()["choices"] if c["finish_reason"] == "tool_calls"]
    assert len(ended) > 8 and any(re.search("[^\\s]", m.get("reasoning_content") or "") for m in ended)
    assert all(n == "f" and json.loads(a) == {"k": 3} for m in ended for n, a in calls_of(m))
    assert not any(m["content"] for m in ended)
