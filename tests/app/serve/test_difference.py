"""Two looks compared."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import regard

WHERE = "/api/difference"


def ask(client: TestClient, model: str, task: str, text: Any) -> dict[str, str]:
    response = client.post(f"/api/models/{model}/{task}", json={"inputs": [text]})
    return {"model": model, "answer": response.json()["answers"][0]["id"]}


def both(first: dict[str, str], second: dict[str, str]) -> dict[str, str]:
    return {**first, **{f"2.{name}": value for name, value in second.items()}}


def test_two_models_and_a_text_before_and_after_a_change(client: TestClient) -> None:
    first = ask(client, "dates", "translate", "3 May 1979")
    other = ask(client, "dates-luong", "translate", "3 May 1979")
    found = client.get(WHERE, params=both(first, other)).json()
    looks = [regard.load(run, device="cpu").translate("3 May 1979").attention for run in ("dates", "dates-luong")]
    np.testing.assert_allclose(found["before"], looks[0].weights, atol=2e-3)
    np.testing.assert_allclose(found["after"], looks[1].weights, atol=2e-3)
    assert found["names"] == ["dates", "dates-luong"]
    changed = client.get(WHERE, params=both(first, ask(client, "dates", "translate", "4 May 1979"))).json()
    assert changed["columns"][0] == "3→4"
    assert changed["rows"][-2:] == ["3→4", "</s>"]
    assert changed["column_places"][1] == [1, 1]


def test_layers_are_compared_by_the_mean_of_their_heads_and_heads_alone(client: TestClient) -> None:
    answer = ask(client, "de-en", "translate", "Wo ist er?")
    sites = {"site": "decoder.0.cross", "2.site": "decoder.1.cross"}
    found = client.get(WHERE, params={**both(answer, answer), **sites}).json()
    heads = regard.load("de-en", device="cpu").translate("Wo ist er?").heads("decoder.*.cross")
    np.testing.assert_allclose(found["before"], heads.map("decoder.0.cross").weights, atol=2e-3)
    alone = client.get(WHERE, params={**both(answer, answer), **sites, "2.head": "3"}).json()
    np.testing.assert_allclose(alone["after"], heads.map("decoder.1.cross", 3).weights, atol=2e-3)
    same = client.get(WHERE, params=both(answer, answer)).json()
    assert (same["most"], same["moved"]) == ([], 0)


def test_files_name_both_questions_and_hold_the_differences(client: TestClient) -> None:
    sides = both(*(ask(client, "dates", "translate", text) for text in ("3 May 1979", "4 May 1979")))
    found = {form: client.get(WHERE, params={**sides, "form": form}) for form in ("csv", "json", "png", "svg")}
    assert {response.status_code for response in found.values()} == {200}
    assert "# input: 3 May 1979 / 4 May 1979" in found["csv"].text
    assert "\nweights," in found["csv"].text
    assert json.loads(found["json"].text)["answer"] == "1979-05-03 / 1979-05-04"
    assert found["svg"].text.startswith("<svg")
    assert "3→4" in found["svg"].text
    assert found["png"].headers["content-disposition"] == 'attachment; filename="dates-difference.png"'


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"2.answer": ""}, 404, "no longer kept"),
        ({"2.model": "nobody"}, 404, "no model 'nobody'"),
        ({"3.model": "dates"}, 422, "there is no '3.model'"),
        ({"form": "gif"}, 422, "form must be one of"),
        ({"head": "x"}, 422, "head must be a whole number"),
        ({"2.site": "nowhere"}, 422, "site must be"),
    ],
)
def test_what_cannot_be_compared_is_refused(client: TestClient, change: Any, status: int, words: str) -> None:
    answer = ask(client, "dates", "translate", "3 May 1979")
    response = client.get(WHERE, params={**both(answer, answer), **change})
    assert response.status_code == status
    assert words in response.json()["error"]["message"]


def test_a_picture_of_several_tables_is_no_table(client: TestClient) -> None:
    answer = ask(client, "dates-seq2seq", "translate", "3 May 1979")
    response = client.get(WHERE, params=both(answer, answer))
    assert (response.status_code, "choose one head" in response.text) == (404, True)
    missing = client.get(WHERE, params=answer)
    assert (missing.status_code, "2.model and 2.answer" in missing.text) == (422, True)


def test_settings_tell_models_of_one_kind_apart(client: TestClient) -> None:
    models = {one["name"]: one for one in client.get("/api/models").json()["models"]}
    assert models["dates"]["settings"] | {"score": "additive", "seed": 0} == models["dates"]["settings"]
    assert models["de-en"]["settings"]["heads"] == 4
