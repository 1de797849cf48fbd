"""Heads that libmicrohttpd gives up, or that two readers may understand differently."""
import socket
import time

import pytest

import harness


def requests_open(d):
    return sum(v for k, v in harness.metrics(d).items() if k.startswith("trinityd_http_requests_open"))


@pytest.mark.parametrize("data", [
    b"GET /health?" + b"&" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\nCookie: " + b"a=b;" * 5000 + b"\r\n\r\n",
], ids=["arguments", "cookies"])
def test_a_head_that_is_given_up_leaves_no_request(demo, data):
    for _ in range(5):
        demo.raw(data)
    harness.wait_for(lambda: requests_open(demo) == 1)  # the scrape itself


HOST = b"Host: x\r\n"
LATER = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b'{"prompt":"hi"}'
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
POST = b"POST /tokenize HTTP/1.1\r\n" + HOST


@pytest.mark.parametrize("data", [
    b"GET /health HTTP/1.1\r\n" + HOST + b": y\r\n" + LATER,
    POST + b"Content-Length: 15\r\n:\r\n" + BODY,
    b"GET /health HTTP/1.1\r\n" + HOST + b":a\r\nContent-Length: 50\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" + HOST + b"\0X: y\r\n" + LATER,
    b"\0junk\r\n" + LATER,
    POST + b"Foo: b\0\0ar\r\nContent-Length: 15\r\n\r\n" + BODY,
    POST + b"Content-Length: 15\0\0 99\r\n\r\n" + BODY,
    POST + b"Con: 15\r\n tent-Length\r\n\r\n" + BODY,
    POST + b"Transfer: chunked\r\n -Encoding\r\n\r\nf\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHo: x\r\n st\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" + HOST + b"A: b\r\n\tc\r\n\r\n",
    b"GET /health HTTP/1.1\nHost: x\n\n",
    b"GET /health HTTP/1.1\nHost: x\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" + HOST + b"A: b\n\r\n",
    b"GET /health HTTP/1.1\r\n" + HOST + b"\n",
    b"GET  /health HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /heal th HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /health HTTP/1.1\r\n\r\n",
], ids=repr)
@pytest.mark.parametrize("before", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["first", "second"])
def test_one_refusal_and_nothing_behind_it(demo, data, before):
    """The first request of a connection, and a later one: libmicrohttpd's buffer lies otherwise then."""
    answer = demo.raw(before + data + LATER)
    if before:
        first, _, answer = answer.partition(b"HTTP/1.1 400 ")
        assert first.startswith(b"HTTP/1.1 200 "), first
        answer = b"HTTP/1.1 400 " + answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1 ") == 1, answer
    assert b"connection: close" in head.lower() and b"x-request-id: " in head.lower()
    assert b"version" not in body and f"content-length: {len(body)}".encode() in head.lower()


@pytest.mark.parametrize("chunks", [
    b"f\r\n" + BODY + b"\r\n0\r\n\r\n", b"f\n" + BODY + b"\n0\n\n", b"f;a\n" + BODY + b"\r\n0\r\n\r\n",
], ids=["clean", "LF", "LF in an extension"])
def test_nothing_behind_a_chunked_body_is_a_request(demo, chunks):
    """Its lines are read by libmicrohttpd alone: the connection ends with the answer."""
    answer = demo.raw(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + LATER)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.count(b"HTTP/1.1 ") == 1, answer
    assert b"connection: close" in answer.lower()


def test_a_trailer_with_a_faulty_name_is_refused(demo):
    answer = demo.raw(POST + b"Transfer-Encoding: chunked\r\n\r\nf\r\n" + BODY + b"\r\n0\r\nA B: c\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 "), answer


def test_empty_lines_before_a_request_are_passed_over(demo):
    """RFC 9112 2.2: clients may send one behind a body."""
    assert demo.raw(b"\r\nGET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("target, status", [
    ("http://x/health", 200), ("HTTP://user@x:80/health?a=b", 200), ("https://x/v1/models", 200), ("http://x", 200),
    ("ftp://x/health", 404),
])
def test_absolute_targets(demo, target, status):
    """RFC 9112 3.2.2: a server must accept them."""
    answer = demo.raw(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer


@pytest.mark.parametrize("coding, status", [("gzip", 415), ("zstd", 415), ("identity", 200), ("Identity", 200), ("", 200)])
def test_codings_that_are_not_understood(demo, coding, status):
    r = demo.post("/tokenize", {"prompt": "hi"}, headers={"Content-Encoding": coding})
    assert r.status == status, r.text
    assert r.headers["Accept-Encoding"] == ("identity" if status == 415 else None)


@pytest.mark.parametrize("data, status", [
    (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    (b"GET / HTPP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /health\r\n\r\n", 400),
    (b"GET\t/health\tHTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: x\r\nabc\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\n\r\n", 400),
    (POST + b"Content-Length:\r\n\r\n" + BODY, 400),
    (POST + b"Content-Length: +15\r\n\r\n" + BODY, 400),
    (POST + b"Content-Length: 15 \r\n\r\n" + BODY, 400),
    (POST + b"Content-Length: 15,15\r\n\r\n" + BODY, 400),
    (POST + b"Content-Length: 18446744073709551631\r\n\r\n" + BODY, 413),
    (b"GET /health?" + b"&" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (b"GET /" + b"y" * 60000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (b"GET /health HTTP/1.1\r\nHost: x\r\nCookie: " + b"a=b;" * 5000 + b"\r\n\r\n", 431),
    (b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"A%d: b\r\n" % i for i in range(3000)) + b"\r\n", 431),
    (b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70000 + b"\r\n\r\n", 431),
    (POST + CHUNKED + b"zz\r\nab", 400),
    (POST + CHUNKED + b"\r\nab", 400),
    (POST + CHUNKED + b"2\r\nabc", 400),
    (POST + CHUNKED + b"2\r\nab\r\n-1\r\n", 400),
    (POST + CHUNKED + b"2 \r\nab", 400),
    (POST + CHUNKED + b"1" + b"0" * 16 + b"\r\nab", 413),
], ids=lambda v: repr(v[:70]) if isinstance(v, bytes) else str(v))
@pytest.mark.parametrize("pieces", [1, 4])
def test_what_libmicrohttpd_would_refuse_is_refused_in_our_form(demo, data, status, pieces):
    """One head, a JSON error, an id, whatever the status, and however the head arrives."""
    begin, end = data.find(b"\r\n\r\n") + 3, len(data)
    cuts = [begin * k // (pieces - 1) for k in range(1, pieces)] if pieces > 1 else []
    with demo.socket() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for a, b in zip([0, *cuts], [*cuts, end]):
                s.sendall(data[a:b])
                time.sleep(0.02 if b < end else 0)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused before its end
        answer = harness.read_to_end(s)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()) and answer.count(b"HTTP/1.1 ") == 1, answer[:500]
    assert b"x-request-id: " in head.lower() and b"content-type: application/json" in head.lower()
    assert f"content-length: {len(body)}".encode() in head.lower()
    assert b'"error"' in body and b"<html" not in body.lower()
