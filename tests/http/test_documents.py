"""What the daemon says of itself: metrics, and the description of its API."""
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
            name, value = line.split("{")[0], float(line.rsplit(" ", 1)[1])
            base = name
            for suffix in ("_bucket", "_sum", "_count"):
                if types.get(name.removesuffix(suffix)) == "histogram":
                    base = name.removesuffix(suffix)
            assert base in types and base in helps, line
            assert (types[base] == "counter") == base.endswith("_total"), line
            if name.endswith("_bucket"):
                assert value >= buckets.get(base, 0) or 'le="0.' in line, line
                buckets[base] = value
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
