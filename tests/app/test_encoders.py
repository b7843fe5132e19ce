"""What the commands of encoders of text share: pictures, and runs that are for something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("command", ["fill", "embed", "classify"])
def test_looks_are_drawn(call: Any, filler: str, classifier: str, command: str) -> None:
    run = classifier if command == "classify" else filler
    blank = "[MASK]" if command == "fill" else "cat"  # elsewhere its brackets would be unknown characters
    done = call(command, run, f"the {blank} sat", "--show", "look.svg")
    assert (done.code, done.err) == (0, "wrote look.svg\n")
    assert "[CLS]" in Path("look.svg").read_text()
    several = call(command, run, f"the {blank}", f"a {blank}", "--show", "look.png", "--sites", "blocks.0.*")
    assert several.err == "wrote look-1.png\nwrote look-2.png\n"
    assert Path("look-2.png").read_bytes().startswith(b"\x89PNG")
    shown = call(command, run, "the [MASK]", "--show", "-").out
    assert "blocks.1.attend" in shown
    assert ("█" in shown.partition("blocks")[0] and " %" in shown) == (command != "embed")  # how likely: bars
    wrong = call(command, run, "the [MASK]", "--show", "x.svg", "--sites", "decoder.*")
    assert wrong.code != 0
    assert "decoder.*" in wrong.err
    assert "blocks.0.attend" in wrong.err


@pytest.mark.parametrize(
    ("command", "which", "said"),
    [
        ("fill", "classifier", "this model has no head that predicts masked words (its head is 'classify')"),
        ("fill", "headless", "this model has no head that predicts masked words (its head is 'none')"),
        ("classify", "filler", "this model has no classes to choose from (its head is 'pretrain')"),
        ("classify", "headless", "teach it some: `regard train bert-labelled --from RUN --set data.train=FILE`"),
        (
            "translate",
            "filler",
            "has the model Bert, for `regard fill` or `regard follows` or `regard embed` and not for `regard "
            "translate`",
        ),
        (
            "generate",
            "classifier",
            "has the model Bert, for `regard embed` or `regard classify` and not for `regard generate`",
        ),
        (
            "embed",
            "run",
            "has the model Bahdanau, for `regard translate` and not for `regard embed`",
        ),
        ("fill", "run", "has the model Bahdanau, for `regard translate`"),
    ],
    ids=lambda value: value if " " not in value else "",
)
def test_a_run_for_something_else(
    call: Any, request: pytest.FixtureRequest, command: str, which: str, said: str
) -> None:
    done = call(command, request.getfixturevalue(which), "the [MASK]")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_the_systems_are_listed(call: Any) -> None:
    done = call("models")
    assert done.code == 0
    assert "bert-labelled" in done.out
    assert "bert-text" in done.out
