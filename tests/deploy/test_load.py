"""The load tests of deploy/load/: what the load driver says is so, and locust runs without an error."""
import json
import os
import shutil
import socketserver
import statistics
import subprocess
import tempfile
import threading
import time

import pytest

import harness

DRIVER = harness.BUILD / "tests/bench/load/load"
HEAD = {"id": "x", "object": "text_completion", "created": 1, "model": "demo"}
PIECES = [" one", " two", " three", " four", " five", " six", " seven", " eight"] * 3


def drive(url, *args, status=0, timeout=120):
    """Runs the driver; returns (figures, what it printed)."""
    with tempfile.NamedTemporaryFile() as f:
        r = subprocess.run([DRIVER, "--url", url, "--json", f.name, *map(str, args)], capture_output=True, text=True,
                           timeout=timeout)
        assert r.returncode == status, r.stdout + r.stderr
        return json.load(f), r.stdout


class Server(socketserver.ThreadingTCPServer):
    """Says PIECES with a pause before each, and notes when each was sent. `spoil` changes the n-th answer."""
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128

    def __init__(self, pause=0.0, spoil=None, first=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pause, self.first, self.count, self.times = pause, pause if first is None else first, 0, []
        self.spoil = spoil or (lambda n, pieces: pieces)
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        length = 0
        while (line := self.rfile.readline().strip()):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.rfile.read(length)
        with self.server.lock:
            n, self.server.count = self.server.count, self.server.count + 1
        pieces = self.server.spoil(n, PIECES)
        if isinstance(pieces, int):
            self.wfile.write(b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n\r\n{}" % pieces)
            return
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = []
        for piece in pieces:
            if piece is None:
                return
            time.sleep(self.server.pause if sent else self.server.first)
            sent.append(time.perf_counter())
            self.event(json.dumps({**HEAD, "choices": [{"index": 0, "text": piece}]}))
        self.server.times.append(sent)
        usage = {"prompt_tokens": 1, "completion_tokens": len(pieces), "total_tokens": 1 + len(pieces)}
        self.event(json.dumps({**HEAD, "choices": [], "usage": usage}))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, data):
        data = f"data: {data}\n\n".encode()
        # In two pieces: events need not come whole.
        self.wfile.write(b"%x\r\n" % len(data) + data[:7])
        self.wfile.write(data[7:] + b"\r\n")


def test_figures_are_those_of_the_server_s_own_clock():
    """Within 5 % of when the server sent what: gaps, time per token, counts."""
    with Server(pause=0.03) as s:
        figures, text = drive(s.url, "--requests", 6, "--concurrency", 2)
        gaps = [b - a for sent in s.times for a, b in zip(sent, sent[1:])]
        spans = [(sent[-1] - sent[0]) / (len(sent) - 1) for sent in s.times]
    assert figures["good"] == 6 and figures["gap_ms"]["n"] == len(gaps) == 6 * (len(PIECES) - 1)
    assert figures["gap_ms"]["mean"] == pytest.approx(1e3 * statistics.mean(gaps), rel=0.05)
    assert figures["gap_ms"]["p50"] == pytest.approx(1e3 * statistics.median(gaps), rel=0.05)
    assert figures["tpot_ms"]["mean"] == pytest.approx(1e3 * statistics.mean(spans), rel=0.05)
    assert figures["tokens_per_second"] * figures["seconds"] == pytest.approx(6 * len(PIECES))
    assert figures["ttft_ms"]["p50"] >= 30 and "time to first token" in text and "#" in text


def test_figures_are_aiperf_s(tmp_path):
    """The same load on the same server, by aiperf: within 5 %."""
    aiperf = harness.ROOT / "build/clients/aiperf/bin/aiperf"
    if not aiperf.exists():
        pytest.skip("`make clients` installs aiperf")
    (tmp_path / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(harness.DEMO / name, tmp_path / "tokenizer")
    with Server(pause=0.2, first=1.5) as s:
        figures, _ = drive(s.url, "--requests", 16, "--concurrency", 8)
        r = subprocess.run([aiperf, "profile", "-m", "demo", "--url", s.url, "--endpoint-type", "completions", "--streaming",
                            "--tokenizer", tmp_path / "tokenizer", "--concurrency", "8", "--request-count", "16",
                            "--synthetic-input-tokens-mean", "16", "--output-tokens-mean", "24", "--use-server-token-count",
                            "--ui", "simple", "--artifact-dir", tmp_path / "out", "--workers-max", "1"], cwd=tmp_path,
                           env={**os.environ, "HOME": str(tmp_path), "DO_NOT_TRACK": "1"}, capture_output=True, text=True)
    assert r.returncode == 0, r.stdout[-3000:]
    theirs = json.loads(next((tmp_path / "out").rglob("profile_export_aiperf.json")).read_text())
    pairs = {"time_to_first_token": "ttft_ms", "inter_token_latency": "tpot_ms", "request_latency": "e2e_ms"}
    for name, own in pairs.items():
        assert figures[own]["p50"] == pytest.approx(theirs[name]["p50"], rel=0.05), name
    assert figures["tokens_per_second"] == pytest.approx(theirs["output_token_throughput"]["avg"], rel=0.05)


def test_wrong_and_broken_answers_are_noticed():
    """The eight prompts are asked alone first; then answers 8.. under load: one wrong, one cut, one 429, one error."""
    def spoil(n, pieces):
        return {9: pieces[:-1] + [" another"], 11: pieces[:3] + [None], 13: 429}.get(n, pieces)
    with Server(spoil=spoil) as s:
        figures, text = drive(s.url, "--requests", 8, "--concurrency", 1, "--check", status=1)
    assert (figures["good"], figures["wrong"], figures["failed"]) == (6, 1, 2)
    assert figures["errors"] == {"the connection ended early": 1, "429 (queue full)": 1}
    assert "wrong 1" in text


def test_goodput_counts_what_kept_every_bound():
    with Server(pause=0.01) as s:
        assert drive(s.url, "--requests", 4, "--slo-gap", 5)[0]["goodput"] == 0
        figures, _ = drive(s.url, "--requests", 4, "--slo-gap", 5000, "--slo-ttft", 5000, "--slo-e2e", 9000)
    assert figures["goodput"] == pytest.approx(figures["requests_per_second"]) and figures["good"] == 4


def test_nobody_listens():
    figures, _ = drive("http://127.0.0.1:1", "--requests", 3, status=1)
    assert figures["failed"] == 3 and figures["errors"] == {"connect": 3}


@pytest.mark.parametrize("how", [("--concurrency", 16), ("--rate", 40)])
def test_answers_under_load_are_those_alone(demo, how, tmp_path):
    svg = tmp_path / "load.svg"
    figures, _ = drive(demo.url, *how, "--requests", 48, "--max-tokens", 24, "--check", "--svg", svg)
    assert (figures["good"], figures["wrong"], figures["failed"]) == (48, 0, 0)
    assert svg.read_text().startswith("<svg") and svg.read_text().count("<rect") == 72


def test_tools_in_turn(demo, tmp_path):
    """`make load-all` says of each tool what came of it; one that is not there is no failure, a wrong answer is one."""
    env = {**os.environ, "URL": demo.url, "MODEL": "demo", "FOLDER": str(harness.DEMO), "TOOLS": "own nonsense"}
    command = ["deploy/load/all", harness.BUILD, tmp_path]
    r = subprocess.run(command, cwd=harness.ROOT, env=env, capture_output=True, text=True)
    assert (r.returncode, r.stdout) == (0, "own: passed\nnonsense: not installed\n"), r.stdout + r.stderr
    assert (tmp_path / "own.svg").exists() and json.loads((tmp_path / "own.json").read_text())["wrong"] == 0
    r = subprocess.run(command, cwd=harness.ROOT, env={**env, "URL": "http://127.0.0.1:1", "TOOLS": "own"}, capture_output=True,
                       text=True)
    assert r.returncode == 1 and r.stdout.startswith("own: failed"), r.stdout + r.stderr


def test_locust(demo, tmp_path):
    """Its command as deploy/load/run has it; no request may fail, streams are read to their ends."""
    if not (harness.ROOT / "build/tools/tools/bin/locust").exists():
        pytest.skip("locust is not installed: `make tools`")
    r = subprocess.run(["deploy/load/run", "locust", demo.url, "demo", harness.DEMO, tmp_path], cwd=harness.ROOT,
                       env={**os.environ, "SECONDS_LONG": "8", "STREAMS": "8", "ANSWER": "8"}, capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    rows = {row["name"]: row for row in json.loads((tmp_path / "locust.json").read_text())}
    assert sum(row["num_failures"] for row in rows.values()) == 0
    assert rows["whole answer"]["num_requests"] == rows["first token"]["num_requests"] > 0
    assert rows["/v1/completions (whole)"]["num_requests"] > 0
