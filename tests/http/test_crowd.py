"""One client among many: slow, silent and idle ones take nothing from the others."""
import json
import select
import socket
import time

import pytest

import harness

PROBE = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}


def head(method, path, *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def begin_upload(s, length, sent):
    s.sendall(head("POST", "/v1/completions", "Content-Type: application/json", f"Content-Length: {length}"))
    s.sendall(b" " * sent)


def total(d, name):
    return sum(v for k, v in harness.metrics(d).items() if k.startswith(f"trinityd_{name}{{"))


def connections(d):
    return total(d, "connections")


def test_an_upload_that_falls_silent_ends(daemon):
    """What was sent before is no credit."""
    d = daemon(idle_timeout="1s")
    with d.socket() as s, s.makefile("rb") as f:
        begin_upload(s, 2 << 20, 3 << 19)
        status, headers, body = harness.read_reply(f)
        assert status == 408 and json.loads(body)["error"]["code"] == "request_timeout"
        assert headers["x-request-id"] and headers["connection"] == "close"
        assert f.read() == b""


def test_uploads_that_stand_still_give_way(daemon):
    """Eight of the largest fill the memory for bodies: small ones pass them, large ones take their place."""
    d = daemon(idle_timeout="1h")
    held = [d.socket() for _ in range(8)]
    for s in held:
        begin_upload(s, 32 << 20, (32 << 20) - 1)
    harness.wait_for(lambda: total(d, "request_body_bytes") >= 8 * ((32 << 20) - 1))
    assert d.post("/v1/completions", PROBE).status == 200
    more = d.post("/v1/completions", b" " * (1 << 20))  # they have only just stopped
    assert more.status == 429 and more.error["code"] == "too_many_bodies"
    body = json.dumps({**PROBE, "user": "x" * (20 << 20)}).encode()
    harness.wait_for(lambda: d.post("/v1/completions", body).status == 200)
    gone = []
    for s in held:
        s.setblocking(False)
        try:
            gone.append(s.recv(4096))
        except BlockingIOError:
            pass  # it still waits
        s.close()
    assert len(gone) == 1 and gone[0].startswith(b"HTTP/1.1 429 ") and b"too_many_bodies" in gone[0]


def test_a_steady_reader_is_never_cut(daemon):
    """Its kernel asks for more in bursts that lie further apart than a stream may be silent."""
    d = daemon(stream_stall="1s", kv_cache="64MiB")
    body = json.dumps({"prompt": "a", "max_tokens": 1000, "ignore_eos": True, "stream": True, "logprobs": 20}).encode()
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.settimeout(harness.PATIENCE)
        s.connect((d.host, d.port))
        s.sendall(head("POST", "/v1/completions", "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
        left = 240_000
        while left > 0:
            part = s.recv(min(left, 3000))
            assert part, f"{left} bytes before the end"
            left -= len(part)
            time.sleep(len(part) / 30_000)
        assert total(d, "stalled_streams_total") == 0


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_an_answer_nobody_reads_ends(daemon, tmp_path, unix):
    path = str(tmp_path / "socket")
    d = daemon(idle_timeout="1s", unix_socket=path)
    body = json.dumps({"content": "ab " * 500_000, "with_pieces": True}).encode()
    with (socket.socket(socket.AF_UNIX) if unix else d.socket()) as s:
        if unix:
            s.connect(path)
        s.sendall(head("POST", "/tokenize", "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
        s.recv(1)
        harness.wait_for(lambda: connections(d) == 1)


def test_a_long_answer_read_with_pauses_is_whole(demo):
    """It is handed over in pieces."""
    n = 200_000
    body = json.dumps({"content": "ab " * n, "with_pieces": True}).encode()
    with demo.socket() as s, s.makefile("rb") as f:
        s.sendall(head("POST", "/tokenize", "Content-Type: application/json", f"Content-Length: {len(body)}") + body
                  + head("GET", "/health"))
        status, headers = harness.read_head(f)
        left = int(headers["content-length"])
        parts = []
        while left:
            parts.append(f.read(min(left, 100_001)))
            left -= len(parts[-1])
        pieces = json.loads(b"".join(parts))["tokens"]
        assert "".join(p["piece"] for p in pieces) == "ab " * n
        assert harness.read_reply(f)[0] == 200


def test_idle_connections_give_way(daemon):
    """At the limit the one that has been idle for the longest time is closed."""
    d = daemon(max_connections=8)
    held = [d.socket() for _ in range(8)]
    harness.wait_for(lambda: connections(d) >= 8)
    assert d.get("/health").status == 200
    assert held[0].recv(1) == b""
    held[7].sendall(head("GET", "/health"))
    with held[7].makefile("rb") as f:
        assert harness.read_reply(f)[0] == 200
    for s in held:
        s.close()


def test_probes_are_answered_when_no_connection_is_idle(daemon):
    d = daemon(max_connections=3)
    held = [d.socket() for _ in range(3)]
    for s in held:
        s.sendall(head("POST", "/tokenize", "Content-Type: application/json", "Content-Length: 9", "Expect: 100-continue"))
        assert s.recv(100).startswith(b"HTTP/1.1 100 ")
    assert d.get("/livez").status == 200
    refused = d.get("/v1/models")
    assert refused.status == 503 and refused.error["code"] == "too_many_connections"
    assert int(refused.headers["Retry-After"]) > 0
    held.pop().close()
    harness.wait_for(lambda: d.get("/v1/models").status == 200)
    for s in held:
        s.close()


def test_few_open_files_mean_fewer_connections(daemon, tmp_path):
    program = tmp_path / "trinityd"
    program.write_text(f'#!/bin/sh\nulimit -n 64\nexec {harness.TRINITYD} "$@"\n')
    program.chmod(0o755)
    d = daemon(binary=program)
    assert "max_connections is 32, not 4096" in d.log, d.log
    held = [d.socket() for _ in range(100)]
    assert d.get("/health").status == 200
    for s in held:
        s.close()


def test_answers_that_repeat_a_prompt_have_a_bound(demo):
    """A small request must not make an answer of hundreds of megabytes."""
    prompt = [100 + i % 800 for i in range(2000)]
    for body in ({"prompt_logprobs": 20}, {"echo": True, "logprobs": 20}):
        r = demo.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, "n": 128, **body})
        assert r.status == 400 and r.error["param"] == next(k for k in ("prompt_logprobs", "logprobs") if k in body)
    r = demo.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, "n": 2, "prompt_logprobs": 1})
    assert r.status == 200 and all(len(c["prompt_logprobs"]) == 2000 for c in r.json()["choices"])


@pytest.fixture
def measurable():
    if "-fsanitize" in (harness.BUILD / "flags").read_text():
        pytest.skip("the memory of the sanitizer would be measured")


def rss(d):
    """MiB"""
    with open(f"/proc/{d.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024


def test_memory_comes_back_after_large_requests(daemon, measurable):
    """A document in memory is many times its text."""
    d = daemon(kv_cache="64MiB", max_sequences=1)
    body = b'{"prompt":"a","max_tokens":1,"metadata":[' + b'{"a":[1,2]},' * 200_000 + b"0]}"
    small = b'{"prompt":"a","max_tokens":1}'
    assert d.post("/v1/completions", small).status == 200
    before = rss(d)
    for _ in range(4):
        assert d.post("/v1/completions", body).status in (200, 400)
    harness.wait_for(lambda: rss(d) < 1.1 * before + 8, message=lambda: f"{before} MiB became {rss(d)}")


def test_waiting_requests_keep_no_tools_that_were_dropped(daemon, measurable):
    """With tool_choice none they stand in no prompt: nothing else would bound them."""
    d = daemon(kv_cache="64MiB", max_sequences=1)
    blocker = json.dumps({"prompt": "a", "max_tokens": 4000, "ignore_eos": True}).encode()
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"x": [{}] * 200_000}}}]
    chat = json.dumps({"messages": [{"role": "user", "content": "a"}], "max_tokens": 50, "tool_choice": "none",
                       "tools": tools}).encode()
    held = []
    for path, body in [("/v1/completions", blocker)] * 8 + [("/v1/chat/completions", chat)] * 4:
        held.append(d.socket())
        held[-1].sendall(head("POST", path, "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
    harness.wait_for(lambda: total(d, "requests_waiting") >= 11)
    harness.wait_for(lambda: rss(d) < 150, message=lambda: f"{rss(d)} MiB")
    for s in held:
        s.close()


ENDLESS = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "n": 16}


def send(d, path, body):
    """A socket on which it was asked, and nothing is read."""
    data = json.dumps(body).encode()
    s = d.socket()
    s.sendall(head("POST", path, "Content-Type: application/json", f"Content-Length: {len(data)}") + data)
    return s


WAITING = {
    "prompts": ("/v1/completions", {"prompt": [[300 + i % 700 for i in range(4000)]] * 32, "max_tokens": 1}),
    "texts": ("/v1/completions", {"prompt": ["one two " * 150] * 100, "max_tokens": 1, "echo": True, "logprobs": 1}),
    "stops": ("/v1/completions", {"prompt": "b", "max_tokens": 1, "stop": [f"{i} " + "s" * 4000 for i in range(20)]}),
    "biases": ("/v1/completions", {"prompt": ["b"] * 128, "n": 1, "max_tokens": 1,
                                   "logit_bias": {str(i): 1 for i in range(4, 1000)}}),
    "tools": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"properties": {
            f"p{i}": {"type": "string"} for i in range(100)}}}}]}),
    "grammars": ("/v1/completions", {"prompt": "b", "max_tokens": 1, "guided_regex": "[a-z]{3}"}),
}


@pytest.mark.parametrize("kind", WAITING)
def test_what_waiting_requests_keep_is_bounded(daemon, kind):
    """Whatever field it came in: beyond request_memory a request is refused, and what is kept is given back."""
    path, body = WAITING[kind]
    limit = 24 << 20 if kind == "grammars" else 1 << 20
    d = daemon(request_memory=limit, max_sequences=1, kv_cache="64MiB", max_queue=4096)
    held = [send(d, "/v1/completions", ENDLESS)]
    harness.wait_for(lambda: total(d, "requests_running") >= 1)
    for i in range(100):
        if kind == "grammars":  # equal ones are shared
            body = {**body, "guided_regex": f"[a-z]{{{i + 3}}}"}
        waiting = total(d, "requests_waiting")
        held.append(send(d, path, body))
        harness.wait_for(lambda: select.select(held, [], [], 0)[0] or total(d, "requests_waiting") > waiting)
        if not select.select(held, [], [], 0)[0]:
            assert total(d, "request_kept_bytes") <= limit
            continue
        answer = held[-1].recv(4096)
        assert answer.startswith(b"HTTP/1.1 429 ") and b'"queue_full"' in answer and b"request_memory" in answer
        break
    else:
        pytest.fail("none was refused")
    assert i > 0
    assert d.post("/tokenize", {"prompt": "hi"}).status == 200
    for s in held:
        s.close()
    harness.wait_for(lambda: total(d, "request_kept_bytes") == 0)
    assert d.post(path, {**body, "truncate_prompt_tokens": 10}).status == 200, "one alone has room"


def test_choices_of_waiting_requests_have_no_buffers_yet(daemon, measurable):
    """They are made when the request is admitted."""
    d = daemon(kv_cache="64MiB", max_sequences=1)
    held = [send(d, "/v1/completions", ENDLESS)]
    harness.wait_for(lambda: total(d, "requests_running") >= 1)
    before = rss(d)
    crowd = {"prompt": "b", "n": 128, "max_tokens": 1, "stop": [f"{i}" for i in range(64)]}
    for _ in range(200):
        held.append(send(d, "/v1/completions", crowd))
    harness.wait_for(lambda: total(d, "requests_waiting") >= 200)
    assert rss(d) - before < 22, "MiB; 128 times 400 bytes each are 10"
    for s in held:
        s.close()


def test_a_large_answer_is_the_sum_of_its_stream(demo):
    """A worker writes it."""
    body = {"prompt": "Once upon a time", "n": 8, "max_tokens": 300, "ignore_eos": True, "logprobs": 5, "seed": 3,
            "return_token_ids": True}
    r = demo.post("/v1/completions", body)
    assert r.status == 200 and len(r.body) > 1 << 18
    choices = {c["index"]: {"text": "", "ids": [], "logprobs": []} for c in r.json()["choices"]}
    for event in demo.stream("/v1/completions", body):
        for c in event["choices"]:
            to = choices[c["index"]]
            to["text"] += c["text"]
            to["ids"] += c["token_ids"]
            to["logprobs"] += (c["logprobs"] or {"token_logprobs": []})["token_logprobs"]
    for c in r.json()["choices"]:
        assert choices[c["index"]] == {"text": c["text"], "ids": c["token_ids"],
                                       "logprobs": c["logprobs"]["token_logprobs"]}
