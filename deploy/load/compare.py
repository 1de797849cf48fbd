"""Our daemon beside llama.cpp's llama-server: the same file, prompts and arrivals, taking turns; prints a table.

    python3 deploy/load/compare.py TRINITYD LLAMA_SERVER MODEL.gguf [STREAMS [TOKENS [RATE [ROUNDS]]]]

STREAMS requests of TOKENS tokens arrive at RATE a second (Poisson, the same seed for both). build/tests/bench/load/load does
the asking: `make build/tests/bench/load/load`.
"""
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

DRIVER = Path("build/tests/bench/load/load")
THREADS = len(os.sched_getaffinity(0))
CONTEXT = 256  # tokens a sequence


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def wait_ready(process, url):
    for _ in range(1200):
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url + "/health", timeout=5) as f:
                if f.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise TimeoutError(url)


def measure(command, url, prompts, streams, tokens, rate):
    """Figures of one server's run, its own process from start to end."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_ready(server, url)
        with tempfile.NamedTemporaryFile() as report:
            subprocess.run([DRIVER, "--url", url, "--requests", str(streams), "--rate", str(rate), "--max-tokens", str(tokens),
                            "--ignore-eos", "--prompts", prompts, "--json", report.name], stdout=subprocess.DEVNULL)
            return json.load(report)
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


def main(trinityd, llama, model, streams=256, tokens=32, rate=64.0, rounds=1):
    dice = random.Random(1)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as prompts:
        for _ in range(streams):
            prompts.write(" ".join("".join(dice.choices("abcdefgh", k=4)) for _ in range(8)) + "\n")
        prompts.flush()
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        sides = {
            "trinityd": [trinityd, "--model", model, "--port", str(port), "--max-sequences", str(streams), "--max-queue",
                         str(streams), "--context-length", str(CONTEXT), "--log-level", "error"],
            "llama-server": [llama, "-m", model, "--port", str(port), "-np", str(streams), "-c", str(streams * CONTEXT),
                             "-t", str(THREADS), "--no-webui"],
        }
        found = {name: [] for name in sides}
        for _ in range(rounds):
            for name, command in sides.items():
                found[name].append(measure(command, url, prompts.name, streams, tokens, rate))
    print(f"{streams} requests of {tokens} tokens, {rate:g} a second, {THREADS} threads, {Path(model).name}\n")
    print("| | errors | tokens/s | first token p50, p99 | gap p50, p99 | whole p50, p99 |\n|---|---|---|---|---|---|")
    for name, runs in found.items():
        def mid(f):
            return statistics.median(f(r) for r in runs)
        cells = [f"{mid(lambda r: r['failed']):.0f}", f"{mid(lambda r: r['tokens_per_second']):.0f}"]
        for key, unit, scale in (("ttft_ms", "s", 1e-3), ("gap_ms", "ms", 1), ("e2e_ms", "s", 1e-3)):
            cells.append(f"{mid(lambda r: r[key]['p50'] * scale):.3g}, {mid(lambda r: r[key]['p99'] * scale):.3g} {unit}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    trinityd, llama, model, *rest = sys.argv[1:]
    kinds = (int, int, float, int)
    main(trinityd, llama, model, *(kind(x) for kind, x in zip(kinds, rest)))
