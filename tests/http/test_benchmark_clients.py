"""What load generators that are too large to install send, and how they read the answer, by their published rules."""
import json
import urllib.request

PROMPT = "Once upon a time"


def post(d, path, body, headers=()):
    return urllib.request.urlopen(urllib.request.Request(
        d.url + path, json.dumps(body).encode(), {"Content-Type": "application/json", **dict(headers)}), timeout=60)


def test_vllm_bench(demo):
    """Every chunk with choices is one token time; usage comes in a chunk without; comments are skipped."""
    model = demo.get("/v1/models").json()["data"][0]
    assert model["root"] == model["id"]
    body = {"model": model["id"], "prompt": PROMPT, "repetition_penalty": 1.0, "max_tokens": 12, "logprobs": None, "stream": True,
            "stream_options": {"include_usage": True}, "ignore_eos": True, "temperature": 0.0, "top_p": 1.0}
    tokens, usage, text = 0, None, ""
    with post(demo, "/v1/completions", body, {"Authorization": "Bearer x", "x-request-id": "bench-0"}.items()) as r:
        for line in r:
            line = line.strip()
            if not line or line.startswith(b":"):
                continue
            chunk = line.decode().removeprefix("data: ")
            if chunk == "[DONE]":
                break
            data = json.loads(chunk)
            if choices := data.get("choices"):
                tokens += 1
                text += choices[0].get("text") or ""
            elif u := data.get("usage"):
                usage = u
    assert tokens == 12 == usage["completion_tokens"] and text


def test_inference_perf(demo):
    """Splits at two line feeds and at `data: `; counts texts that are not empty; prompts may hold NUL."""
    body = {"model": demo.get("/v1/models").json()["data"][0]["id"], "prompt": PROMPT + " \0\x01\ufffd", "max_tokens": 8,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    with post(demo, "/v1/completions", body) as r:
        events = r.read().split(b"\n\n")
    assert events.pop() == b""
    texts = []
    for event in events:
        start, _, data = event.partition(b"data: ")
        assert start == b"" and data
        if data != b"[DONE]":
            texts += [c["text"] for c in json.loads(data)["choices"]]
    assert events[-1] == b"data: [DONE]" and len(texts) == 8


def test_genai_perf(demo):
    """A prompt is a list of one, limits come as extra inputs."""
    body = {"model": demo.get("/v1/models").json()["data"][0]["id"], "prompt": [PROMPT], "max_tokens": 6, "min_tokens": 6,
            "ignore_eos": True, "stream": False}
    with post(demo, "/v1/completions", body) as r:
        assert json.load(r)["usage"]["completion_tokens"] == 6
