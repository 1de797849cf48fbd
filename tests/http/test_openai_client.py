"""The openai package against the daemon: what its users do."""
import asyncio

import openai
import pytest

TEXT = "Once upon a time"


@pytest.fixture(scope="module")
def client(demo):
    with openai.OpenAI(base_url=demo.url + "/v1", api_key="none", max_retries=0) as c:
        yield c


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def test_models(client, model):
    assert client.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_completion(client, model):
    r = client.completions.create(model=model, prompt=TEXT, max_tokens=8, temperature=0, logprobs=2, echo=True)
    assert r.choices[0].text.startswith(TEXT) and r.choices[0].finish_reason == "length"
    assert len(r.choices[0].logprobs.tokens) == 12 and r.usage.total_tokens == 12 and r.usage.prompt_tokens_details.cached_tokens >= 0


def test_stream_equals_whole(client, model):
    asked = {"model": model, "prompt": [TEXT, "The secret number"], "max_tokens": 12, "temperature": 0, "n": 2}
    whole = client.completions.create(**asked)
    texts, usage = {}, None
    for chunk in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        for c in chunk.choices:
            texts[c.index] = texts.get(c.index, "") + c.text
        usage = chunk.usage or usage
    assert [texts[c.index] for c in whole.choices] == [c.text for c in whole.choices]
    assert usage.completion_tokens == whole.usage.completion_tokens == 48


def test_raw_response_has_the_request_id(client, model):
    raw = client.completions.with_raw_response.create(model=model, prompt=TEXT, max_tokens=1,
                                                      extra_headers={"X-Request-Id": "from-a-test"})
    assert raw.headers["x-request-id"] == "from-a-test" and raw.parse()._request_id == "from-a-test"


def test_errors(client, model):
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=model, prompt=TEXT, temperature=9)
    assert e.value.param == "temperature" and e.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=model, prompt=[5] * 5000)
    assert e.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError) as e:
        client.completions.create(model="nobody", prompt=TEXT)
    assert e.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=model, input=TEXT)


def test_async_company(demo, model):
    async def run():
        async with openai.AsyncOpenAI(base_url=demo.url + "/v1", api_key="none") as c:
            async def whole(seed):
                r = await c.completions.create(model=model, prompt=TEXT, max_tokens=10, seed=seed, temperature=1)
                return r.choices[0].text

            async def stream(seed):
                chunks = await c.completions.create(model=model, prompt=TEXT, max_tokens=10, seed=seed, temperature=1, stream=True)
                return "".join([chunk.choices[0].text async for chunk in chunks])

            alone = [await whole(s) for s in range(8)]
            together = await asyncio.gather(*(f(s) for s in range(8) for f in (whole, stream)))
            assert together == [t for t in alone for _ in range(2)]
            assert len(set(alone)) > 1

    asyncio.run(run())


def test_a_client_that_closes_its_stream_early(client, model):
    with client.completions.create(model=model, prompt=TEXT, max_tokens=3000, temperature=0, stream=True,
                                   extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
    assert client.completions.create(model=model, prompt=TEXT, max_tokens=1).choices
