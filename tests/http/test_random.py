"""Many seeded requests: mutated ones that must not hurt, and good ones that must not depend on how they are asked."""
import json
import random

import pytest

import harness
from answers import both

ids = harness.fx.ids
N_MUTANTS = 20_000
N_PAIRS = 500


def base(rng):
    """A good request with a few fields."""
    prompt = rng.choice(["Once upon a time", ["a", "bc"], [5, 6, 7], [[5, 6], [7]], "é漢🙂", " " * 50, "<|im_end|>x"])
    body = {"prompt": prompt, "max_tokens": rng.randint(1, 3), "temperature": 0}
    optional = {"n": rng.randint(1, 3), "stop": ["a", "zz"], "seed": rng.getrandbits(40), "logprobs": rng.randint(0, 5),
                "echo": True, "logit_bias": {"5": 1, "70": -3.5}, "top_p": rng.random(), "top_k": rng.randint(-1, 50),
                "min_p": rng.random(), "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.2,
                "stream": True, "stop_token_ids": [9, 8], "ignore_eos": True, "min_tokens": 1, "return_token_ids": True,
                "bad_words": ["no", "never"], "allowed_token_ids": list(range(5, 90)), "user": "u", "suffix": None,
                "prompt_logprobs": 1, "cache_salt": "s", "request_id": "r", "priority": 3, "timings": True, "best_of": None}
    for k in rng.sample(sorted(optional), rng.randint(0, 5)):
        body[k] = optional[k]
    return body


def hostile(rng):
    return rng.choice([
        None, True, False, 0, -1, 1, 2**31, -2**31 - 1, 2**53, 2**63 - 1, 1e308, -1e-320, 0.5, "", "x", "1", "\0", "\ufffd" * 3,
        [], [[]], [None], [0, "a"], ["", ""], {}, {"": 0}, {"a": {"b": []}}, [1e30], ["x" * 300] * 3, [[[[]]]], list(range(100)),
        {"1": 1, "2": "x"}, "a" * 5000, [-1], [285], [2**31]])


def mutate(rng, body):
    """Bytes of a request that is wrong in type, range, nesting or encoding, or by chance still right."""
    kind = rng.randrange(6)
    if kind < 3:
        for k in rng.sample(sorted(body), rng.randint(1, min(2, len(body)))):
            body[k] = hostile(rng)
        return json.dumps(body).encode()
    data = bytearray(json.dumps(body, ensure_ascii=rng.random() < 0.5).encode())
    if kind == 3:
        depth = rng.choice((10, 150, 201, 3000))
        return b'{"%s":%s,' % (rng.choice((b"x", b"stop", b"prompt", b"metadata")), b"[" * depth + b"]" * depth) + data[1:]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        if kind == 4:
            data[at] = rng.choice(b'\x00\xff\xc0\xed\x80{}[]",:0-9.eE\\u')
        elif rng.random() < 0.5:
            del data[at:at + rng.randint(1, 20)]
        else:
            data[at:at] = data[:rng.randint(1, 20)]
        if not data:
            break
    return bytes(data)


@pytest.mark.timeout(1200)
def test_mutated_requests(f1):
    """No 5xx, no hang, no dropped connection; a refusal names a field or a position."""
    rng = random.Random(20_000)
    statuses = {}
    sock, file = None, None
    for i in range(N_MUTANTS):
        data = mutate(rng, base(rng))
        if sock is None:
            sock = f1.socket()
            file = sock.makefile("rb")
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                     % len(data) + data)
        status, headers, body = harness.read_reply(file)
        assert status in (200, 400, 404), (i, data, body)
        statuses[status] = statuses.get(status, 0) + 1
        if status != 200:
            e = json.loads(body)["error"]
            assert e["param"] or "byte" in e["message"] or "expected object" in e["message"], (data, e)
            assert len(body) < 1000
        elif headers["content-type"].startswith("text/event-stream"):
            assert body.endswith(b"data: [DONE]\n\n") and b'"error"' not in body, (data, body)
        else:
            json.loads(body)
    assert statuses[200] > N_MUTANTS / 50 and statuses[400] > N_MUTANTS / 2, statuses
    sock.close()
    assert f1.alive()
    harness.wait_for(lambda: sum(v for k, v in harness.metrics(f1).items() if k.startswith("trinityd_requests_")) == 0)


@pytest.mark.timeout(600)
def test_streamed_equals_whole(f1):
    rng = random.Random(500)
    for i in range(N_PAIRS):
        body = {"prompt": rng.choice([ids(rng.randint(1, 60), i), [ids(3, i), ids(9, i + 1)], "text %d é漢🙂" % i]),
                "max_tokens": rng.randint(1, 24), "temperature": rng.choice((0, 0.7, 1.5)), "seed": i, "n": rng.randint(1, 3)}
        if rng.random() < 0.4:
            body["logprobs"] = rng.randint(0, 3)
        if rng.random() < 0.3:
            body["echo"] = True
        if rng.random() < 0.5:
            body["stop"] = rng.sample(["a", "é", "\ufffd", "1", " ", "x", "Q"], 3)
        if rng.random() < 0.3:
            body["ignore_eos"] = True
        if rng.random() < 0.3:
            body["min_tokens"] = rng.randint(0, body["max_tokens"])
        if rng.random() < 0.3:
            body["return_token_ids"] = True
        if rng.random() < 0.2:
            body["include_stop_str_in_output"] = True
        both(f1, **body)
