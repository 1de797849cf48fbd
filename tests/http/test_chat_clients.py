"""The openai package in chats: ask, call, result, answer, whole and streamed."""
import enum
import json
import typing

import openai
import pydantic
import pytest

import harness  # noqa: F401  (the path of the fixtures)

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Current weather of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "get_time", "description": "Local time of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
CASES = [("What is the weather in Oslo?", "get_weather", {"weather": "rain", "degrees": 12}, ["rain", "12"]),
         ("What time is it in Rome?", "get_time", {"time": "14:30"}, ["14:30"])]


@pytest.fixture(scope="module")
def client(demo):
    with openai.OpenAI(base_url=demo.url + "/v1", api_key="none", max_retries=0) as c:
        yield c


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def whole(client, **asked):
    c = client.chat.completions.create(**asked).choices[0]
    return c.message.model_dump(exclude_none=True), c.finish_reason


def streamed(client, **asked):
    """The message as the package's own accumulator makes it."""
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        c = stream.get_final_completion().choices[0]
    return c.message.model_dump(exclude_none=True), c.finish_reason


def plain(message):
    """Without what the package adds, and the ids that differ from answer to answer."""
    calls = [{"name": t["function"]["name"], "arguments": t["function"]["arguments"]} for t in message.get("tool_calls", [])]
    return message.get("content") or "", calls


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.parametrize("question,name,result,words", CASES)
def test_tools_from_question_to_answer(client, model, ask, question, name, result, words):
    messages = [{"role": "user", "content": question}]
    asked = {"model": model, "messages": messages, "tools": TOOLS, "temperature": 0}
    message, reason = ask(client, **asked)
    assert reason == "tool_calls" and [t["function"]["name"] for t in message["tool_calls"]] == [name]
    call = message["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"city": question.split()[-1].rstrip("?")}
    messages += [{"role": "assistant", "content": message.get("content"), "tool_calls": [
        {"id": call["id"], "type": "function", "function": {k: call["function"][k] for k in ("name", "arguments")}}]},
        {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}]
    message, reason = ask(client, **asked)
    assert reason == "stop" and not message.get("tool_calls")
    assert all(w in message["content"] for w in words), message


@pytest.mark.parametrize("question", [q for q, *_ in CASES] + ["Hello"])
@pytest.mark.parametrize("tools", [TOOLS, None])
def test_stream_equals_whole(client, model, question, tools):
    asked = {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0,
             **({"tools": tools} if tools else {})}
    a, b = whole(client, **asked), streamed(client, **asked)
    assert (plain(a[0]), a[1]) == (plain(b[0]), b[1])


def test_a_forced_call_comes(client, model):
    r = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "x"}], tools=TOOLS, tool_choice="required", temperature=0)
    assert r.choices[0].finish_reason == "tool_calls" and r.choices[0].message.content is None
    for call in r.choices[0].message.tool_calls:
        assert call.function.name in {t["function"]["name"] for t in TOOLS} and isinstance(json.loads(call.function.arguments), dict)
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "x"}], tool_choice="required")
    assert e.value.param == "tool_choice"


class Mood(enum.Enum):
    glad = "glad"
    sad = "sad"


class Animal(pydantic.BaseModel):
    name: typing.Annotated[str, pydantic.Field(max_length=12)]
    legs: typing.Annotated[int, pydantic.Field(ge=0, le=8)]
    mood: Mood
    friend: typing.Optional["Animal"]


def test_parse_to_a_model(client, model):
    """What the client makes of a class, references and recursion too, and back; the same for a tool's arguments."""
    asked = {"model": model, "messages": [{"role": "user", "content": "Tell me of an animal."}], "max_tokens": 300}
    r = client.chat.completions.parse(**asked, response_format=Animal, temperature=0)
    assert isinstance(r.choices[0].message.parsed, Animal)
    tool = openai.pydantic_function_tool(Animal)
    r = client.chat.completions.parse(**asked, tools=[tool], tool_choice="required", parallel_tool_calls=False, temperature=0)
    call, = r.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Animal)


def test_logprobs_and_several_answers(client, model):
    r = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello"}], n=2, logprobs=True,
                                       top_logprobs=2, max_completion_tokens=4, temperature=0)
    assert [c.index for c in r.choices] == [0, 1] and r.choices[0].message == r.choices[1].message
    for entry in r.choices[0].logprobs.content:
        assert entry.token.encode() == bytes(entry.bytes) and len(entry.top_logprobs) == 2 and entry.logprob <= 0
    assert r.usage.completion_tokens == sum(len(c.logprobs.content) for c in r.choices)


# ---- /v1/responses ----

FLAT = [{"type": "function", **t["function"]} for t in TOOLS]


def respond(client, **asked):
    return client.responses.create(**asked)


def respond_streamed(client, **asked):
    with client.responses.stream(**asked) as stream:
        numbers = [e.sequence_number for e in stream]
        assert numbers == list(range(len(numbers)))
        return stream.get_final_response()


@pytest.mark.parametrize("ask", [respond, respond_streamed])
@pytest.mark.parametrize("question,name,result,words", CASES)
def test_responses_from_question_to_answer(client, model, ask, question, name, result, words):
    items = [{"role": "user", "content": question}]
    asked = {"model": model, "tools": FLAT, "temperature": 0}
    r = ask(client, input=items, **asked)
    assert r.status == "completed" and [o.type for o in r.output] == ["function_call"] and r.output[0].name == name
    assert json.loads(r.output[0].arguments) == {"city": question.split()[-1].rstrip("?")}
    items += [{"type": "function_call", "call_id": r.output[0].call_id, "name": name, "arguments": r.output[0].arguments},
              {"type": "function_call_output", "call_id": r.output[0].call_id, "output": json.dumps(result)}]
    r = ask(client, input=items, **asked)
    assert r.status == "completed" and all(w in r.output_text for w in words), r.output
    assert r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens
