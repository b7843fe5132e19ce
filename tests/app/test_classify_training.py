"""`regard train --from` and `regard compare` of classifiers of texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.tasks.core.table import load

LABELS = ("bad", "fair", "good")


def test_a_classifier_is_taught_from_an_encoder(call: Any, filler: str, classifier: str, reviews: str) -> None:
    done = call("train", reviews, "--from", filler, "--out", "mine")
    assert (done.code, done.out) == (0, "mine\n")
    assert f"Not taken from {filler}, and so initialised anew: classify.weight, classify.bias" in done.err
    assert load("mine").model.config.layers == 2
    assert call("classify", "mine", "the dull cat").out.split("\t")[0] in LABELS
    held = json.loads(call("evaluate", "mine", "--json").out)
    assert held["count"] == 12
    same = call("train", reviews, "--from", classifier, "--out", "same")
    assert same.code == 0
    assert "initialised anew" not in same.err
    assert load("same").model.config.labels == LABELS


def test_without_a_file_a_classifier_is_evaluated_on_what_was_held_out(call: Any, encoders: Any) -> None:
    rows = [f"text {number} is {label}\t{label}\n" for number in range(100) for label in LABELS]
    Path("train.tsv").write_text("".join(rows))
    Path("mine.toml").write_text(encoders.labelled.format(folder="."))
    assert call("train", "mine.toml", "--set", "data.valid=", "--out", "mine").code == 0
    done = call("evaluate", "mine", "--json")
    assert done.code == 0
    assert 0 < json.loads(done.out)["count"] < 30  # one in twenty of 300


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("tokens.kind=bpe", "tokens.kind must be wordpiece or word for bert, got 'bpe'"),
        ("decode.beam=5", "[decode] is not for a bert that is made to classify; leave it out"),
    ],
)
def test_settings_that_an_encoder_has_not(call: Any, reviews: str, change: str, said: str) -> None:
    done = call("train", reviews, "--set", change, "--out", "mine")
    assert done.code == 2
    assert said in done.err


def test_the_shipped_recipe_begins_with_a_folder(call: Any, filler: str, reviews: str) -> None:
    data = Path(reviews).parent / "train.tsv"
    words = [
        "train",
        "bert-labelled",
        "--from",
        filler,
        "--set",
        f"data.train={data}",
        "--set",
        f"data.valid={data}",
    ]
    done = call(
        *words,
        "--set",
        "train.steps=1",
        "--set",
        "train.eval_every=1",
        "--set",
        "train.warmup_steps=0",
        "--out",
        "mine",
    )
    assert (done.code, done.out) == (0, "mine\n")
    assert load("mine").model.config.dim == 16
    wrong = call(*words, "--set", "model.dim=64", "--out", "other")
    assert wrong.code == 2
    assert "--set model.dim=64 is not possible: with --from the model and its tokens are those of" in wrong.err


def test_another_model_is_not_begun_with(call: Any, run: str, reviews: str) -> None:
    done = call("train", reviews, "--from", run, "--out", "mine")
    assert done.code == 2
    assert "the recipe trains 'bert' and" in done.err
    assert not Path("mine").exists()


def test_classifiers_are_compared_from_an_encoder(
    call: Any, inline: None, filler: str, classifier: str, reviews: str
) -> None:
    words = [
        "compare",
        reviews,
        "--vary",
        "train.learning_rate=0.01",
        "--seeds",
        "1",
        "--metric",
        "accuracy",
        "--out",
        "c",
    ]
    done = call(*words, "--from", filler)
    assert done.code == 0
    [row] = [line for line in done.out.splitlines() if line.startswith("|")][2:]
    result = json.loads(Path("c/0.01-0/result.json").read_text())
    assert f"| {result['accuracy']:.2f} |" in row
    assert f"--from {filler}" in Path("c/0.01-0/README.md").read_text()
    assert load("c/0.01-0").model.config.layers == 2
    for other in ([], ["--from", classifier]):
        again = call(*words, *other)
        assert again.code == 2
        assert f"c holds trainings begun with --from {filler}, now it is" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metric", "bleu"], "--metric must be one of accuracy, loss, macro_f1, matthews, got 'bleu'"),
        (["bert-text,data.train=x.txt", "--metric", "accuracy"], "cannot be compared"),
    ],
    ids=["metric", "tasks"],
)
def test_what_cannot_be_compared(call: Any, reviews: str, words: list[str], said: str) -> None:
    done = call("compare", reviews, *words, "--out", "c")
    assert done.code == 2
    assert said in done.err
    assert not Path("c").exists()
