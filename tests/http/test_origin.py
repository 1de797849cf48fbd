"""Pages of other sites: what a browser may be made to send, and what its user's daemon does with it."""
import json

import pytest

CHAT = json.dumps({"prompt": "a", "max_tokens": 1}).encode()


def send(d, lines, method="POST", path="/v1/completions", body=CHAT):
    head = [f"{method} {path} HTTP/1.1", "Connection: close", *lines, f"Content-Length: {len(body)}", "", ""]
    return int(d.raw("\r\n".join(head).encode() + body).split()[1])


OWN, EVIL = "Host: 127.0.0.1:8080", "Origin: https://evil.example"


@pytest.mark.parametrize("lines, status", [
    ([OWN, EVIL], 403),
    ([OWN, EVIL, "Content-Type: application/json"], 403),
    ([OWN, "Origin: null"], 403),
    ([OWN, "Sec-Fetch-Site: cross-site"], 403),
    ([OWN, "Origin: http://127.0.0.1:8081"], 403),
    ([OWN, "Origin: http://127.0.0.1:8080"], 200),
    ([OWN, "Sec-Fetch-Site: same-origin"], 200),
    ([OWN], 200),
])
def test_cross_site_posts(demo, lines, status):
    assert send(demo, lines) == status


@pytest.mark.parametrize("host, status", [
    ("evil.example", 421), ("evil.example:8080", 421), ("127.0.0.1.evil.example", 421), ("localhost.evil.example.", 421),
    ("localhost", 200), ("LOCALHOST:1", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("10.0.0.7:80", 200), ("llm", 200),
    ("llm.localhost", 200), ("llm.internal", 200), ("printer.local", 200),
])
def test_hosts_on_the_loopback(demo, host, status):
    assert send(demo, [f"Host: {host}"], "GET", "/v1/models", b"") == status


def test_absolute_target_counts_for_the_host(demo):
    assert send(demo, ["Host: localhost"], "GET", "http://evil.example/v1/models", b"") == 421


def test_allowed_hosts(daemon):
    d = daemon(allowed_hosts="llm.example.com")
    for host, status in (("llm.example.com", 200), ("LLM.example.com:443", 200), ("evil.example", 421), ("localhost", 200)):
        assert send(d, [f"Host: {host}"], "GET", "/v1/models", b"") == status
    d = daemon(allowed_hosts="*")
    assert send(d, ["Host: evil.example"], "GET", "/v1/models", b"") == 200


def test_any_host_beyond_the_loopback(daemon):
    d = daemon(host="0.0.0.0")
    d.host = "127.0.0.1"
    assert send(d, ["Host: llm.example.com"], "GET", "/v1/models", b"") == 200


def test_origins_that_may(daemon):
    d = daemon(cors_origin="https://ui.example")
    assert send(d, [OWN, "Origin: https://ui.example"]) == 200
    assert send(d, [OWN, EVIL]) == 403
    answer = d.raw(f"OPTIONS /v1/completions HTTP/1.1\r\n{OWN}\r\nOrigin: https://ui.example\r\n"
                   "Access-Control-Request-Private-Network: true\r\nConnection: close\r\n\r\n".encode())
    assert b"access-control-allow-private-network: true" in answer.lower()


def test_metrics_may_need_a_key(daemon):
    d = daemon(api_key="k", protect_metrics=True)
    assert d.get("/metrics").status == 401 and d.get("/health").status == 200
    assert d.get("/metrics", headers={"Authorization": "Bearer k"}).status == 200
    assert daemon(api_key="k").get("/metrics").status == 200
