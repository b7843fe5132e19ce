"""`regard fill`, and `evaluate` and `train` of models that predict masked words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.tasks.core.table import load


def test_fill_tells_each_candidate_and_the_text_with_it(call: Any, filler: str) -> None:
    done = call("fill", filler, "The [MASK] sat on [MASK] mat", "--top", 3)
    assert (done.code, done.err) == (0, "")
    wanted = load(filler).fill("The [MASK] sat on [MASK] mat", top=3)
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [float(row[0]) for row in rows] == pytest.approx(
        [p for blank in wanted.blanks for _, p in blank], abs=1e-4
    )
    assert [row[1] for row in rows] == [token for blank in wanted.blanks for token, _ in blank]
    assert all(row[2].count("[MASK]") == 1 for row in rows if row[1] != "[MASK]")
    assert all(row[2].endswith("[MASK] mat") for row in rows[:3])


def test_fill_in_json(call: Any, filler: str) -> None:
    done = call("fill", filler, "[MASK] cat", "a [MASK] dog [MASK]", "--json", "--top", 2)
    rows = [json.loads(line) for line in done.out.splitlines()]
    for row, found in zip(rows, load(filler).fill(["[MASK] cat", "a [MASK] dog [MASK]"], top=2), strict=True):
        assert (row["source"], row["text"]) == (found.source, found.text)
        assert [[one["token"] for one in blank] for blank in row["blanks"]] == [
            [token for token, _ in blank] for blank in found.blanks
        ]
        assert all(0 < one["probability"] < 1 for blank in row["blanks"] for one in blank)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text is empty; give something to fill"),
        ("the cat", "'the cat' has no [MASK] to fill"),
        ("[MASK] " + "cat " * 16, "has 19 tokens and this model takes 16; shorten it"),
    ],
    ids=["empty", "no blank", "too long"],
)
def test_fill_says_what_it_cannot_fill(call: Any, filler: str, text: str, said: str) -> None:
    done = call("fill", filler, text)
    assert done.code == 2
    assert done.out == ""
    assert said in done.err


def test_a_line_that_cannot_be_filled_is_named_before_any_work(call: Any, filler: str) -> None:
    Path("in.txt").write_text("[MASK]\nthe cat\n")
    done = call("fill", filler, "--input", "in.txt", "--output", "out.txt", "--strict")
    assert done.code == 2
    assert "in.txt, line 2: 'the cat' has no [MASK] to fill" in done.err
    assert not Path("out.txt").exists()


def test_a_foreign_encoder_is_evaluated_on_a_text(call: Any, filler: str, encoders: Any) -> None:
    """Its folder has no recipe; rows are as long as it takes."""
    Path("text.txt").write_text("\n\n".join("\n".join(encoders.sentences) for _ in range(6)))
    done = call("evaluate", filler, "--data", "text.txt", "--json")
    assert done.code == 0
    row = json.loads(done.out)
    assert row["documents"] == 6
    assert row["tokens"] == 6 * sum(len(load(filler).tokenizer.encode(line)) for line in encoders.sentences)
    assert set(row) == {
        "run",
        "data",
        "documents",
        "tokens",
        "loss",
        "perplexity",
        "masked_accuracy",
        "next_accuracy",
    }
    again = call("evaluate", filler, "--data", "text.txt")
    assert f"masked_accuracy  {row['masked_accuracy']:.2f}" in again.out
    assert call("evaluate", filler).err.count("name data to evaluate on: --data FILE") == 1


def test_encoders_of_other_heads_stand_side_by_side(call: Any, filler: str, tmp_path: Path, encoders: Any) -> None:
    other = encoders.build(tmp_path / "masked", head="masked")
    Path("text.txt").write_text("\n\n".join("\n".join(encoders.sentences) for _ in range(6)))
    for runs in ([filler, other], [other, filler]):
        done = call("evaluate", *runs, "--data", "text.txt")
        assert (done.code, done.err) == (0, "")
        [following] = [line for line in done.out.splitlines() if line.startswith("next_accuracy")]
        assert len(following.split()) == 2, "one has it and one has not"


def test_a_classifier_goes_back_to_masked_words(call: Any, classifier: str, encoders: Any) -> None:
    Path("book.txt").write_text(("\n".join(encoders.sentences) + "\n\n") * 60)
    words = ["--set", "data.train=book.txt", "--set", "data.length=16"]
    words += ["--set", "train.steps=1", "--set", "train.eval_every=1", "--set", "train.warmup_steps=0"]
    done = call("train", "bert-text", "--from", classifier, *words, "--out", "mine")
    assert (done.code, done.out) == (0, "mine\n")
    assert load("mine").model.config.labels == ()
    assert call("fill", "mine", "the [MASK] sat").code == 0


def test_what_follows_is_compared_where_it_is_learned(call: Any) -> None:
    recipe = "bert-text,data.train=x.txt,data.valid=x.txt,model.head=masked"
    done = call("compare", recipe, "--metric", "next_accuracy", "--out", "c")
    assert done.code == 2
    assert "next_accuracy is not given by a bert with these settings; take another --metric" in done.err
