"""A file of keys: what each may, what it is told, and what it has used."""
import hashlib
import json
import signal
import threading

import anthropic
import openai
import pytest

import harness

PROMPT = [300, 301, 302, 303]
ASK = {"model": "demo", "prompt": PROMPT, "max_tokens": 4, "extra_body": {"ignore_eos": True}}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def usage(d, key=None):
    r = d.get("/v1/usage", headers=bearer(key) if key else {})
    assert r.status == 200, r.body
    return r.json()


@pytest.fixture
def keyed(daemon, tmp_path):
    """A daemon with these keys; keyed.write(...) gives it others."""
    file = tmp_path / "keys.json"

    def write(*keys, **more):
        file.write_text(json.dumps({"keys": [{"name": k.get("key", "hashed"), **k} for k in keys], **more}))

    def start(*keys, options=None, **more):
        write(*keys, **more)
        return daemon(api_key_file=file, **(options or {}))

    start.write, start.file = write, file
    return start


def client(d, key):
    return openai.OpenAI(base_url=d.url + "/v1", api_key=key, max_retries=0)


def refusal(d, key, error, **more):
    with client(d, key) as c, pytest.raises(error) as e:
        c.completions.create(**{**ASK, **more})
    return e.value


def test_requests_a_minute(keyed):
    d = keyed({"key": "a", "requests_per_minute": 2}, {"key": "b"})
    with client(d, "a") as c:
        for rest in ("1", "0"):
            h = c.completions.with_raw_response.create(**ASK).headers
            assert (h["x-ratelimit-limit-requests"], h["x-ratelimit-remaining-requests"]) == ("2", rest)
            assert h["x-ratelimit-reset-requests"].endswith("s") and "x-ratelimit-limit-tokens" not in h
    e = refusal(d, "a", openai.RateLimitError)
    assert e.code == "rate_limit_exceeded" and "2 requests a minute" in e.message
    assert 1 <= int(e.response.headers["retry-after"]) <= 30
    assert e.response.headers["x-ratelimit-remaining-requests"] == "0"
    with client(d, "b") as c:
        assert not [n for n in c.completions.with_raw_response.create(**ASK).headers if "ratelimit" in n]
    assert d.get("/v1/models", headers=bearer("a")).status == 200, "only POSTs count"
    assert usage(d, "a")["total"]["requests"] == 2


def test_tokens_a_minute(keyed):
    d = keyed({"key": "a", "tokens_per_minute": 50})
    with client(d, "a") as c:
        h = c.completions.with_raw_response.create(**ASK).headers
        assert h["x-ratelimit-limit-tokens"] == "50" and 42 <= int(h["x-ratelimit-remaining-tokens"]) <= 46
        e = refusal(d, "a", openai.RateLimitError, prompt=[300] * 60, max_tokens=1)
        assert e.code == "rate_limit_exceeded" and "60 prompt tokens" in e.message
        c.completions.create(**{**ASK, "max_tokens": 200})  # nobody knows how long an answer is
    e = refusal(d, "a", openai.RateLimitError)
    assert "50 tokens a minute" in e.message and int(e.response.headers["retry-after"]) > 60
    u = usage(d, "a")
    assert u["total"]["prompt_tokens"] == 8 and u["total"]["completion_tokens"] == 204
    assert u["limits"]["tokens_per_minute"] == 50 and u["key"] == "a"


def test_concurrency(keyed):
    d = keyed({"key": "a", "concurrency": 1})
    long = {"prompt": PROMPT, "max_tokens": 3500, "ignore_eos": True, "stream": True}
    with harness.Stream(d, "/v1/completions", long, bearer("a")) as s:
        next(iter(s))
        assert refusal(d, "a", openai.RateLimitError).code == "rate_limit_exceeded"
        assert usage(d, "a")["running"] == 1
    harness.wait_for(lambda: usage(d, "a")["running"] == 0)
    with client(d, "a") as c:
        c.completions.create(**ASK)


def test_endpoints(keyed):
    d = keyed({"key": "a", "endpoints": ["/v1/completions"]})
    with client(d, "a") as c:
        c.completions.create(**ASK)
        with pytest.raises(openai.PermissionDeniedError) as e:
            c.chat.completions.create(model="demo", messages=[{"role": "user", "content": "u"}])
        assert e.value.code == "endpoint_not_allowed"
    assert d.get("/v1/models", headers=bearer("a")).status == 403
    assert d.get("/health", headers=bearer("a")).status == 200
    assert usage(d, "a")["total"]["requests"] == 1


def test_expiry_and_hashed_keys(keyed):
    sha = hashlib.sha256(b"secret").hexdigest()
    d = keyed({"key": "old", "expires": "2020-01-01T00:00:00Z"}, {"key": "new", "expires": "2999-01-01T00:00:00+01:00"},
              {"sha256": sha, "name": "hashed"})
    assert "expired" in refusal(d, "old", openai.AuthenticationError).message
    refusal(d, sha, openai.AuthenticationError)
    for key in ("new", "secret"):
        with client(d, key) as c:
            c.completions.create(**ASK)
    assert usage(d, "new")["limits"]["expires"] == "2998-12-31T23:00:00Z"
    d.wait_log(r"POST /v1/completions 200.* key=hashed")
    assert "secret" not in d.log


def test_messages_have_headers_of_their_own(keyed):
    d = keyed({"key": "a", "requests_per_minute": 1, "tokens_per_minute": 1000})
    ask = {"model": "demo", "max_tokens": 4, "messages": [{"role": "user", "content": "u"}]}
    with anthropic.Anthropic(base_url=d.url, api_key="a", max_retries=0) as c:
        h = c.messages.with_raw_response.create(**ask).headers
        assert h["anthropic-ratelimit-requests-limit"] == "1" and h["anthropic-ratelimit-requests-remaining"] == "0"
        assert h["anthropic-ratelimit-requests-reset"].endswith("Z") and h["anthropic-ratelimit-tokens-limit"] == "1000"
        with pytest.raises(anthropic.RateLimitError) as e:
            c.messages.create(**ask)
    assert e.value.response.json()["error"]["type"] == "rate_limit_error" and int(e.value.response.headers["retry-after"]) > 0


def test_anonymous(keyed):
    d = keyed({"key": "a"}, anonymous={"requests_per_minute": 1, "endpoints": ["/v1/completions"]})
    ask = {"prompt": PROMPT, "max_tokens": 2}
    r = d.post("/v1/completions", ask)
    assert r.status == 200 and r.headers["x-ratelimit-remaining-requests"] == "0"
    assert d.post("/v1/completions", ask).error["code"] == "rate_limit_exceeded"
    assert d.get("/v1/models").status == 403
    assert d.post("/v1/completions", ask, headers=bearer("b")).status == 401, "a wrong key is not no key"
    assert d.post("/v1/completions", ask, headers=bearer("a")).status == 200
    assert usage(d)["key"] == "anonymous" and usage(d)["total"]["requests"] == 1


def test_without_a_file(daemon):
    d = daemon()
    d.complete(prompt=PROMPT, max_tokens=3)
    u = usage(d)
    assert u["key"] is None and (u["total"]["requests"], u["total"]["prompt_tokens"]) == (1, 4)
    assert u["minute"]["requests"] in (0, 1) and u["limits"]["requests_per_minute"] is None


def test_reload(keyed):
    d = keyed({"key": "a", "requests_per_minute": 1}, {"key": "gone"})
    with client(d, "a") as c:
        c.completions.create(**ASK)
        refusal(d, "a", openai.RateLimitError)
        keyed.file.write_text('{"keys": [{"name": "a", "key": "a", "weight": "much"}]}')
        d.signal(signal.SIGHUP)
        d.wait_log(r"keys\[0\]\.weight.*the old options stay")
        refusal(d, "a", openai.RateLimitError)
        keyed.write({"key": "a"}, {"key": "fresh"})
        d.signal(signal.SIGHUP)
        d.wait_log("options reloaded")
        c.completions.create(**ASK)
    refusal(d, "gone", openai.AuthenticationError)
    assert usage(d, "a")["total"]["requests"] == 2 and usage(d, "fresh")["total"]["requests"] == 0


def test_a_bad_file_is_no_start(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text('{"keys": [{"name": "a", "key": "a", "endpoints": ["/v1/nothing"]}]}')
    r = harness.run("serve", "--model", harness.DEMO, "--port", "0", "--api-key-file", file)
    assert r.returncode == 2 and "keys[0].endpoints[0]: no endpoint has this path" in r.stderr


def test_weights(keyed):
    """Two keys that always have more to ask than there is room for: tokens by weight, of requests that ended."""
    d = keyed({"key": "light"}, {"key": "heavy", "weight": 3}, options={"max_sequences": 8, "kv_cache": "64MiB"})
    over = threading.Event()
    body = {"prompt": PROMPT, "max_tokens": 32, "ignore_eos": True}
    failed = []

    def ask(key):
        while not over.is_set():
            if d.post("/v1/completions", body, headers=bearer(key)).status != 200:
                failed.append(key)
                return

    threads = [threading.Thread(target=ask, args=(key,)) for key in ("light", "heavy") for _ in range(16)]
    for t in threads:
        t.start()

    def tokens():
        return {key: usage(d, key)["total"]["completion_tokens"] for key in ("light", "heavy")}

    try:
        harness.wait_for(lambda: tokens()["light"] >= 10 * 32)
        before = tokens()
        harness.wait_for(lambda: tokens()["light"] - before["light"] >= 60 * 32)
        after = tokens()
    finally:
        over.set()
        for t in threads:
            t.join()
    assert not failed
    light, heavy = (after[k] - before[k] for k in ("light", "heavy"))
    assert 2.7 * light <= heavy <= 3.3 * light, (light, heavy)
