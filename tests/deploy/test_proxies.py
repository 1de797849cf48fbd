"""Two daemons behind HAProxy and behind nginx, with the settings of deploy/proxy/: streams come token by token, and the
loss of one daemon is nobody's wrong answer."""
import http.client
import json
import os
import shutil
import signal
import socket
import string
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

import harness

FOLDER = harness.ROOT / "deploy/proxy"
PROMPTS = ["Once upon a time there was a fox", "In a deep forest lived", "The little girl said", "One day a boy found",
           "A bird sat on a tree", "The old man had a dog", "Mother made a cake", "It was a cold night"]
LENGTH = 200
NGINX = """\
daemon off;
pid {work}/nginx.pid;
error_log stderr warn;
worker_processes 1;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {work}/body;
    proxy_temp_path {work}/proxy;
    fastcgi_temp_path {work}/fastcgi;
    uwsgi_temp_path {work}/uwsgi;
    scgi_temp_path {work}/scgi;
    include {work}/site.conf;
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Proxy:
    """A proxy in front of two addresses; `url` is where it answers."""

    def __init__(self, kind, replicas, work):
        self.host, self.port = "127.0.0.1", free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        told = {"REPLICA_A": replicas[0], "REPLICA_B": replicas[1], "LISTEN": f"127.0.0.1:{self.port}",
                "METRICS": f"127.0.0.1:{free_port()}"}
        self.metrics = f"http://{told['METRICS']}/metrics"
        if kind == "haproxy":
            command = [shutil.which("haproxy") or "/usr/sbin/haproxy", "-f", FOLDER / "haproxy.cfg"]
            check = command + ["-c"]
        else:
            site = string.Template((FOLDER / "nginx.conf.template").read_text()).safe_substitute(told)
            (work / "site.conf").write_text(site)
            (work / "nginx.conf").write_text(NGINX.format(work=work))
            command = [shutil.which("nginx") or "/usr/sbin/nginx", "-p", work, "-c", work / "nginx.conf"]
            check = command + ["-t"]
        if not os.path.exists(command[0]):
            pytest.skip(f"{kind} is not installed")
        env = {**os.environ, **told}
        self.checked = subprocess.run(check, env=env, capture_output=True, text=True)
        assert self.checked.returncode == 0, self.checked.stderr
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        harness.wait_for(lambda: self.status() == 200)

    def status(self):
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=5) as f:
                return f.status
        except urllib.error.HTTPError as e:
            return e.code
        except OSError:
            return None

    def socket(self, timeout=harness.PATIENCE):
        return socket.create_connection((self.host, self.port), timeout)

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(params=["haproxy", "nginx"])
def site(request, tmp_path, daemon):
    """(proxy, its two daemons)"""
    daemons = [daemon(metrics_compat="vllm", stream_ping="1s") for _ in range(2)]
    proxy = Proxy(request.param, [f"127.0.0.1:{d.port}" for d in daemons], tmp_path)
    yield proxy, daemons
    proxy.stop()


def ask(url, prompt, n=LENGTH, stream=False):
    body = {"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True, "stream": stream}
    return urllib.request.urlopen(urllib.request.Request(
        url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}),
        timeout=harness.PATIENCE)


def whole(url, prompt, n=LENGTH):
    with ask(url, prompt, n) as f:
        return json.load(f)["choices"][0]["text"]


def streamed(url, prompt, n=LENGTH):
    """(text so far, how it ended): done, cut (the connection ended within the stream), or the status of a refusal."""
    text = ""
    try:
        with ask(url, prompt, n, stream=True) as f:
            for line in f:
                if line.startswith(b"data: [DONE]"):
                    return text, "done"
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    if "error" in event:
                        return text, "cut"
                    text += event["choices"][0]["text"]
        return text, "cut"
    except urllib.error.HTTPError as e:
        assert json.load(e)["error"]["message"], "an error is JSON"
        return text, e.code
    except (OSError, ValueError, http.client.HTTPException):
        return text, "cut"


def pieces(place, n):
    """Into how many reads of the socket a stream of n tokens came."""
    body = {"prompt": PROMPTS[0], "max_tokens": n, "temperature": 0, "ignore_eos": True, "stream": True}
    with harness.Stream(place, "/v1/completions", body) as s:
        s.sock.settimeout(harness.PATIENCE)
        reads, seen = 0, b""
        while b"data: [DONE]" not in seen:
            part = s.file.read1(1 << 16)
            assert part, "the stream ended early"
            seen += part
            reads += b"data: {" in part
        return reads


def test_tokens_come_one_by_one(site):
    """A proxy that gathers makes a handful of 400 tokens; a busy reader finds some of them together, whoever sends."""
    proxy, _ = site
    assert max(pieces(proxy, 400) for _ in range(3)) > 12


def test_killing_one_of_two_daemons_under_load(site):
    proxy, daemons = site
    right = {p: whole(daemons[0].url, p) for p in PROMPTS}
    short = {p: whole(daemons[0].url, p, 20) for p in PROMPTS}
    assert len(set(right.values())) == len(PROMPTS)
    results = []
    started = threading.Barrier(len(PROMPTS) + 1)

    def user(prompt):
        started.wait()
        for _ in range(3):
            results.append((prompt, *streamed(proxy.url, prompt)))

    threads = [threading.Thread(target=user, args=(p,)) for p in PROMPTS]
    for t in threads:
        t.start()
    started.wait()
    harness.wait_for(lambda: all(harness.metrics(d)['trinityd_requests_running{model_name="demo"}'] > 1 for d in daemons))
    daemons[1].signal(signal.SIGKILL)
    daemons[1].process.wait()
    time.sleep(2)
    late = {p: whole(proxy.url, p, 20) for p in PROMPTS}  # from here on nothing may fail
    for t in threads:
        t.join()
    assert late == short
    assert len(results) == 3 * len(PROMPTS)
    ends = {e for *_, e in results}
    assert ends <= {"done", "cut", 502, 503}, ends
    for prompt, text, end in results:
        assert text == right[prompt] if end == "done" else right[prompt].startswith(text), (prompt, end, text)
    # The other daemon's streams went on: at most what one daemon had under way was lost.
    assert sum(e != "done" for *_, e in results) <= len(PROMPTS)
    assert sum(e == "cut" for *_, e in results) >= 1, "nothing was under way when the daemon was killed"
    assert proxy.status() == 200


def test_a_daemon_that_drains_loses_nothing(site):
    """SIGTERM is no loss: what runs is finished, what is new goes to the other."""
    proxy, daemons = site
    right = {p: whole(daemons[0].url, p) for p in PROMPTS}
    results = []
    threads = [threading.Thread(target=lambda p=p: results.extend((p, *streamed(proxy.url, p)) for _ in range(3)))
               for p in PROMPTS]
    for t in threads:
        t.start()
    harness.wait_for(lambda: all(harness.metrics(d)['trinityd_requests_running{model_name="demo"}'] > 0 for d in daemons))
    daemons[1].signal(signal.SIGTERM)
    for t in threads:
        t.join()
    assert daemons[1].wait() == 0
    assert [(p, e) for p, _, e in results if e != "done"] == []
    assert all(text == right[p] for p, text, _ in results)


def test_no_daemon_at_all_is_said_in_json(site):
    proxy, daemons = site
    for d in daemons:
        d.signal(signal.SIGKILL)
        d.process.wait()
    harness.wait_for(lambda: proxy.status() == 503)
    with pytest.raises(urllib.error.HTTPError) as e:
        whole(proxy.url, PROMPTS[0], 4)
    assert e.value.code == 503 and e.value.headers["Retry-After"]
    assert json.load(e.value)["error"]["message"]


def test_haproxy_shows_its_own_metrics(site):
    proxy, _ = site
    try:
        with urllib.request.urlopen(proxy.metrics, timeout=5) as f:
            assert b"haproxy_backend_active_servers" in f.read()
    except urllib.error.URLError:
        assert "nginx" in proxy.checked.stderr
