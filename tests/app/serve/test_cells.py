"""A weight opened: what it came about from, of every shipped run that looks at anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from served_models import served
from starlette.testclient import TestClient

import regard
from regard.data.artifacts import Artifacts
from regard.runs.folder import begin, save_weights

WEIGHTS = {  # a table of each run's usual picture, and how the page names one of its rows
    "bandits": ("weights", {"row": 3}),
    "copy": ("panels/read 0", {"row": 6, "turned": "true"}),
    "dates": ("weights", {"row": 3}),
    "dates-luong": ("weights", {"row": 4}),
    "de-en": ("weights", {"row": 2}),
    "omniglot": ("looks/blocks.0.attend", {}),
    "reviews": ("weights/1", {}),
    "reviews-pooling": ("weights/0", {}),
    "scenes": ("lines/0/weights", {"row": 2}),
    "sentences-bert": ("weights", {"row": 0}),
    "sentences-lstmn": ("weights", {"row": 4}),
    "shakespeare": ("weights", {"row": 9}),
    "shapes": ("panels/blocks.3.attend", {}),
}


def answered(client: TestClient, name: str, text: str = "") -> str:
    model = client.get(f"/api/models/{name}").json()
    [task, *_] = model["tasks"]
    options = task["example_options"] | ({"max_tokens": 12} if "max_tokens" in task["example_options"] else {})
    body = {"inputs": [text] if text else task["inputs"]["examples"][:1], "options": options}
    [answer] = client.post(f"/api/models/{name}/{task['task']}", json=body).json()["answers"]
    return f"/api/models/{name}/answers/{answer['id']}"


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def scored(cell: dict[str, Any], query: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """By the formula of the score alone."""
    if cell["score"]["name"] == "additive":
        return np.tanh(query + keys) @ np.array(cell["score"]["v"])
    return keys @ query / (len(query) ** 0.5 if cell["score"]["name"] == "scaled_dot" else 1)


def weighed(cell: dict[str, Any], scores: np.ndarray) -> np.ndarray:
    """By the formula of the way to weigh alone."""
    if cell["weigh"]["name"] == "hard":  # the likeliest place alone
        return np.eye(len(scores))[scores.argmax()]
    weights, beside = softmax(scores), {name: np.array(x) for name, x in cell["beside"].items()}
    if cell["weigh"]["name"] == "local-p":
        distance = np.arange(len(scores)) - beside["centre"]
        return weights * np.exp(-2 * (distance / cell["weigh"]["window"]) ** 2)
    if cell["weigh"]["name"] == "address":
        gated = beside["gate"] * weights + (1 - beside["gate"]) * beside["previous"]
        reach = len(beside["shift"]) // 2
        moved = sum(chance * np.roll(gated, at - reach) for at, chance in enumerate(beside["shift"]))
        return moved ** beside["gamma"] / (moved ** beside["gamma"]).sum()
    return weights


def numbers(table: Any) -> np.ndarray:
    """A table as the server sends it: lists, or texts that hold two digits of base 64 for each number."""
    if isinstance(table, list):
        return np.array([-np.inf if one is None else one for one in table] if np.ndim(table) < 2 else table, float)
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    found = np.array([digits.index(letter) for letter in table["code"]]).reshape(-1, 2) @ (64, 1)
    return (table["low"] + found / 4095 * (table["top"] - table["low"])).reshape(table["shape"])


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_weight_is_what_its_query_keys_and_scores_give(client: TestClient, name: str) -> None:
    table, place = WEIGHTS[name]
    where = answered(client, name)
    cell = client.get(f"{where}/cell", params={"table": table, "column": 0, **place}).json()
    query, keys, scores, weights = (numbers(cell[part]) for part in ("query", "keys", "scores", "weights"))
    seen = np.isfinite(scores)
    spread = np.abs(scores[seen]).max()
    np.testing.assert_allclose(scored(cell, query, keys)[seen], scores[seen], atol=0.02 * spread)
    np.testing.assert_allclose(weighed(cell, scores), weights, atol=0.03)
    assert len(cell["columns"]) == len(weights) == len(numbers(cell["values"]))


def test_the_look_of_the_mean_of_heads_is_found_and_another_head_is_asked_for(client: TestClient) -> None:
    where, place = answered(client, "de-en"), {"table": "weights", "row": 0, "column": 0}
    heads = [client.get(f"{where}/cell", params={**place, "of": head}).json() for head in range(4)]
    assert {cell["site"] for cell in heads} == {"decoder.1.cross"}
    first = [numbers(cell["weights"])[0] for cell in heads]
    own = client.get(f"{where}/cell", params=place).json()
    assert own["head"] == int(np.argmax(first))
    shown = client.get(f"{where}/attention").json()["weights"]
    assert np.mean(first) == pytest.approx(shown[0][0], abs=2e-3)
    assert client.get(f"{where}/cell", params={**place, "of": 4}).status_code == 422


def test_what_is_no_look_is_refused(client: TestClient) -> None:
    where = answered(client, "facts")  # the mean over the words of a question, which one look is like by chance
    several = client.get(f"{where}/cell", params={"table": "weights/0", "column": 3})
    assert several.status_code == 422
    assert "it was made of several" in several.json()["error"]["message"]
    unasked = client.get(f"{where}/cell", params={"table": "weights/0", "column": 3, "first": "true"})
    assert (unasked.status_code, unasked.json()) == (200, None)
    where = answered(client, "shapes")
    rollout = client.get(f"{where}/cell", params={"table": "panels/rollout", "column": 5})
    assert rollout.status_code == 422
    assert "made of several" in rollout.json()["error"]["message"]
    for wrong in (
        {"table": "nothing", "column": 0},
        {"table": "panels/rollout", "column": 9999},
        {"column": 0},
        {"table": "panels/rollout"},
        {"table": "x", "column": 0, "site": "y"},
        {"table": "x", "column": -1},
    ):
        assert client.get(f"{where}/cell", params=wrong).status_code == 422, wrong
    assert client.get("/api/models/shapes/answers/none/cell", params={"table": "x", "column": 0}).status_code == 404


@pytest.mark.parametrize(
    ("score", "weigh"),
    [("general", "soft"), ("location", "soft"), ("cosine", "soft"), ("dot", "hard"), ("scaled_dot", "local-m")],
)
def test_scores_and_ways_to_weigh_that_no_shipped_run_has(score: str, weigh: str, tmp_path: Path) -> None:
    """A small model with random weights."""
    first: Any = regard.load("dates-luong", device="cpu")
    torch.manual_seed(3)
    changed = {"score": score, "weigh": weigh, "window": 2}
    model = type(first.model)(replace(first.model.config, dim=16, embed=8, **changed))
    begin(tmp_path, model, Artifacts(first.tokenizer), "")
    save_weights(tmp_path, model)
    with served(str(tmp_path)) as client:
        where = answered(client, tmp_path.name, "3 May 1979")
        shown = client.get(f"{where}/attention").json()["weights"]
        for column in (0, 5):
            place = {"table": "weights", "row": 1, "column": column}
            cell = client.get(f"{where}/cell", params=place).json()
            query, keys, scores, weights = (numbers(cell[part]) for part in ("query", "keys", "scores", "weights"))
            assert (cell["score"]["name"], cell["weigh"]["name"]) == (score, weigh)
            np.testing.assert_allclose(weights, shown[1], atol=2e-3)
            seen = np.isfinite(scores)
            if score != "location":  # which compares nothing
                wanted = scored(cell, query, keys)[seen]
                np.testing.assert_allclose(wanted, scores[seen], atol=0.02 * np.abs(scores[seen]).max() + 1e-3)
            np.testing.assert_allclose(weighed(cell, scores), weights, atol=0.03)
            if weigh == "local-m":
                assert np.flatnonzero(weights).tolist() == [0, 1, 2, 3], "two places to both sides of step 1"
