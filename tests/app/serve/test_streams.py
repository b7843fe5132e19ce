"""Streams, steps and attention on demand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

import regard


def events(response: Any) -> list[tuple[str, Any]]:
    found = []
    for block in response.text.strip().split("\n\n"):
        name, data = block.split("\n", 1)
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_text_comes_as_it_is_written(client: TestClient) -> None:
    body = {"inputs": ["ROMEO:"], "options": {"max_tokens": 30, "seed": 2}, "stream": True}
    response = client.post("/api/models/shakespeare/generate", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    found = events(response)
    pieces = [data["text"] for name, data in found if name == "piece"]
    [answer] = [data for name, data in found if name == "answer"]
    assert len(pieces) > 5
    assert "".join(pieces) == answer["text"]
    assert found[-1] == ("end", {"model": "shakespeare"})
    assert answer["text"] == regard.load("shakespeare", device="cpu").generate("ROMEO:", max_tokens=30, seed=2).text


@pytest.mark.parametrize("options", [{}, {"beam": 3}])
def test_every_generator_streams(client: TestClient, image: str, options: dict[str, Any]) -> None:
    """A beam has no pieces: its answer comes whole."""
    asked = (("dates", "translate", "3 May 1979"), ("scenes", "caption", image))
    for model, task, one in asked:
        body = {"inputs": [one], "options": options, "stream": True}
        found = events(client.post(f"/api/models/{model}/{task}", json=body))
        pieces = [data["text"] for name, data in found if name == "piece"]
        [answer] = [data for name, data in found if name == "answer"]
        assert "".join(pieces) == ("" if options else answer["text"])


def test_other_tasks_stream_their_answers(client: TestClient) -> None:
    body = {"inputs": ["Good.", "Bad."], "stream": True}
    found = events(client.post("/api/models/reviews/classify", json=body))
    assert [name for name, _ in found] == ["answer", "answer", "end"]
    assert [data["input"] for _, data in found[:2]] == [0, 1]


def test_where_the_model_looked_comes_with_the_answer_if_it_is_small(client: TestClient) -> None:
    path, body = "/api/models/dates/translate", {"inputs": ["3 May 1979"], "stream": True, "look": True}
    found = dict(events(client.post(path, json=body)))
    assert [*found][-3:] == ["answer", "look", "end"]
    usual = client.get(f"/api/models/dates/answers/{found['answer']['id']}/attention?packed=true").json()
    assert found["look"] == {**usual, "input": 0}
    large = {**body, "inputs": ["".join(map(chr, range(97, 107))) * 25], "options": {"max_tokens": 60}}
    assert "look" not in dict(events(client.post("/api/models/shakespeare/generate", json=large)))
    none = {**body, "inputs": ["The bank."]}
    vectors = dict(events(client.post("/api/models/sentences-elmo/embed", json=none)))
    assert vectors["look"]["kind"] == "vectors"
    for wrong in ({"look": 1}, {"stream": False}):
        assert client.post(path, json={**body, **wrong}).status_code == 422


def test_an_error_in_a_stream_is_an_event(client: TestClient) -> None:
    body = {"inputs": ["5 " * 500], "stream": True}
    [(name, data)] = events(client.post("/api/models/dates/translate", json=body))
    assert name == "error"
    assert "this model takes 64" in data["error"]["message"]


# ---- steps


def step(client: TestClient, model: str, task: str, one: str, **more: Any) -> Any:
    response = client.post(f"/api/models/{model}/{task}/step", json={"inputs": [one], **more})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(
    ("model", "task", "one", "options"),
    [
        ("dates", "translate", "3 May 1979", {}),
        ("de-en", "translate", "Ich habe keine Zeit.", {"beam": 1}),
        ("shakespeare", "generate", "ROMEO:", {"temperature": 0, "max_tokens": 12}),
        ("scenes", "caption", "image", {}),
    ],
)
def test_steps_lead_to_the_greedy_answer(
    client: TestClient, image: str, model: str, task: str, one: str, options: dict[str, Any]
) -> None:
    one = image if one == "image" else one
    prefix: list[int] = []
    while len(prefix) < 12:
        found = step(client, model, task, one, prefix=prefix, top=3, options=options)
        shares = [candidate["probability"] for candidate in found["candidates"]]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1.0001
        if found["candidates"][0]["ends"]:
            break
        prefix.append(found["candidates"][0]["token"])
    [answer] = client.post(f"/api/models/{model}/{task}", json={"inputs": [one], "options": options}).json()[
        "answers"
    ]
    assert answer["text"].startswith(found["text"])
    assert found["text"]


def test_a_step_says_where_it_looked(client: TestClient, image: str) -> None:
    look = step(client, "dates", "translate", "3 May 1979")["look"]
    assert look["site"] == "attend"
    assert len(look["columns"]) == len(look["weights"][0])
    assert sum(look["weights"][0]) == pytest.approx(1, abs=1e-3)
    across = step(client, "de-en", "translate", "Guten Tag.", site="decoder.2.cross")["look"]
    own = step(client, "de-en", "translate", "Guten Tag.", site="decoder.2.attend", prefix=[5, 6])["look"]
    assert len(across["weights"]) == 4
    assert len(own["columns"]) == 3, "the start and two tokens"
    seen = step(client, "shakespeare", "generate", "ROMEO:", prefix=[10, 11])["look"]
    assert len(seen["weights"]) == 6
    assert len(seen["columns"]) == len("ROMEO:") + 2
    shown = step(client, "scenes", "caption", image)["look"]
    assert shown["grid"][0] * shown["grid"][1] == len(shown["weights"][0])


def test_another_candidate_leads_elsewhere(client: TestClient) -> None:
    first = step(client, "dates", "translate", "3 May 1979")["candidates"]
    other = step(client, "dates", "translate", "3 May 1979", prefix=[first[1]["token"]])
    assert other["text"] == first[1]["text"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"prefix": [10_000]},
        {"prefix": [-1]},
        {"prefix": ["a"]},
        {"prefix": [True]},
        {"prefix": [1] * 2000},
        {"prefix": [5] * 1000},
        {"top": 0},
        {"top": 1000},
        {"site": "nothing"},
        {"site": "encoder.*"},
        {"inputs": ["a", "b"]},
    ],
)
def test_a_step_that_cannot_be(client: TestClient, wrong: dict[str, Any]) -> None:
    response = client.post("/api/models/dates/translate/step", json={"inputs": ["a"], **wrong})
    assert response.status_code == 422, response.text


def test_a_classifier_has_no_steps(client: TestClient) -> None:
    response = client.post("/api/models/reviews/classify/step", json={"inputs": ["a"]})
    assert response.status_code == 422


# ---- attention


def asked(client: TestClient, model: str, task: str, one: str, **options: Any) -> str:
    body = {"inputs": [one], "options": options}
    return client.post(f"/api/models/{model}/{task}", json=body).json()["answers"][0]["id"]


def look(client: TestClient, model: str, name: str, **query: Any) -> Any:
    return client.get(f"/api/models/{model}/answers/{name}/attention", params=query)


def test_attention_by_site_head_and_rows(client: TestClient) -> None:
    name = asked(client, "de-en", "translate", "Ich habe heute keine Zeit.")
    wanted = regard.load("de-en", device="cpu").translate("Ich habe heute keine Zeit.").heads("decoder.0.cross")
    found = look(client, "de-en", name, site="decoder.0.cross", head=2, rows="1-3").json()
    assert found["kind"] == "heads"
    panel = wanted.panels["decoder.0.cross"][2, 1:4]
    assert found["panels"]["decoder.0.cross"] == [pytest.approx(row, abs=1e-4) for row in [panel]]
    assert found["rows"] == list(wanted.tokens("decoder.0.cross")[0][1:4])
    pieces = look(client, "de-en", name, site="decoder.0.cross", head=2, pieces="true").json()
    assert len(pieces["rows"]) >= len(wanted.tokens("decoder.0.cross")[0])


def test_the_usual_picture(client: TestClient, image: str) -> None:
    kinds, support = {}, {"a": [image], "b": [image]}
    for model, task, one in (
        ("dates", "translate", "3 May 1979"),
        ("shakespeare", "generate", "ROMEO:"),
        ("reviews", "classify", "A wonderful film."),
        ("shapes", "recognise", image),
        ("shapes-senet", "recognise", image),
        ("scenes", "caption", image),
        ("omniglot", "fewshot", image),
    ):
        options = {"fewshot": {"support": support}, "generate": {"max_tokens": 12}}.get(task, {})
        response = look(client, model, asked(client, model, task, one, **options))
        assert response.status_code == 200, response.text
        kinds[model] = response.json()["kind"]
    assert kinds == {
        "dates": "map",
        "shakespeare": "map",
        "reviews": "document",
        "shapes": "overlay",
        "shapes-senet": "gates",
        "scenes": "looks",
        "omniglot": "examples",
    }


def test_a_vit_shows_one_head(client: TestClient, image: str) -> None:
    name = asked(client, "shapes", "recognise", image)
    found = look(client, "shapes", name, site="blocks.1.attend", head=3).json()
    assert list(found["panels"]) == ["blocks.1.attend, head 3"]
    assert found["image"].startswith("data:image/png;base64,")


def test_no_answer_holds_everything(client: TestClient) -> None:
    """A long text: all heads of a site are too many numbers, one head or some rows are not."""
    from dataclasses import replace

    from served_models import served

    from regard.app.serve.limits import Limits

    with served("shakespeare", limits=replace(Limits(), numbers=20_000)) as small:
        name = asked(small, "shakespeare", "generate", "ROMEO:" * 20, max_tokens=40)
        site = "blocks.0.attend"
        response = look(small, "shakespeare", name, site=site, pieces="true")
        assert response.status_code == 413
        assert "ask for one site and head, for fewer rows, or for an overview" in response.text
        assert look(small, "shakespeare", name, site="*").status_code == 413
        overview = look(small, "shakespeare", name, site=site, pieces="true", side=8)
        assert overview.json()["panels"][site]["shape"] == [6, 8, 8]
        assert look(small, "shakespeare", name, site=site, head=0, rows="0-9", pieces="true").status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        {"site": "nothing"},
        {"side": "3"},
        {"form": "pdf"},
        {"packed": "1"},
        {"head": "x"},
        {"head": "99", "site": "attend"},
        {"rows": "5"},
        {"rows": "9-3"},
        {"rows": "500-600"},
        {"pieces": "yes"},
        {"other": "1"},
    ],
)
def test_attention_that_is_not_there(client: TestClient, query: dict[str, str]) -> None:
    name = asked(client, "dates", "translate", "3 May 1979")
    response = look(client, "dates", name, **query)
    assert response.status_code == 422, response.text


def test_answers_are_kept_for_a_while(client: TestClient) -> None:
    assert look(client, "dates", "nothing").status_code == 404
    first = asked(client, "dates", "translate", "3 May 1979")
    for _ in range(4):
        client.post("/api/models/dates/translate", json={"inputs": ["3 May 1979"] * 64})
    assert look(client, "dates", first).status_code == 404
    assert len(client.shelf.served["dates"].worker.answers) == 256  # type: ignore[attr-defined]
