"""The gate `.ci/run`, with a make of our own: what its steps say and how they end decides its last line and status."""
import os
import shutil
import subprocess

import pytest

import harness

MAKE = """\
#!/bin/sh
# A make that says a line and fails for chosen targets.
for word; do target=$word; done
echo "$* CC=$CC" >> calls
case $target in
test) echo "${TEST_LINE-40 passed, 0 failed, 2 skipped}" ;;
regress) echo "9 passed, 0 failed" ;;
esac
case " $FAIL " in *" $target "*) exit 1 ;; esac
"""


@pytest.fixture
def gate(tmp_path):
    """gate(VARIABLE=value, ...): (exit status, lines of output, the calls of make)."""
    shutil.copytree(harness.ROOT / ".ci", tmp_path / ".ci")
    make = tmp_path / "bin/make"
    make.parent.mkdir()
    make.write_text(MAKE)
    make.chmod(0o755)

    def run(**variables):
        env = {k: v for k, v in os.environ.items() if k not in ("STEPS", "FAIL", "CC")}
        env |= {"PATH": f"{make.parent}:{env['PATH']}"} | variables
        r = subprocess.run([tmp_path / ".ci/run"], env=env, capture_output=True, text=True)
        return r.returncode, r.stdout.splitlines(), (tmp_path / "calls").read_text()
    return run


def test_a_good_tree_counts_every_case_and_every_step(gate):
    status, lines, calls = gate()
    assert (status, lines[-1]) == (0, "52 passed, 0 failed, 2 skipped")
    for wanted in ("lint", "tidy", "BUILD=build/clang CC=clang build tests", "SAN=address regress"):
        assert wanted in calls


@pytest.mark.parametrize("target, name", [("lint", "lint"), ("tidy", "tidy"), ("tests", "clang")])
def test_a_failed_step_counts_as_failed(gate, target, name):
    status, lines, _ = gate(FAIL=target)
    assert (status, lines[-2:]) == (1, [f"failed: {name}", "51 passed, 1 failed, 2 skipped"])


def test_failed_cases_are_counted_once(gate):
    status, lines, _ = gate(FAIL="test", TEST_LINE="37 passed, 3 failed")
    assert (status, lines[-2:]) == (1, ["failed: tests", "49 passed, 3 failed"])


def test_tests_that_end_without_counting_are_a_failure(gate):
    status, lines, _ = gate(FAIL="test", TEST_LINE="make: no rule")
    assert (status, lines[-1]) == (1, "12 passed, 1 failed")


def test_a_failed_replay_is_a_failure_though_it_counts_none(gate):
    status, lines, _ = gate(FAIL="regress")
    assert (status, lines[-2:]) == (1, ["failed: replay", "52 passed, 1 failed, 2 skipped"])


def test_some_steps_may_be_chosen_and_others_are_refused(gate):
    assert gate(STEPS="tidy")[1][-1] == "1 passed, 0 failed"
    assert gate(STEPS="tidy nonsense")[0] == 2


def make(*args, **env):
    return subprocess.run(["make", "-n", "-B", *args], cwd=harness.ROOT, env={**os.environ, "MAKEFLAGS": "", **env},
                          capture_output=True, text=True, check=True).stdout


def test_flags_of_a_user_hold_in_a_sanitizer_build(tmp_path):
    """-n -B: what would be run if everything were old."""
    target = f"{tmp_path}/config/buf.o"
    for san in ("SAN=", "SAN=address"):
        told = make(target, f"BUILD={tmp_path}", "V=1", san, CFLAGS="-O0 -gfrom-user")
        assert "-O0 -gfrom-user" in told and "-O1" not in told and "-O2" not in told, san
    assert "-O1 -g" in make(target, f"BUILD={tmp_path}", "V=1", "SAN=address")


def test_check_is_the_gate():
    assert ".ci/run" in make("check").splitlines()


def test_packages_are_named_before_they_are_installed(tmp_path):
    """With a dpkg-query that knows no package and an apt-get that only notes what it is told."""
    for name, text in {"dpkg-query": "exit 1", "sudo": 'exec "$@"', "apt-get": "echo apt-get got: $*"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    r = subprocess.run([harness.ROOT / "deploy/packages", "run"], capture_output=True, text=True,
                       env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    first, *rest = r.stdout.splitlines()
    assert r.returncode == 0 and first == "missing Debian packages for: run"
    assert "apt-get" in rest[0] and rest[0].endswith(": curl") and rest[-1].endswith("--no-install-recommends curl")
