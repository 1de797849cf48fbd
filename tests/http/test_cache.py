"""The cache over HTTP: repetition, reuse on a hybrid model, memory pressure, capacity, snapshots in a new process."""
import json
import os
import random
import threading
import time

import pytest

import harness

ids = harness.fx.ids
B03 = [125, 127, 222, 222, 222, 45, 72, 72, 165, 72, 72, 2]
# What each of test_crowd's clients asks; a hundred by hand.
CROWD_QUESTIONS = int(os.environ.get("CROWD_QUESTIONS", 3))


def tokens(d, prompt, n=12, **body):
    r = d.complete(prompt=prompt, max_tokens=n, return_token_ids=True, ignore_eos=True, **body)
    return r["choices"][0]["token_ids"]


def cached(d, prompt, **body):
    return d.complete(prompt=prompt, max_tokens=1, **body)["usage"]["prompt_tokens_details"]["cached_tokens"]


def pages(d, kind):
    return sum(v for k, v in harness.metrics(d).items()
               if k.split("{")[0] in (f"trinityd_local_pages_{kind}", f"trinityd_global_pages_{kind}"))


@pytest.mark.parametrize("options", [{}, {"page_tokens": 16}, {"page_tokens": 256}, {"prefix_cache": False}],
                         ids=["default", "16", "256", "off"])
def test_the_same_prompt_again(daemon, options):
    d = daemon(harness.f1_checkpoint(), kv_type="f32", **options)
    x = ids(40)
    answers = [tokens(d, x) for _ in range(4)]
    tokens(d, ids(24, 5)), tokens(d, ids(60, 6))
    answers += [tokens(d, x) for _ in range(2)]
    assert answers == [B03] * 6


def test_reuse_on_a_hybrid_model(daemon):
    d = daemon(harness.f1_checkpoint("f1-4096", max_position_embeddings=4096), kv_type="f32")
    off = daemon(harness.f1_checkpoint("f1-4096", max_position_embeddings=4096), kv_type="f32", prefix_cache=False)
    x = ids(1500, 4)
    longer = x + ids(20, 9)
    assert cached(d, x) == 0
    assert cached(d, x) >= 1400 and cached(d, longer) >= 1400
    assert cached(off, x) == 0
    assert tokens(d, x) == tokens(off, x) and tokens(d, longer) == tokens(off, longer)


def test_salts_and_cache_prompt(daemon):
    d = daemon(harness.f1_checkpoint())
    x = ids(200, 8)
    assert cached(d, x, cache_salt="A") == 0 and cached(d, x, cache_salt="B") == 0
    assert cached(d, x, cache_salt="A") > 150 and cached(d, x, cache_salt="B") > 150
    assert cached(d, x) == 0 and cached(d, x, cache_prompt=False) == 0


def test_keys_share_no_prefix(daemon):
    d = daemon(harness.f1_checkpoint(), api_key="one,two")
    x = {"prompt": ids(200, 8), "max_tokens": 1}

    def ask(key):
        r = d.post("/v1/completions", x, headers={"Authorization": f"Bearer {key}"})
        return r.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert ask("one") == 0 and ask("two") == 0 and ask("one") > 150 and ask("two") > 150


def together(d, prompts, n, pause=0.0):
    out = [None] * len(prompts)

    def ask(i):
        out[i] = tokens(d, prompts[i], n)

    threads = []
    for i in range(len(prompts)):
        threads.append(threading.Thread(target=ask, args=(i,)))
        threads[-1].start()
        time.sleep(pause)
    for t in threads:
        t.join()
    return out


def test_pages_inside_a_window_stay(daemon):
    """Eight requests in a budget just above their sum, one by one, at once, and with more on the way."""
    prompts = [ids(12 + 3 * k, 10 + k) for k in range(8)]
    d = daemon(harness.f1_checkpoint(), kv_type="f32", page_tokens=64, kv_cache="1MiB")
    solo = [tokens(d, p, 24) for p in prompts]
    assert together(d, prompts, 24) == solo
    assert together(d, prompts + prompts, 24, pause=0.02) == solo + solo
    harness.wait_for(lambda: pages(d, "used") == 0)


def test_capacity(daemon):
    d = daemon(harness.f1_checkpoint(), kv_type="f32", page_tokens=16, kv_cache="4MiB", max_batch_tokens=64)
    c = d.get("/v1/capacity").json()
    # 6 local and 2 global layers, 2 heads of 16, keys and values of 4 bytes; a page takes whole 4 KiB.
    assert c["local"]["bytes_per_token"] == 6 * 2 * 16 * 2 * 4
    assert c["global"]["bytes_per_token"] == 2 * 2 * 16 * 2 * 4
    # window 8, steps of 64 tokens: ceil((8 - 1 + 64) / 16) + 1 pages
    assert c["local"]["bytes_per_sequence"] == 6 * 16 * c["local"]["bytes_per_token"]
    need = c["local"]["bytes_per_sequence"] + 256 * c["global"]["bytes_per_token"]
    assert {"tokens": 256, "fit": (4 << 20) // need} in c["sequences"]


def test_snapshots_travel_to_a_new_process(daemon, tmp_path):
    options = {"kv_type": "f32", "page_tokens": 16, "snapshot_dir": tmp_path}
    text = ids(100, 3)
    first = daemon(harness.f1_checkpoint(), **options)
    assert first.post("/v1/snapshots", {"name": "one", "prompt": text}).status == 404
    want = tokens(first, text, 20)
    r = first.post("/v1/snapshots", {"name": "one", "prompt": text})
    assert r.status == 200 and r.json()["tokens"] == 96
    listed = first.get("/v1/snapshots").json()["data"]
    assert [s["name"] for s in listed] == ["one"] and listed[0] == r.json()
    assert listed[0]["bytes"] == sum(f.stat().st_size for f in tmp_path.iterdir())
    first.stop()

    second = daemon(harness.f1_checkpoint(), **options)
    assert second.post("/v1/snapshots/one", {}).json() == r.json()
    assert cached(second, text) == 96
    assert tokens(second, text, 20) == want
    for name, status in (("two", 404), ("..%2Fone", 400)):
        assert second.post(f"/v1/snapshots/{name}", {}).status == status
    assert second.post("/v1/snapshots", {"name": "a/b", "prompt": text}).error["param"] == "name"
    assert second.post("/v1/snapshots", {"name": "x"}).error["param"] == "prompt"

    other = daemon(harness.f1_checkpoint(), **{**options, "page_tokens": 32})
    refused = other.post("/v1/snapshots/one", {})
    assert refused.status == 400 and "page_tokens" in refused.error["message"]
    assert second.request("DELETE", "/v1/snapshots/one").status == 200
    assert second.request("DELETE", "/v1/snapshots/one").status == 404
    assert second.get("/v1/snapshots").json()["data"] == []
    assert second.request("DELETE", "/v1/models").status == 405


def test_snapshots_belong_to_a_key(daemon, tmp_path):
    d = daemon(harness.f1_checkpoint(), api_key="one,two", snapshot_dir=tmp_path, page_tokens=16)
    key = {k: {"Authorization": f"Bearer {k}"} for k in ("one", "two")}
    x = {"prompt": ids(50, 8), "max_tokens": 1}
    assert d.post("/v1/completions", x, headers=key["one"]).status == 200
    save = {"name": "mine", "prompt": x["prompt"]}
    assert d.post("/v1/snapshots", save, headers=key["two"]).status == 404
    assert d.post("/v1/snapshots", save, headers=key["one"]).status == 200
    assert d.post("/v1/snapshots/mine", {}, headers=key["two"]).status in (400, 404)
    assert d.request("DELETE", "/v1/snapshots/mine", headers=key["two"]).status == 404
    assert d.get("/v1/snapshots", headers=key["two"]).json()["data"] == []
    assert len(d.get("/v1/snapshots", headers=key["one"]).json()["data"]) == 1
    # the same key in a new process, where salts are others
    e = daemon(harness.f1_checkpoint(), api_key="one,two", snapshot_dir=tmp_path, page_tokens=16)
    assert e.post("/v1/snapshots/mine", {}, headers=key["one"]).status == 200
    r = e.post("/v1/completions", x, headers=key["one"]).json()
    assert r["usage"]["prompt_tokens_details"]["cached_tokens"] == 48


def test_no_snapshots_without_a_folder(f1):
    assert f1.get("/v1/snapshots").status == 400


@pytest.mark.timeout(600)
@pytest.mark.parametrize("overcommit", [0, 200])
def test_crowd(daemon, overcommit):
    """Sixty-four clients and memory for four: every answer is its solo answer; some read slowly, some leave."""
    questions = [f"Once upon a time there was a {a} {b}." for a in ("small", "green", "kind", "quiet")
                 for b in ("fox", "hen", "bear", "turtle")]
    options = {"page_tokens": 16, "context_length": 512, "max_batch_tokens": 128}
    ask = {"max_tokens": 36, "temperature": 0}
    with harness.Daemon(**options) as solo:
        want = {q: solo.complete(prompt=q, **ask)["choices"][0]["text"] for q in questions}
        per_sequence = solo.get("/v1/capacity").json()
    need = per_sequence["local"]["bytes_per_sequence"] + 48 * per_sequence["global"]["bytes_per_token"]
    d = daemon(kv_cache=4 * need, overcommit=overcommit, **options)
    wrong, answers, leavers = [], [], []

    def client(k):
        rng = random.Random(k)
        for _ in range(CROWD_QUESTIONS):
            q = rng.choice(questions)
            kind = rng.random()
            if kind < 0.6:
                r = d.post("/v1/completions", {"prompt": q, **ask})
                text = r.json()["choices"][0]["text"] if r.status == 200 else r.text
            else:
                with d.stream("/v1/completions", {"prompt": q, **ask}) as s:
                    text = ""
                    for i, event in enumerate(s):
                        text += event["choices"][0]["text"]
                        if kind > 0.85 and i == 5:
                            leavers.append(k)
                            break
                        if kind > 0.75:
                            time.sleep(0.002)
                    else:
                        i = -1
                if i >= 0:
                    continue
            answers.append(k)
            if text != want[q]:
                wrong.append((q, text))

    threads = [threading.Thread(target=client, args=(k,)) for k in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]
    assert leavers and len(answers) + len(leavers) == 64 * CROWD_QUESTIONS
    harness.wait_for(lambda: pages(d, "used") == 0)
    assert harness.metrics(d).get("trinityd_page_mismatches_total", 0) == 0


def keyed(method, path, key, *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {key}", *lines, "", ""]).encode()


def test_a_request_acts_for_its_own_key_to_the_end(daemon, tmp_path):
    """The workers are busy when A's client leaves, and what A sent lies where B's requests are put next."""
    a, b = "key-of-tenant-a", "key-of-tenant-b"
    d = daemon(api_key=f"{a},{b}", snapshot_dir=tmp_path)
    as_b = {"Authorization": f"Bearer {b}"}
    prompt = list(range(100, 300))
    assert d.post("/v1/completions", {"prompt": prompt, "max_tokens": 1}, headers=as_b).status == 200
    assert d.post("/v1/snapshots", {"name": "x", "prompt": prompt}, headers=as_b).status == 200
    text = json.dumps({"prompt": "ab " * (1 << 20)}).encode()
    held = [d.socket() for _ in range(2)]
    for s in held:
        s.sendall(keyed("POST", "/tokenize", a, "Content-Type: application/json", f"Content-Length: {len(text)}") + text)
    harness.wait_for(lambda: harness.metrics(d)[f'trinityd_request_body_bytes{{model_name="demo"}}'] >= 2 * len(text))
    with d.socket() as s:
        s.sendall(keyed("DELETE", "/v1/snapshots/x", a))
        harness.wait_for(lambda: open_requests(d) == 4)
    d.wait_log(" 499 ")
    held += [d.socket() for _ in range(4)]
    for s in held[2:]:
        s.sendall(keyed("GET", "/v1/snapshots?zzzz", b))
    for s in held[2:]:
        with s.makefile("rb") as f:
            assert harness.read_reply(f)[0] == 200
    for s in held:
        s.close()
    assert [x["name"] for x in d.get("/v1/snapshots", headers=as_b).json()["data"]] == ["x"]


def open_requests(d):
    return harness.metrics(d)['trinityd_http_requests_open{model_name="demo"}']


def test_a_damaged_snapshot_is_the_requests_fault(daemon, tmp_path):
    d = daemon(harness.f1_checkpoint(), snapshot_dir=tmp_path, page_tokens=16)
    prompt = ids(50, 9)
    assert d.post("/v1/completions", {"prompt": prompt, "max_tokens": 1}).status == 200
    assert d.post("/v1/snapshots", {"name": "s", "prompt": prompt}).status == 200
    file = next(tmp_path.iterdir())
    good = file.read_bytes()
    for bad in (good[:len(good) // 2], good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], b"x" * len(good), b""):
        file.write_bytes(bad)
        r = d.post("/v1/snapshots/s", {})
        assert r.status in (400, 404) and r.error["param"] == "snapshot", r.text
    file.write_bytes(good)
    assert d.post("/v1/snapshots/s", {}).status == 200
