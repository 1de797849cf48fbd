"""Reasoning and tool calls in answers whose text is cut into tokens anywhere: the result must not depend on it.

One scripted checkpoint says all texts in all cuts. Every script begins after the prompt's last byte, \\n; which one is
said is chosen by `allowed_token_ids`, the pieces of that cut and the end token.
"""
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import harness
from harness import fx

END = 3  # <|im_end|>
TOOLS = [{"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {
    "q": {"type": "string"}, "n": {"type": "array"}, "k": {"type": "integer"}, "u": {"type": "string"}}}}} for n in "fg"]

HERMES = """ok
<tool_call>
{"name": "f", "arguments": {"q": "a </tool b", "n": [1, {"x": "}"}]}}
</tool_call>
<tool_call>
{"name": "g", "arguments": {"u": "é😀"}}
</tool_call>"""
HERMES_CALLS = [("f", {"q": "a </tool b", "n": [1, {"x": "}"}]}), ("g", {"u": "é😀"})]

XML = """ok
<tool_call>
<function=f>
<parameter=q>
a </tool b
</parameter>
<parameter=k>
17
</parameter>
</function>
</tool_call>
<tool_call>
<function=g>
<parameter=u>
é😀
</parameter>
</function>
</tool_call>"""
XML_CALLS = [("f", {"q": "a </tool b", "k": 17}), ("g", {"u": "é😀"})]

# text: reasoning, content
REASONING = {
    "<think>ab</think>cd": ("ab", "cd"),
    "<think>a<b</thin>c</think>d": ("a<b</thin>c", "d"),
    "x <think>": ("", "x <think>"),
    "<thin": ("", "<thin"),
    "<think>\nab\n</think>\n\ncd</think>": ("ab", "cd</think>"),
    "<think></think>q<r": ("", "q<r"),
}
ONE_CALL = [b"<to", b"ol_ca", b"ll>\n", b'{"name": "f", ', b'"argum', b'ents": {}}', b"\n</tool", b"_call>"]
TAGGED = ["<tool_call>", b'\n{"name": "f", "arguments": {"k": 1}}\n', "</tool_call>"]
THOUGHT = ["<think>", b"hm", "</think>", b"well"]


def cuts(text):
    """A text whole, and in two pieces at every byte."""
    data = text.encode()
    return [(data,)] + [(data[:i], data[i:]) for i in range(1, len(data))]


def small_pieces(text, size):
    """Pieces of `size` bytes; None if two are the same."""
    data = text.encode()
    pieces = tuple(data[i:i + size] for i in range(0, len(data), size))
    return pieces if len(set(pieces)) == len(pieces) else None


def all_scripts():
    scripts = [c for t in [HERMES, XML, *REASONING, "<think>ab", "hi"] for c in cuts(t)] + [tuple(ONE_CALL)]
    scripts += [s for t in [HERMES, XML, *REASONING] for size in (1, 2, 3, 5, 8, 13) if (s := small_pieces(t, size))]
    return scripts + [tuple(TAGGED), tuple(THOUGHT)]


class Said:
    """A daemon that can say any of the scripts."""

    def __init__(self, daemon, tokenizer):
        self.daemon, self.tokenizer = daemon, tokenizer

    def id(self, piece):
        return self.tokenizer.token_to_id(piece if isinstance(piece, str) else fx.enc(piece))

    def body(self, script, **body):
        return {"messages": [{"role": "user", "content": "u"}], "temperature": 0,
                "allowed_token_ids": sorted({self.id(p) for p in script} | {END}), **body}

    def whole(self, script, **body):
        r = self.daemon.post("/v1/chat/completions", self.body(script, **body))
        assert r.status == 200, r.text
        c = r.json()["choices"][0]
        m = c["message"]
        assert "tool_calls" not in m or m["tool_calls"]
        calls = [(t["function"]["name"], t["function"]["arguments"]) for t in m.get("tool_calls", [])]
        assert len({t["id"] for t in m.get("tool_calls", [])}) == len(calls)
        return m.get("reasoning_content", ""), m["content"] or "", calls, c["finish_reason"], r.json()["usage"]["completion_tokens"]

    def streamed(self, script, **body):
        reasoning = content = ""
        calls, ids, reason, tokens = [], [], None, 0
        asked = self.body(script, stream_options={"include_usage": True}, **body)
        with self.daemon.stream("/v1/chat/completions", asked) as s:
            for chunk in s:
                for c in chunk["choices"]:
                    assert reason is None, "a chunk after the last"
                    d = c["delta"]
                    assert not any(tag in (d.get("content") or "") for tag in ("<tool", "</tool")), d
                    reasoning += d.get("reasoning_content", "")
                    content += d.get("content", "")
                    for t in d.get("tool_calls", []):
                        if t["index"] == len(calls):
                            assert t["type"] == "function" and t["function"]["arguments"] == ""
                            calls.append((t["function"]["name"], ""))
                            ids.append(t["id"])
                        else:
                            assert t["index"] == len(calls) - 1 and set(t) == {"index", "function"}
                            calls[-1] = (calls[-1][0], calls[-1][1] + t["function"]["arguments"])
                    reason = c["finish_reason"]
                if chunk["usage"]:
                    tokens = chunk["usage"]["completion_tokens"]
            assert s.done
        assert len(set(ids)) == len(calls)
        return reasoning, content, calls, reason, tokens

    def both(self, script, **body):
        whole = self.whole(script, **body)
        assert self.streamed(script, **body) == whole, script
        return whole

    def each(self, scripts, check):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(check, scripts))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    edges, pieces = {}, {}
    for script in all_scripts():
        for a, b in zip((b"\n", *script), (*script, "<|im_end|>")):
            # A piece that ends one script and goes on in another goes on if it may; what begins with x begins first.
            edges.setdefault(a, {})[b] = 20.0 if b == "<|im_end|>" else 31.0 if b[:1] == b"x" else 30.0
        pieces.update((p, None) for p in script if isinstance(p, bytes))
    config, weights, tokenizer = fx.fscript(edges, list(pieces), max_position_embeddings=2048)
    return fx.write(tmp_path_factory.mktemp("tags") / "tags", config, weights, tokenizer), tokenizer


@pytest.fixture(scope="module")
def hermes(checkpoint):
    with harness.Daemon(checkpoint[0]) as d:
        yield Said(d, checkpoint[1])


@pytest.fixture(scope="module")
def xml(checkpoint, tmp_path_factory):
    """The same checkpoint under an operator's template that teaches the XML form and opens the reasoning if asked."""
    template = tmp_path_factory.mktemp("template") / "xml.jinja"
    template.write_text(
        "{%- if tools %}<|im_start|>system\n<function=NAME>\n<parameter=KEY>\n<|im_end|>\n{% endif -%}"
        "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor -%}"
        "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{%- if enable_thinking %}{{ '<think>\n' }}{% endif %}{% endif -%}")
    with harness.Daemon(checkpoint[0], chat_template=template) as d:
        yield Said(d, checkpoint[1])


def same_calls(got, want):
    return [(name, json.loads(arguments)) for name, arguments in got] == want


def test_hermes_calls_at_every_cut(hermes):
    """B70"""
    def check(script):
        reasoning, content, calls, reason, _ = hermes.both(script, tools=TOOLS)
        assert (reasoning, content.strip(), reason) == ("", "ok", "tool_calls") and same_calls(calls, HERMES_CALLS), script

    hermes.each(cuts(HERMES) + [s for n in (5, 8, 13) if (s := small_pieces(HERMES, n))], check)


def test_xml_calls_at_every_cut(xml):
    def check(script):
        reasoning, content, calls, reason, _ = xml.both(script, tools=TOOLS)
        assert (reasoning, content.strip(), reason) == ("", "ok", "tool_calls") and same_calls(calls, XML_CALLS), script

    xml.each(cuts(XML) + [s for n in (5, 8, 13) if (s := small_pieces(XML, n))], check)


@pytest.mark.parametrize("text", REASONING)
def test_reasoning_at_every_cut(hermes, text):
    """B71"""
    def check(script):
        reasoning, content, calls, reason, tokens = hermes.both(script)
        assert (reasoning, content, calls, reason) == (*REASONING[text], [], "stop"), script
        assert tokens == len(script) + 1

    hermes.each(cuts(text) + [s for n in (1, 2, 3) if (s := small_pieces(text, n))], check)


def test_reasoning_that_is_cut_by_max_tokens(hermes):
    def check(script):
        assert hermes.both(script, max_tokens=len(script)) == ("ab", "", [], "length", len(script)), script

    hermes.each(cuts("<think>ab"), check)


def test_a_prompt_that_opens_the_reasoning(xml):
    """The answer begins inside; what the prompt has said is not expected again, and does no harm."""
    opened = {"chat_template_kwargs": {"enable_thinking": True}}
    assert xml.both(cuts("hi")[0], **opened)[:2] == ("hi", "")
    for script in cuts("<think>ab</think>cd"):
        assert xml.both(script, **opened)[:2] == ("ab", "cd")


def test_only_the_template_or_the_assistant_opens_the_reasoning(checkpoint, tmp_path, daemon):
    template = tmp_path / "base.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    said = Said(daemon(checkpoint[0], chat_template=template), checkpoint[1])
    script = cuts("hi")[0]
    assert said.both(script, messages=[{"role": "user", "content": "<think>\n"}])[:2] == ("", "hi")
    messages = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "<think>\n"}]
    assert said.both(script, messages=messages, continue_final_message=True)[:2] == ("hi", "")


def test_tags_that_are_tokens_of_their_own(hermes):
    _, content, calls, reason, tokens = hermes.both(tuple(TAGGED), tools=TOOLS)
    assert (content, reason, tokens) == ("", "tool_calls", 4) and same_calls(calls, [("f", {"k": 1})])
    assert hermes.both(tuple(THOUGHT))[:2] == ("hm", "well")


def test_finish_reasons_with_tools(hermes):
    """B69"""
    script = tuple(ONE_CALL)
    assert hermes.both(script, tools=TOOLS) == ("", "", [("f", "{}")], "tool_calls", 9)
    r = hermes.daemon.post("/v1/chat/completions", hermes.body(script, tools=TOOLS)).json()
    assert r["choices"][0]["message"]["content"] is None
    for n in range(1, 8):
        _, content, calls, reason, tokens = hermes.both(script, tools=TOOLS, max_tokens=n)
        assert (calls, reason, tokens) == ([], "length", n) and "<" not in content
    assert hermes.both(script, tools=TOOLS, tool_choice="none") == ("", "", [], "stop", 9)
    assert hermes.both(cuts("hi")[0], tools=TOOLS) == ("", "hi", [], "stop", 2)
    without = hermes.whole(script)
    assert without[1:4] == (b"".join(ONE_CALL).decode(), [], "stop"), "no tools: the tags are text"
    for choice in ("required", {"type": "function", "function": {"name": "f"}}):
        asked = {k: v for k, v in hermes.body(script, tools=TOOLS[:1], tool_choice=choice).items() if k != "allowed_token_ids"}
        c = hermes.daemon.post("/v1/chat/completions", asked).json()["choices"][0]
        if c["finish_reason"] == "length":
            assert not c["message"]["content"]
        else:
            assert c["finish_reason"] == "tool_calls" and {t["function"]["name"] for t in c["message"]["tool_calls"]} == {"f"}


def test_one_call_only(hermes):
    _, _, calls, reason, _ = hermes.both(cuts(HERMES)[0], tools=TOOLS, parallel_tool_calls=False)
    assert same_calls(calls, HERMES_CALLS[:1]) and reason == "tool_calls"


def test_reasoning_may_be_left_out_and_is_counted(hermes):
    whole = cuts("<think>ab</think>cd")
    assert hermes.both(whole[5], include_reasoning=False)[:2] == ("", "cd")
    r = hermes.daemon.post("/v1/chat/completions", hermes.body(tuple(THOUGHT))).json()
    assert r["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3} and r["usage"]["completion_tokens"] == 5


def test_the_alias_of_reasoning(checkpoint, daemon):
    said = Said(daemon(checkpoint[0], reasoning_alias=True), checkpoint[1])
    m = said.daemon.post("/v1/chat/completions", said.body(tuple(THOUGHT))).json()["choices"][0]["message"]
    assert m["reasoning"] == m["reasoning_content"] == "hm"
    with said.daemon.stream("/v1/chat/completions", said.body(tuple(THOUGHT))) as s:
        deltas = [c["choices"][0]["delta"] for c in s]
    assert all(d.get("reasoning") == d.get("reasoning_content") for d in deltas) and any("reasoning" in d for d in deltas)


def test_other_apis_have_the_same_turn(hermes):
    tool = [{"type": "function", **t["function"]} for t in TOOLS]
    asked = {k: v for k, v in hermes.body(cuts(HERMES)[7]).items() if k != "messages"}
    r = hermes.daemon.post("/v1/responses", {**asked, "input": "u", "tools": tool}).json()
    assert [o["type"] for o in r["output"]] == ["message", "function_call", "function_call"]
    assert r["output"][0]["content"][0]["text"] == "ok"
    assert same_calls([(o["name"], o["arguments"]) for o in r["output"][1:]], HERMES_CALLS)
    tool = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in TOOLS]
    r = hermes.daemon.post("/v1/messages", {**asked, "max_tokens": 50, "tools": tool,
                                            "messages": [{"role": "user", "content": "u"}]}).json()
    assert [b["type"] for b in r["content"]] == ["text", "tool_use", "tool_use"] and r["stop_reason"] == "tool_use"
    assert [(b["name"], b["input"]) for b in r["content"][1:]] == HERMES_CALLS
