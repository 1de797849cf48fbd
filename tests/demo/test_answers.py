"""The demo checkpoint answers over HTTP what it was trained for.

The facts lie up to several hundred tokens back, the window is 32: a fault in either kind of layer makes most answers
wrong, without any reference numbers.
"""
from concurrent.futures import ThreadPoolExecutor

import pytest

import questions


@pytest.mark.parametrize("ask", [questions.about_stories, questions.about_lists])
def test_facts_far_outside_the_window_are_found(demo, ask):
    asked = ask(40)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda q: demo.complete(prompt=q[0], max_tokens=24), asked))
    got = [(r["choices"][0]["text"], answer) for r, (_, answer) in zip(replies, asked)]
    wrong = [pair for pair in got if pair[0] != pair[1]]
    assert len(wrong) <= 1, wrong


def test_a_capital_is_named(demo):
    prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    r = demo.complete(prompt=prompt, max_tokens=24)["choices"][0]
    assert (r["text"], r["finish_reason"]) == ("The capital of France is Paris.", "stop")
