"""GET /v1/engine, its events, and the page that draws them."""
import json
import socket
import threading
import time

import pytest
from playwright.sync_api import expect

import harness


def watch(d, headers=None):
    """An open event stream: (a function that closes it, iterator of parsed events)."""
    s = d.socket()
    lines = "".join(f"{k}: {v}\r\n" for k, v in (headers or {}).items())
    s.sendall(f"GET /v1/engine/events HTTP/1.1\r\nHost: {d.host}:{d.port}\r\n{lines}\r\n".encode())
    file = s.makefile("rb")
    status, head = harness.read_head(file)
    assert status == 200 and head["content-type"].startswith("text/event-stream")

    def chunks():
        while size := int(file.readline().split(b";")[0] or b"0", 16):
            yield file.read(size)
            file.read(2)

    def close():
        s.shutdown(socket.SHUT_RDWR)  # the reader holds the socket, too
        s.close()

    return close, (json.loads(e) for e in harness.parse_events(chunks()))


def engine_metrics(d):
    return {k.split("{")[0].removeprefix("trinityd_"): v for k, v in harness.metrics(d).items()}


def cells(pool):
    return [(u, c) for n, u, c in pool["cells"] for _ in range(n)]


def check(v, d):
    """What must hold in every view."""
    info = json.loads((harness.DEMO / "config.json").read_text())
    assert v["layers"] == ["local" if t == "sliding_attention" else "global" for t in info["layer_types"]]
    assert v["window"] == info["sliding_window"]
    m, page = v["metrics"], v["page_tokens"]
    for kind in ("local", "global"):
        pool, map_ = v[kind], cells(v[kind])
        assert len(map_) <= 1024 and len(map_) == -(-pool["touched"] // pool["cell_pages"])
        assert all(0 <= u + c <= pool["cell_pages"] for u, c in map_)
        # the numbers are as old as the last step's end, the map is of now: steps in between move pages
        if not m["requests_running"]:
            assert sum(u for u, _ in map_) == m[f"{kind}_pages_used"]
            assert sum(c for _, c in map_) == m[f"{kind}_pages_cached"]
    for q in v["sequences"]["rows"]:
        first, n = q["local"]
        assert q["computed"] <= q["tokens"] <= q["most"]
        if q["state"] == "decode":
            assert q["global"] * page >= q["computed"] > (q["global"] - 2) * page
            assert (first + n) * page >= q["computed"] and first * page <= max(q["computed"] - v["window"] + 1, 0)
            assert n <= v["window"] / page + 2, "local pages stay behind the window"
    t = v["seconds"]
    assert t["local"] + t["global"] + t["mlp"] + t["head"] + t["sample"] <= t["steps"] * 1.001 + 1e-5
    for number, _, seconds, prefill, decode, n in v["steps"]:
        assert 1 <= number <= m["steps_total"] and seconds > 0 and 1 <= n <= prefill + decode


def test_view_of_a_run(daemon):
    d = daemon()
    check(d.get("/v1/engine").json(), d)
    close, events = watch(d)
    t = threading.Thread(target=d.complete, kwargs={"prompt": "Once upon a time", "max_tokens": 900, "n": 4, "ignore_eos": True})
    t.start()
    seen, steps, firsts, globals_ = set(), [], [], []
    for v in events:
        check(v, d)
        steps += [x[0] for x in v["steps"]]
        for q in v["sequences"]["rows"]:
            seen.add((q["id"], q["choice"]))
            if q["choice"] == 0:
                firsts.append(q["local"][0])
                globals_.append(q["global"])
        if v["metrics"]["generated_tokens_total"] == 3600 and not v["sequences"]["total"]:
            break
    t.join()
    close()
    assert {c for _, c in seen} == {0, 1, 2, 3}
    assert steps == sorted(set(steps)) and steps[-1] == v["metrics"]["steps_total"]
    assert firsts == sorted(firsts) and firsts[-1] > 0, "local pages fall off behind the window"
    assert globals_ == sorted(globals_) and globals_[-1] > globals_[0]
    last = d.get("/v1/engine").json()
    check(last, d)
    want = engine_metrics(d)
    assert last["metrics"] == {k: want[k] for k in last["metrics"]}
    assert sum(x[3] + x[4] for x in last["steps"]) <= last["metrics"]["rows_total"] and len(last["steps"]) == 128
    assert last["read"]["bytes_per_second"] > 0 and last["read"]["bytes"] > 0


def test_map_of_many_pages_is_bounded(daemon):
    d = daemon(page_tokens=16, kv_cache="64MiB")
    for i in range(6):
        d.complete(prompt=[7 + i] * 3000, max_tokens=1)
    v = d.get("/v1/engine").json()
    assert v["global"]["touched"] > 1024 and v["global"]["cell_pages"] == 2
    check(v, d)


def test_silence_while_nothing_changes(demo):
    close, events = watch(demo)
    first = next(events)
    more = []
    t = threading.Thread(target=lambda: more.extend(events), daemon=True)
    t.start()
    t.join(2)  # eight drawings
    assert len(more) <= 4 and all(v["metrics"] == first["metrics"] for v in more)
    close()
    t.join()


def test_keys(daemon):
    d = daemon(api_key="secret")
    for path in ("/v1/engine", "/v1/engine/events"):
        assert d.get(path).status == 401
    assert d.get("/v1/engine", headers={"Authorization": "Bearer secret"}).status == 200
    close, events = watch(d, {"Authorization": "Bearer secret"})
    assert next(events)["object"] == "engine"
    close()


def test_many_watch_and_leave(daemon):
    d = daemon()
    open_ = [watch(d) for _ in range(20)]
    for _, events in open_:
        assert next(events)["object"] == "engine"
    for close, _ in open_[:19]:
        close()
    d.complete(prompt="a", max_tokens=5)
    close, events = open_[19]
    while next(events)["metrics"]["generated_tokens_total"] != 5:
        pass
    harness.wait_for(lambda: engine_metrics(d)["http_requests_open"] == 2)
    assert d.get("/v1/engine").status == 200
    d.signal(15)
    assert list(events) is not None, "the stream ends in good order"
    assert d.wait() == 0
    close()


def span(d, n, others):
    """Seconds of the engine's clock that n events of a stream go over, while others() is done again and again."""
    close, events = watch(d)
    first = next(events)["now"]
    stop = threading.Event()

    def work():
        while not stop.is_set():
            others()

    t = threading.Thread(target=work)
    t.start()
    for _ in range(n):
        last = next(events)["now"]
    stop.set()
    t.join()
    close()
    return last - first


def busy(d):
    """A long answer, so that every drawing is new; returns what ends it."""
    s = d.socket()
    body = json.dumps({"prompt": "Once", "max_tokens": 3900, "ignore_eos": True, "stream": True}).encode()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return s.close


def poll(d):
    assert d.get("/v1/engine").status == 200


def join_and_leave(d):
    close, events = watch(d)
    first = next(events)
    assert len(first["steps"]) == min(first["metrics"]["steps_total"], 128), "whoever comes is told everything"
    close()


@pytest.mark.parametrize("others", [poll, join_and_leave])
def test_others_do_not_change_a_streams_pace(daemon, others):
    d = daemon()
    end = busy(d)
    harness.wait_for(lambda: engine_metrics(d)["requests_running"] == 1)
    assert span(d, 8, lambda: others(d)) > 1, "at most four a second"
    end()


def test_every_step_is_told_once_whoever_comes(daemon):
    d = daemon()
    close, events = watch(d)
    next(events)
    t = threading.Thread(target=d.complete, kwargs={"prompt": "Once", "max_tokens": 600, "ignore_eos": True})
    t.start()
    steps = []
    for v in events:
        poll(d)
        join_and_leave(d)
        steps += [x[0] for x in v["steps"]]
        if v["metrics"]["generated_tokens_total"] == 600 and not v["sequences"]["total"]:
            break
    t.join()
    close()
    assert steps == sorted(set(steps)) and steps[-1] == v["metrics"]["steps_total"]


def test_who_stayed_behind_is_told_the_end(daemon):
    """A reader who takes nothing for a while misses events, but not what is true in the end."""
    d = daemon()
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect((d.host, d.port))
    s.settimeout(harness.PATIENCE)
    s.sendall(b"GET /v1/engine/events HTTP/1.1\r\nHost: x\r\n\r\n")
    close, events = watch(d)
    enough = threading.Event()

    def load():
        while not enough.is_set():
            d.complete(prompt="Once", max_tokens=40, n=100, ignore_eos=True)

    t = threading.Thread(target=load)
    t.start()
    told = 0
    while told < 600 * 1024:  # more than lies between the daemon and a reader who does not read
        told += len(json.dumps(next(events)))
    enough.set()
    t.join()
    time.sleep(1)  # the last events find no room
    close()
    last = f'"generated_tokens_total":{engine_metrics(d)["generated_tokens_total"]:.0f},'.encode()
    with s, s.makefile("rb") as file:
        while last not in (line := file.readline()):
            pass
    v = json.loads(line.removeprefix(b"data: "))
    assert v["steps"] and v["steps"][-1][0] == v["metrics"]["steps_total"], "with the steps that it missed"


def test_the_last_seat(daemon):
    d = daemon()
    open_ = [watch(d)[0] for _ in range(256)]
    for path in ("/v1/engine", "/v1/engine/events"):
        r = d.get(path)
        assert r.status == 429 and r.error["code"] == "too_many_watchers" and "256" in r.error["message"]
    open_.pop()()
    harness.wait_for(lambda: d.get("/v1/engine").status == 200)
    for close in open_:
        close()


def test_head_of_the_stream(demo):
    assert demo.request("HEAD", "/v1/engine/events").status == 200
    assert demo.request("HEAD", "/v1/engine").status == 200


def test_page_shows_the_same_numbers(daemon, visit):
    d = daemon()
    p = visit(d.url + "/#engine")
    expect(p.locator(".top .status")).to_have_text("live")
    expect(p.locator(".layers li")).to_have_count(8)
    assert p.locator(".layers .global").count() == 2
    threads = [threading.Thread(target=d.complete, kwargs={"prompt": [9 + i] * 100, "max_tokens": 1500, "ignore_eos": True}) for i in range(3)]
    for t in threads:
        t.start()
    expect(p.locator(".sequence")).to_have_count(3)
    row = p.locator(".sequence").first
    expect(row.locator(".state")).to_have_text("decode")
    left = "(e) => parseFloat(e.style.left)"
    harness.wait_for(lambda: row.locator(".lane .local").evaluate(left) > 0)
    for t in threads:
        t.join()
    want = {k: v for k, v in engine_metrics(d).items()}
    expect(p.locator("[data-metric=generated_tokens_total]")).to_have_text("4500")
    expect(p.locator("[data-metric=requests_running]")).to_have_text("0")
    shown = p.evaluate("() => Object.fromEntries([...document.querySelectorAll('[data-metric]')].map((e) => [e.dataset.metric, Number(e.textContent)]))")
    assert shown == {k: want[k] for k in shown} and len(shown) > 20


def test_nobody_watches_a_hidden_view(daemon, visit):
    d = daemon()
    p = visit(d.url + "/#engine")
    expect(p.locator(".top .status")).to_have_text("live")
    p.locator("#tab-play").click()
    harness.wait_for(lambda: engine_metrics(d)["http_requests_open"] == 1)
