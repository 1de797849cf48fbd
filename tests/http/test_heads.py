"""Heads that libmicrohttpd gives up, or that two readers may understand differently."""
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
