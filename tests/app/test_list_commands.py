"""`regard models SYSTEM` and `regard recipe RECIPE`: what there is, with the meaning of every setting."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from regard.models import MODELS
from regard.tasks.core.recipe_files import RECIPES


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is broken."""
    monkeypatch.setenv("COLUMNS", "300")


def test_one_system_is_told_with_its_settings(call: Any) -> None:
    done = call("models", "bert")
    assert (done.code, done.err) == (0, "")
    for words in (
        "Devlin et al. 2019",
        "regard/models/bert.py",
        "bert-labelled",
        "fill, embed, follows, classify, ask",
        "[model]",
    ):
        assert words in done.out
    [line] = [line for line in done.out.splitlines() if line.startswith("attention_dropout")]
    assert line.rstrip().split(maxsplit=3) == [
        "attention_dropout",
        "float",
        "0.1",
        "dropout of attention weights (in [0, 1))",
    ]


def test_systems_for_machines(call: Any) -> None:
    every = json.loads(call("models", "--json").out)
    assert [one["name"] for one in every] == list(MODELS)
    told = json.loads(call("models", "gpt2", "--json").out)
    assert told["shipped"] == ["shakespeare"]
    settings = {one["name"]: one for one in told["settings"]}
    assert settings["heads"]["default"] == 12
    assert "vocabulary" not in settings, "this follows from the data"


def test_a_system_that_is_not_there(call: Any) -> None:
    done = call("models", "brt")
    assert (done.code, done.out, done.err) == (2, "", "error: there is no system 'brt'; did you mean 'bert'?\n")


def test_a_recipe_is_told_with_the_meaning_of_its_settings(call: Any) -> None:
    done = call("recipe", "bahdanau-dates")
    assert (done.code, done.err) == (0, "")
    for words in ("trains bahdanau to translate", "Dates written in many ways", "[data]", "[train]", "embeddings"):
        assert words in done.out
    assert "momentum" not in done.out
    assert "momentum" in call("recipe", "bahdanau-dates", "--all").out


def test_a_recipe_for_machines_and_as_a_file(call: Any) -> None:
    told = json.loads(call("recipe", "bert-labelled", "--json").out)
    assert (told["model"], told["task"]) == ("bert", "classify")
    steps = next(one for one in told["sections"]["train"] if one["name"] == "steps")
    text = call("recipe", "bert-labelled", "--toml").out
    assert text == (RECIPES / "bert-labelled.toml").read_text()
    assert steps["value"] == tomllib.loads(text)["scratch"]["train"]["steps"]  # nothing is given to start from
    assert told["about"].startswith("Your own labelled texts")


def test_a_recipe_that_is_not_there(call: Any) -> None:
    done = call("recipe", "bert-labeled")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'bert-labelled'" in done.err
