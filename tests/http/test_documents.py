"""What the daemon says of itself: metrics, and the description of its API."""
import os
import re
import resource
import time

import pytest

import harness


def test_every_route_is_described(demo):
    paths = demo.get("/openapi.json").json()["paths"]
    for path, operations in paths.items():
        real = path.replace("{id}", "x")
        r = demo.request("OPTIONS", real)
        assert r.status == 204
        assert {m.strip().lower() for m in r.headers["Allow"].split(",")} - {"head", "options"} == set(operations)


def test_prometheus_takes_the_metrics(demo):
    """Every sample has a HELP and a TYPE, counters end in _total, histograms are cumulative."""
    types, helps, buckets = {}, set(), {}
    for line in demo.get("/metrics").text.splitlines():
        if line.startswith("# HELP "):
            helps.add(line.split()[2])
        elif line.startswith("# TYPE "):
            assert line.split()[2] not in types, "declared twice"
            types[line.split()[2]] = line.split()[3]
        else:
            name, value = re.match("[a-z_]+", line)[0], float(line.rsplit(" ", 1)[1])
            base = name
            for suffix in ("_bucket", "_sum", "_count"):
                if types.get(name.removesuffix(suffix)) == "histogram":
                    base = name.removesuffix(suffix)
            assert base in types and base in helps, line
            assert (types[base] == "counter") == base.endswith("_total"), line
            if name.endswith("_bucket"):
                series = re.sub(',?le="[^"]*"', "", line.rsplit(" ", 1)[0])
                assert value >= buckets.get(series, 0), line
                buckets[series] = value
    assert set(types.values()) == {"counter", "gauge", "histogram"}


def test_metrics_under_other_names(daemon):
    d = daemon(harness.f1_checkpoint(), metrics_compat="vllm")
    d.complete(prompt=[5, 6], max_tokens=2, ignore_eos=True)
    m = harness.metrics(d)
    label = '{model_name="%s",engine="0"}' % d.get("/v1/models").json()["data"][0]["id"]
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "generation_tokens_total",
                 "prompt_tokens_total", "time_to_first_token_seconds_count", "e2e_request_latency_seconds_count"):
        assert "vllm:" + name + label in m, name
    for name in ("generation_tokens_total", "prompt_tokens_total"):
        harness.wait_for(lambda: harness.metrics(d)["vllm:" + name + label] == 2)


LLAMACPP = ("prompt_tokens_total", "prompt_seconds_total", "tokens_predicted_total", "tokens_predicted_seconds_total",
            "n_decode_total", "n_busy_slots_per_decode", "prompt_tokens_seconds", "predicted_tokens_seconds",
            "kv_cache_usage_ratio", "kv_cache_tokens", "requests_processing", "requests_deferred")


def test_metrics_under_the_names_of_llamacpp(daemon):
    d = daemon(harness.f1_checkpoint(), metrics_compat="llamacpp")
    d.complete(prompt=[5, 6, 7], max_tokens=2, ignore_eos=True)
    harness.wait_for(lambda: values(d, "llamacpp:prompt_tokens_total") == [3])
    harness.wait_for(lambda: values(d, "llamacpp:tokens_predicted_total") == [2])
    assert {k.split("{")[0] for k in harness.metrics(d) if k.startswith("llamacpp:")} == {
        "llamacpp:" + name for name in LLAMACPP}
    assert not [k for k in harness.metrics(d) if k.startswith("vllm:")]
    both = harness.metrics(daemon(harness.f1_checkpoint(), metrics_compat="all"))
    assert {k.split(":")[0] for k in both if ":" in k.split("{")[0]} == {"vllm", "llamacpp"}


# ---- what only this engine has ----


def values(d, name, **labels):
    """The values of all samples of a name that have these labels."""
    return [v for k, v in harness.metrics(d).items()
            if k.split("{")[0] == name and all(f'{a}="{b}"' in k for a, b in labels.items())]


def value(d, name, **labels):
    found = values(d, "trinityd_" + name, **labels)
    assert len(found) == 1, (name, labels, found)
    return found[0]


def settle(d):
    """All work has left the numbers."""
    harness.wait_for(lambda: value(d, "requests_running") == 0)


def test_steps_by_kind(daemon):
    """A prompt of 40 tokens in steps of 16 takes three of prefill, and its 5 tokens four of decoding: the first token
    comes with the prompt."""
    d = daemon(harness.f1_checkpoint(), max_batch_tokens=16)
    d.complete(prompt=list(range(5, 45)), max_tokens=5, ignore_eos=True)
    settle(d)
    steps = {k: value(d, "step_rows_count", kind=k) for k in ("prefill", "decode", "mixed")}
    assert steps == {"prefill": 3, "decode": 4, "mixed": 0}
    assert value(d, "step_rows_sum", kind="prefill") == 40 and value(d, "step_rows_sum", kind="decode") == 4
    assert value(d, "step_rows_bucket", kind="prefill", le="8") == 1  # the last 8 tokens
    assert value(d, "step_rows_bucket", kind="prefill", le="16") == 3
    assert {k: value(d, "step_duration_seconds_count", kind=k) for k in steps} == steps
    told = sum(value(d, "step_duration_seconds_sum", kind=k) for k in steps)
    assert told == pytest.approx(value(d, "step_seconds_total"), rel=1e-6) and told > 0


def misses(d):
    return {c: value(d, "prefix_misses_total", cause=c) for c in ("new", "evicted", "window", "rest", "rows")}


def test_misses_by_cause(daemon):
    """Pages of 16 tokens: of a prompt of 40, 32 can be found again, and the 8 behind them never."""
    d = daemon(harness.f1_checkpoint(), page_tokens=16)
    prompt = list(range(5, 45))
    d.complete(prompt=prompt, max_tokens=1)
    settle(d)
    assert misses(d) == {"new": 32, "evicted": 0, "window": 0, "rest": 8, "rows": 0}
    assert value(d, "page_reuses_total", kind="global") == 0
    d.complete(prompt=prompt, max_tokens=1)
    settle(d)
    assert misses(d) == {"new": 32, "evicted": 0, "window": 0, "rest": 16, "rows": 0}
    assert value(d, "page_reuses_total", kind="global") == 2
    assert 1 <= value(d, "page_reuses_total", kind="local") <= 2  # those that the window reaches
    d.complete(prompt=prompt, max_tokens=1, prompt_logprobs=0)
    settle(d)
    assert misses(d) == {"new": 32, "evicted": 0, "window": 0, "rest": 16, "rows": 40}
    assert value(d, "prefix_queries_total") == value(d, "prefix_hits_total") + sum(misses(d).values())


def test_evictions_by_kind(daemon):
    """In a cache that holds a few prompts the first one has gone when many others came; its pages are missed as that."""
    d = daemon(page_tokens=16, kv_cache="1MiB", context_length=256)
    first = list(range(20, 180))
    d.complete(prompt=first, max_tokens=1)
    for i in range(40):
        d.complete(prompt=[300 + i] + list(range(40, 200)), max_tokens=1)
    settle(d)
    gone = {k: value(d, "page_evictions_total", kind=k) for k in ("local", "global")}
    assert gone["local"] > 0 and gone["global"] > 0
    assert misses(d)["evicted"] == 0
    d.complete(prompt=first, max_tokens=1)
    settle(d)
    assert misses(d)["evicted"] == 144  # of 160 tokens, the last page has the last one
    for kind in gone:
        pages = value(d, f"{kind}_pages_cached")
        size = value(d, "page_bytes_cached", kind=kind) / pages
        assert size % 4096 == 0 and size > 0
        assert value(d, "page_bytes_used", kind=kind) == value(d, f"{kind}_pages_used") * size == 0


def test_experts_and_memory(daemon):
    """The demo checkpoint has 8 experts in layers 2 to 7, 2 a token: most over mean lies between 1 and 4."""
    d = daemon()
    assert not values(d, "trinityd_expert_load_ratio")
    d.complete(prompt="Once upon a time there was a fox", max_tokens=40, ignore_eos=True)
    settle(d)
    for layer in range(8):
        found = values(d, "trinityd_expert_load_ratio", layer=layer)
        assert [1 <= v <= 4 for v in found] == ([True] if layer >= 2 else []), (layer, found)
    assert value(d, "read_limit_bytes_per_second") > 1e6
    assert value(d, "decode_read_bytes_per_second") > 0
    assert value(d, "choice_bytes") <= value(d, "choice_limit_bytes")
    assert value(d, "request_body_limit_bytes") == 256 << 20
    assert value(d, "request_kept_limit_bytes") == 256 << 20
    assert value(d, "log_lines_dropped_total") == 0


def test_process_and_build(daemon):
    before = time.time()
    d = daemon()
    m = harness.metrics(d)
    assert before - 5 <= m["process_start_time_seconds"] <= time.time() + 5
    pid = d.process.pid
    assert abs(m["process_open_fds"] - len(os.listdir(f"/proc/{pid}/fd"))) <= 4
    assert m["process_max_fds"] == resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
    assert m["process_threads"] == len(os.listdir(f"/proc/{pid}/task"))
    rss = int(re.search(r"VmRSS:\s+(\d+) kB", open(f"/proc/{pid}/status").read())[1]) * 1024
    assert rss / 2 <= m["process_resident_memory_bytes"] <= rss * 2
    assert m["process_virtual_memory_bytes"] >= m["process_resident_memory_bytes"]
    assert 0 < m["process_cpu_seconds_total"] < 600
    info, = [k for k in m if k.startswith("trinityd_build_info")]
    labels = dict(re.findall(r'(\w+)="([^"]*)"', info))
    assert labels["version"] in harness.run("--version").stdout
    assert labels["threads"] == "1" and labels["fingerprint"] in d.log
