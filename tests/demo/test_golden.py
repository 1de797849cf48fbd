"""The demo checkpoint's greedy answers against transformers' in fp32 (tests/golden/demo.json)."""

import json

import pytest

import harness

GOLDEN = json.loads((harness.ROOT / "tests/golden/demo.json").read_text())
END = (0, 1, 3)


def ask(daemon, row):
    body = dict(temperature=0, max_tokens=len(row["greedy"]), return_token_ids=True)
    by_text = daemon.complete(prompt=row["prompt"], **body)["choices"][0]
    by_ids = daemon.complete(prompt=row["ids"], **body)["choices"][0]
    assert by_text["token_ids"] == by_ids["token_ids"]
    assert by_text["text"] == by_ids["text"]
    return by_text


@pytest.fixture(scope="module")
def exact():
    with harness.Daemon(harness.DEMO, weights="f32", kv_type="f32") as daemon:
        yield daemon


@pytest.mark.parametrize("n", range(len(GOLDEN)))
def test_equal_in_fp32(exact, n):
    row = GOLDEN[n]
    choice = ask(exact, row)
    assert choice["token_ids"] == row["greedy"]
    assert choice["text"] == row["text"]
    assert choice["finish_reason"] == ("stop" if row["greedy"][-1] in END else "length")


def test_bf16_differs_only_where_the_margin_is_small(demo):
    equal = 0
    for row in GOLDEN:
        got = ask(demo, row)["token_ids"]
        for a, b, margin in zip(got, row["greedy"], row["margin"]):
            if a != b:
                assert margin <= 0.1, f"{row['prompt'][:40]!r}: {a} for {b} at a margin of {margin}"
                break
            equal += 1
    assert equal > 0.5 * sum(len(row["greedy"]) for row in GOLDEN)
