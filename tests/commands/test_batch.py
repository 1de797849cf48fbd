"""`trinityd batch`: each question answered once, as over HTTP, whatever kills the processes that do it."""
import json
import os
import pty
import random
import re
import signal
import subprocess
import time

import pytest

import harness

ARGS = ["--threads", "1", "--kv-cache", "16MiB"]


def start(*args, **kw):
    return subprocess.Popen([harness.TRINITYD, "batch", *map(str, args), *ARGS], cwd=harness.ROOT, env=harness.environment(),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", **kw)


def run(*args):
    p = start(*args)
    _, log = p.communicate(timeout=harness.PATIENCE)
    return p.returncode, log


def write(path, lines):
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def answers(path):
    """custom_id -> line; each id once, each line whole."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = {line["custom_id"]: line for line in lines}
    assert len(found) == len(lines)
    return found


def question(i, tokens=8):
    return {"custom_id": f"q{i}", "method": "POST", "url": "/v1/completions",
            "body": {"prompt": f"Once upon a time there were {i}", "max_tokens": tokens, "seed": i}}


def told(body):
    """What of an answer does not differ from one request to the next."""
    return {k: v for k, v in body.items() if k not in ("id", "created", "usage")}


def test_every_form_as_over_http(tmp_path, demo):
    chat = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 12, "seed": 5}
    lines = [question(1), "\n", {"custom_id": "chat", "url": "/v1/chat/completions", "method": "POST", "body": chat},
             json.dumps("The fox") + "\n", {**chat, "custom_id": "é\n\""},
             {"custom_id": "bad", "url": "/v1/completions", "body": {"prompt": "x", "max_tokens": -9}},
             {"custom_id": "lost", "url": "/v1/nowhere", "body": {}},
             {"input": "hello", "max_output_tokens": 4, "temperature": 0}]
    out = tmp_path / "out"
    status, log = run(write(tmp_path / "in", lines), out)
    assert status == 0 and "7 of 7 lines are answered" in log and "2 refused" in log, log
    got = answers(out)
    assert set(got) == {"q1", "chat", "line-4", "é\n\"", "bad", "lost", "line-8"}
    for line in got.values():
        assert line["error"] is None and line["id"].startswith("batch_req_") and line["response"]["request_id"]
    assert got["bad"]["response"]["status_code"] == 400 and got["lost"]["response"]["status_code"] == 404
    assert "max_tokens" in got["bad"]["response"]["body"]["error"]["message"]
    assert got["line-4"]["response"]["body"]["choices"][0]["text"]
    assert got["line-8"]["response"]["body"]["object"] == "response"
    for name, path, body in (("q1", "/v1/completions", lines[0]["body"]), ("chat", "/v1/chat/completions", chat),
                             ("é\n\"", "/v1/chat/completions", chat)):
        assert told(got[name]["response"]["body"]) == told(demo.post(path, body).json())


@pytest.mark.parametrize("ordered", [False, True])
def test_killed_and_resumed(tmp_path, ordered):
    n, rng = 300, random.Random(7)
    source, out = write(tmp_path / "in", [question(i) for i in range(n)]), tmp_path / "out"
    flags = ["--ordered"] if ordered else []
    for _ in range(4):
        p = start(source, out, *flags)
        before = out.stat().st_size if out.exists() else 0
        harness.wait_for(lambda: p.poll() is not None or (out.exists() and out.stat().st_size > before))
        time.sleep(rng.random() * 0.2)
        p.kill()
        p.communicate()
    with out.open("a") as f:  # as a kill in the middle of a write leaves it
        f.write('{"id":"batch_req_1","custom_id":"q0","resp')
    status, log = run(source, out, *flags)
    assert status == 0, log
    assert set(answers(out)) == {f"q{i}" for i in range(n)}
    if ordered:
        assert [json.loads(line)["custom_id"] for line in out.read_text().splitlines()] == [f"q{i}" for i in range(n)]
    whole = out.read_bytes()
    status, log = run(source, out, *flags)
    assert status == 0 and "0 of them now" in log and out.read_bytes() == whole
    alone = tmp_path / "alone"
    assert run(source, alone, "--width", 1)[0] == 0
    first, second = answers(out), answers(alone)
    assert all(told(first[k]["response"]["body"]) == told(second[k]["response"]["body"]) for k in first)


def test_several_processes_share_the_work(tmp_path):
    n = 200
    source, out = write(tmp_path / "in", [question(i, 16) for i in range(n)]), tmp_path / "out"
    processes = [start(source, out, "--width", 8) for _ in range(3)]
    harness.wait_for(lambda: out.exists() and out.stat().st_size > 0)
    processes[0].kill()  # what it had claimed is taken over
    logs = [p.communicate(timeout=harness.PATIENCE)[1] for p in processes]
    assert [p.returncode for p in processes[1:]] == [0, 0], logs
    assert set(answers(out)) == {f"q{i}" for i in range(n)}
    now = [int(re.search(r"(\d+) of them now", log)[1]) for log in logs[1:]]
    assert sum(now) <= n


def test_in_order_means_alone(tmp_path):
    source, out = write(tmp_path / "in", [question(i, 400) for i in range(40)]), tmp_path / "out"
    p = start(source, out, "--width", 2)
    try:
        harness.wait_for(lambda: out.exists() and out.stat().st_size > 0)
        status, log = run(source, out, "--ordered")
        assert status == 1 and "order cannot be kept" in log
    finally:
        p.kill()
        p.communicate()


@pytest.mark.parametrize("line, why", [
    ("{\n", "line 2: "), ("17\n", "line 2: "), ({"custom_id": "a"}, "neither a body nor messages, prompt or input"),
    ({"custom_id": "q0", "prompt": "x"}, "line 2: the same custom_id as in line 1"),
    ({"url": "http://x/v1/completions", "body": {}}, "url: a path"), ({"url": "/v1/x y", "body": {}}, "url: no blanks"),
    ({"url": "/v1/completions", "method": "GET", "body": {}}, "method: only POST"),
    ({"prompt": "x", "stream": True}, "stream: a batch's answers are no streams"),
    ({"custom_id": 3, "prompt": "x"}, "custom_id: "), ({"body": {}}, "url: missing"), ({"url": "/v1/completions", "body": []}, "body: "),
])
def test_bad_lines_are_named_before_anything_is_asked(tmp_path, line, why):
    out = tmp_path / "out"
    status, log = run(write(tmp_path / "in", [question(0), line]), out)
    assert status == 1 and why in log and "line 2" in log and not out.exists()


def test_bad_files(tmp_path):
    source = write(tmp_path / "in", [question(0)])
    assert run()[0] == 2 and run(source)[0] == 2 and run(source, tmp_path / "a", "b")[0] == 2
    for args, why in (((tmp_path / "none", tmp_path / "out"), "No such file"), ((tmp_path, tmp_path / "out"), "not a regular file"),
                      ((source, source), "the questions stand in it"), ((source, "/dev/null"), "not a regular file"),
                      ((source, tmp_path / "no" / "out"), "No such file")):
        status, log = run(*args)
        assert status == 1 and why in log, log
    empty = write(tmp_path / "empty", ["\n"])
    assert run(empty, tmp_path / "out")[0] == 0
    status, log = run(source, tmp_path / "out", "--model", tmp_path)
    assert status == 1 and "config.json" in log


def test_a_stop_is_no_loss(tmp_path):
    source, out = write(tmp_path / "in", [question(i, 60) for i in range(200)]), tmp_path / "out"
    p = start(source, out)
    harness.wait_for(lambda: out.exists() and out.stat().st_size > 0)
    p.send_signal(signal.SIGINT)
    _, log = p.communicate(timeout=harness.PATIENCE)
    assert p.returncode == 1 and 0 < len(answers(out)) < 200, log
    assert run(source, out)[0] == 0 and len(answers(out)) == 200


def test_a_bar_on_a_terminal(tmp_path):
    source, out = write(tmp_path / "in", [question(i, 60) for i in range(150)]), tmp_path / "out"
    ours, theirs = pty.openpty()
    p = subprocess.Popen([harness.TRINITYD, "batch", source, out, "--width", "4", *ARGS], cwd=harness.ROOT, stderr=theirs,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=harness.environment())
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how a terminal ends
        pass
    assert p.wait(harness.PATIENCE) == 0
    os.close(ours)
    steps = [int(m) for m in re.findall(rb"\[[#.]{30}\] (\d+)/150 +[\d.]+ tokens/s +\d+:\d\d:\d\d left", shown)]
    assert len(set(steps)) > 2 and steps == sorted(steps)
    assert b"150 of 150 lines are answered" in shown
