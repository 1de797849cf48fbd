"""Spans of requests at a stand-in for an OTLP collector: their form, and that a bad one stands in nobody's way."""
import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import harness

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PROMPT = {"prompt": "Once upon a time", "max_tokens": 6, "temperature": 0, "ignore_eos": True}


class Collector:
    """Keeps what is posted to it, and answers with `status`."""

    def __init__(self, status=200):
        posts = self.posts = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posts.append((self.path, self.headers["Content-Type"], json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        return [span for _, _, body in self.posts for r in body["resourceSpans"] for s in r["scopeSpans"]
                for span in s["spans"]]

    def wait(self, n):
        harness.wait_for(lambda: len(self.spans()) >= n)
        return self.spans()


@pytest.fixture
def collector():
    c = Collector()
    yield c
    c.server.shutdown()
    c.server.server_close()


def attributes(span):
    def plain(v):
        (kind, x), = v.items()
        return {"stringValue": str, "intValue": int}[kind](x) if kind != "arrayValue" else [plain(y) for y in x["values"]]

    return {a["key"]: plain(a["value"]) for a in span["attributes"]}


def count(d, name):
    return float(re.search(rf"^trinityd_spans_{name}_total(?:{{.*}})? (\S+)$", d.get("/metrics").text, re.M)[1])


def test_a_call_is_a_span_with_parts(daemon, collector):
    with daemon(otlp_endpoint=collector.url) as d:
        before = time.time_ns()
        reply = d.post("/v1/completions", PROMPT,
                       headers={"X-Request-Id": "mine-1", "traceparent": f"00-{TRACE}-{PARENT}-01"})
        spans = collector.wait(4)
        after = time.time_ns()
        harness.wait_for(lambda: count(d, "sent") == 4 and count(d, "dropped") == 0)
    path, media, body = collector.posts[0]
    assert (path, media) == ("/v1/traces", "application/json")
    resource = attributes(body["resourceSpans"][0]["resource"])
    assert resource["service.name"] == "trinityd" and resource["service.version"]
    whole, *parts = spans
    assert (whole["traceId"], whole["parentSpanId"], whole["kind"]) == (TRACE, PARENT, 2)
    assert whole["name"] == "text_completion demo" and "code" not in whole["status"]
    told, usage = attributes(whole), reply.json()["usage"]
    assert told["gen_ai.operation.name"] == "text_completion" and told["gen_ai.request.model"] == "demo"
    assert told["gen_ai.usage.input_tokens"] == usage["prompt_tokens"]
    assert told["gen_ai.usage.output_tokens"] == usage["completion_tokens"] == 6
    assert told["gen_ai.response.finish_reasons"] == ["length"]
    assert (told["http.request.method"], told["http.route"]) == ("POST", "/v1/completions")
    assert told["http.response.status_code"] == 200 and told["http.request.header.x-request-id"] == ["mine-1"]
    assert [p["name"] for p in parts] == ["queue", "prefill", "decode"]
    assert all(p["traceId"] == TRACE and p["parentSpanId"] == whole["spanId"] and p["kind"] == 1 for p in parts)
    ids = {s["spanId"] for s in spans} | {PARENT}
    assert len(ids) == 5 and all(re.fullmatch("[0-9a-f]{16}", i) for i in ids)
    times = [(int(s["startTimeUnixNano"]), int(s["endTimeUnixNano"])) for s in spans]
    begin, end = times[0]
    assert before <= begin < end <= after
    edges = [t for part in times[1:] for t in part]
    assert begin <= edges[0] and edges == sorted(edges) and edges[-1] <= end
    assert edges[3] > edges[2] and edges[5] > edges[4]


def test_other_requests(daemon, collector):
    """Probes make no spans, nor does who is not sampled; a refusal and a call without a trace do."""
    with daemon(otlp_endpoint=collector.url) as d:
        d.get("/health")
        d.post("/v1/completions", PROMPT, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
        d.post("/v1/completions", {"prompt": 1.5})
        d.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})
        spans = collector.wait(5)
    refused, chat = spans[0], spans[1]
    assert refused["traceId"] != chat["traceId"] and re.fullmatch("[0-9a-f]{32}", refused["traceId"])
    assert "parentSpanId" not in refused and "parentSpanId" not in chat and len(spans) == 5
    assert attributes(refused)["error.type"] == "400" and attributes(refused)["http.response.status_code"] == 400
    assert attributes(chat)["gen_ai.operation.name"] == "chat"


def listen_only():
    """A collector that takes connections and never answers."""
    s = socket.create_server(("127.0.0.1", 0))
    return s, f"http://127.0.0.1:{s.getsockname()[1]}/v1/traces"


def test_a_silent_collector_delays_nobody(daemon):
    s, url = listen_only()
    with s, daemon(otlp_endpoint=url) as d:
        for i in range(700):  # more than wait
            assert d.get("/v1/models").status == 200
        assert count(d, "sent") == 0 and count(d, "dropped") > 0
        d.process.terminate()
        assert d.wait() == 0


def test_no_collector_and_one_that_refuses(daemon):
    s, url = listen_only()
    s.close()
    refusing = Collector(status=503)
    for where in (url, refusing.url):
        with daemon(otlp_endpoint=where) as d:
            assert d.post("/v1/completions", PROMPT).status == 200
            harness.wait_for(lambda: count(d, "dropped") == 4)
            d.wait_log("spans are dropped: " + re.escape(where))
    refusing.server.shutdown()
    refusing.server.server_close()


@pytest.mark.parametrize("url", ["https://localhost/v1/traces", "http://", "localhost:4318", "http://h:x/", "http://h:99999/"])
def test_what_is_no_endpoint(url):
    r = harness.run("serve", "--port=0", f"--otlp-endpoint={url}")
    assert r.returncode != 0 and "otlp_endpoint" in r.stderr
