"""What stands around the daemon: files laid out by others, odd names, old limits, a log that nobody reads."""
import json
import re
import shutil
import socket
import subprocess

import harness

PROBE = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}


def test_an_offer_of_http_2_is_passed_over(demo):
    """T03: Java's client offers h2c with its first request; the body is read, and the connection goes on."""
    data = b'{"prompt": "Once", "max_tokens": 2}'
    offer = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
             b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nContent-Type: application/json\r\n")
    whole = offer + b"Content-Length: %d\r\n\r\n" % len(data) + data
    pieces = offer + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
    with demo.socket() as s, s.makefile("rb") as f:
        for request in (whole, whole, pieces):
            s.sendall(request)
            status, _, body = harness.read_reply(f)
            assert status == 200 and b'"choices"' in body


def test_a_log_nobody_reads_stops_nothing():
    """T10: the pipe of stderr is full, requests are answered all the same, and a signal ends the daemon."""
    p = subprocess.Popen([harness.TRINITYD, "serve", "--port", "0", "--threads", "1"], cwd=harness.ROOT,
                         env=harness.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                         bufsize=0)
    try:
        line = b""
        while b"listening on" not in line:
            line = p.stderr.readline()
            assert line, "it has ended"
        port = int(re.search(rb"listening on http://[^:]+:(\d+)", line)[1])
        with socket.create_connection(("127.0.0.1", port), harness.PATIENCE) as s, s.makefile("rb") as f:
            def ask(method, path, body=b""):
                s.sendall(b"%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                          % (method, path, len(body), body))
                return harness.read_reply(f)[0]

            harness.wait_for(lambda: ask(b"GET", b"/health") == 200)
            for _ in range(120):  # each leaves a line of more than a kilobyte; a pipe holds 64
                assert ask(b"GET", b"/" + b"x" * 1500) == 404
            assert ask(b"POST", b"/v1/completions", json.dumps(PROBE).encode()) == 200
        p.terminate()
        assert p.wait(harness.PATIENCE) == 0
    finally:
        p.kill()
        p.wait()
        p.stderr.close()


def test_a_folder_of_links(tmp_path, daemon, demo):
    """T18: caches of downloads keep a model as links to files that are named by their hashes."""
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshots" / "0123abcd"
    blobs.mkdir()
    folder.mkdir(parents=True)
    for i, file in enumerate(sorted(f for f in harness.DEMO.iterdir() if f.is_file())):
        shutil.copy(file, blobs / f"{i:064x}")
        (folder / file.name).symlink_to(f"../../blobs/{i:064x}")
    assert daemon(folder).complete(**PROBE)["choices"] == demo.complete(**PROBE)["choices"]


def test_a_name_with_quotes_in_the_metrics(daemon):
    """T19: a backslash, a quote and a line feed in a label are written as the text format has them."""
    d = daemon(served_model_name='a"b\\c\nd{}')
    lines = [line for line in d.get("/metrics").text.splitlines() if line.startswith("trinityd_")]
    assert len(lines) > 20
    for line in lines:
        labels = re.fullmatch(r'[a-z_]+\{((?:[a-z_]+="(?:[^"\\]|\\["\\n])*",?)+)\} \S+', line)
        assert labels and 'model_name="a\\"b\\\\c\\nd{}"' in labels[1], line


def test_a_low_soft_limit_of_files_is_raised(daemon, tmp_path):
    """T35: shells start programs with 1,024 files or fewer, though they may have more."""
    program = tmp_path / "trinityd"
    program.write_text(f'#!/bin/sh\nulimit -S -n 256\nexec {harness.TRINITYD} "$@"\n')
    program.chmod(0o755)
    d = daemon(binary=program)
    with open(f"/proc/{d.process.pid}/limits") as f:
        soft, hard = map(int, re.search(r"Max open files +(\d+) +(\d+)", f.read()).groups())
    assert 256 < soft <= hard and (hard < 8192 or "max_connections is" not in d.log)


def test_a_context_of_one_token(daemon):
    """There is room for a prompt or an answer, not for both: an error, and no more than that."""
    d = daemon(context_length=1)
    r = d.post("/v1/completions", {"prompt": [5], "max_tokens": 1})
    assert r.status == 400 and r.error["code"] == "context_length_exceeded"
    assert d.complete(prompt=[5], max_tokens=0, echo=True)["usage"]["total_tokens"] == 1
    r = harness.run("serve", "--port", 0, "--context-length", 4097)
    assert r.returncode in (1, 2)
    assert "context_length 4097 is more than the checkpoint's 4096" in r.stderr
