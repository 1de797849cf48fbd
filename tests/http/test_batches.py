"""`/v1/batches`: the questions of a file, answered as they would be one by one, each once, for their key alone."""
import json
import signal
import threading
import time

import openai
import pytest

import harness

BODY = {"temperature": 0.8, "max_tokens": 12}


def question(i, tokens=12, **more):
    return {"custom_id": f"q{i}", "method": "POST", "url": "/v1/completions",
            "body": {**BODY, "prompt": f"Once upon a time there were {i}", "seed": i, "max_tokens": tokens, **more}}


def client(d, key="x"):
    return openai.OpenAI(base_url=d.url + "/v1", api_key=key, max_retries=0)


def upload(c, lines):
    data = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return c.files.create(file=("questions.jsonl", data.encode()), purpose="batch").id


def start(c, lines, endpoint="/v1/completions", window="24h", **kw):
    return c.batches.create(input_file_id=upload(c, lines), endpoint=endpoint, completion_window=window, **kw)


def ended(c, batch):
    return harness.wait_for(lambda: (b := c.batches.retrieve(batch.id)).status in
                            ("completed", "failed", "expired", "cancelled") and b)


def answers(c, file):
    """custom_id -> line of a file of answers; each id once."""
    if not file:
        return {}
    lines = [json.loads(line) for line in c.files.content(file).text.splitlines()]
    found = {line["custom_id"]: line for line in lines}
    assert len(found) == len(lines)
    return found


def choices(reply):
    """The bytes of the answer's choices."""
    return reply[reply.index(b'"choices":'):reply.index(b',"usage"')]


@pytest.fixture
def batches(daemon, tmp_path):
    d = daemon(batch_dir=tmp_path / "batches")
    with client(d) as c:
        d.client = c
        yield d


def test_answers_are_those_of_single_requests(batches):
    c, n = batches.client, 12
    chat = [{"custom_id": f"c{i}", "method": "POST", "url": "/v1/chat/completions",
             "body": {**BODY, "seed": i, "messages": [{"role": "user", "content": f"Tell me a story of {i}."}]}} for i in range(4)]
    first = start(c, [question(i) for i in range(n)], metadata={"what": "stories"})
    assert first.object == "batch" and first.status == "validating" and first.metadata == {"what": "stories"}
    second = start(c, chat, "/v1/chat/completions")
    for made, lines, url in ((first, [question(i) for i in range(n)], "/v1/completions"), (second, chat, "/v1/chat/completions")):
        b = ended(c, made)
        assert (b.status, b.errors, b.error_file_id) == ("completed", None, None), b
        counts = b.request_counts
        assert (counts.total, counts.completed, counts.failed) == (len(lines), len(lines), 0)
        assert b.created_at <= b.in_progress_at <= b.finalizing_at <= b.completed_at and b.expires_at == b.created_at + 86400
        assert b.failed_at is None and b.cancelled_at is None and b.endpoint == url and b.metadata == made.metadata
        raw = c.files.content(b.output_file_id).content.splitlines()
        assert len(raw) == len(lines) and len({json.loads(line)["custom_id"] for line in raw}) == len(lines)
        for line in raw:
            got = json.loads(line)
            asked = next(q for q in lines if q["custom_id"] == got["custom_id"])
            assert got["error"] is None and got["response"]["status_code"] == 200 and got["response"]["request_id"]
            assert choices(line) == choices(batches.post(url, asked["body"]).body)
        info = c.files.retrieve(b.output_file_id)
        assert info.purpose == "batch_output" and info.filename.endswith("_output.jsonl") and info.bytes == len(b"\n".join(raw)) + 1
    assert [b.id for b in c.batches.list(limit=1)] == [second.id, first.id]
    assert [b.id for b in c.batches.list(after=second.id)] == [first.id]
    assert len(list(c.files.list(purpose="batch_output"))) == 2


def test_refused_lines_have_a_file_of_their_own(batches):
    c = batches.client
    b = ended(c, start(c, [question(0), question(1, -9), "\n", question(2), question(3, temperature="hot")]))
    assert b.status == "completed" and (b.request_counts.completed, b.request_counts.failed) == (2, 2)
    assert set(answers(c, b.output_file_id)) == {"q0", "q2"}
    bad = answers(c, b.error_file_id)
    assert set(bad) == {"q1", "q3"} and all(line["response"]["status_code"] == 400 for line in bad.values())
    assert "max_tokens" in bad["q1"]["response"]["body"]["error"]["message"]
    b = ended(c, start(c, [question(1, -9)]))
    assert b.status == "completed" and b.output_file_id is None and set(answers(c, b.error_file_id)) == {"q1"}


def test_bad_files_fail_with_their_lines(batches):
    c = batches.client
    b = ended(c, start(c, [question(0), "{\n", question(1), {**question(2), "url": "/v1/chat/completions"}, question(0, 5),
                           {**question(3), "method": "GET"}, {**question(4), "body": {**BODY, "prompt": "x", "stream": True}}]))
    assert b.status == "failed" and b.failed_at and b.output_file_id is None and b.request_counts.total == 0
    assert sorted((e.line, e.code) for e in b.errors.data) == [(n, "invalid_request") for n in (2, 4, 5, 6, 7)]
    texts = {e.line: e.message for e in b.errors.data}
    assert "not the endpoint" in texts[4] and "line 1" in texts[5] and "only POST" in texts[6] and "no streams" in texts[7]
    assert all(str(batches.options["batch_dir"]) not in t for t in texts.values())
    for lines in ([], ["\n\n"]):
        b = ended(c, start(c, lines))
        assert b.status == "failed" and "no line" in b.errors.data[0].message
    b = ended(c, start(c, ["{\n"] * 100))
    assert b.status == "failed" and len(b.errors.data) == 20


@pytest.mark.parametrize("change, param", [
    ({"input_file_id": "file-" + "0" * 24}, "input_file_id"), ({"input_file_id": "../x"}, "input_file_id"), ({"input_file_id": None}, "input_file_id"),
    ({"endpoint": "/v1/files"}, "endpoint"), ({"endpoint": "/v1/nowhere"}, "endpoint"), ({"endpoint": 3}, "endpoint"),
    ({"completion_window": "1y"}, "completion_window"), ({"completion_window": "31d"}, "completion_window"), ({"completion_window": None}, "completion_window"),
    ({"metadata": {"a": 1}}, "metadata.a"), ({"metadata": {str(i): "" for i in range(17)}}, "metadata"), ({"metadata": []}, "metadata"),
])
def test_bad_requests(batches, change, param):
    good = {"input_file_id": upload(batches.client, [question(0)]), "endpoint": "/v1/completions", "completion_window": "24h"}
    r = batches.post("/v1/batches", {**good, **change})
    assert r.status == 400 and r.error["param"] == param, r.text
    assert batches.get("/v1/batches").json()["data"] == []
    for path in ("batch_" + "0" * 24, "x", "../../etc/passwd"):
        assert batches.get(f"/v1/batches/{path}").status == 404 and batches.post(f"/v1/batches/{path}/cancel", "").status == 404


def test_answers_are_no_questions(batches):
    c = batches.client
    b = ended(c, start(c, [question(0)]))
    with pytest.raises(openai.BadRequestError, match="purpose"):
        c.batches.create(input_file_id=b.output_file_id, endpoint="/v1/completions", completion_window="24h")


def test_a_kill_loses_and_repeats_nothing(daemon, tmp_path):
    folder, n = tmp_path / "batches", 120
    d = daemon(batch_dir=folder)
    with client(d) as c:
        batch = start(c, [question(i, 24) for i in range(n - 1)] + [question(n - 1, -9)])
    for _ in range(3):
        before = sum(p.stat().st_size for p in folder.rglob("*.part"))
        harness.wait_for(lambda: sum(p.stat().st_size for p in folder.rglob("*.part")) > before or
                         d.get(f"/v1/batches/{batch.id}").json()["status"] == "completed")
        d.kill()
        part = list(folder.rglob("*.part"))
        if part:  # as a kill in the middle of a write leaves it
            with part[0].open("a") as f:
                f.write('{"id":"batch_req_1","custom_id":"q0","resp')
        d = daemon(batch_dir=folder)
    with client(d) as c:
        b = ended(c, batch)
        assert b.status == "completed" and (b.request_counts.completed, b.request_counts.failed) == (n - 1, 1)
        assert set(answers(c, b.output_file_id)) == {f"q{i}" for i in range(n - 1)} and set(answers(c, b.error_file_id)) == {f"q{n - 1}"}
        for i in (0, n // 2, n - 2):
            line = answers(c, b.output_file_id)[f"q{i}"]["response"]["body"]
            assert line["choices"] == d.post("/v1/completions", question(i, 24)["body"]).json()["choices"]
    assert not list(folder.rglob("*.part")) and not list(folder.rglob("*.new"))


def test_an_orderly_end_goes_on_later(daemon, tmp_path):
    folder, n = tmp_path / "batches", 60
    d = daemon(batch_dir=folder)
    with client(d) as c:
        batch = start(c, [question(i, 60) for i in range(n)])
        harness.wait_for(lambda: c.batches.retrieve(batch.id).request_counts.completed > 0)
        d.signal(signal.SIGTERM)
        assert d.wait() == 0, d.log
    d = daemon(batch_dir=folder)
    with client(d) as c:
        b = ended(c, batch)
        assert b.status == "completed" and set(answers(c, b.output_file_id)) == {f"q{i}" for i in range(n)}


def test_cancel(batches):
    c = batches.client
    batch = start(c, [question(i, 200) for i in range(200)])
    waits = start(c, [question(0)])  # of the same key: behind it
    harness.wait_for(lambda: c.batches.retrieve(batch.id).request_counts.completed > 0)
    assert c.batches.retrieve(waits.id).status == "validating"
    told = c.batches.cancel(batch.id)
    assert told.status == "cancelling" and told.cancelling_at
    b = ended(c, batch)
    assert b.status == "cancelled" and b.cancelled_at and 0 < b.request_counts.completed < 200
    assert len(answers(c, b.output_file_id)) == b.request_counts.completed, "what was answered is kept"
    with pytest.raises(openai.BadRequestError, match="cancelled already"):
        c.batches.cancel(batch.id)
    assert ended(c, waits).status == "completed"


def test_the_window_ends(batches):
    c = batches.client
    b = ended(c, start(c, [question(i, 400) for i in range(100)], window="1s"))
    assert b.status == "expired" and b.expired_at >= b.expires_at
    good, late = answers(c, b.output_file_id), answers(c, b.error_file_id)
    assert set(good) | set(late) == {f"q{i}" for i in range(100)} and not set(good) & set(late)
    assert all(line["response"] is None and line["error"]["code"] == "batch_expired" for line in late.values())


def test_keys_have_their_own(daemon, tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{"name": n, "key": n} for n in "ab"]}))
    d = daemon(batch_dir=tmp_path / "batches", api_key_file=keys)
    with client(d, "a") as a, client(d, "b") as b:
        batch = ended(a, start(a, [question(i) for i in range(5)]))
        assert batch.status == "completed"
        used = [d.get("/v1/usage", headers={"Authorization": f"Bearer {k}"}).json()["total"] for k in "ab"]
        assert used[0]["completion_tokens"] >= 5 and used[1]["completion_tokens"] == 0
        for ask in (b.batches.retrieve, b.batches.cancel):
            with pytest.raises(openai.NotFoundError):
                ask(batch.id)
        with pytest.raises(openai.NotFoundError):
            b.files.content(batch.output_file_id)
        with pytest.raises(openai.BadRequestError, match="no such file"):
            b.batches.create(input_file_id=batch.input_file_id, endpoint="/v1/completions", completion_window="24h")
        assert not list(b.batches.list()) and not list(b.files.list())
        batch = start(a, [question(i, 300) for i in range(100)])
        harness.wait_for(lambda: a.batches.retrieve(batch.id).status == "in_progress")
    keys.write_text(json.dumps({"keys": [{"name": "b", "key": "b"}]}))
    d.signal(signal.SIGHUP)
    d.wait_log("batch failed")
    assert "not let in any more" in "".join(p.read_text() for p in (tmp_path / "batches").rglob(f"{batch.id}.json"))


def test_limits_of_the_key_slow_it_down(daemon, tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{"name": "a", "key": "a", "concurrency": 1}]}))
    d = daemon(batch_dir=tmp_path / "batches", api_key_file=keys)
    with client(d, "a") as c:
        b = ended(c, start(c, [question(i) for i in range(8)]))
        assert b.status == "completed" and b.request_counts.completed == 8


def test_clients_come_first(daemon, tmp_path):
    """One sequence at a time: a client's request is not behind the batch's hundred."""
    d = daemon(batch_dir=tmp_path / "batches", max_sequences=1)
    with client(d) as c:
        batch = start(c, [question(i, 100) for i in range(100)])
        harness.wait_for(lambda: c.batches.retrieve(batch.id).request_counts.completed > 0)
        before = c.batches.retrieve(batch.id).request_counts.completed
        d.complete(prompt="x", max_tokens=2)
        assert c.batches.retrieve(batch.id).request_counts.completed <= before + 5
        c.batches.cancel(batch.id)
        ended(c, batch)


def test_room_ends(daemon, tmp_path):
    d = daemon(batch_dir=tmp_path / "batches", batch_quota="64KiB")
    with client(d) as c:
        b = ended(c, start(c, [question(i, 100, logprobs=5) for i in range(200)]))
        assert b.status == "failed" and b.errors.data[0].code == "insufficient_storage"
        assert 0 < len(answers(c, b.output_file_id)) < 200, "what was answered is kept"


def test_many_at_once(batches):
    """Made, looked at, listed and cancelled from several sides."""
    c = batches.client
    file = upload(c, [question(i, 4) for i in range(3)])
    made = []

    def make(i):
        b = c.batches.create(input_file_id=file, endpoint="/v1/completions", completion_window="24h")
        made.append(b.id)
        if i % 4 == 0:
            batches.post(f"/v1/batches/{b.id}/cancel", "")

    threads = [threading.Thread(target=make, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    harness.wait_for(lambda: all(b.status in ("completed", "cancelled") for b in c.batches.list(limit=100)))
    assert sorted(b.id for b in c.batches.list(limit=5)) == sorted(made)


def test_a_lost_input_after_a_kill(daemon, tmp_path):
    folder = tmp_path / "batches"
    d = daemon(batch_dir=folder)
    with client(d) as c:
        batch = start(c, [question(i, 200) for i in range(100)])
        harness.wait_for(lambda: c.batches.retrieve(batch.id).request_counts.completed > 0)
        c.files.delete(batch.input_file_id)
    d.kill()
    d = daemon(batch_dir=folder)
    with client(d) as c:
        b = ended(c, batch)
        assert b.status == "failed" and "input file" in b.errors.data[0].message


def test_off(demo):
    for r in (demo.get("/v1/batches"), demo.post("/v1/batches", {}), demo.get("/v1/batches/x")):
        assert r.status == 404 and "batch_dir" in r.error["message"]
