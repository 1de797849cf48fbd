"""Fixtures of every Python test."""
import pytest

import harness


@pytest.fixture(scope="session")
def demo():
    """A daemon with the demo checkpoint, shared by all tests of a worker: leave it as it was."""
    with harness.Daemon() as d:
        yield d


@pytest.fixture(scope="session")
def f1():
    """A daemon with the random F32 checkpoint `f1`, shared likewise."""
    with harness.Daemon(harness.f1_checkpoint()) as d:
        yield d


@pytest.fixture
def daemon():
    """Starts daemons: daemon(model, option=value, ...). Each is stopped, and must end cleanly, when the test ends."""
    started = []

    def start(model=harness.DEMO, **kw):
        started.append(harness.Daemon(model, **kw))
        return started[-1]

    yield start
    failed = []
    for d in started:
        try:
            if d.process.poll() is None:
                d.stop()
        except AssertionError as e:
            failed.append(str(e))
        finally:
            d.kill()
    assert not failed, "\n".join(failed)


@pytest.fixture
def script(tmp_path, daemon):
    """Starts a daemon that says what the test chooses: script(b"al", b"pha") or script(b"a", b"b", edges=...)."""
    count = 0

    def start(*pieces, edges=None, config=None, **options):
        nonlocal count
        count += 1
        edges = edges if edges is not None else harness.fx.chain(*pieces)
        folder = harness.script_checkpoint(tmp_path / f"script{count}", edges, pieces, **(config or {}))
        return daemon(folder, **options)

    return start
