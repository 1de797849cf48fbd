"""Completions read whole and as streams, for the tests that compare the two."""


def read_stream(d, **body):
    """A streamed completion as one whole: {index: {text, finish_reason, stop_reason, ...}}, chunks, usage."""
    chunks = []
    with d.stream("/v1/completions", {"temperature": 0, **body}) as s:
        assert s.status == 200 and s.headers["content-type"].startswith("text/event-stream")
        chunks = list(s)
        assert s.done
    choices = {}
    for chunk in chunks:
        assert chunk["object"] == "text_completion"
        for c in chunk["choices"]:
            whole = choices.setdefault(c["index"], {"text": "", "finish_reason": None, "token_ids": [], "chunks": 0})
            assert whole["finish_reason"] is None, "a chunk after the last"
            whole["text"] += c["text"]
            whole["finish_reason"], whole["stop_reason"] = c["finish_reason"], c["stop_reason"]
            whole["chunks"] += 1
            whole["token_ids"] += c.get("token_ids", [])
            if c["logprobs"]:
                parts = whole.setdefault("logprobs", {k: [] for k in c["logprobs"]})
                for k, v in c["logprobs"].items():
                    parts[k] += v
    assert len({(c["id"], c["created"], c["model"], c["system_fingerprint"]) for c in chunks}) == 1
    return choices, chunks


def both(d, **body):
    """Asks whole and streamed, checks that they are equal, returns the whole answer."""
    whole = d.complete(**body)
    choices, chunks = read_stream(d, stream_options={"include_usage": True}, **body)
    assert [c["index"] for c in whole["choices"]] == sorted(choices)
    for c in whole["choices"]:
        streamed = choices[c["index"]]
        for key in ("text", "finish_reason", "stop_reason"):
            assert streamed[key] == c[key]
        assert streamed.get("logprobs") == c["logprobs"]
        assert streamed["token_ids"] == c.get("token_ids", [])
    assert chunks[-1]["choices"] == [] and {**chunks[-1]["usage"], "prompt_tokens_details": 0} == {
        **whole["usage"], "prompt_tokens_details": 0}
    assert all(c["usage"] is None for c in chunks[:-1])
    return whole
