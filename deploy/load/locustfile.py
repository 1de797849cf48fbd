"""Users of a daemon, for locust: `locust -f deploy/load/locustfile.py -H http://127.0.0.1:8080`.

Each user asks, reads the stream to its end, thinks, and asks again; one in four asks without a stream. locust's own time of a
stream ends with its headers, so the time to the first token and the whole answer are reported as requests of their own.
MODEL, MAX_TOKENS and PROMPTS (a file, one a line) in the environment.
"""
import json
import os
import random
import time

from locust import HttpUser, between, task

MODEL = os.environ.get("MODEL", "")
MAX_TOKENS = int(os.environ.get("MAX_TOKENS", "40"))
PROMPTS = ["Once upon a time there was a fox named", "In a deep forest lived", "One day a girl found a", "The old man had a dog"]
if "PROMPTS" in os.environ:
    with open(os.environ["PROMPTS"]) as f:
        PROMPTS = [line.rstrip("\n") for line in f if line.strip()]


class Reader(HttpUser):
    wait_time = between(0.1, 0.5)

    def body(self, **more):
        body = {"prompt": random.choice(PROMPTS), "max_tokens": MAX_TOKENS, **more}
        return {**body, "model": MODEL} if MODEL else body

    def report(self, name, seconds, length=0):
        self.environment.events.request.fire(request_type="SSE", name=name, response_time=1e3 * seconds,
                                             response_length=length, exception=None, context={})

    @task(3)
    def stream(self):
        start, first, tokens, last = time.perf_counter(), None, 0, b""
        with self.client.post("/v1/completions", json=self.body(stream=True), stream=True, catch_response=True,
                              name="/v1/completions (headers of a stream)") as r:
            if r.status_code == 429:
                r.success()  # a full queue is an answer; the figures show how often
                time.sleep(float(r.headers.get("Retry-After", 1)))
                return
            if r.status_code != 200:
                r.failure(f"status {r.status_code}")
                return
            for line in r.iter_lines():
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    if "error" in event:
                        r.failure(event["error"]["message"])
                        return
                    tokens += any(c.get("text") for c in event["choices"])
                    first = first or time.perf_counter()
                    last = line
                elif line == b"data: [DONE]":
                    last = line
            if last != b"data: [DONE]" or not first:
                r.failure("the stream was cut")
                return
        self.report("first token", first - start)
        self.report("whole answer", time.perf_counter() - start, tokens)

    @task(1)
    def whole(self):
        with self.client.post("/v1/completions", json=self.body(), catch_response=True, name="/v1/completions (whole)") as r:
            if r.status_code == 200 and r.json()["usage"]["completion_tokens"] < 1:
                r.failure("no tokens")
