"""`trinityd top` beside a daemon that answers: lines, a screen drawn in place, errors in one line."""
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import threading
import time

import pytest

import harness

LINE = (r"running (\d+) paused \d+ queue (\d+) generated/s ([0-9.]+) prompt/s ([0-9.]+) steps/s ([0-9.]+) "
        r"prefill_ms ([0-9.]+) decode_ms ([0-9.]+) mixed_ms [0-9.]+ local (\d+)\+(\d+)/(\d+) global (\d+)\+(\d+)/(\d+) "
        r"reused (\d+)%\n")


def certificate(folder, name):
    """A self-signed certificate; returns the two files."""
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate")
    cert, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", f"/CN={name}"], check=True, capture_output=True)
    return cert, key


def top(d, *args, **kw):
    return harness.run("top", f"--port={d.port}", *args, **kw)


def gauge(d, name):
    return next(v for k, v in harness.metrics(d).items() if k.startswith(f"trinityd_{name}{{"))


def test_one_line(daemon):
    d = daemon()
    body = {"prompt": list(range(20, 180)), "max_tokens": 1}
    d.complete(**body)
    d.complete(**body)
    r = top(d, "--once", "--every=200ms")
    assert (r.returncode, r.stderr) == (0, "")
    found = re.fullmatch(LINE, r.stdout)
    assert found, r.stdout
    running, queue, generated, prompt, steps, *_, reused = (float(x) for x in found.groups())
    assert (running, queue, generated, prompt, steps) == (0, 0, 0, 0, 0)
    for i, kind in ((8, "local"), (11, "global")):
        told = [int(found[j]) for j in (i, i + 1, i + 2)]
        assert told == [gauge(d, f"{kind}_pages{s}") for s in ("_used", "_cached", "")]
    assert reused == round(100 * gauge(d, "prefix_hits_total") / 320) > 0


def test_what_comes_meanwhile(daemon):
    """While a stream runs: one running, tokens and steps."""
    d = daemon(context_length=4096)
    s = d.stream("/v1/completions", {"prompt": "Once", "max_tokens": 4000, "ignore_eos": True})
    threading.Thread(target=lambda: list(s), daemon=True).start()
    harness.wait_for(lambda: gauge(d, "requests_running") == 1)
    r = top(d, "--once", "--every=100ms")
    found = re.fullmatch(LINE, r.stdout)
    assert r.returncode == 0 and found, (r.stdout, r.stderr)
    assert found[1] == "1" and float(found[3]) > 0 and float(found[5]) > 0 and float(found[7]) > 0
    assert float(found[6]) == 0  # no step of prefill meanwhile


def test_on_a_terminal(daemon):
    """The second drawing goes up as many lines as the first one had, and no line is wider than the terminal."""
    d = daemon()
    master, slave = pty.openpty()
    subprocess.run(["stty", "cols", "60", "rows", "24"], stdin=slave, check=True)
    p = subprocess.Popen([harness.TRINITYD, "top", f"--port={d.port}", "--every=100ms"], stdin=slave, stdout=slave,
                         env=harness.environment())
    os.close(slave)
    text, end = b"", time.monotonic() + harness.PATIENCE
    while text.count(b"\rprocess") < 3 and time.monotonic() < end:
        if select.select([master], [], [], 1)[0]:
            text += os.read(master, 65536)
    p.terminate()
    p.wait(10)
    os.close(master)
    text = text.decode()
    first, *more = re.split(r"\x1b\[(\d+)A", text)
    lines = [line.strip("\r").removesuffix("\x1b[K") for line in first.split("\n")[:-1]]
    assert len(more) >= 4 and set(more[::2]) == {str(len(lines))}, text
    assert max(map(len, lines)) == 59
    names = [line.split()[0] for line in lines]
    assert names == ["trinityd", "streams", "tokens/s", "steps", "local", "global", "prefixes", "weights", "process"]


def test_ways_to_the_daemon(daemon, tmp_path):
    d = daemon(unix_socket=tmp_path / "s", api_key="k", protect_metrics=True)
    path = f"--unix-socket={tmp_path / 's'}"
    assert re.fullmatch(LINE, harness.run("top", path, "--once", "--every=100ms", "--api-key=k").stdout)
    r = harness.run("top", path, "--once", "--every=100ms")
    assert r.returncode == 1 and re.fullmatch(r"trinityd: .*401.*\n", r.stderr)
    cert, key = certificate(tmp_path, "mine")
    d = daemon(tls_cert=cert, tls_key=key, api_key="k", protect_metrics=True)
    tls = (f"--tls-cert={cert}", f"--tls-key={key}", "--once", "--every=100ms", "--api-key=k")
    r = top(d, *tls)
    assert re.fullmatch(LINE, r.stdout), r.stderr
    other = certificate(tmp_path, "other")[0]  # a key goes to nobody else
    r = top(d, f"--tls-cert={other}", *tls[1:])
    assert r.returncode == 1 and "Permission denied" in r.stderr


def test_nobody_there():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        r = harness.run("top", f"--port={s.getsockname()[1]}", "--once")  # it does not listen
    assert r.returncode == 1 and re.fullmatch(r"trinityd: 127.0.0.1 port \d+: Connection refused\n", r.stderr)
