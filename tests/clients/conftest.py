"""Other projects' clients, each as its users run it, against the demo checkpoint.

`make clients` installs them (they are large) in build/clients, one environment for each file of requirements beside
this one; what is not installed is skipped.
"""
import os
import subprocess

import pytest

import harness

CLIENTS = harness.ROOT / "build" / "clients"


@pytest.fixture(scope="session")
def model(demo):
    return demo.get("/v1/models").json()["data"][0]["id"]


@pytest.fixture
def client(tmp_path):
    """Runs a program of the clients' environment to its end, offline: client("llm", "models"); returns its output."""
    def run(program, *args, timeout=600, env=None, group="libraries"):
        path = CLIENTS / group / "bin" / program
        if not path.exists():
            pytest.skip(f"`make clients` installs {program}")
        home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none", "LLM_USER_PATH": str(tmp_path),
                "PYTHONWARNINGS": "ignore", "TOKENIZERS_PARALLELISM": "false", "DO_NOT_TRACK": "1"}
        whole = {k: v for k, v in {**os.environ, **home, **(env or {})}.items() if v is not None}
        p = subprocess.run([path, *map(str, args)], cwd=tmp_path, env=whole,
                           timeout=timeout, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           encoding="utf-8", errors="replace")
        assert p.returncode == 0, p.stdout
        return p.stdout

    return run


@pytest.fixture
def script_of(client, tmp_path):
    """Runs Python text in the clients' environment."""
    def run(text, **kw):
        path = tmp_path / "script.py"
        path.write_text(text)
        return client("python", path, **kw)

    return run
