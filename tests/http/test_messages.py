"""POST /v1/messages and /v1/messages/count_tokens: with the anthropic package, and as bare requests."""
import json

import anthropic
import pytest

import harness

PATH = "/v1/messages"
USER = [{"role": "user", "content": "u"}]
TOOLS = [{"name": n, "description": d, "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
         for n, d in (("get_weather", "Current weather of a city"), ("get_time", "Local time of a city"))]
GREEDY = {"extra_body": {"temperature": 0}}


@pytest.fixture(scope="module")
def client(demo):
    with anthropic.Anthropic(base_url=demo.url, api_key="none", max_retries=0) as c:
        yield c


def whole(client, **asked):
    return client.messages.create(model="demo", max_tokens=60, **asked, **GREEDY)


def streamed(client, **asked):
    with client.messages.stream(model="demo", max_tokens=60, **asked, **GREEDY) as stream:
        return stream.get_final_message()


@pytest.mark.parametrize("ask", [whole, streamed])
def test_tools_from_question_to_answer(client, ask):
    messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
    m = ask(client, messages=messages, tools=TOOLS)
    assert m.stop_reason == "tool_use" and [b.type for b in m.content] == ["tool_use"]
    use = m.content[0]
    assert (use.name, use.input) == ("get_weather", {"city": "Oslo"})
    messages += [{"role": "assistant", "content": [{"type": "tool_use", "id": use.id, "name": use.name, "input": use.input}]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": json.dumps({"weather": "rain", "degrees": 12})}]}]
    m = ask(client, messages=messages, tools=TOOLS)
    assert m.stop_reason == "end_turn" and "rain" in m.content[0].text and "12" in m.content[0].text
    counted = client.messages.count_tokens(model="demo", messages=messages, tools=TOOLS).input_tokens
    assert counted == m.usage.input_tokens + m.usage.cache_read_input_tokens


def test_stream_equals_whole(client):
    for asked in ({"system": "s"}, {"stop_sequences": ["a"]}, {"tools": TOOLS}):
        for question in ("Hello", "Tell me a story.", "What time is it in Rome?"):
            a, b = (f(client, messages=[{"role": "user", "content": question}], **asked) for f in (whole, streamed))
            assert (a.stop_reason, a.stop_sequence, a.usage.output_tokens) == (b.stop_reason, b.stop_sequence, b.usage.output_tokens)
            assert [x.model_dump(exclude={"id", "parsed_output"}) for x in a.content] == [x.model_dump(exclude={"id", "parsed_output"}) for x in b.content]


def test_errors_of_the_package(client, demo):
    with pytest.raises(anthropic.BadRequestError) as e:
        client.messages.create(model="demo", max_tokens=0, messages=[{"role": "user", "content": "x"}])
    assert e.value.body["type"] == "error" and e.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError) as e:
        client.messages.create(model="other", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert e.value.body["error"]["type"] == "not_found_error"


def test_keys(daemon):
    d = daemon(api_key="secret")
    for key, status in (("wrong", 401), ("secret", 200)):
        r = d.post(PATH, {"messages": USER, "max_tokens": 1}, headers={"X-Api-Key": key, "anthropic-version": "2023-06-01"})
        assert r.status == status
        if status == 401:
            assert r.json()["type"] == "error" and r.json()["error"]["type"] == "authentication_error" and r.json()["request_id"]


def test_events(script):
    d = script(b"<think>", b"h", b"m", b"</think>", b"we", b"ll")
    with d.stream(PATH, {"messages": USER, "max_tokens": 20, "temperature": 0}) as s:
        events = list(s)
    assert [e["type"] for e in events] == [
        "message_start", *["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"] * 2,
        "message_delta", "message_stop"]
    assert events[0]["message"]["content"] == [] and events[0]["message"]["stop_reason"] is None
    assert events[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert [e["delta"] for e in events[2:4]] == [{"type": "thinking_delta", "thinking": "h"}, {"type": "thinking_delta", "thinking": "m"}]
    assert events[5]["content_block"] == {"type": "text", "text": ""} and events[5]["index"] == 1
    assert [e["delta"] for e in events[6:8]] == [{"type": "text_delta", "text": "we"}, {"type": "text_delta", "text": "ll"}]
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    r = d.post(PATH, {"messages": USER, "max_tokens": 20, "temperature": 0}).json()
    assert [b.get("thinking", b.get("text")) for b in r["content"]] == ["hm", "well"]
    assert events[-2]["usage"]["output_tokens"] == r["usage"]["output_tokens"] == 7
    r = d.post(PATH, {"messages": USER, "max_tokens": 20, "temperature": 0, "stop_sequences": ["el"]}).json()
    assert (r["stop_reason"], r["stop_sequence"], r["content"][1]["text"]) == ("stop_sequence", "el", "w")
    assert d.post(PATH, {"messages": USER, "max_tokens": 2, "temperature": 0}).json()["stop_reason"] == "max_tokens"


@pytest.fixture
def plain(tmp_path, daemon):
    """A daemon whose template shows all that a translation must bring over."""
    template = tmp_path / "all.jinja"
    template.write_text(
        "{% for t in tools or [] %}{{ t.function.name }}{{ t.function.description }}{{ t.function.parameters | tojson }}\n{% endfor %}"
        "{% for m in messages %}{{ m.role }}|{{ m.reasoning_content }}|{{ m.content }}|{{ m.tool_call_id }}"
        "{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}\n{% endfor %}")
    return daemon(harness.f1_checkpoint("f1-1024", max_position_embeddings=1024), chat_template=template)


def test_blocks_become_messages(plain):
    """Equal prompts: count_tokens against /tokenize of the chat form, and the same answer."""
    text = lambda s: {"type": "text", "text": s, "cache_control": {"type": "ephemeral"}}
    messages = [{"role": "user", "content": [text("u"), text("w")]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "x"}, text("c"),
                                                  {"type": "tool_use", "id": "1", "name": "f", "input": {"q": 1}},
                                                  {"type": "tool_use", "id": "2", "name": "g", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "r"},
                                             {"type": "tool_result", "tool_use_id": "2", "content": [text("s")], "is_error": True}, text("v")]}]
    call = lambda i, name, arguments: {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
    chat = [{"role": "system", "content": "a\nb"}, {"role": "user", "content": "u\nw"},
            {"role": "assistant", "content": "c", "reasoning_content": "t", "tool_calls": [call("1", "f", {"q": 1}), call("2", "g", {})]},
            {"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "tool", "tool_call_id": "2", "content": "s"},
            {"role": "user", "content": "v"}]
    tools = [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]
    nested = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]
    asked = {"messages": messages, "system": [text("a"), text("b")], "tools": tools}
    count = plain.post("/v1/messages/count_tokens", asked).json()["input_tokens"]
    assert count == plain.post("/tokenize", {"messages": chat, "tools": nested}).json()["count"]
    options = {"max_tokens": 12, "temperature": 1, "seed": 4, "ignore_eos": True}
    r = plain.post(PATH, {**asked, **options}).json()
    assert "".join(b["text"] for b in r["content"]) == plain.chat(chat, tools=nested, **options)["choices"][0]["message"]["content"]
    assert r["usage"]["input_tokens"] + r["usage"]["cache_read_input_tokens"] == count


def test_the_assistants_last_message_goes_on(f1):
    messages = [*USER, {"role": "assistant", "content": "The answer"}]
    count = f1.post("/v1/messages/count_tokens", {"messages": messages}).json()["input_tokens"]
    assert count == f1.post("/tokenize", {"messages": messages, "continue_final_message": True}).json()["count"]


def test_thinking_is_a_variable_of_the_template(tmp_path, daemon):
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[0].content }}{{ enable_thinking }}")
    d = daemon(harness.f1_checkpoint(), chat_template=template)

    def count(**body):
        return d.post("/v1/messages/count_tokens", {"messages": USER, **body}).json()["input_tokens"]

    assert count() == 1
    assert count(thinking={"type": "enabled", "budget_tokens": 1024}) == 1 + len("True")
    assert count(thinking={"type": "disabled"}) == 1 + len("False")


BAD = [
    ("max_tokens", None), ("max_tokens", 0), ("messages", None), ("messages", []), ("messages", 5), ("messages", [{"role": "user"}]),
    ("messages", [{"role": "tool", "content": "x"}]), ("messages", [{"role": "user", "content": [{"type": "image"}]}]),
    ("messages", [{"role": "user", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}]),
    ("messages", [*USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": "x"}]}]),
    ("messages", [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]), ("system", 5), ("system", [{"type": "image"}]),
    ("tools", {}), ("tools", [{"name": "f"}]), ("tools", [{"input_schema": {}}]),
    ("tool_choice", {"type": "any"}), ("tool_choice", {"type": "tool", "name": "f"}), ("tool_choice", "auto"), ("stop_sequences", [""]),
    ("thinking", "on"), ("mcp_servers", [{"url": "x"}]), ("output_config", {"format": {"type": "json_schema"}}), ("n", 2),
    ("temperature", 3), ("stream", "x"), ("top_k", -2), ("return_token_ids", True), ("prompt_logprobs", 1), ("timings", True),
]


@pytest.mark.parametrize("field,value", BAD, ids=[f"{k}={json.dumps(v)[:50]}" for k, v in BAD])
def test_a_bad_value_is_refused_and_named(f1, field, value):
    r = f1.post(PATH, {"messages": USER, "max_tokens": 1, field: value})
    assert r.status == 400, r.text
    assert r.json()["type"] == "error" and r.json()["error"]["type"] == "invalid_request_error"
    assert r.json()["error"]["message"].startswith(field), r.text


def test_other_refusals_have_the_same_form(f1):
    for reply, status in ((f1.get(PATH), 405), (f1.post(PATH, "{"), 400),
                          (f1.post(PATH, "x", headers={"Content-Type": "text/plain"}), 415),
                          (f1.post("/v1/messages/count_tokens", {}), 400)):
        assert reply.status == status and reply.json()["type"] == "error" and reply.json()["error"]["message"]


def named(n):
    return {"name": "m" * n, "input_schema": {"type": "object", "properties": {}}}


def test_names_and_numbers_of_tools(demo):
    """T05: the messages API has its own limits, and count_tokens has those of /v1/messages."""
    for path in (PATH, "/v1/messages/count_tokens"):
        for tools, status in (([named(128)], 200), ([named(129)], 400), ([named(0)], 400), ([{**named(1), "name": f"t{i}"} for i in range(200)], 200),
                              ([{"type": "web_search_20250305", "name": "web_search"}, named(5)], 200)):
            r = demo.post(path, {"messages": USER, "max_tokens": 1, "tools": tools})
            assert r.status == status or "context length" in r.text, (path, r.text)
            if status == 400:
                assert "tools[0]" in r.json()["error"]["message"]


def test_a_changing_first_line_does_not_cost_the_prefix(demo):
    """T08"""
    def ask(cch, system):
        return demo.post(PATH, {"messages": USER, "max_tokens": 1, "temperature": 0, "system": [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={cch};"}, {"type": "text", "text": system}]}).json()

    system = "You help with stories. " * 20
    first, other = ask("36ee5", system), ask("0aaa9", system)
    assert first["content"] == other["content"]
    plain = demo.post(PATH, {"messages": USER, "max_tokens": 1, "temperature": 0, "system": system}).json()
    total = lambda r: r["usage"]["input_tokens"] + r["usage"]["cache_read_input_tokens"]
    assert total(first) == total(other) == total(plain) and first["content"] == plain["content"]
    assert other["usage"]["cache_read_input_tokens"] > 0.5 * total(other)
