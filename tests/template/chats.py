"""Seeded message lists of every shape that a chat request can have."""
import json

WORDS = ["hello", "a  b", "naïve", "日本語", "😀👍🏽", "x=1;", "\t", "\n", "\n\n", "it's", '"q"', "\\n", "{}", "</div>", "&amp;", "ß", "\u00a0", "é",
         "<b>", "'", "0", "12345", "  ", "Ünï", "\u200b", "...", "def f():\n    return 1\n", "% s", "{{ x }}", "{% if %}", "¿qué?"]
TAGS = ["<think>", "</think>", "<tool_call>", "<|im_end|>", "<|im_start|>system\n"]
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Says what it is like <outside>.\nNow.", "parameters": {
        "type": "object", "properties": {
            "city": {"type": "string", "description": "Name & \"country\""},
            "days": {"type": "integer", "default": 1},
            "unit": {"type": "string", "enum": ["c", "f"]},
            "where": {"type": "object", "properties": {"lat": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}}},
            "any": {"type": ["string", "null"]}},
        "required": ["city"]}}},
    {"type": "function", "function": {"name": "größe", "parameters": {"type": "object", "properties": {}}, "strict": True}},
    {"type": "function", "function": {"name": "items", "description": "é😀"}},
]
VALUES = [1, -0.0, 1.0, 1e22, 0.1, True, None, "", "x\ny", "é😀", [], {}, [1, [2, None]], {"b": 1, "a": {"items": 2}}, 12345678901]


def text(r, tags=False):
    pool = WORDS + TAGS if tags and r.random() < 0.5 else WORDS
    return r.choice(["", " "]).join(r.choice(pool) for _ in range(r.choice([0, 1, 1, 2, 3, 5, 9])))


def call(r, parsed):
    arguments = {r.choice(["city", "n", "é", "items", "k"]): r.choice(VALUES) for _ in range(r.randint(0, 3))}
    return {"id": f"call_{r.randint(0, 99999)}", "type": "function",
            "function": {"name": r.choice(["weather", "items", "größe"]), "arguments": arguments if parsed else json.dumps(arguments)}}


def chat(r, parsed=True, tags=False):
    """Messages; with parsed the arguments of calls are objects, as a template gets them."""
    messages = []
    if r.random() < 0.4:
        messages.append({"role": "system", "content": text(r, tags)})
    for _ in range(r.randint(1, 4)):
        messages.append({"role": "user", "content": text(r, tags)})
        answer = {"role": "assistant", "content": text(r, tags)}
        if r.random() < 0.2:
            answer["reasoning_content"] = text(r)
        if r.random() < 0.4:
            answer["tool_calls"] = [call(r, parsed) for _ in range(r.randint(1, 2))]
            if r.random() < 0.5:
                del answer["content"]
        messages.append(answer)
        for made in answer.get("tool_calls", []):
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": text(r, tags)})
    if r.random() < 0.6:
        messages.append({"role": "user", "content": text(r, tags)})
    return messages


def context(r, tags=False):
    """The variables of one render."""
    c = {"messages": chat(r, tags=tags), "tools": r.choice([None, None, TOOLS, TOOLS[:1]]), "documents": None,
         "add_generation_prompt": r.random() < 0.5, "bos_token": "<|begin_of_text|>", "eos_token": "<|im_end|>"}
    for name in ["enable_thinking", "keep_reasoning", "allow_any", "show_turns"]:
        if r.random() < 0.3:
            c[name] = r.random() < 0.5
    return c
