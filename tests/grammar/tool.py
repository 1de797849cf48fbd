"""The grammar tool as a process: one request, one answer."""
import json
import os
import subprocess
from pathlib import Path

PROGRAM = Path(os.environ.get("BUILD", "build")) / "tests/tools/grammar"


class Tool:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM, "config/demo", "1024"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the tool died of {request}"
        return json.loads(line)

    def accepts(self, strings, **request):
        answer = self.ask(strings=strings, **request)
        assert "error" not in answer, answer
        return answer["accepted"]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait() == 0
