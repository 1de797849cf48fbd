"""What the Python tests share: a daemon on a free port, raw sockets, a reader of event streams, checkpoints on disk.

BUILD names the build folder (default `build`); TRINITYD_ISA of the caller's environment reaches every daemon, so that
the whole suite can run at one instruction set level.
"""
import fcntl
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import fixtures as fx

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("BUILD", "build")
TRINITYD = BUILD / "trinityd"
DEMO = ROOT / "config" / "demo"
GOLDEN = ROOT / "tests" / "golden"
# A sanitizer build on a loaded machine is slow; a test that hangs is ended by pytest-timeout.
PATIENCE = 60.0


def environment(extra=None):
    """The environment of a program under test: none of the caller's options but the instruction set level."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRINITYD_") or k == "TRINITYD_ISA"}
    return {**env, **(extra or {})}


def flags(options):
    """{"kv_type": "f32", "mmap": False} -> ["--kv-type=f32", "--mmap=false"]"""
    return [f"--{k.replace('_', '-')}={str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items()]


def run(*args, env=None, timeout=PATIENCE, **kw):
    """Runs `trinityd ARGS` to its end; the result has returncode, stdout, stderr (text)."""
    return subprocess.run([TRINITYD, *map(str, args)], env=environment(env), timeout=timeout, cwd=ROOT,
                          stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", **kw)


class Daemon:
    """A running daemon; a context manager that ends it, by force if need be.

    Keywords are options (`kv_type="f32"`); `argv` comes first on the command line as it is. `wait=False` returns before
    the daemon listens; `binary` is another build of the program. A sanitizer's report or a crash makes stop() raise.
    """

    def __init__(self, model=DEMO, *, argv=(), env=None, wait=True, binary=TRINITYD, **options):
        options = {"model": model, "port": 0, "threads": 1, **options}
        self.options = options
        self._log = []
        self.host, self.port = None, None
        self._listening = threading.Event()
        self.process = subprocess.Popen(
            [binary, "serve", *map(str, argv), *flags(options)], env=environment(env), cwd=ROOT,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8",
            errors="replace")
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if wait:
            try:
                self.wait_listening()
            except BaseException:
                self.kill()
                raise

    def _read_log(self):
        for line in self.process.stderr:
            self._log.append(line)
            m = re.search(r"listening on (https?)://(.+?):(\d+)", line)
            if m and self.port is None:
                self.scheme, self.host, self.port = m[1], m[2].strip("[]"), int(m[3])
                self._listening.set()
        self._listening.set()

    @property
    def log(self):
        """Everything written to stderr so far."""
        return "".join(self._log)

    @property
    def url(self):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def wait_listening(self, timeout=PATIENCE):
        assert self._listening.wait(timeout) and self.port, f"the daemon does not listen:\n{self.log}"

    def wait_log(self, pattern, timeout=PATIENCE):
        """Waits until a line of the log matches; returns the match."""
        return wait_for(lambda: re.search(pattern, self.log, re.M), timeout, lambda: f"no {pattern!r} in\n{self.log}")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=PATIENCE):
        """Waits for the end of the process; returns its exit status."""
        status = self.process.wait(timeout)
        self._reader.join(timeout)
        return status

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def stop(self):
        """Ends the daemon in good order: SIGTERM twice (drain, then at once); fails if that was not clean."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.terminate()
        try:
            status = self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the daemon did not end:\n{self.log}") from None
        assert "Sanitizer" not in self.log and "runtime error" not in self.log, self.log
        assert status == 0, f"exit status {status}:\n{self.log}"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            self.kill()

    # ---- requests ----

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE):
        """One request; `body` is bytes, text or an object to be sent as JSON. Returns a Reply, whatever the status."""
        if body is not None and not isinstance(body, bytes):
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        headers = {"Content-Type": "application/json", **(headers or {})}
        r = urllib.request.Request(self.url + path, data=body, method=method, headers=headers)
        try:
            with urllib.request.urlopen(r, timeout=timeout) as f:
                return Reply(f.status, f.headers, f.read())
        except urllib.error.HTTPError as e:
            with e:
                return Reply(e.code, e.headers, e.read())

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body, **kw):
        return self.request("POST", path, body, **kw)

    def complete(self, **body):
        """POST /v1/completions that must succeed; returns the parsed answer."""
        r = self.post("/v1/completions", {"temperature": 0, **body})
        assert r.status == 200, r.text
        return r.json()

    def chat(self, messages, **body):
        """POST /v1/chat/completions that must succeed; `messages` may be one user message's text."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        r = self.post("/v1/chat/completions", {"temperature": 0, "messages": messages, **body})
        assert r.status == 200, r.text
        return r.json()

    def stream(self, path, body, headers=None):
        """A POST whose answer is an event stream, as an iterator of parsed events; see Stream."""
        return Stream(self, path, {**body, "stream": True}, headers)

    def socket(self, timeout=PATIENCE):
        """A connected TCP socket."""
        return socket.create_connection((self.host, self.port), timeout)

    def raw(self, data, timeout=PATIENCE):
        """Sends bytes on a new connection and returns all that comes back until the daemon closes it."""
        with self.socket(timeout) as s:
            s.sendall(data)
            return read_to_end(s)

    def alive(self):
        """The daemon answers /health and runs."""
        return self.process.poll() is None and self.get("/health", timeout=5).status == 200


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object, its shape checked."""
        assert self.headers.get_content_type() == "application/json", self.headers
        e = self.json()["error"]
        assert {"message", "type", "param", "code"} <= set(e) and isinstance(e["message"], str), e
        return e


class Stream:
    """An event stream read from a raw socket, one event at a time.

    Iterating gives the parsed `data:` objects up to `[DONE]`; afterwards `done` tells whether it came, `comments` holds
    the comment lines. close() drops the connection at once, as a client that goes away does.
    """

    def __init__(self, daemon, path, body, headers=None):
        data = json.dumps(body).encode()
        head = {"Host": f"{daemon.host}:{daemon.port}", "Content-Type": "application/json",
                "Content-Length": len(data), **(headers or {})}
        self.sock = daemon.socket()
        self.sock.sendall(f"POST {path} HTTP/1.1\r\n".encode()
                          + "".join(f"{k}: {v}\r\n" for k, v in head.items()).encode() + b"\r\n" + data)
        self.file = self.sock.makefile("rb")
        self.status, self.headers = read_head(self.file)
        self.done, self.comments = False, []

    def body(self):
        """The body's bytes as they come, without the chunked framing; ends at the last chunk."""
        if self.headers.get("transfer-encoding") != "chunked":
            yield self.file.read(int(self.headers.get("content-length", 0)))
            return
        while size := int(self.file.readline().split(b";")[0] or b"0", 16):
            yield self.file.read(size)
            self.file.read(2)
        self.file.readline()

    def __iter__(self):
        assert self.status == 200, (self.status, b"".join(self.body()))
        for event in parse_events(self.body(), self.comments):
            if event == "[DONE]":
                self.done = True
            else:
                assert not self.done, "an event after [DONE]"
                yield json.loads(event)

    def close(self):
        self.file.close()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def parse_events(chunks, comments=None):
    """The data of every event in an iterable of bytes, by the rules of the HTML standard's event streams."""
    pending, data = b"", []
    for chunk in chunks:
        pending += chunk
        *lines, pending = pending.split(b"\n")
        for line in lines:
            line = line.rstrip(b"\r").decode()
            if not line:
                if data:
                    yield "\n".join(data)
                data = []
            elif line.startswith(":"):
                if comments is not None:
                    comments.append(line[1:].strip())
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
    assert not pending and not data, "the stream ends within an event"


def read_head(file):
    """Status and headers (names in lower case) of one HTTP answer on a binary file."""
    line = file.readline()
    assert line.startswith(b"HTTP/1."), line
    headers = {}
    while (field := file.readline().rstrip(b"\r\n")) != b"":
        name, _, value = field.partition(b":")
        headers[name.decode().lower()] = value.strip().decode("latin-1")
    return int(line.split()[1]), headers


def read_reply(file):
    """One whole HTTP answer on a binary file (a kept-alive connection): (status, headers, body)."""
    status, headers = read_head(file)
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(file.readline().split(b";")[0], 16):
            body += file.read(size)
            file.read(2)
        file.readline()
        return status, headers, body
    return status, headers, file.read(int(headers.get("content-length", 0)))


def read_to_end(sock):
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def wait_for(condition, timeout=PATIENCE, message=lambda: "the condition did not come true"):
    """Polls until condition() is true and returns its value; for states that no event announces."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, message()
        time.sleep(0.01)
    return value


def metrics(daemon):
    """The counters of /metrics: {"name{labels}": value}."""
    rows = (line.rsplit(" ", 1) for line in daemon.get("/metrics").text.splitlines() if line and line[0] != "#")
    return {name: float(value) for name, value in rows}


# ---- checkpoints ----


def checkpoint(name, make):
    """The folder BUILD/test-checkpoints/NAME, made once by make(folder); a lock serves parallel test processes."""
    base = BUILD / "test-checkpoints"
    base.mkdir(parents=True, exist_ok=True)
    with open(base / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / name).is_dir():
            with tempfile.TemporaryDirectory(dir=base) as tmp:
                make(Path(tmp) / "new")
                (Path(tmp) / "new").rename(base / name)
    return base / name


def f1_checkpoint(name="f1", **kw):
    """The random model of the fixtures as a folder; give every variation its own name."""
    return checkpoint(name, lambda d: fx.write(d, *fx.f1(**kw), fx.ftok()))


def script_checkpoint(folder, edges, pieces=(), **kw):
    """A model that follows `edges`, written to a folder of the test's own (tmp_path)."""
    return fx.write(folder, *fx.fscript(edges, pieces, **kw))
