"""The checkpoint that serves gives way to another: no request is lost, and each is answered by the one it began on."""
import json
import os
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

import harness

ADMIN = {"Authorization": "Bearer boss"}
USER = {"Authorization": "Bearer user"}
PROMPTS = [harness.fx.ids(12, seed) for seed in range(8)]


def checkpoints():
    """Two that answer differently."""
    return (harness.f1_checkpoint("reload-a", max_position_embeddings=1 << 16),
            harness.f1_checkpoint("reload-b", max_position_embeddings=1 << 16, route_scale=1.25))


def ask(d, prompt, n=24):
    """A text, and the fingerprint of what gave it."""
    body = {"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True}
    r = d.post("/v1/completions", body, headers=USER)
    assert r.status == 200, r.text
    return r.json()["choices"][0]["text"], r.json()["system_fingerprint"]


def lead(link, to):
    """Turns a symbolic link in one step, as deployments do."""
    other = link.with_name("next")
    other.symlink_to(to)
    other.replace(link)


def reload(d, headers=ADMIN, **body):
    return d.post("/admin/reload", body, headers=headers)


def ready(d):
    r = d.get("/readyz")
    return r.status == 200 and r.json()["system_fingerprint"]


def number(d, name):
    """The one sample whose name and labels contain these words."""
    found = [v for k, v in harness.metrics(d).items() if all(word in k for word in name.split())]
    assert len(found) == 1, (name, found)
    return found[0]


@pytest.fixture
def served(tmp_path, daemon):
    """A daemon on a link to the first of two checkpoints, the link, both folders."""
    a, b = checkpoints()
    link = tmp_path / "now"
    link.symlink_to(a)
    return daemon(link, admin_key="boss", api_key="user", kv_cache="64MiB", max_sequences=32), link, a, b


class Long:
    """A stream that goes on until it is closed."""

    def __init__(self, d):
        self.stream = d.stream("/v1/completions", {"prompt": PROMPTS[0], "max_tokens": 60000, "ignore_eos": True}, USER)
        self.events = iter(self.stream)
        next(self.events)

    def close(self):
        self.stream.close()


class Asker(threading.Thread):
    """A request beside the test."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.answer = call, None
        self.start()

    def run(self):
        self.answer = self.call()

    def result(self):
        self.join(harness.PATIENCE)
        assert not self.is_alive(), "no answer"
        return self.answer


def test_swaps_under_load(served, daemon):
    """Streams run all the time while the checkpoint changes again and again, beside the other and after it."""
    d, link, a, b = served
    known = {}
    for folder in (a, b):
        with harness.Daemon(folder) as alone:
            texts = [alone.complete(prompt=p, max_tokens=200, ignore_eos=True)["choices"][0]["text"] for p in PROMPTS]
            known[alone.complete(prompt=PROMPTS[0], max_tokens=1)["system_fingerprint"]] = texts
    assert len(known) == 2 and len({t[0] for t in known.values()}) == 2
    over, answers, faults = threading.Event(), [], []

    def client(i):
        try:
            while not over.is_set():
                k = i % len(PROMPTS)
                body = {"prompt": PROMPTS[k], "max_tokens": 200, "temperature": 0, "ignore_eos": True}
                events = list(d.stream("/v1/completions", body, USER))
                prints = {e["system_fingerprint"] for e in events}
                text = "".join(c["text"] for e in events for c in e["choices"])
                answers.append((k, prints, text, events[-1]["choices"][0]["finish_reason"]))
        except BaseException as e:
            faults.append(repr(e))

    clients = [threading.Thread(target=client, args=(i,)) for i in range(16)]
    for c in clients:
        c.start()
    for i in range(8):
        wanted = len(answers) + 4
        harness.wait_for(lambda: len(answers) >= wanted or faults)
        lead(link, b if i % 2 == 0 else a)
        r = reload(d, drain=i % 4 == 3)
        assert r.status == 200 and r.json()["beside"] == (i % 4 != 3), r.text
    over.set()
    for c in clients:
        c.join(harness.PATIENCE)
    assert not faults and len(answers) >= 32
    seen = set()
    for k, prints, text, reason in answers:
        assert len(prints) == 1 and reason == "length"
        assert text == known[min(prints)][k]
        seen |= prints
    assert seen == set(known)
    assert number(d, "trinityd_reloads_total done") == 8 and number(d, "trinityd_reloads_total failed") == 0


def test_old_answers_end_on_old_weights(served):
    d, link, a, b = served
    text, old = ask(d, PROMPTS[1], 200)
    long = Long(d)
    lead(link, b)
    r = reload(d).json()
    assert r["former_fingerprint"] == old and r["system_fingerprint"] == ready(d) != old and r["model"] == b.name
    assert ask(d, PROMPTS[1], 200)[0] != text
    assert d.get("/v1/models", headers=USER).json()["data"][0]["id"] == b.name
    for _ in range(50):
        assert next(long.events)["system_fingerprint"] == old
    assert number(d, "trinityd_checkpoints_open") == 2
    assert f'fingerprint="{r["system_fingerprint"][3:35]}"' in d.get("/metrics").text
    long.close()
    harness.wait_for(lambda: number(d, "trinityd_checkpoints_open") == 1)


def test_memory_comes_back(served):
    """Nothing of a former checkpoint stays: no mapping of its files, no descriptor, no thread, no heap that grows."""
    d, link, a, b = served
    proc = Path(f"/proc/{d.process.pid}")

    def state():
        maps = (proc / "maps").read_text()
        return (str(a) in maps, str(b) in maps, len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir())))

    def resident():
        return int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def turn(to):
        lead(link, to)
        assert reload(d).status == 200
        ask(d, PROMPTS[0])

    for to in (b, a, b, a):
        turn(to)
    harness.wait_for(lambda: state()[:2] == (True, False) and number(d, "trinityd_checkpoints_open") == 1)
    before, bytes_before = state(), resident()
    for to in (b, a) * 6:
        turn(to)
    harness.wait_for(lambda: all(x <= y for x, y in zip(state(), before)), message=lambda: f"{before} became {state()}")
    if "-fsanitize" not in (harness.BUILD / "flags").read_text():  # which keeps what was freed
        harness.wait_for(lambda: resident() < bytes_before + (16 << 20))


def break_tensor(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.3.mlp.router.gate.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def break_length(folder):
    with open(folder / "model.safetensors", "r+b") as f:
        f.truncate(os.path.getsize(f.name) - 100)


def break_template(folder):
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{% if %}"}))


def break_all(folder):
    shutil.rmtree(folder)


@pytest.mark.parametrize("fault, word", [(break_tensor, "router.gate.weight"), (break_length, "model.safetensors"),
                                         (break_template, "line 1"), (break_all, "No such file")])
@pytest.mark.parametrize("drain", [False, True])
def test_a_bad_checkpoint_changes_nothing(served, tmp_path, fault, word, drain):
    """The error is told and logged; what can only be found when the former one is closed brings it back."""
    d, link, a, b = served
    bad = tmp_path / "bad"
    shutil.copytree(b, bad)
    fault(bad)
    before = ask(d, PROMPTS[2])
    lead(link, bad)
    r = reload(d, drain=drain)
    assert r.status == 422 and r.error["code"] == "bad_checkpoint" and word in r.error["message"], r.text
    d.wait_log(re.escape(word))
    assert ask(d, PROMPTS[2]) == before
    assert ready(d) == before[1]
    assert number(d, "trinityd_reloads_total failed") == 1
    lead(link, b)
    assert reload(d).status == 200 and ask(d, PROMPTS[2]) != before


def test_who_may(served, tmp_path, daemon):
    d, link, a, b = served
    assert d.post("/admin/reload", {}).status == 401
    r = reload(d, USER)
    assert r.status == 403 and r.error["code"] == "endpoint_not_allowed"
    assert d.get("/admin/reload", headers=ADMIN).status == 405
    other = reload(d, model=str(b))
    assert other.status == 400 and other.error["param"] == "model"
    assert reload(d, drain="yes").status == 400
    assert number(d, "trinityd_reloads_total done") == 0
    assert reload(d, model=str(link)).status == 200
    assert reload(daemon(a), {}).status == 403  # without keys nobody is one
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{"name": "x", "key": "user"}, {"name": "y", "key": "boss", "admin": True}]}))
    named = daemon(a, api_key_file=keys)
    assert [reload(named, h).status for h in (USER, ADMIN)] == [403, 200]


def test_sighup(served, tmp_path):
    """It loads what the path leads to if that has changed: another folder, or other files in the same."""
    d, link, a, b = served
    text, first = ask(d, PROMPTS[3])
    d.signal(signal.SIGHUP)
    d.wait_log("options reloaded")
    assert "reload: " not in d.log and ready(d) == first
    lead(link, b)
    d.signal(signal.SIGHUP)
    harness.wait_for(lambda: ready(d) not in (False, first))
    folder = tmp_path / "copy"
    shutil.copytree(b, folder)
    lead(link, folder)
    d.signal(signal.SIGHUP)
    harness.wait_for(lambda: d.log.count("serves in place of") == 2)
    assert ask(d, PROMPTS[3])[0] != text
    shutil.copy(a / "config.json", folder / "next")
    (folder / "next").replace(folder / "config.json")
    d.signal(signal.SIGHUP)
    harness.wait_for(lambda: ready(d) == first)
    assert ask(d, PROMPTS[3]) == (text, first)


def hold(d):
    """A reload that waits for a stream to end, and a request that waits for the reload."""
    long = Long(d)
    asked = Asker(lambda: reload(d, drain=True))
    harness.wait_for(lambda: d.get("/readyz").status == 503)
    held = Asker(lambda: d.post("/v1/completions", {"prompt": PROMPTS[4], "max_tokens": 4}, headers=USER))
    harness.wait_for(lambda: number(d, "trinityd_requests_held") == 1)
    return long, asked, held


def test_one_at_a_time_and_requests_wait(served):
    d, link, a, b = served
    lead(link, b)
    long, asked, held = hold(d)
    gone = d.socket()  # one that leaves while it waits
    gone.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer user\r\n\r\n")
    harness.wait_for(lambda: number(d, "trinityd_requests_held") == 2)
    gone.close()
    again = reload(d)
    assert again.status == 409 and again.error["code"] == "reload_under_way"
    assert d.get("/livez").status == 200
    assert next(long.events)["choices"]
    long.close()
    r = asked.result()
    assert r.status == 200 and not r.json()["beside"]
    assert held.result().json()["system_fingerprint"] == r.json()["system_fingerprint"] == ready(d)


def test_the_end_comes_first(served):
    """SIGTERM in the middle: who waits hears of it, what runs may finish."""
    d, link, a, b = served
    lead(link, b)
    long, asked, held = hold(d)
    d.signal(signal.SIGTERM)
    for who in (asked, held):
        r = who.result()
        assert r.status == 503 and r.error["code"] == "shutting_down"
    assert next(long.events)["choices"]
    long.close()
    assert d.wait() == 0


def test_the_end_while_loading(served):
    """SIGTERM right behind a reload, however far that has come."""
    d, link, a, b = served
    lead(link, b)
    asked = Asker(lambda: reload(d))
    d.wait_log("reload: /")
    d.signal(signal.SIGTERM)
    assert asked.result().status in (200, 503)
    assert d.wait() == 0


def test_watchers_see_the_next_one(served):
    """The stream of the engine at work goes on with whichever serves."""
    d, link, a, b = served
    with d.socket() as s:
        s.sendall(b"GET /v1/engine/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer user\r\n\r\n")
        f = s.makefile("rb")

        def model():
            while not (line := f.readline()).startswith(b"data: "):
                assert line
            return json.loads(line[6:])["model"]

        assert model() == a.name
        for to, drain in ((b, False), (a, True)):
            lead(link, to)
            assert reload(d, drain=drain).status == 200
            harness.wait_for(lambda: model() == to.name)
    assert d.get("/v1/engine", headers=USER).json()["model"] == a.name
