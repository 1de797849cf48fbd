"""`make install`, the systemd unit, and the daemon as it stands after installing."""
import json
import shutil
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
