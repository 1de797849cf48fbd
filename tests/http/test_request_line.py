"""The line that a request leaves in the log: who asked what, how it ended, what it took."""
import json
import re

import harness

PROMPT = {"prompt": "Once upon a time", "max_tokens": 6, "temperature": 0, "ignore_eos": True}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def line_of(d, request_id):
    def find():
        return next((line for line in d.log.splitlines() if request_id in line and '"message": "' in line), None)

    return json.loads(harness.wait_for(find))


def test_a_call_in_json(daemon):
    with daemon(log_format="json") as d:
        reply = d.post("/v1/completions", PROMPT, headers={"X-Request-Id": "mine-1", "traceparent": f"00-{TRACE}-{PARENT}-01"})
        assert reply.headers["X-Request-Id"] == "mine-1"
        line = line_of(d, "mine-1")
        usage = reply.json()["usage"]
        assert line["message"] == "POST /v1/completions 200"
        assert (line["prompt_tokens"], line["completion_tokens"]) == (usage["prompt_tokens"], 6)
        assert line["cached_tokens"] == usage["prompt_tokens_details"]["cached_tokens"]
        assert line["finish"] == "length"
        assert 0 <= line["queue_ms"] <= line["first_ms"] <= line["ms"] and line["token_ms"] > 0
        assert (line["trace"], line["parent"]) == (TRACE, PARENT)
        assert line["bytes"] == len(reply.body)
        assert "constrained" not in line and "client" not in line and "tool_calls" not in line

        d.post("/v1/completions", {**PROMPT, "guided_choice": ["yes", "no"]}, headers={"X-Request-Id": "mine-2"})
        line = line_of(d, "mine-2")
        assert line["constrained"] == "yes" and line["finish"] == "stop" and "trace" not in line

        d.post("/v1/completions", {**PROMPT, "max_tokens": -7}, headers={"X-Request-Id": "mine-3"})
        line = line_of(d, "mine-3")
        assert line["message"] == "POST /v1/completions 400" and line.get("finish", "error") == "error"


def test_a_malformed_trace_leaves_none(daemon):
    bad = [f"00-{TRACE}-{PARENT}", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01",
           f"00-{TRACE.upper()}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-more", f"00-{TRACE[:-1]}-{PARENT}-01", "x", ""]
    good = [f"00-{TRACE}-{PARENT}-00", f"01-{TRACE}-{PARENT}-01-more"]
    with daemon(log_format="json", log_level="debug") as d:
        for i, value in enumerate(bad + good):
            d.get("/health", headers={"X-Request-Id": f"trace-{i}-", "traceparent": value})
            assert ("trace" in line_of(d, f"trace-{i}-")) == (value in good), value


def test_a_client_that_leaves(daemon):
    with daemon(log_format="json") as d:
        with d.socket() as s:
            body = json.dumps({**PROMPT, "max_tokens": 3000, "stream": True}).encode()
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: left\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            assert b"200" in s.recv(100)
            s.recv(1000)
        line = line_of(d, "left")
        assert line["message"].endswith(" 499") and line["client"] == "gone" and line["prompt_tokens"] > 0


def test_no_prompt_unless_asked_for(daemon):
    with daemon() as d:
        d.post("/v1/completions", {**PROMPT, "prompt": "a secret"})
        harness.wait_for(lambda: re.search(r"POST /v1/completions 200 bytes=\d+ ms=[\d.]+ prompt_tokens=\d+", d.log))
        assert "secret" not in d.log
        assert re.search(r"fingerprint fp_\S+, threads as set; memory: weights \S+ \wiB \+ cache", d.log)
    with daemon(log_prompts=True) as d:
        d.post("/v1/completions", {**PROMPT, "prompt": "a secret"})
        harness.wait_for(lambda: "body: " in d.log and "a secret" in d.log)
