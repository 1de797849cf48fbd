"""`make install`, the systemd unit, and the daemon as it stands after installing."""
import json
import os
import re
import shutil
import socket
import subprocess

import pytest

import harness


def install(*args):
    """`make install`; the variables of the make that runs the tests come along in MAKEFLAGS, so nothing is rebuilt."""
    subprocess.run(["make", "--no-print-directory", "install", *args], cwd=harness.ROOT, check=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Installed below a prefix of its own."""
    d = tmp_path_factory.mktemp("prefix")
    install(f"PREFIX={d}", f"SYSCONFDIR={d}/etc")
    return d


def test_installed_daemon_serves_with_its_own_configuration(root):
    config = json.loads((root / "etc/trinityd/trinityd.json").read_text())
    assert config == {"model": f"{root}/share/trinityd/demo"}  # all else is the option table's, whatever it is by then
    shown = subprocess.run([root / "bin/trinityd", "check", "--config", root / "etc/trinityd/trinityd.json"],
                           cwd="/", env=harness.environment(), capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr


def test_installing_again_keeps_the_configuration(root):
    path = root / "etc/trinityd/trinityd.json"
    before = path.read_text()
    path.write_text('{"port": 9090}\n')
    install(f"PREFIX={root}", f"SYSCONFDIR={root}/etc")
    assert path.read_text() == '{"port": 9090}\n'
    path.write_text(before)


def test_destdir_stands_before_every_path(tmp_path):
    install(f"DESTDIR={tmp_path}", "PREFIX=/usr")
    unit = (tmp_path / "usr/lib/systemd/system/trinityd.service").read_text()
    assert "ExecStart=/usr/bin/trinityd serve --config /etc/trinityd/trinityd.json" in unit
    assert (tmp_path / "etc/trinityd/trinityd.json").exists()
    assert (tmp_path / "usr/lib/sysusers.d/trinityd.conf").exists()
    assert (tmp_path / "usr/lib/tmpfiles.d/trinityd.conf").exists()
    assert (tmp_path / "usr/share/trinityd/demo/model.safetensors").exists()
    subprocess.run(["make", "uninstall", f"DESTDIR={tmp_path}", "PREFIX=/usr"], cwd=harness.ROOT, check=True)
    left = [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()]
    assert left == ["etc/trinityd/trinityd.json"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit_and_finds_it_tight(root):
    unit = root / "lib/systemd/system/trinityd.service"
    r = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    assert "trinityd.service" not in r.stderr, r.stderr
    r = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", unit],
                       capture_output=True, text=True)
    assert r.returncode == 0, r.stdout


def test_socket_unit_hands_over_the_socket(root, daemon):
    """As systemd does it: the daemon answers on a socket that it did not open."""
    tool = shutil.which("systemd-socket-activate")
    if not tool:
        pytest.skip("systemd-socket-activate is not installed")
    r = subprocess.run(["systemd-analyze", "verify", root / "lib/systemd/system/trinityd.socket"], capture_output=True,
                       text=True)
    assert r.returncode == 0 and "trinityd.socket" not in r.stderr, r.stderr
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    p = subprocess.Popen([tool, "-l", f"127.0.0.1:{port}", harness.TRINITYD, "serve", "--port", "1"], cwd=harness.ROOT,
                         env=harness.environment(), stderr=subprocess.DEVNULL)
    try:
        def health():
            return subprocess.run([harness.TRINITYD, "health", "--port", str(port)], env=harness.environment(),
                                  capture_output=True).returncode == 0
        harness.wait_for(health)
    finally:
        p.terminate()
        assert p.wait(harness.PATIENCE) == 0


def test_sysusers_and_tmpfiles_make_what_the_unit_needs(root, tmp_path):
    """In a root folder of their own."""
    for tool in ("systemd-sysusers", "systemd-tmpfiles"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    if os.geteuid():
        pytest.skip("making users needs root")
    (tmp_path / "etc/trinityd").mkdir(parents=True)
    (tmp_path / "etc/trinityd/trinityd.json").write_text("{}")
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", root / "lib/sysusers.d/trinityd.conf"], check=True)
    assert "\ntrinityd:" in "\n" + (tmp_path / "etc/passwd").read_text()
    subprocess.run(["systemd-tmpfiles", f"--root={tmp_path}", "--create", root / "lib/tmpfiles.d/trinityd.conf"], check=True)
    assert (tmp_path / "var/lib/trinityd").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "etc/trinityd/trinityd.json").stat().st_mode & 0o777 == 0o640


def test_debian_package(tmp_path):
    """lintian finds no error, and what it holds is what `make install` installs."""
    for tool in ("lintian", "dh", "dpkg-deb"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed: `make tools`")
    env = {**os.environ, "DEBFULLNAME": "Test", "DEBEMAIL": "test@packages.debian.org"}
    r = subprocess.run(["deploy/debian/build", os.environ.get("BUILD", "build"), tmp_path], cwd=harness.ROOT, env=env,
                       capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    package, = tmp_path.glob("*.deb")
    r = subprocess.run(["lintian", "--fail-on", "error", "--allow-root", package], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    subprocess.run(["dpkg-deb", "-x", package, tmp_path / "x"], check=True)
    subprocess.run(["dpkg-deb", "-e", package, tmp_path / "control"], check=True)
    config = tmp_path / "x/etc/trinityd/trinityd.json"
    assert json.loads(config.read_text()) == {"model": "/usr/share/trinityd/demo"}
    assert (tmp_path / "control/conffiles").read_text().split() == ["/etc/trinityd/trinityd.json"]
    assert "sysusers" in (tmp_path / "control/postinst").read_text()
    assert "libmicrohttpd12" in (tmp_path / "control/control").read_text()
    version = subprocess.run([tmp_path / "x/usr/bin/trinityd", "--version"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^Version: (.*)$", (tmp_path / "control/control").read_text(), re.M)[1] in version
