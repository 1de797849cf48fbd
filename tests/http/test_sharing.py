"""Many clients at once: none stops the others, answers without a length run side by side, memory comes back."""
import json
import threading

import harness

LONG = {"max_tokens": 3500, "temperature": 0, "ignore_eos": True}


def gauge(d, name):
    return sum(v for k, v in harness.metrics(d).items() if k.split("{")[0] == f"trinityd_{name}")


def key(name):
    return {"Authorization": f"Bearer {name}"}


def resident(d):
    """MiB"""
    with open(f"/proc/{d.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


def ask_only(d, path, body):
    """A socket on which a request was sent, and nothing is read."""
    data = json.dumps(body).encode()
    s = d.socket()
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return s


class Reader(threading.Thread):
    """Reads a stream to its end, unless it is closed before."""

    def __init__(self, d, body, headers=None):
        super().__init__(daemon=True)
        self.begun, self.ended = threading.Event(), False
        self.d, self.body, self.headers, self.stream = d, body, headers, None
        self.start()

    def run(self):
        try:
            self.stream = self.d.stream("/v1/completions", self.body, self.headers)
            for _ in self.stream:
                self.begun.set()
            self.ended = True
        except (OSError, ValueError, AssertionError):
            pass  # closed

    def close(self):
        if self.stream:
            self.stream.sock.shutdown(2)
        self.join(harness.PATIENCE)


def test_many_samples_run_beside_others(daemon):
    """One request with twice as many samples as there are seats, each of them long: others are served meanwhile."""
    d = daemon(kv_cache="1GiB")
    big = Reader(d, {**LONG, "prompt": "Once upon a time", "n": 128})
    assert big.begun.wait(harness.PATIENCE)
    before = gauge(d, "steps_total")
    for _ in range(3):
        assert d.complete(prompt="hello", max_tokens=2)["usage"]["completion_tokens"] == 2
    assert gauge(d, "steps_total") - before < 1500, "of 7,000; three or so each, and what a busy client misses"
    assert not big.ended
    big.close()
    harness.wait_for(lambda: gauge(d, "requests_running") == 0)


def test_priority_counts_within_a_key(daemon):
    """A key that sends a crowd with the best priority does not put back another key's requests."""
    d = daemon(api_key="a,b", max_sequences=4, kv_cache="256MiB")
    crowd = [Reader(d, {**LONG, "prompt": f"{i}", "priority": -1000}, key("a")) for i in range(12)]
    harness.wait_for(lambda: sum(r.begun.is_set() for r in crowd) >= 4)
    for _ in range(3):
        ask = {"prompt": "hello", "max_tokens": 1, "priority": 1000}
        assert d.post("/v1/completions", ask, headers=key("b")).status == 200
    assert not any(r.ended for r in crowd)
    for r in crowd:
        r.close()


def test_a_key_whose_priority_counts_across_keys(daemon):
    """It is let in as other keys are, and its requests of a better priority leave the queue before others'."""
    d = daemon(priority_key="boss", api_key="a,b", max_sequences=4, kv_cache="256MiB")
    assert d.post("/v1/completions", LONG).status == 401
    for name, passes in (("a", False), ("boss", True)):
        crowd = [Reader(d, {**LONG, "max_tokens": 500, "prompt": f"{i}", "priority": -1}, key(name)) for i in range(12)]
        harness.wait_for(lambda: sum(r.begun.is_set() for r in crowd) >= 4)
        ask = {"prompt": "hello", "max_tokens": 1, "priority": -1000}
        assert d.post("/v1/completions", ask, headers=key("b")).status == 200
        assert (gauge(d, "requests_waiting") == 0) == passes
        for r in crowd:
            r.close()
        harness.wait_for(lambda: gauge(d, "requests_running") == 0)


def test_a_past_is_no_debt(daemon):
    """A key that was alone for long is not put back behind a flood of one that began to ask only now."""
    d = daemon(api_key="a,b", kv_cache="256MiB")
    prompts = iter(range(10**6))

    def prompt(n):  # no two share a page
        k = next(prompts)
        return [300 + k % 600, 300 + k // 600] + [400 + (i * 7 + k) % 500 for i in range(n - 2)]

    beside = Reader(d, {**LONG, "prompt": prompt(4)}, key("b"))
    assert beside.begun.wait(harness.PATIENCE)
    for _ in range(40):
        assert d.post("/v1/completions", {"prompt": prompt(1000), "max_tokens": 1}, headers=key("a")).status == 200
    flood = [Reader(d, {"prompt": prompt(1000), "max_tokens": 1}, key("b")) for _ in range(40)]
    harness.wait_for(lambda: any(r.begun.is_set() for r in flood))
    before = sum(r.ended for r in flood)
    assert d.post("/v1/completions", {"prompt": prompt(50), "max_tokens": 1}, headers=key("a")).status == 200
    assert sum(r.ended for r in flood) - before < 20
    for r in [*flood, beside]:
        r.close()


def test_answers_without_a_length_run_side_by_side(daemon):
    """Twenty-four chats in a cache for two whole contexts: they run at once, and are answered as if alone."""
    d = daemon(kv_cache="8MiB")
    capacity = d.get("/v1/capacity").json()
    assert {"tokens": 4096, "fit": 2} in capacity["sequences"] and capacity["longest_sequence"] == 4096
    chats = [f"Tell me a story about a fox number {i}." for i in range(24)]
    with harness.Daemon() as alone:
        want = [alone.chat(c)["choices"][0]["message"]["content"] for c in chats]
    got = [None] * len(chats)

    def ask(i):
        got[i] = d.chat(chats[i])["choices"][0]["message"]["content"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(chats))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == want
    # The same without an end of their own, so that they can be seen together.
    endless = {"messages": [{"role": "user", "content": "Once"}], "ignore_eos": True, "stream": True}
    socks = [ask_only(d, "/v1/chat/completions", endless) for _ in chats]
    harness.wait_for(lambda: gauge(d, "requests_running") >= 20)
    for s in socks:
        s.close()


def test_cache_smaller_than_a_context(daemon):
    d = daemon(kv_cache="1MiB")
    capacity = d.get("/v1/capacity").json()
    longest = capacity["longest_sequence"]
    assert 100 < longest < 4096
    assert f"hold {longest} tokens of one sequence, the context has 4096" in d.log
    answer = d.chat("Hello", ignore_eos=True)
    assert answer["usage"]["total_tokens"] == longest
    assert answer["choices"][0]["finish_reason"] == "length"
    assert d.post("/v1/responses", {"input": "Hello"}).status == 200
    refused = d.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "one " * 1500}]})
    assert refused.status == 400 and refused.error["code"] == "insufficient_kv"


def test_memory_comes_back(daemon):
    """Requests of many samples that wait hold little, those that run what is said, and all of it is given back."""
    d = daemon(kv_cache="64MiB")
    for k in range(12):  # every page of the cache was touched once
        d.complete(prompt=[300 + k] + [400 + (i * 7 + k) % 500 for i in range(3900)], max_tokens=1)
    choices = d.get("/v1/capacity").json()["choices"]
    before = resident(d)
    body = {"prompt": "Once upon a time", "n": 64, "max_tokens": 1200, "presence_penalty": 0.1, "ignore_eos": True}
    crowd = [ask_only(d, "/v1/completions", body) for _ in range(150)]
    harness.wait_for(lambda: gauge(d, "requests_waiting") >= 100)
    harness.wait_for(lambda: gauge(d, "generated_tokens_total") >= 1000)
    # Connections, and what the server keeps of each of 9,600 answers, come on top of the engine's bound.
    assert resident(d) - before < choices["running"] * choices["bytes_each"] / 2**20 + 150 * 64 * 2048 / 2**20 + 16
    for s in crowd:
        s.close()
    harness.wait_for(lambda: gauge(d, "requests_running") + gauge(d, "requests_waiting") == 0)
    harness.wait_for(lambda: resident(d) < 1.1 * before, message=lambda: f"{before} MiB before, {resident(d)} after")
