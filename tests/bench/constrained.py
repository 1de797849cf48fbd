"""Speed of answers that a JSON schema binds, beside free ones of the same daemon, and llama-server's beside them.

    python constrained.py TRINITYD MODEL [LLAMA_SERVER [MODEL_OF_IT]]

Free and bound answers take turns, ROUNDS times (3); each figure is the median of tokens per second over a group of
requests sent at once, prompts included (they are short). The schema has no end within TOKENS (256) tokens. Weights may
be random: strings are bounded, so that they end. The last line is the time that the largest of three schemas takes the
first time, as a request of one token, less that of a free one.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from statistics import median

ROUNDS, TOKENS = int(os.environ.get("ROUNDS", "3")), int(os.environ.get("TOKENS", "256"))
SIZES = [int(n) for n in os.environ.get("SIZES", "1,8").split(",")]
THREADS = str(len(os.sched_getaffinity(0)))

PERSON = {
    "type": "object",
    "properties": {
        "customer_id": {"type": "integer", "minimum": 1, "maximum": 99999},
        "full_name": {"type": "string", "maxLength": 24},
        "active": {"type": "boolean"},
        "plan": {"enum": ["free", "standard", "professional", "enterprise"]},
        "balance": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 10}, "maxItems": 3},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 30}, "postal_code": {"type": "string", "pattern": "^[0-9]{5}$"}},
            "required": ["street", "postal_code"],
            "additionalProperties": False,
        },
    },
    "required": ["customer_id", "full_name", "active", "plan", "balance", "tags", "address"],
    "additionalProperties": False,
}
ENDLESS = {"type": "array", "items": PERSON, "minItems": 500, "maxItems": 1000}


def large(names):
    """An object of many properties and definitions."""
    defs = {f"Type{i}": {**PERSON, "description": "x" * 40} for i in range(names // 10)}
    fields = {f"property_{i}": {"$ref": f"#/$defs/Type{i % len(defs)}"} for i in range(names)}
    return {"$defs": defs, "type": "object", "properties": fields, "required": list(fields)[::2], "additionalProperties": False}


class Server:
    def __init__(self, command, ready):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.base = f"http://127.0.0.1:{s.getsockname()[1]}"
            port = str(s.getsockname()[1])
        self.process = subprocess.Popen([*command, "--port", port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            time.sleep(0.2)
            if self.process.poll() is not None:
                raise SystemExit(f"{command[0]} ended with {self.process.returncode}")
            try:
                urllib.request.urlopen(self.base + ready, timeout=5).read()
                return
            except OSError:
                pass

    def post(self, path, body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request, timeout=600).read())

    def stop(self):
        self.process.terminate()
        self.process.wait()


def ours(server, seed, tokens, schema):
    body = {"prompt": [300 + seed, 301, 302, 303], "max_tokens": tokens, "temperature": 1, "seed": seed, "ignore_eos": True}
    if schema:
        body["json_schema"] = schema
    return server.post("/v1/completions", body)["usage"]["completion_tokens"]


def theirs(server, seed, tokens, schema):
    body = {"prompt": [300 + seed, 301, 302, 303], "n_predict": tokens, "temperature": 1, "seed": seed, "ignore_eos": True,
            "cache_prompt": False}
    if schema:
        body["json_schema"] = schema
    return server.post("/completion", body)["tokens_predicted"]


def rate(server, ask, n, schema):
    begin = time.monotonic()
    with ThreadPoolExecutor(n) as pool:
        done = sum(pool.map(lambda seed: ask(server, seed, TOKENS, schema), range(n)))
    return done / (time.monotonic() - begin)


def measure(sides):
    for n in SIZES:
        rates = {name: ([], []) for name in sides}
        for turn in range(ROUNDS + 1):  # the first one warms up
            for name, (server, ask) in sides.items():
                for schema, into in zip((None, ENDLESS), rates[name]):
                    into.append(rate(server, ask, n, schema))
        for name, (free, bound) in rates.items():
            f, b = median(free[1:]), median(bound[1:])
            print(f"{name:9} {n:3} at once   free {f:8.1f}   bound {b:8.1f} tokens/s   ratio {b / f:5.2f}", flush=True)


def metrics(server):
    text = urllib.request.urlopen(server.base + "/metrics").read().decode()
    values = {l.split("{")[0]: float(l.split()[-1]) for l in text.splitlines() if l.startswith("trinityd_")}
    tokens = values["trinityd_constrained_tokens_total"]
    print(f"of {tokens:.0f} bound tokens {100 * values['trinityd_forced_tokens_total'] / tokens:.0f} % certain, "
          f"{100 * values['trinityd_partial_head_rows_total'] / tokens:.0f} % with a part of the head; "
          f"masks {1e6 * values['trinityd_mask_seconds_total'] / tokens:.1f} us a token")


def compile_time(server):
    for names in (30, 100, 300):
        schema, times = large(names), []
        for use in (None, schema):
            begin = server.clock()
            ours(server, 1, 1, use)
            times.append(server.clock() - begin)
        print(f"schema of {len(json.dumps(schema)) >> 10} KiB: {1e3 * (times[1] - times[0]):.0f} ms the first time")


if __name__ == "__main__":
    trinityd, model, *peer = sys.argv[1:]
    mine = Server([trinityd, "serve", "--model", model, "--threads", THREADS, "--kv-cache", "1GiB"], "/readyz")
    sides = {"trinityd": (mine, ours)}
    if peer:
        other = Server([peer[0], "-m", peer[-1] if len(peer) > 1 else model, "-t", THREADS, "-c", "8192", "-np", str(max(SIZES))], "/health")
        sides["llama"] = (other, theirs)
    try:
        measure(sides)
        metrics(mine)
        compile_time(mine)
    finally:
        for server, _ in sides.values():
            server.stop()
