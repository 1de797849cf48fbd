"""What README.md tells a reader to type works."""
import re
import shutil
import subprocess

import pytest

import harness

README = (harness.ROOT / "README.md").read_text()
SETUP, *COMMANDS = re.search(r"^```\n(H=.*?)^```", README, re.M | re.S)[1].splitlines()


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("command", COMMANDS)
def test_curl_line_is_answered(demo, command):
    setup = SETUP.replace("http://127.0.0.1:8080", demo.url)
    line = command.replace("curl ", "curl --fail-with-body ", 1)
    r = subprocess.run(["sh", "-c", f"{setup}\n{line}"], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert r.returncode == 0 and r.stdout, r.stdout + r.stderr


def test_every_endpoint_is_in_the_table(demo):
    served = set(demo.get("/openapi.json").json()["paths"])
    told = re.search(r"^## API\n(.*?)^```", README, re.M | re.S)[1]
    missing = [p for p in served if f"{p.replace('{id}', 'ID')}`" not in told]
    assert not missing
