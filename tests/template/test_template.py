"""The template interpreter against jinja2, which transformers' sandbox configures: the same text, or both fail."""
import copy
import itertools
import json
import random
import subprocess
import warnings

import pytest
from tokenizers import Tokenizer

import chats
import expressions
import harness
import make_semantics
import sandbox

HERE = harness.ROOT / "tests" / "template"
DEMO_TEMPLATE = harness.DEMO / "chat_template.jinja"
TEMPLATES = [*sorted((HERE / "templates").glob("*.jinja")), DEMO_TEMPLATE]
CONTROL = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]


def interpret(lines):
    """The answers of the interpreter to many requests (see render.c)."""
    program = harness.BUILD / "tests" / "template" / "render"
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([program], input=text, capture_output=True, encoding="utf-8", timeout=280, cwd=harness.ROOT,
                          env=harness.environment({"TZ": "UTC"}))
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(answers) == len(lines)
    return answers


def compare(cases, refused=()):
    """Renders (template, context) pairs on both sides; returns how many gave a text. `refused` are parts of the messages
    with which the interpreter may refuse what jinja2 renders: a limit, or something outside of the subset."""
    answers = interpret([{"template": t, "context": c, "now": sandbox.NOW} for t, c in cases])
    different, texts = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (template, context), answer in zip(cases, answers):
            want = sandbox.render(template, copy.deepcopy(context))
            if want is not None and " at 0x" in want:
                continue  # an object's address
            if want == answer.get("text"):
                texts += want is not None
            elif "error" not in answer or not any(part in answer["error"] for part in refused):
                different.append((template, want, answer))
    if different:
        first = "\n".join(str(part)[:600] for part in different[0])
        pytest.fail(f"{len(different)} of {len(cases)} differ, the first:\n{first}", pytrace=False)
    return texts


def test_semantics_file_is_what_jinja2_says():
    table = json.loads((HERE / "semantics.json").read_text())
    assert table["context"] == json.loads(json.dumps(make_semantics.CONTEXT)) and table["now"] == sandbox.NOW
    assert [c["template"] for c in table["cases"]] == [t for _, t in make_semantics.cases()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in table["cases"]:
            assert make_semantics.result(case["template"]) == case["text"], case["template"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.stem)
def test_templates(path):
    r = random.Random(path.stem)
    source = path.read_text()
    assert compare([(source, chats.context(r, tags=True)) for _ in range(200)]) >= 50


@pytest.mark.parametrize("seed", range(4))
def test_expressions(seed):
    r = random.Random(seed)
    cases = [("{{ " + expressions.expression(r) + " }}", expressions.CONTEXT) for _ in range(1000)]
    assert compare(cases, ["expected '}}'", "expected ')'", "64 bits", "64-bit", "expected an expression", "cannot be printed"]) >= 300


@pytest.mark.parametrize("seed", range(4))
def test_statements(seed):
    r = random.Random(seed)
    cases = [(expressions.PRELUDE + expressions.statements(r) * 2, expressions.CONTEXT) for _ in range(400)]
    assert compare(cases, ["template limit"]) >= 150


def whitespace():
    blanks = ["", "  ", "\t", "\n", "  \n", "\n  ", "\r\n", "\u00a0", " \n\n "]
    signs = ["", "-", "+"]
    for (begin, end, inside), left, right, before, after in itertools.product(
            [("{%", "%}", " if true "), ("{{", "}}", " 1 "), ("{#", "#}", " c ")], signs, signs, blanks, blanks):
        close = "{% endif %}" if begin == "{%" else ""
        tag = begin + left + inside + right + end
        yield f"A{before}{tag}{after}B{close}"
        yield f"{before}{tag}{after}{close}"
    for a, b, c, d, blank in itertools.product(signs, signs, signs, signs, ["", "  ", "\n ", " \n"]):
        yield f"x{blank}{{%{a} raw {b}%}}{blank}{{{{ y }}}}{blank}{{%{c} endraw {d}%}}{blank}z"


def test_whitespace():
    assert compare([(template, {}) for template in whitespace()]) > 1500


def test_case_mapping():
    """Every character of Unicode that Python's str methods change."""
    letters = [c for c in map(chr, range(0x110000)) if not 0xD800 <= ord(c) < 0xE000
               and not c == c.upper() == c.lower() == c.title()]
    parts = ["".join(f"{c} a{c}a " for c in letters[i:i + 200]) for i in range(0, len(letters), 200)]
    method = "{{ t.upper() }}|{{ t.lower() }}|{{ t.title() }}|{{ t.capitalize() }}|{{ t|title }}|{{ t.swapcase() }}"
    assert compare([(method, {"t": part}) for part in parts]) == len(parts)


def test_repr_of_every_character():
    chars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    parts = ["".join(chars[i:i + 20000]) for i in range(0, len(chars), 20000)]
    assert compare([("{{ [t] }}{{ t.split()|length }}{{ t|tojson(ensure_ascii=true)|length }}", {"t": p}) for p in parts]) == len(parts)


def requests(r, count, template, tags):
    for _ in range(count):
        yield {"template": template, "messages": chats.chat(r, parsed=False, tags=tags),
               "tools": r.choice([None, chats.TOOLS]), "add_generation_prompt": True, "now": sandbox.NOW,
               "checkpoint": str(harness.DEMO), "vocab_size": 1024}


@pytest.mark.parametrize("path", [DEMO_TEMPLATE, HERE / "templates" / "coder.jinja"], ids=lambda p: p.stem)
def test_ids_are_those_of_the_whole_text(path):
    """Without a control token in the messages, the ids are what Hugging Face makes of the rendered text."""
    tokenizer = Tokenizer.from_file(str(harness.DEMO / "tokenizer.json"))
    lines = list(requests(random.Random(5), 200, path.read_text(), tags=False))
    for line, answer in zip(lines, interpret(lines)):
        if "text" in answer:
            assert answer["ids"] == tokenizer.encode(answer["text"], add_special_tokens=False).ids, line
    assert sum("ids" in a for a in interpret(lines)) >= 100


def test_control_tokens_come_from_the_template_only():
    """Messages full of tags give exactly the control ids that empty ones give."""
    tokenizer = Tokenizer.from_file(str(harness.DEMO / "tokenizer.json"))
    control = {tokenizer.token_to_id(t) for t in CONTROL} - {None}
    assert len(control) >= 2
    lines = []
    for line in requests(random.Random(6), 200, DEMO_TEMPLATE.read_text(), tags=True):
        plain = copy.deepcopy(line)
        for message in plain["messages"]:
            if message.get("content"):
                message["content"] = "x"
        lines += [line, plain]
    answers = interpret(lines)
    for line, tagged, plain in zip(lines[::2], answers[::2], answers[1::2]):
        assert ("ids" in tagged) == ("ids" in plain)
        if "ids" in tagged:
            assert [i for i in tagged["ids"] if i in control] == [i for i in plain["ids"] if i in control], line
            assert tokenizer.decode(tagged["ids"], skip_special_tokens=False) == tagged["text"]
