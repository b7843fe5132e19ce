"""`regard look`: a text is read in one pass, and what each token looked at is told and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.attention import trace


def test_a_language_model_tells_what_each_character_looked_at(call: Any) -> None:
    run = regard.load("shakespeare", device="cpu")
    ids = run.read("ROMEO:")
    with torch.inference_mode(), trace(run.model, run.model.alignment) as seen:
        run.model.states(torch.tensor([ids]))
    best = seen[run.model.alignment][0].mean(0).max(-1)
    done = call("look", "shakespeare", "ROMEO:", "--top", 1, "--json")
    told = json.loads(done.out)
    assert (done.code, told["site"], told["head"]) == (0, run.model.alignment, None)
    assert [row["token"] for row in told["rows"]] == list("ROMEO:")
    assert [row["looks"][0]["place"] for row in told["rows"]] == best.indices.tolist()
    assert [row["looks"][0]["weight"] for row in told["rows"]] == pytest.approx(best.values.tolist(), abs=1e-5)
    lines = call("look", "shakespeare", "ROMEO:").out.splitlines()
    assert [line.split("\t")[0] for line in lines] == list("ROMEO:")
    assert all(len(line.split("\t")) == 4 for line in lines)


def test_one_head_and_some_rows_of_an_encoder_are_drawn(call: Any, tmp_path: Path) -> None:
    to, sites = tmp_path / "looks.html", ("--sites", "blocks.0.attend")
    done = call("look", "sentences-bert", "I love you.", *sites, "--head", 1, "--rows", "1-2", "--show", to)
    assert done.code == 0
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["i", "love"]
    assert "blocks.0.attend" in to.read_text()
    heads = regard.load("sentences-bert", device="cpu").look_over("I love you.", ["blocks.0.attend"])
    assert (
        done.out.splitlines()[0].split("\t")[1].rsplit(" ")[1]
        == f"{heads.panels['blocks.0.attend'][1, 1].max():.3f}"
    )


def test_a_translator_is_looked_at_with_a_target_or_what_it_makes(call: Any) -> None:
    alone = call("look", "dates", "3 May 1979").out
    assert alone == call("look", "dates", "3 May 1979\t1979-05-03").out
    assert [line.split("\t")[0] for line in alone.splitlines()] == [*"1979-05-03", "</s>"]
    assert call("look", "dates", "3 May 1979\t1980-05-03").out.startswith("1\t")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bandits", "a"], "is not looked at while it reads a text; `regard play RUN"),
        (["shakespeare", " "], "the text is empty"),
        (["shakespeare", "a", "--rows", "3"], "--rows must be the first and the last one, as in 0-49, got '3'"),
        (["shakespeare", "abc", "--head", "99"], "has heads 0 to"),
        (["shakespeare", "abc", "--sites", "x*"], "no attention has a name like 'x*'"),
        (["shakespeare", "abc", "--pieces"], "--pieces says what to draw"),
    ],
)
def test_what_cannot_be_looked_at_is_said(call: Any, words: list[str], said: str) -> None:
    done = call("look", *words)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
