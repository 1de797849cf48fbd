"""langchain-openai, litellm and llm: libraries that speak the protocol in their own accent."""
import json

import pytest

TEXT = "Once upon a time"


def whole(demo, **body):
    return demo.complete(prompt=TEXT, max_tokens=8, **body)["choices"][0]["text"]


def test_langchain(script_of, demo, model):
    """Prompts as a list, explicit nulls, order by prompt; a stream; many prompts in one call."""
    out = script_of(f"""
import json
from langchain_openai import OpenAI
llm = OpenAI(base_url={demo.url + "/v1"!r}, api_key="none", model={model!r}, temperature=0, max_tokens=8, max_retries=0)
many = llm.generate([{TEXT!r}, "The secret number", {TEXT!r}])
print(json.dumps({{"one": llm.invoke({TEXT!r}), "stream": "".join(llm.stream({TEXT!r})),
                  "many": [g[0].text for g in many.generations], "usage": many.llm_output["token_usage"]}}))
""")
    r = json.loads(out.splitlines()[-1])
    want = whole(demo)
    assert r["one"] == r["stream"] == r["many"][0] == r["many"][2] == want and r["many"][1] != want
    assert r["usage"]["completion_tokens"] == 24


def test_langchain_chat(script_of, demo, model):
    out = script_of(f"""
from langchain_openai import ChatOpenAI
llm = ChatOpenAI(base_url={demo.url + "/v1"!r}, api_key="none", model={model!r}, temperature=0, max_tokens=8, max_retries=0)
a = llm.invoke("Tell me a story.")
b = "".join(c.content for c in llm.stream("Tell me a story."))
assert a.content and a.content == b, (a, b)
assert a.usage_metadata["output_tokens"] == 8 and a.response_metadata["finish_reason"] == "length"
print("fine")
""")
    assert out.splitlines()[-1] == "fine"


@pytest.mark.parametrize("provider", ["text-completion-openai", "hosted_vllm"])
def test_litellm(script_of, demo, model, provider):
    """Completions, chat where the provider has it, and the exception it makes of a prompt that is too long."""
    out = script_of(f"""
import litellm
base, name = {demo.url + "/v1"!r}, {provider + "/" + model!r}
if {provider!r} == "hosted_vllm":
    r = litellm.completion(model=name, api_base=base, messages=[{{"role": "user", "content": "Tell me a story."}}],
                           max_tokens=8, temperature=0)
    assert r.choices[0].message.content and r.usage.completion_tokens == 8
    parts = litellm.completion(model=name, api_base=base, messages=[{{"role": "user", "content": "Tell me a story."}}],
                               max_tokens=8, temperature=0, stream=True)
    assert "".join(p.choices[0].delta.content or "" for p in parts) == r.choices[0].message.content
    try:
        litellm.completion(model=name, api_base=base, messages=[{{"role": "user", "content": "a b " * 5000}}], num_retries=0)
        raise SystemExit("not refused")
    except litellm.ContextWindowExceededError:
        pass
else:
    r = litellm.text_completion(model=name, api_base=base, api_key="none", prompt={TEXT!r}, max_tokens=8, temperature=0)
    assert r.choices[0].text == {whole(demo)!r}, r
    parts = litellm.text_completion(model=name, api_base=base, api_key="none", prompt={TEXT!r}, max_tokens=8, temperature=0,
                                    stream=True)
    assert "".join(p.choices[0].text or "" for p in parts) == r.choices[0].text
print("fine")
""")
    assert out.splitlines()[-1] == "fine"


def test_llm(client, demo, model, tmp_path):
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps([
        {"model_id": "trinity", "model_name": model, "api_base": demo.url + "/v1", "completion": True},
        {"model_id": "trinity-chat", "model_name": model, "api_base": demo.url + "/v1"}]))
    out = client("llm", "-m", "trinity", "-o", "max_tokens", "8", "-o", "temperature", "0", TEXT)
    assert out.strip() == whole(demo).strip()
    assert client("llm", "-m", "trinity", "--no-stream", "-o", "max_tokens", "8", "-o", "temperature", "0", TEXT) == out
    assert client("llm", "-m", "trinity-chat", "-o", "max_tokens", "8", "-o", "temperature", "0", "Tell me a story.").strip()
