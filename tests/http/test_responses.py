"""POST /v1/responses: translation, shape, events, refusals. The openai package is in test_chat_clients.py."""
import json

import pytest

import harness

PATH = "/v1/responses"
USER = [{"role": "user", "content": "u"}]


def read_events(d, **body):
    """[(event name, data)] of a streamed response."""
    with d.stream(PATH, {"temperature": 0, **body}) as s:
        raw = b"".join(s.body()).decode()
    events = []
    for block in raw.strip().split("\n\n"):
        name, data = block.split("\n")
        assert name.startswith("event: ") and data.startswith("data: ")
        events.append((name[7:], json.loads(data[6:])))
    assert all(name == e["type"] for name, e in events)
    assert [e["sequence_number"] for _, e in events] == list(range(len(events)))
    return events


def respond(d, **body):
    r = d.post(PATH, {"temperature": 0, **body})
    assert r.status == 200, r.text
    return r.json()


def steady(response):
    """What is the same in every answer to a request."""
    text = json.dumps({k: v for k, v in response.items() if k not in ("id", "created_at", "usage")})
    usage = {k: v for k, v in response["usage"].items() if k != "input_tokens_details"}
    return text.replace(response["id"].removeprefix("resp_"), "ID"), usage


def test_shape(demo):
    r = respond(demo, input="Hello", instructions="s", max_output_tokens=7, metadata={"a": "b"}, top_p=0.5)
    assert r["id"].startswith("resp_") and r["object"] == "response" and r["model"] == "demo" and r["error"] is None
    assert (r["instructions"], r["max_output_tokens"], r["metadata"], r["top_p"], r["temperature"]) == ("s", 7, {"a": "b"}, 0.5, 0)
    assert (r["tools"], r["tool_choice"], r["parallel_tool_calls"], r["store"], r["previous_response_id"]) == ([], "auto", True, False, None)
    item = r["output"][0]
    assert (item["type"], item["role"]) == ("message", "assistant") and item["content"][0]["annotations"] == []
    chat = demo.chat([{"role": "system", "content": "s"}, {"role": "user", "content": "Hello"}], max_tokens=7, top_p=0.5)
    assert item["content"][0]["text"] == chat["choices"][0]["message"]["content"]
    assert r["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"] and r["usage"]["output_tokens"] == 7
    assert (r["status"], r["incomplete_details"], item["status"]) == ("incomplete", {"reason": "max_output_tokens"}, "incomplete")


def test_events_of_text(demo):
    events = read_events(demo, input="Hello", max_output_tokens=6)
    names = [n for n, _ in events]
    assert names[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    assert set(names[4:-4]) == {"response.output_text.delta"}
    assert names[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete"]
    text = "".join(e["delta"] for n, e in events if n.endswith(".delta"))
    assert events[-4][1]["text"] == events[-3][1]["part"]["text"] == text
    final = events[-1][1]["response"]
    assert events[-2][1]["item"] == final["output"][0] and final["output"][0]["content"][0]["text"] == text
    assert {e["item_id"] for _, e in events if "item_id" in e} == {final["output"][0]["id"]}
    assert events[0][1]["response"]["output"] == [] and events[0][1]["response"]["status"] == "in_progress"
    assert steady(final) == steady(respond(demo, input="Hello", max_output_tokens=6))


def test_reasoning_comes_before_the_message(script):
    d = script(b"<think>", b"h", b"m", b"</think>", b"well")
    r = respond(d, input="u")
    assert [o["type"] for o in r["output"]] == ["reasoning", "message"] and r["status"] == "completed"
    assert r["output"][0]["content"] == [{"type": "reasoning_text", "text": "hm"}] and r["output"][0]["summary"] == []
    assert r["usage"]["output_tokens_details"] == {"reasoning_tokens": 4}
    events = read_events(d, input="u")
    assert [e["delta"] for n, e in events if n == "response.reasoning_text.delta"] == ["h", "m"]
    assert [e["output_index"] for n, e in events if n == "response.output_item.done"] == [0, 1]
    assert steady(events[-1][1]["response"]) == steady(r)


@pytest.fixture
def plain(tmp_path, daemon):
    """A daemon whose template shows all that a translation must bring over."""
    template = tmp_path / "all.jinja"
    template.write_text(
        "{% for t in tools or [] %}{{ t.function.name }}{{ t.function.description }}{{ t.function.parameters | tojson }}\n{% endfor %}"
        "{% for m in messages %}{{ m.role }}|{{ m.reasoning_content }}|{{ m.content }}|{{ m.tool_call_id }}"
        "{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}\n{% endfor %}")
    return daemon(harness.f1_checkpoint("f1-1024", max_position_embeddings=1024), chat_template=template)


def test_items_become_messages(plain):
    """Equal prompts: as many tokens, and the same answer."""
    items = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]}, {"role": "user", "content": "u"},
             {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}], "content": [{"type": "reasoning_text", "text": "t"}]},
             {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "c"}]},
             {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"q\":1}"},
             {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
             {"type": "function_call_output", "call_id": "1", "output": "r"},
             {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "s"}]}, {"role": "user", "content": "v"}]
    call = lambda i, name, arguments: {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
    messages = [{"role": "system", "content": "d"}, {"role": "user", "content": "u"},
                {"role": "assistant", "reasoning_content": "t", "content": "c", "tool_calls": [call("1", "f", "{\"q\":1}"), call("2", "g", "{}")]},
                {"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "tool", "tool_call_id": "2", "content": "s"},
                {"role": "user", "content": "v"}]
    tools = [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}]
    nested = [{"type": "function", "function": {k: v for k, v in tools[0].items() if k != "type"}}]
    asked = {"temperature": 1, "seed": 4, "ignore_eos": True}
    r = respond(plain, input=items, tools=tools, max_output_tokens=12, **asked)
    chat = plain.chat(messages, tools=nested, max_tokens=12, **asked)
    assert r["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]
    assert "".join(p["text"] for o in r["output"] for p in o["content"]) == chat["choices"][0]["message"]["content"]


BAD = [
    ("input", None), ("input", []), ("input", 5), ("input", [5]), ("input", [{"type": "item_reference", "id": "x"}]),
    ("input", [{"role": "robot", "content": "x"}]), ("input", [{"role": "user", "content": [{"type": "input_image"}]}]),
    ("input", [{"type": "function_call", "name": "f", "arguments": "{}"}]), ("input", [{"type": "function_call_output", "output": "x"}]),
    ("instructions", 5), ("max_output_tokens", 0), ("tools", [{"type": "function"}]), ("tools", {}),
    ("tool_choice", "required"), ("previous_response_id", "resp_1"), ("conversation", "c"), ("background", True), ("prompt", {"id": "x"}),
    ("text", {"format": {"type": "json_schema"}}), ("truncation", "auto"), ("include", ["message.output_text.logprobs"]),
    ("top_logprobs", 2), ("n", 2), ("metadata", 5), ("stream", "x"), ("temperature", 3), ("return_token_ids", True), ("prompt_logprobs", 1), ("timings", True),
]


@pytest.mark.parametrize("field,value", BAD, ids=[f"{k}={json.dumps(v)[:50]}" for k, v in BAD])
def test_a_bad_value_is_refused_and_named(f1, field, value):
    r = f1.post(PATH, {"input": "u", "max_output_tokens": 1, field: value})
    assert r.status == 400, r.text
    assert r.error["param"].split("[")[0].split(".")[0] == field, r.text


def test_what_clients_send_without_need(f1):
    neutral = {"previous_response_id": None, "background": False, "include": ["reasoning.encrypted_content"], "store": False,
               "reasoning": {"effort": "low"}, "text": {"format": {"type": "text"}}, "truncation": "disabled", "tool_choice": "auto",
               "stream_options": None, "service_tier": "auto", "prompt_cache_key": "x", "conversation": None, "top_logprobs": 0}
    assert respond(f1, input="u", max_output_tokens=1, **neutral)["object"] == "response"


def test_too_long(f1):
    e = f1.post(PATH, {"input": "b" * 300}).error
    assert (e["param"], e["code"]) == ("input", "context_length_exceeded")


FUNCTION = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
FOREIGN_TOOLS = [{"type": "web_search", "external_web_access": False}, {"type": "local_shell"}, {"type": "tool_search", "execution": "client"},
                 {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
                 {"type": "namespace", "name": "mcp", "tools": [FUNCTION]}, {"type": "image_generation"}]


def test_tools_that_cannot_run_here_are_passed_over(demo):
    """T02"""
    asked = {"input": "u", "max_output_tokens": 12, "temperature": 0}
    alone = respond(demo, **asked, tools=[FUNCTION])
    with_others = respond(demo, **asked, tools=[*FOREIGN_TOOLS[:3], FUNCTION, *FOREIGN_TOOLS[3:]])
    assert [o.get("content") for o in with_others["output"]] == [o.get("content") for o in alone["output"]]
    assert with_others["usage"]["input_tokens"] == alone["usage"]["input_tokens"]
    assert with_others["tools"] == [*FOREIGN_TOOLS[:3], FUNCTION, *FOREIGN_TOOLS[3:]]


def test_what_other_tools_did_becomes_text(demo):
    """T02"""
    calls = lambda i, name, arguments: {"role": "assistant", "tool_calls": [
        {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}]}
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "x"}}
    rows = [([{"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "*** Begin"},
              {"type": "custom_tool_call_output", "call_id": "1", "output": "ok"}],
             [calls("1", "patch", "*** Begin"), {"role": "tool", "tool_call_id": "1", "content": "ok"}]),
            ([search], [{"role": "assistant", "content": json.dumps(search, separators=(",", ":"))}])]
    for items, messages in rows:
        r = respond(demo, input=[*USER, *items, *USER], max_output_tokens=1)
        assert r["usage"]["input_tokens"] == demo.chat([*USER, *messages, *USER], max_tokens=1)["usage"]["prompt_tokens"]


def test_many_parts_of_reasoning(demo):
    """As many as a body holds, in linear work: the prompt is the one of the whole."""
    parts = [{"type": "reasoning_text", "text": "a"}] * 20000
    items = [*USER, {"type": "reasoning", "content": parts}, {"role": "assistant", "content": "c"}, *USER]
    whole = [*USER, {"role": "assistant", "reasoning_content": "a" * 20000, "content": "c"}, *USER]
    assert respond(demo, input=items, max_output_tokens=1)["usage"]["input_tokens"] == \
        demo.chat(whole, max_tokens=1)["usage"]["prompt_tokens"]
