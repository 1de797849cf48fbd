"""The container image: built with buildah on a base made by debootstrap (no registry is needed), run with podman.

Needs root and Debian's packages; skipped, with the reason, where they are not to be had. The base and podman's storage
stay in build/image for the next run.
"""
import json
import os
import re
import socket
import subprocess
import threading
import urllib.request
import uuid
from pathlib import Path

import pytest

import harness
from deploy import test_proxies as proxies

# It compiles the daemon once more, and fetches Debian's packages.
pytestmark = pytest.mark.timeout(1500)

WORK = harness.ROOT / "build" / "image"
IMAGE = "localhost/trinityd-test"
BASE = "localhost/debian-slim:bookworm"
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{work}/storage"
runroot = "{work}/run"
"""
# What podman needs in a container itself: no systemd, no raised limits.
CONTAINERS = """\
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
"""


def tool(*args, timeout=900, **env):
    """One command from the repository's root, with our own storage; keywords are environment variables."""
    env = {**os.environ, "CONTAINERS_STORAGE_CONF": f"{WORK}/storage.conf",
           "CONTAINERS_CONF": f"{WORK}/containers.conf", **env}
    return subprocess.run(list(map(str, args)), cwd=harness.ROOT, env=env, timeout=timeout, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)


def need(*args):
    """The output of a command without which nothing here can be tested."""
    r = tool(*args)
    if r.returncode:
        pytest.skip(f"{' '.join(map(str, args[:3]))}: {(r.stderr or r.stdout).strip()[-300:]}")
    return r.stdout.strip()


@pytest.fixture(scope="module")
def image():
    if os.geteuid() != 0:
        pytest.skip("building an image here needs root")
    WORK.mkdir(parents=True, exist_ok=True)
    need("deploy/packages", "image")
    (WORK / "containers.conf").write_text(CONTAINERS)
    (WORK / "storage.conf").write_text(STORAGE.format(work=WORK))
    if tool("buildah", "inspect", "--type", "image", BASE).returncode:
        need("deploy/base", BASE, "buildah")
    r = tool("deploy/image", IMAGE, BASE)
    assert r.returncode == 0, r.stdout[-3000:] + r.stderr[-3000:]
    yield json.loads(need("buildah", "inspect", "--type", "image", IMAGE))
    tool("buildah", "rmi", "--prune")


@pytest.fixture(scope="module")
def container(image):
    """A running container, as restricted as an orchestrator makes it: (name, address)."""
    name = f"trinityd-{uuid.uuid4().hex[:8]}"
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    need("podman", "run", "--detach", "--name", name, "--network", "host", "--read-only", "--cap-drop", "all",
         "--security-opt", "no-new-privileges", "--user", "54321:54321", "--memory", "256m",
         "--cpus", "0.5", "--env", f"TRINITYD_PORT={port}", "--env", "TRINITYD_HOST=127.0.0.1", IMAGE)
    try:
        harness.wait_for(lambda: "listening on" in tool("podman", "logs", name).stderr,
                         message=lambda: tool("podman", "logs", name).stderr)
        yield name, f"http://127.0.0.1:{port}"
    finally:
        tool("podman", "rm", "--force", "--time", "5", name)


def test_image_says_what_an_orchestrator_asks(image):
    config = image["Docker"]["config"]
    assert config["User"].split(":")[0].isdecimal() and config["User"].split(":")[0] != "0"
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/trinityd", "health"]
    assert config["Entrypoint"] == ["/usr/bin/trinityd"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_image_says_where_it_is_from(image):
    labels = image["Docker"]["config"]["Labels"]
    revision = labels["org.opencontainers.image.revision"].removesuffix("-changed")
    known = subprocess.run(["git", "cat-file", "-e", f"{revision}^{{commit}}"], cwd=harness.ROOT, capture_output=True)
    assert known.returncode == 0 or revision == "unknown", revision
    version = subprocess.run([harness.TRINITYD, "--version"], capture_output=True, text=True, check=True).stdout
    assert labels["org.opencontainers.image.version"] in version.split()
    assert image["Docker"]["created"][:19] == labels["org.opencontainers.image.created"][:19]


def test_image_holds_the_daemon_and_little_else(image):
    """Below 60 MB without the checkpoint; no shell; every library's package is listed, with its licence."""
    mounted = need("buildah", "from", IMAGE)
    root = Path(need("buildah", "mount", mounted))
    try:
        files = [p for p in root.rglob("*") if p.is_file() and not p.is_symlink()]
        assert sum(p.stat().st_size for p in files if "usr/share/trinityd/demo" not in str(p)) < 60e6
        assert not [p for p in files if p.parent.name == "bin" and p.name != "trinityd"]
        listed = dict(line.split() for line in (root / "usr/share/trinityd/packages.txt").read_text().splitlines())
        assert {"libc6", "libmicrohttpd12", "libjansson4"} <= set(listed)
        assert all((root / "usr/share/doc" / p / "copyright").exists() for p in listed)
    finally:
        need("buildah", "rm", mounted)


def test_container_answers_is_healthy_and_ends_with_its_streams(container):
    """Half a processor and 256 MiB; SIGTERM while a stream runs, which is finished."""
    name, url = container
    log = tool("podman", "logs", name).stderr
    assert re.search(r"(\d+) thread", log)[1] == "1", log

    def ask(**body):
        request = urllib.request.Request(url + "/v1/completions", data=json.dumps({"temperature": 0, **body}).encode(),
                                         headers={"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=harness.PATIENCE)
    with ask(prompt="Once upon a time", max_tokens=8) as f:
        assert json.load(f)["usage"]["completion_tokens"] == 8
    assert tool("podman", "healthcheck", "run", name).returncode == 0
    with ask(prompt="Once upon a time", max_tokens=1000, ignore_eos=True, stream=True) as f:
        assert f.readline().startswith(b"data: {")
        stop = threading.Thread(target=lambda: stopped.append(tool("podman", "stop", "--time", "40", name).returncode))
        stopped = []
        stop.start()
        assert f.read().endswith(b"data: [DONE]\n\n")
    stop.join()
    state = json.loads(need("podman", "inspect", name))[0]["State"]
    assert stopped == [0] and state["ExitCode"] == 0 and not state["OOMKilled"], tool("podman", "logs", name).stderr


def test_compose_starts_the_replicas(image, tmp_path):
    """podman-compose with our file: two daemons that answer behind HAProxy, and end by SIGTERM."""
    compose = harness.ROOT / "build/tools/tools/bin/podman-compose"
    if not compose.exists():
        pytest.skip("podman-compose is not installed: `make tools`")
    project = f"trinityd-{uuid.uuid4().hex[:8]}"
    run = [compose, "-p", project, "-f", "deploy/compose.yaml", "--profile", "replicas"]
    names = [f"{project}_replica-{x}_1" for x in "ab"]
    try:
        r = tool(*run, "up", "-d", "replica-a", "replica-b", TRINITYD_IMAGE=IMAGE)
        states = [tool("podman", "inspect", n, "--format", "{{.State.Running}}").stdout.strip() for n in names]
        if states != ["true", "true"]:
            pytest.skip(f"no bridged containers here: {(r.stdout + r.stderr)[-300:]}")
        shape = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        addresses = [f"{need('podman', 'inspect', n, '--format', shape)}:8080" for n in names]
        proxy = proxies.Proxy("haproxy", addresses, tmp_path)
        try:
            answers = {proxies.whole(proxy.url, "Once upon a time", 8) for _ in range(4)}
            assert len(answers) == 1 and answers.pop()
        finally:
            proxy.stop()
        assert tool("podman", "stop", "--time", "45", *names).returncode == 0
        assert {need("podman", "inspect", n, "--format", "{{.State.ExitCode}}") for n in names} == {"0"}
    finally:
        tool(*run, "down", TRINITYD_IMAGE=IMAGE)
