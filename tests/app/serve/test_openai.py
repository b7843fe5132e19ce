"""Existing clients work: the `openai` package is the test."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from served_models import Listening

import regard

pytestmark = pytest.mark.skipif(find_spec("openai") is None, reason="the package `openai` is not installed")


@pytest.fixture(scope="module")
def openai() -> Any:
    """Imported late, which takes a second."""
    return pytest.importorskip("openai")


@pytest.fixture(scope="module")
def listening(request: pytest.FixtureRequest) -> Iterator[Listening]:
    found = Listening("shakespeare", "dates", request.getfixturevalue("filler"), token="s3cret")
    yield found
    found.end()


@pytest.fixture(scope="module")
def client(openai: Any, listening: Listening) -> Any:
    return openai.OpenAI(base_url=f"{listening.address}/v1", api_key="s3cret", max_retries=0)


def test_one_of_the_models(client: Any, openai: Any) -> None:
    assert client.models.retrieve("shakespeare") in list(client.models.list())
    for other in ("dates", "none"):
        with pytest.raises(openai.NotFoundError, match=other):
            client.models.retrieve(other)


def test_the_models_that_fit_are_listed(client: Any, filler: str) -> None:
    names = [model.id for model in client.models.list()]
    assert "shakespeare" in names
    assert "dates" not in names


def test_a_completion(client: Any) -> None:
    found = client.completions.create(model="shakespeare", prompt="ROMEO:", max_tokens=20, temperature=0, seed=1)
    wanted = regard.load("shakespeare", device="cpu").generate("ROMEO:", max_tokens=20, temperature=0)
    assert found.choices[0].text == wanted.text
    assert found.choices[0].finish_reason == "length"
    assert found.usage.prompt_tokens == len("ROMEO:")
    assert found.usage.completion_tokens == 20


def test_several_prompts_and_choices(client: Any) -> None:
    found = client.completions.create(
        model="shakespeare", prompt=["ROMEO:", "JULIET:"], n=2, max_tokens=12, temperature=1, seed=3
    )
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    assert found.choices[0].text != found.choices[1].text
    again = client.completions.create(model="shakespeare", prompt="JULIET:", max_tokens=12, temperature=1, seed=4)
    assert again.choices[0].text == found.choices[3].text


def test_a_stop_text_ends_it(client: Any) -> None:
    found = client.completions.create(
        model="shakespeare", prompt="ROMEO:", max_tokens=200, temperature=0, stop=["\n\n"]
    )
    assert "\n\n" not in found.choices[0].text
    assert found.choices[0].finish_reason == "stop"


def test_a_stream(client: Any) -> None:
    asked: dict[str, Any] = {"model": "shakespeare", "prompt": "ROMEO:", "max_tokens": 20, "seed": 1}
    parts = list(client.completions.create(**asked, stream=True))
    whole = client.completions.create(**asked)
    assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text
    assert parts[-1].choices[0].finish_reason == "length"
    assert len(parts) > 5


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}])
def test_embeddings(client: Any, filler: str, form: dict[str, str]) -> None:
    name = filler.rsplit("/", 1)[-1]
    texts = ["the cat sat", "a dog"]
    found = client.embeddings.create(model=name, input=texts, **form)
    vectors = np.array([one.embedding for one in found.data], np.float32)
    np.testing.assert_allclose(vectors, regard.load(filler, device="cpu").embed(texts), atol=1e-5)
    assert found.usage.prompt_tokens > 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"model": "dates", "prompt": "a"}, "gives no completions"),
        ({"model": "shakespeare", "prompt": "a", "logprobs": 3}, "logprobs is not supported"),
        ({"model": "shakespeare", "prompt": [[1, 2]]}, "lists of tokens"),
        ({"model": "shakespeare", "prompt": "a", "max_tokens": 100_000}, "1,024 at most"),
        ({"model": "shakespeare", "prompt": "a", "seed": -1}, "seed must be 0 or more"),
        ({"model": "shakespeare", "prompt": "a", "n": 100}, "n must lie in 1 to 16"),
    ],
)
def test_what_is_not_supported_is_said(openai: Any, client: Any, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match=words):
        client.completions.create(**asked)


def test_a_model_that_is_not_there(openai: Any, client: Any) -> None:
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="nothing", prompt="a")
    wrong = client.with_options(api_key="wrong")
    with pytest.raises(openai.AuthenticationError):
        wrong.models.list()


def test_the_description_names_these_routes(listening: Listening) -> None:
    import httpx2

    headers = {"authorization": "Bearer s3cret"}
    paths = httpx2.get(f"{listening.address}/openapi.json", headers=headers, timeout=60).json()["paths"]
    assert {"/v1/completions", "/v1/embeddings"} <= set(paths)
