"""Every system of the library behind the same routes: nothing in the server knows one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from served_models import served
from small_models import artifacts, build
from starlette.testclient import TestClient

from regard.models import MODELS
from regard.runs.folder import begin, save_weights
from regard.tasks.core.table import TASKS

RECIPES = {"recall": '[data]\nmade = "copy-bits"\n[model]\nname = "{name}"\n'}
SIZES = {"recall": {"inputs": 9, "outputs": 8}}  # that the kind of sequences asks for
ONE_EACH = list({MODELS[name].task: name for name in MODELS}.values())  # options are those of the task


@pytest.fixture(scope="module", params=list(MODELS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, TestClient]:
    name, folder = request.param, tmp_path_factory.mktemp("served") / request.param
    made = build(name, **SIZES.get(MODELS[name].task, {}))
    task = getattr(made.config, "task", made.task)
    begin(folder, made, artifacts(made), RECIPES.get(task, "").format(name=name))
    save_weights(folder, made)
    return name, served(str(folder))


def inputs_for(what: str, image: str) -> list[Any]:
    return {"images": [image], "environments": [0], "sequences": [], "pairs": [["ab", "cd"]]}.get(what, ["ab cd"])


def test_it_is_asked_and_says_where_it_looked(model: tuple[str, TestClient], image: str) -> None:
    name, server = model
    with server as client:
        listed = client.get(f"/api/models/{name}").json()
        assert listed["status"] == "ready", listed
        assert listed["tasks"]
        for task in listed["tasks"]:
            verb, options = task["task"], {}
            if any(option["name"] == "support" for option in task["options"]):
                options = {"support": {"a": [image], "b": [image]}}
            body = {"inputs": inputs_for(task["inputs"]["what"], image), "options": options}
            response = client.post(f"/api/models/{name}/{verb}", json=body)
            fine = response.status_code == 200 or ("[MASK]" in response.text and response.status_code == 422)
            assert fine, (verb, response.text)
            if response.status_code != 200:
                continue
            [answer] = response.json()["answers"]
            where = f"/api/models/{name}/answers/{answer['id']}/attention"
            for site in ({}, *({"site": one["name"]} for one in listed["sites"][:2])):
                assert client.get(where, params=site).status_code in (200, 404, 422)
            if task["steps"]:
                step = client.post(f"/api/models/{name}/{verb}/step", json=body)
                assert step.status_code == 200, step.text
                assert step.json()["candidates"]


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_a_record_says_what_is_sent(task: Any) -> None:
    """All that a task needs for the server is in its record."""
    assert task.inputs.received.schema["type"] in ("string", "integer", "array")
    for option in task.options:
        assert option.served or option.kind is Path
        assert not option.metavar or option.metavar not in ("FILE", "DIR") or option.received or not option.served


@pytest.mark.parametrize("model", ONE_EACH, indirect=True)
def test_extreme_options_are_no_failure(model: tuple[str, TestClient], image: str) -> None:
    """Of the type that the schema says, and as large or as strange as can be."""
    name, server = model
    extremes = {
        "integer": (0, -1, 2**62, 10**30),
        "number": (0, -1, 1e308, 1e-308),
        "string": ("", "\0", "x" * 999),
        "boolean": (True, False),
        "array": ([], [""], ["\0"] * 64),
        "object": ({}, {"": []}, {"a": []}, {"a": ["AAAA"], "b": [""]}, {"a": [image]}),
    }
    with server as client:
        for task in client.get(f"/api/models/{name}").json()["tasks"]:
            inputs = inputs_for(task["inputs"]["what"], image)
            beside = {"max_tokens": 3} if any(one["name"] == "max_tokens" for one in task["options"]) else {}
            for option in task["options"]:
                for value in extremes[option["schema"]["type"]]:
                    body = {"inputs": inputs, "options": {**beside, option["name"]: value}}
                    response = client.post(f"/api/models/{name}/{task['task']}", json=body)
                    assert response.status_code in (200, 413, 422), (option["name"], value, response.text)


def test_extreme_inputs_are_no_failure(model: tuple[str, TestClient], image: str) -> None:
    name, server = model
    texts = ("", " ", "\0", "\t", "\n\n", "a" * 999, "💥" * 300, "[MASK] " * 60, "0101 " * 60, "\u202e[MASK]")
    numbers = (-1, 2**70, True, 1.5, "7", "x", None)
    images = ("", "AAAA", "data:", "data:image/png;base64,AAAA", image[:50])
    with server as client:
        for task in client.get(f"/api/models/{name}").json()["tasks"]:
            options = {}
            if any(option["name"] == "support" for option in task["options"]):
                options = {"support": {"a": [image], "b": [image]}}
            for few in {"max_tokens", "max_length"}.intersection(option["name"] for option in task["options"]):
                options[few] = 3
            for one in {"images": images, "environments": numbers}.get(task["inputs"]["what"], texts):
                body = {"inputs": [one], "options": options}
                response = client.post(f"/api/models/{name}/{task['task']}", json=body)
                assert response.status_code in (200, 413, 422), (one, response.text)
                if response.status_code == 200:
                    answer = response.json()["answers"][0]["id"]
                    look = client.get(f"/api/models/{name}/answers/{answer}/attention")
                    assert look.status_code in (200, 404, 413, 422), (one, look.text)
                if task["steps"]:
                    step = client.post(f"/api/models/{name}/{task['task']}/step", json=body)
                    assert step.status_code in (200, 413, 422), (one, step.text)
