"""The container image: built with buildah on a base made by debootstrap (no registry is needed), run with podman.

Needs root and Debian's packages; skipped, with the reason, where they are not to be had. The base and podman's storage
stay in build/image for the next run.
"""
import json
import os
import shutil
import socket
import subprocess
import urllib.request
import uuid

import pytest

import harness

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


def make_base():
    """The Debian base image, made from packages."""
    if tool("buildah", "inspect", "--type", "image", BASE).returncode == 0:
        return
    archive = WORK / "bookworm.tar"
    if not archive.exists():
        shutil.rmtree(WORK / "rootfs", ignore_errors=True)
        need("debootstrap", "--variant=minbase", "bookworm", WORK / "rootfs")
        need("tar", "-C", WORK / "rootfs", "-cf", f"{archive}.new", ".")
        os.rename(f"{archive}.new", archive)
        shutil.rmtree(WORK / "rootfs")
    container = need("buildah", "from", "scratch")
    need("buildah", "add", container, archive, "/")
    need("buildah", "config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
    need("buildah", "commit", "--rm", container, BASE)


@pytest.fixture(scope="module")
def image():
    if os.geteuid() != 0:
        pytest.skip("building an image here needs root")
    WORK.mkdir(parents=True, exist_ok=True)
    need("deploy/packages", "image")
    (WORK / "containers.conf").write_text(CONTAINERS)
    (WORK / "storage.conf").write_text(STORAGE.format(work=WORK))
    make_base()
    r = tool("deploy/image", IMAGE, BASE, IMAGE_FLAGS="--isolation chroot")
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
         "--security-opt", "no-new-privileges", "--user", "54321:54321", "--memory", "512m",
         "--env", f"TRINITYD_PORT={port}", "--env", "TRINITYD_HOST=127.0.0.1", IMAGE)
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


def test_image_holds_the_daemon_and_little_else(image):
    size = json.loads(need("podman", "image", "inspect", IMAGE))[0]["Size"]
    assert size < 100 * 2**20


def test_container_answers_is_healthy_and_ends_cleanly(container):
    name, url = container
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}).encode()
    request = urllib.request.Request(url + "/v1/completions", data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=harness.PATIENCE) as f:
        assert json.load(f)["usage"]["completion_tokens"] == 8
    assert tool("podman", "healthcheck", "run", name).returncode == 0
    assert tool("podman", "stop", "--time", "20", name).returncode == 0
    state = json.loads(need("podman", "inspect", name))[0]["State"]
    assert state["ExitCode"] == 0, tool("podman", "logs", name).stderr
