"""Load generators: their ordinary commands, and no error in their reports."""
import csv
import json

import harness


def test_locust(client, demo, model, tmp_path):
    """Many users on fresh and kept connections, streams and not."""
    (tmp_path / "locustfile.py").write_text(f"""
from locust import HttpUser, task
class User(HttpUser):
    @task
    def whole(self):
        with self.client.post("/v1/completions", json={{"model": {model!r}, "prompt": "Once upon a time", "max_tokens": 4}},
                              catch_response=True) as r:
            if r.json()["usage"]["completion_tokens"] < 1:
                r.failure("no tokens")
    @task
    def stream(self):
        with self.client.post("/v1/completions", json={{"model": {model!r}, "prompt": "Once", "max_tokens": 4, "stream": True}},
                              stream=True, catch_response=True) as r:
            if not r.content.endswith(b"data: [DONE]\\n\\n"):
                r.failure("cut short")
    @task
    def models(self):
        self.client.get("/v1/models")
""")
    client("locust", "--headless", "-f", tmp_path / "locustfile.py", "-H", demo.url, "-u", 20, "-r", 20, "-t", "5s", "--csv", "out",
           "--exit-code-on-error", "1")
    with open(tmp_path / "out_stats.csv") as f:
        total = [row for row in csv.DictReader(f) if row["Name"] == "Aggregated"][0]
    assert int(total["Request Count"]) > 50 and int(total["Failure Count"]) == 0


def tokenizer_folder(tmp_path):
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        (folder / name).write_bytes((harness.DEMO / name).read_bytes())
    return folder


def test_aiperf(client, demo, model, tmp_path):
    client("aiperf", "profile", "-m", model, "--url", demo.url, "--endpoint-type", "completions", "--streaming",
           "--tokenizer", tokenizer_folder(tmp_path), "--concurrency", 4, "--request-count", 12,
           "--synthetic-input-tokens-mean", 32, "--output-tokens-mean", 8, "--extra-inputs", "ignore_eos:true",
           "--ui", "simple", "--artifact-dir", tmp_path / "artifacts", "--workers-max", 1,
           env={"HF_HUB_OFFLINE": None}, group="aiperf")  # with it a folder is no tokenizer
    report, = (tmp_path / "artifacts").rglob("profile_export_aiperf.json")
    r = json.loads(report.read_text())
    assert r["request_count"]["avg"] == 12 and not r.get("error_summary")


def test_guidellm(client, demo, model, tmp_path):
    client("guidellm", "run", "--backend", f"kind=openai_http,target={demo.url},model={model}",
           "--tokenizer", f"kind=hf_auto,model={tokenizer_folder(tmp_path)}",
           "--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=8", "--profile", "kind=concurrent,streams=4",
           "--constraint", "kind=max_requests,count=12", "--output", f"kind=json,path={tmp_path / 'r.json'}", "--disable-progress", group="guidellm")
    totals = json.loads((tmp_path / "r.json").read_text())["benchmarks"][0]["metrics"]["request_totals"]
    assert totals["successful"] == 12 and totals["errored"] == 0
