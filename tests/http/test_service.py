"""The daemon beside a service manager: what it tells systemd's socket, and what it has given up when it is ready."""
import os
import re
import signal
import socket

import harness


class Manager:
    """Listens where systemd would; `lines(want)` returns what came until a line begins with `want`."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(harness.PATIENCE)

    def lines(self, want):
        got = []
        while not any(line.startswith(want) for line in got):
            got += self.socket.recv(4096).decode().split("\n")
        return got


def test_the_service_manager_is_told(daemon, tmp_path):
    manager = Manager(tmp_path / "notify")
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with daemon(env=env) as d:
        assert any(re.fullmatch(rf"STATUS=serving demo on http://.*:{d.port}", line) for line in manager.lines("READY=1"))
        manager.lines("WATCHDOG=1")
        manager.lines("WATCHDOG=1")  # again and again
        d.process.send_signal(signal.SIGHUP)
        reload = manager.lines("RELOADING=1") + manager.lines("READY=1")
        assert any(re.fullmatch(r"MONOTONIC_USEC=\d+", line) for line in reload)
        d.process.terminate()
        assert any(re.fullmatch(r"EXTEND_TIMEOUT_USEC=\d+", line) for line in manager.lines("STOPPING=1"))
        assert d.wait() == 0


def test_an_abstract_socket_is_told(daemon):
    name = f"trinityd-test-{os.getpid()}"
    manager = Manager("\0" + name)
    with daemon(env={"NOTIFY_SOCKET": "@" + name}):
        manager.lines("READY=1")


def test_a_ready_daemon_is_confined(demo):
    with open(harness.TRINITYD, "rb") as f:
        sanitized = re.search(b"__[at]san_init", f.read())  # whose runtime makes calls of its own
    tasks = f"/proc/{demo.process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/status") as f:
            status = f.read()
        assert "NoNewPrivs:\t1\n" in status
        assert sanitized or "Seccomp:\t2\n" in status
        # no more than opening files of others; a thread from before the confinement would have kept all, and its files
        assert int(re.search(r"CapEff:\t(\w+)", status)[1], 16) & ~0b110 == 0


def test_confine_off(daemon):
    with daemon(confine="off") as d, open(f"/proc/{d.process.pid}/status") as f:
        assert "Seccomp:\t0" in f.read()
