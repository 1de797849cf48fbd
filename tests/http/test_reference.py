"""Log probabilities over HTTP against the independent model: prompt and answer, every alternative that is shown."""
import pytest

import harness
import reference

ids = harness.fx.ids


@pytest.fixture(scope="module")
def exact():
    with harness.Daemon(weights="f32", kv_type="f32") as d:
        yield d


def test_echoed_logprobs_equal_the_reference(exact):
    model = reference.Reference(harness.DEMO)
    for text in ("Once upon a time there was a painter named Greta who lived in a sunny island. " * 4, "é漢🙂 12345"):
        r = exact.complete(prompt=text, max_tokens=3, echo=True, logprobs=5, return_token_ids=True,
                           return_tokens_as_token_ids=True)["choices"][0]
        tokens = r["prompt_token_ids"] + r["token_ids"]
        want = model.logprobs(tokens)
        lp = r["logprobs"]
        assert lp["tokens"] == [f"token_id:{t}" for t in tokens]
        for at in range(1, len(tokens)):
            assert abs(lp["token_logprobs"][at] - want[at - 1][tokens[at]]) < 1e-3
            for name, value in lp["top_logprobs"][at].items():
                assert abs(value - want[at - 1][int(name.removeprefix("token_id:"))]) < 1e-3
            assert max(lp["top_logprobs"][at].values()) >= want[at - 1].max() - 1e-3
