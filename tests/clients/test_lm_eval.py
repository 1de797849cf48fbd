"""lm-eval over local-completions: the same scores in any company, and those of an independent model."""
import json

import pytest

import harness
import reference

ROWS = [
    {"question": "Once upon a time there was a", "choices": [" painter", " zebra", " teacher named"], "answer": 0},
    {"question": "The secret number", "choices": [" was", " banana", " is 12"], "answer": 0},
    {"question": "One morning, Greta bought a red", "choices": [" drum", " kite for two coins", " moon"], "answer": 0},
    {"question": "é漢🙂 and", "choices": [" a", " 漢", " 123456"], "answer": 0},
]

CHOICE = """
task: local_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""

GENERATE = """
task: local_generate
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: generate_until
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{choices[answer]}}}}"
generation_kwargs: {{until: [".", "!", "\\n\\n", "zzz", "qqq"], max_gen_toks: 24, temperature: 0}}
metric_list: [{{metric: exact_match}}]
"""


@pytest.fixture
def tasks(tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir()
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    (folder / "choice.yaml").write_text(CHOICE.format(data=data))
    (folder / "generate.yaml").write_text(GENERATE.format(data=data))
    return folder


def evaluate(client, d, tasks, out, concurrent):
    """{task: [responses of each row]}"""
    name = d.get("/v1/models").json()["data"][0]["id"]
    client("lm_eval", "run", "--model", "local-completions", "--model_args",
           f"model={name},base_url={d.url}/v1/completions,num_concurrent={concurrent},tokenizer_backend=remote,max_length=2048",
           "--include_path", tasks, "--tasks", "local_choice,local_generate", "--output_path", out, "--log_samples",
           env={"OPENAI_API_KEY": ""})
    found = {}
    for path in out.rglob("samples_*.jsonl"):
        rows = sorted(map(json.loads, path.read_text().splitlines()), key=lambda r: r["doc_id"])
        found["choice" if "choice" in path.name else "generate"] = [r["filtered_resps"] for r in rows]
    assert len(found) == 2 and all(len(v) == len(ROWS) for v in found.values())
    return found


def test_scores(client, daemon, tasks, tmp_path):
    d = daemon(weights="f32", kv_type="f32")
    one = evaluate(client, d, tasks, tmp_path / "one", 1)
    assert evaluate(client, d, tasks, tmp_path / "eight", 8) == one

    model = reference.Reference(harness.DEMO)
    encode = lambda text: d.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()["tokens"]
    for row, scores in zip(ROWS, one["choice"]):
        start = len(encode(row["question"]))
        for choice, (score, greedy) in zip(row["choices"], scores):
            ids = encode(row["question"] + choice)
            want = model.logprobs(ids)
            assert abs(float(score) - sum(want[i - 1][ids[i]] for i in range(start, len(ids)))) < 1e-3
            assert (str(greedy) == "True") == all(want[i - 1].argmax() == ids[i] for i in range(start, len(ids)))
    for row, (text,) in zip(ROWS, one["generate"]):
        ids = encode(row["question"])
        said = d.complete(prompt=ids, max_tokens=24, stop=[".", "!", "\n\n", "zzz", "qqq"])["choices"][0]["text"]
        assert text == said
