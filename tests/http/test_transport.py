"""HTTP as bytes: framing, keep-alive, limits, methods, headers."""
import json
import os
import socket
import subprocess
import time

import pytest

import harness

PROBE = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}


def head(method, path, *lines, host=True):
    host = ["Host: x"] if host else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", *host, *lines, "", ""]).encode()


def post(body, *lines, path="/v1/completions"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head("POST", path, "Content-Type: application/json", f"Content-Length: {len(data)}", *lines) + data


def chunked(data, size, extension=b"", trailer=b""):
    out = b""
    for i in range(0, len(data), size):
        piece = data[i:i + size]
        out += b"%x%s\r\n%s\r\n" % (len(piece), extension, piece)
    return out + b"0\r\n" + trailer + b"\r\n"


CHUNKED = ("Content-Type: application/json", "Transfer-Encoding: chunked")


def error_of(body):
    e = json.loads(body)["error"]
    assert set(e) == {"message", "type", "param", "code"}, e
    return e


def text_of(body):
    return json.loads(body)["choices"][0]["text"]


def test_chunked_bodies_equal_content_length(demo):
    want = demo.complete(**PROBE)["choices"][0]["text"]
    data = json.dumps(PROBE).encode()
    for framed in (chunked(data, len(data)), chunked(data, 1), chunked(data, 7, b";ext=1"),
                   chunked(data, 50, b";a=b", b"X-Trailer: yes\r\n")):
        with demo.socket() as s, s.makefile("rb") as f:
            s.sendall(head("POST", "/v1/completions", *CHUNKED) + framed)
            status, _, body = harness.read_reply(f)
            assert status == 200, body
            assert text_of(body) == want


def test_large_chunked_body(demo):
    """2 MiB of white space around a small request: read, not refused."""
    data = json.dumps(PROBE).encode() + b" " * (2 << 20)
    with demo.socket() as s, s.makefile("rb") as f:
        s.sendall(head("POST", "/v1/completions", *CHUNKED) + chunked(data, 100_000))
        assert harness.read_reply(f)[0] == 200


def test_cut_in_the_middle_of_a_chunk_leaves_nothing(demo):
    with demo.socket() as s:
        s.sendall(head("POST", "/v1/completions", *CHUNKED) + b"ff\r\n{\"prompt\"")
    harness.wait_for(lambda: harness.metrics(demo)["trinityd_connections{%s}" % label(demo)] == 1)
    assert demo.alive()


def label(d):
    return 'model_name="%s"' % d.get("/v1/models").json()["data"][0]["id"]


@pytest.mark.parametrize("lines", [
    ("Content-Length: 2", "Transfer-Encoding: chunked"),
    ("Content-Length: 2", "Content-Length: 3"),
    ("Content-Length: 2", "Content-Length: 2"),
    ("Transfer-Encoding: gzip, chunked",),
    ("Transfer-Encoding: identity",),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    ("Host: y", "Content-Length: 2"),
    ("Foo : bar", "Content-Length: 2"),
    ("F\x01oo: bar", "Content-Length: 2"),
    ("Foo: b\x00ar", "Content-Length: 2"),
    ("Foo: b\x7far", "Content-Length: 2"),
    ("Transfer-Encoding: chunked\x00", "Content-Length: 2"),
    ("Content-Length: 2\nX-Smuggled: 1",),
    ("Foo: bar\r\n Content-Length: 2", "Content-Length: 2"),
], ids=repr)
def test_ambiguous_requests_are_refused_and_closed(demo, lines):
    """What a proxy may read in another way than we do must not be served, and nothing that follows it either."""
    request = head("POST", "/v1/completions", "Content-Type: application/json", *lines) + b"{}"
    answer = demo.raw(request + head("GET", "/v1/models"))
    assert answer.startswith(b"HTTP/1.1 400 "), answer[:200]
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert error_of(answer.split(b"\r\n\r\n", 1)[1])["type"] == "invalid_request_error"
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("request_bytes", [
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 0x10\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /v1/completions HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/models%00/x HTTP/1.1\r\nHost: x\r\n\r\n",
], ids=repr)
def test_malformed_requests_are_refused_and_closed(demo, request_bytes):
    answer = demo.raw(request_bytes)
    assert answer.startswith(b"HTTP/1.1 400 "), answer[:200]
    assert demo.alive()


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00\x01\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x00" * 100,
                                     b"GET\r\n\r\n", b"\r\n\r\n\r\n"], ids=repr)
def test_what_is_no_http_does_no_harm(demo, garbage):
    with demo.socket(5) as s:
        s.sendall(garbage)
        s.shutdown(socket.SHUT_WR)
        assert not harness.read_to_end(s).startswith(b"HTTP/1.1 2")
    assert demo.alive()


def test_keep_alive_serves_each_request_its_own_answer(demo):
    """B35: an early refusal does not leave bytes behind that are read as the next request."""
    big = b"x" * 100_000
    with demo.socket() as s, s.makefile("rb") as f:
        def ask(data):
            s.sendall(data)
            return harness.read_reply(f)

        assert ask(post(big, path="/nowhere"))[0] == 404
        assert ask(head("GET", "/v1/models"))[0] == 200
        assert ask(post(b"GET / HTTP/1.1\r\n\r\n"))[0] == 400
        assert ask(post(PROBE))[0] == 200
        assert ask(post(PROBE, "Content-Type: text/plain"))[0] in (200, 415)
        assert ask(head("POST", "/v1/completions", "Content-Type: text/plain", "Content-Length: 100000") + big)[0] == 415
        assert ask(head("PUT", "/v1/models", "Content-Length: 100000") + big)[0] == 405
        assert ask(head("GET", "/v1/models", "Content-Length: 4") + b"GET ")[0] == 200
        assert ask(post(PROBE))[0] == 200


def test_head_with_a_body(demo):
    with demo.socket() as s, s.makefile("rb") as f:
        s.sendall(head("HEAD", "/v1/models", "Content-Length: 5") + b"GET /" + head("GET", "/health"))
        status, headers = harness.read_head(f)
        assert status == 200 and int(headers["content-length"]) > 0
        assert harness.read_reply(f)[0] == 200


def test_pipelined_requests_are_answered_in_order(demo):
    with demo.socket() as s, s.makefile("rb") as f:
        s.sendall(head("GET", "/v1/models") + head("GET", "/nope") + post(PROBE) + head("GET", "/version"))
        assert [harness.read_reply(f)[0] for _ in range(4)] == [200, 404, 200, 200]


def test_a_thousand_requests_on_one_connection_leak_no_descriptor(demo):
    def descriptors():
        return len(os.listdir(f"/proc/{demo.process.pid}/fd"))

    demo.complete(**PROBE)
    before = harness.wait_for(descriptors)
    small = {**PROBE, "max_tokens": 1}
    with demo.socket() as s, s.makefile("rb") as f:
        for _ in range(1000):
            s.sendall(post(small))
            assert harness.read_reply(f)[0] == 200
    harness.wait_for(lambda: descriptors() <= before, message=lambda: f"{descriptors()} > {before}")


def test_expect_100_continue(demo):
    data = json.dumps(PROBE).encode()
    lines = ("Content-Type: application/json", f"Content-Length: {len(data)}", "Expect: 100-continue")
    with demo.socket() as s, s.makefile("rb") as f:
        s.sendall(head("POST", "/v1/completions", *lines))
        assert f.readline().startswith(b"HTTP/1.1 100 ") and f.readline() == b"\r\n"
        s.sendall(data)
        assert harness.read_reply(f)[0] == 200


def test_refused_expectation_asks_for_no_body(demo):
    """Who waits for the 100 gets the refusal in its place."""
    lines = ("Content-Type: application/json", "Content-Length: 1000000", "Expect: 100-continue")
    answer = demo.raw(head("POST", "/nope", *lines))
    assert answer.startswith(b"HTTP/1.1 404 ")
    answer = demo.raw(head("POST", "/v1/completions", "Content-Length: 4", "Expect: magic"))
    assert answer.startswith(b"HTTP/1.1 417 ")
    error_of(answer.split(b"\r\n\r\n", 1)[1])


def test_http_1_0(demo):
    data = json.dumps(PROBE).encode()
    request = b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data)
    answer = demo.raw(request + data)
    assert answer.startswith(b"HTTP/1."), answer
    assert b" 200 " in answer.split(b"\r\n")[0]
    stream = json.dumps({**PROBE, "stream": True}).encode()
    request = b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(stream)
    answer = demo.raw(request + stream)
    assert b"chunked" not in answer.lower()
    assert answer.endswith(b"data: [DONE]\n\n")


def test_unknown_path_and_method(demo):
    r = demo.get("/nope")
    assert r.status == 404 and r.error["code"] == "not_found"
    assert demo.post("/v1/embeddings", {"input": "x"}).status == 404
    for method, path, allow in (("GET", "/v1/completions", "POST, OPTIONS"), ("DELETE", "/v1/models", "GET, HEAD, OPTIONS"),
                                ("post", "/v1/completions", "POST, OPTIONS")):
        with demo.socket() as s, s.makefile("rb") as f:
            s.sendall(head(method, path))
            status, headers, body = harness.read_reply(f)
        assert status == 405 and headers["allow"] == allow
        assert error_of(body)["code"] == "method_not_allowed"


def test_options_and_head(demo):
    with demo.socket() as s, s.makefile("rb") as f:
        s.sendall(head("OPTIONS", "/v1/completions"))
        status, headers, _ = harness.read_reply(f)
        assert status == 204 and headers["allow"] == "POST, OPTIONS"
        assert not any(k.startswith("access-control") for k in headers)
        s.sendall(head("OPTIONS", "/nope"))
        assert harness.read_reply(f)[0] == 404
        s.sendall(head("OPTIONS", "*"))
        assert harness.read_reply(f)[0] == 204
        for path in ("/v1/models", "/health", "/metrics", "/version", "/ping", "/livez", "/readyz", "/openapi.json"):
            s.sendall(head("HEAD", path))
            status, headers = harness.read_head(f)
            assert status == 200 and int(headers["content-length"]) > 0


def test_content_types(demo):
    good = ("application/json", "application/json; charset=utf-8", "APPLICATION/JSON;charset=UTF-8", "application/json ;x=y")
    for kind in good:
        assert demo.post("/v1/completions", PROBE, headers={"Content-Type": kind}).status == 200, kind
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", "multipart/form-data; boundary=x"):
        r = demo.post("/v1/completions", PROBE, headers={"Content-Type": kind})
        assert r.status == 415 and r.error["code"] == "unsupported_media_type", kind


def test_request_ids(demo):
    for given, kept in (("abc-123", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ('a"b', False)):
        r = demo.get("/v1/models", headers={"X-Request-Id": given})
        assert (r.headers["X-Request-Id"] == given) == kept, given
        assert r.headers["X-Request-Id"]
    ids = {demo.get("/nope").headers["X-Request-Id"] for _ in range(20)}
    assert len(ids) == 20
    assert demo.complete(**PROBE, request_id="mine")["id"] == "cmpl-mine"


def test_model_paths(demo):
    name = demo.get("/v1/models").json()["data"][0]["id"]
    assert demo.get(f"/v1/models/{name}").json()["id"] == name
    quoted = "".join(f"%{b:02x}" for b in name.encode())
    assert demo.get(f"/v1/models/{quoted}").json()["id"] == name
    r = demo.get("/v1/models/other")
    assert r.status == 404 and r.error["code"] == "model_not_found"
    assert demo.get("/v1/models/%zz").status == 404


def test_model_name_with_a_slash(daemon):
    d = daemon(served_model_name="org/model")
    assert d.get("/v1/models/org/model").json()["id"] == "org/model"
    assert d.get("/v1/models/org%2Fmodel").json()["id"] == "org/model"
    assert d.complete(**PROBE, model="org/model")["model"] == "org/model"


def test_body_limit(daemon):
    d = daemon(max_body="4KiB")
    big = json.dumps({**PROBE, "user": "x" * 5000}).encode()
    for framed in (post(big), head("POST", "/v1/completions", *CHUNKED) + chunked(big, 1000)):
        with d.socket() as s, s.makefile("rb") as f:
            s.sendall(framed)
            status, _, body = harness.read_reply(f)
            assert status == 413 and error_of(body)["code"] == "request_too_large"
            if b"chunked" not in framed:
                s.sendall(post(PROBE))
                assert harness.read_reply(f)[0] == 200
    # A body that nobody would send in good faith is not even read.
    answer = d.raw(head("POST", "/v1/completions", "Content-Type: application/json", "Content-Length: 18446744073709551615"))
    assert answer.startswith(b"HTTP/1.1 413 ") and b"connection: close" in answer.lower()
    exact = json.dumps(PROBE).encode()
    assert d.post("/v1/completions", exact + b" " * (4096 - len(exact))).status == 200


def test_header_limit(demo):
    with demo.socket() as s, s.makefile("rb") as f:
        s.sendall(head("GET", "/v1/models", "X-Big: " + "x" * 40_000))
        status, _, body = harness.read_reply(f)
        assert status == 431 and error_of(body)["code"] == "headers_too_large"
    assert b" 431 " in demo.raw(head("GET", "/v1/models", "X-Big: " + "x" * 500_000)).split(b"\r\n")[0]
    assert b" 414 " in demo.raw(head("GET", "/" + "x" * 500_000)).split(b"\r\n")[0]
    assert demo.alive()


def test_slow_requests_run_into_a_deadline(daemon):
    """One byte now and then keeps neither a header block nor a body open."""
    d = daemon(idle_timeout="1s")
    data = json.dumps(PROBE).encode()

    def drip(start, rest):
        with d.socket() as s:
            s.sendall(start)
            s.settimeout(0.1)
            for i in range(200):
                try:
                    s.sendall(rest[i % len(rest):][:1])
                    answer = s.recv(65536)
                    return answer
                except socket.timeout:
                    pass
                except OSError:
                    return b""
        pytest.fail("the connection stayed open")

    for answer in (
            drip(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"aaaa"),
            drip(head("POST", "/v1/completions", "Content-Type: application/json", f"Content-Length: {len(data)}"), b"   ")):
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert error_of(answer.split(b"\r\n\r\n", 1)[1])["code"] == "request_timeout"
    with d.socket() as idle:
        assert idle.recv(1) == b""
    assert d.alive()


def test_many_short_connections(demo):
    for _ in range(300):
        answer = demo.raw(head("GET", "/health", "Connection: close"))
        assert answer.startswith(b"HTTP/1.1 200 ")


def test_unix_socket(daemon, tmp_path):
    path = tmp_path / "sock"
    d = daemon(unix_socket=path)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(path))
        s.sendall(post(PROBE) + head("GET", "/health"))
        with s.makefile("rb") as f:
            assert harness.read_reply(f)[0] == 200
            assert harness.read_reply(f)[0] == 200
    d.stop()
    assert not path.exists()


def test_a_unix_socket_is_not_stolen(daemon, tmp_path):
    """A second daemon on a path that is answered does not start, and leaves it to the first."""
    path = tmp_path / "socket"
    d = daemon(unix_socket=path)
    second = harness.run("serve", "--port=0", f"--unix-socket={path}")
    assert second.returncode == 1 and f"{path}: another program listens" in second.stderr
    with socket.socket(socket.AF_UNIX) as s, s.makefile("rb") as f:
        s.connect(str(path))
        s.sendall(head("GET", "/livez"))
        assert harness.read_reply(f)[0] == 200
    assert d.alive()


def test_health_answers_quickly_while_a_body_arrives(demo):
    with demo.socket() as s:
        s.sendall(head("POST", "/v1/completions", "Content-Type: application/json", "Content-Length: 1000000"))
        begun = time.monotonic()
        assert demo.get("/health").status == 200
        assert time.monotonic() - begun < 10


def test_a_socket_from_the_service_manager(tmp_path):
    """systemd's protocol: descriptor 3 listens already, LISTEN_PID names the process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        log = open(tmp_path / "log", "w+")
        p = subprocess.Popen(["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", harness.TRINITYD, "serve", "--threads", "1"],
                             preexec_fn=lambda: os.dup2(listener.fileno(), 3), pass_fds=(3,), cwd=harness.ROOT,
                             env=harness.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        port = listener.getsockname()[1]
    try:
        with socket.create_connection(("127.0.0.1", port), harness.PATIENCE) as s, s.makefile("rb") as f:
            s.sendall(post(PROBE))  # waits in the backlog until the daemon is there
            assert harness.read_reply(f)[0] == 200
        p.terminate()
        assert p.wait(harness.PATIENCE) == 0
    finally:
        p.kill()
        p.wait()
        log.seek(0)
        assert f"listening on http://127.0.0.1:{port}" in log.read()
        log.close()
