"""`regard follows`, and training a BERT that tells what follows and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.tasks.core.table import load
from regard.tasks.fill.prepare import test_text as read_test_text
from regard.tasks.fill.settings import MaskedSettings
from regard.tasks.shared.reader import Reader

NEXT = """[data]
train = "text.txt"
valid = "text.txt"
length = 16
batch_tokens = 512

[tokens]
kind = "wordpiece"
size = 200

[model]
name = "bert"
head = "next"
dim = 16
layers = 1
heads = 2
max_positions = 16

[train]
steps = 4
learning_rate = 1e-2
eval_every = 4
"""
CAT, DOG = "The cat sat.", "A dog barked."


def test_two_arguments_are_one_pair(call: Any, filler: str) -> None:
    done = call("follows", filler, CAT, DOG)
    wanted = load(filler).follows(CAT, DOG)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{wanted.label}\t{wanted.probabilities[wanted.label]:.4f}\n"


def test_pairs_come_from_lines_and_columns(call: Any, filler: str) -> None:
    both = [load(filler).follows(*pair) for pair in ((CAT, DOG), (DOG, CAT))]
    Path("plain.txt").write_text(f"{CAT}\t{DOG}\n{DOG}\t{CAT}\n")
    Path("bare.tsv").write_text(f"{CAT}\t{DOG}\n{DOG}\t{CAT}\n")
    Path("pairs.csv").write_text(f"id,sentence1,sentence2\n1,{CAT},{DOG}\n2,{DOG},{CAT}\n")
    for file in ("plain.txt", "bare.tsv", "pairs.csv"):
        done = call("follows", filler, "--input", file, "--json")
        rows = [json.loads(line) for line in done.out.splitlines()]
        assert [(row["first"], row["second"]) for row in rows] == [(CAT, DOG), (DOG, CAT)], file
        assert [row["probabilities"]["follows"] for row in rows] == pytest.approx(
            [answer.probability for answer in both], abs=1e-5
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([CAT], "give the two texts of one pair, got 1"),
        ([CAT, DOG, CAT], "give the two texts of one pair, got 3"),
        ([CAT, " "], "neither text of a pair may be empty"),
    ],
)
def test_what_is_no_pair_is_refused(call: Any, filler: str, arguments: list[str], said: str) -> None:
    done = call("follows", filler, *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_line_without_a_tab_is_named(call: Any, filler: str) -> None:
    Path("in.txt").write_text(f"{CAT}\t{DOG}\n{CAT}\n")
    done = call("follows", filler, "--input", "in.txt")
    assert done.code == 1
    assert len(done.out.splitlines()) == 2
    assert "in.txt, line 2: a pair must be two texts, in a line with a tab between them" in done.err


def test_a_model_without_that_head_says_so(call: Any, headless: str) -> None:
    done = call("follows", headless, CAT, DOG)
    assert done.code == 2
    assert "no head that predicts next sentences (its head is 'none')" in done.err


def test_the_picture_shows_where_cls_looked(call: Any, filler: str) -> None:
    assert call("follows", filler, CAT, DOG, "--show", "cls.svg").code == 0
    drawn = Path("cls.svg").read_text()
    assert "[CLS]" in drawn
    assert "barked" in drawn


def test_a_bert_that_learns_that_alone(call: Any) -> None:
    """Evaluated, it is asked about whole texts, as by hand."""
    verbs = ("saw", "left", "met", "found", "watched")
    documents = [
        [f"The {who} {verb} a {what} ." for verb in verbs] for who, what in (("cat", "mouse"), ("ship", "sea"))
    ]
    Path("text.txt").write_text("\n\n".join("\n".join(lines) for lines in documents))
    Path("next.toml").write_text(NEXT)
    assert call("train", "next.toml", "--out", "run").code == 0
    scores = json.loads(call("evaluate", "run", "--json").out)
    run = load("run")
    assert isinstance(run, Reader)
    data = read_test_text(MaskedSettings(train="text.txt", valid="text.txt", length=16, batch_tokens=512), run).data
    right, nats = [], 0.0
    for item in data.order(0):
        batch = data.batch(item)
        for ids, segments, mask, follows in zip(
            batch.targets, batch.segments, batch.mask, batch.follows, strict=True
        ):
            with torch.no_grad():
                logits = run.model.next_logits(run.model.states(ids[mask][None], segments[mask][None]))[0]
            right.append(bool(logits[follows] > logits[1 - follows]))
            nats -= float(logits.log_softmax(-1)[follows])
    assert scores["pairs"] == len(right)
    assert scores["next_accuracy"] == pytest.approx(100 * sum(right) / len(right))
    assert scores["loss"] == pytest.approx(nats / len(right), abs=1e-5)
    assert call("fill", "run", "the [MASK]").code == 2
