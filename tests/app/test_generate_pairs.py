"""Prompts and their responses, from a file to an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import BadInput, DataError, RecipeError

VERBS = ["go", "eat", "sing", "read"]
PAIRS = [(f"Let's {verb} {time}.", f"Yes, {verb} {time}!") for verb in VERBS for time in ("now", "today", "soon")]
RECIPE: dict[str, Any] = {
    "data": {"train": "", "documents": "pairs", "batch_tokens": 200},
    "tokens": {"kind": "word", "size": 60},
    "model": {
        "name": "gpt2", "dim": 64, "layers": 2, "heads": 2, "max_positions": 16,
        "dropout": 0.0, "embed_dropout": 0.0, "attention_dropout": 0.0,
    },
    "train": {"steps": 150, "learning_rate": 4e-3, "eval_every": 75, "precision": "float32"},
    "decode": {"temperature": 0.0},
}  # fmt: skip


def write(path: Path, rows: Any = PAIRS) -> Path:
    path.write_text("".join(f"{prompt}\t{response}\n" for prompt, response in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    file = str(write(folder / "pairs.tsv"))
    regard.train(RECIPE, out=folder / "run", set={"data.train": file, "data.valid": file})
    return folder / "run"


def test_a_prompt_is_answered(run: Path) -> None:
    model = regard.load(run)
    answers = model.generate([prompt for prompt, _ in PAIRS])
    assert [answer.text for answer in answers] == [response for _, response in PAIRS]
    assert all(answer.finished for answer in answers)
    first = answers[0]
    assert first.line() == "Let's go now.\nYes, go now!"
    assert first.to_dict()["prompt"] == "Let's go now.\n"
    assert first.attention.rows[0].startswith("Yes")
    assert "".join(model.generate("Let's eat soon.", stream=True)) == "Yes, eat soon!"


def test_pairs_may_be_rows_in_memory(run: Path, tmp_path: Path) -> None:
    model, rows = regard.load(run), [{"prompt": prompt, "response": response} for prompt, response in PAIRS]
    wanted = model.evaluate(str(write(tmp_path / "pairs.tsv"))).metrics
    assert model.evaluate(PAIRS).metrics == wanted
    assert model.evaluate(rows).metrics == wanted
    with pytest.raises(DataError, match=r"\[1\] must be a dict or \(prompt, response\), got \('Thanks',\)"):
        model.evaluate([PAIRS[0], ("Thanks",)])
    settings = {"train.steps": 1, "train.eval_every": 1, "model.dim": 8, "model.layers": 1}
    trained = regard.train(RECIPE, out=tmp_path / "run", set=settings, data={"train": PAIRS, "valid": PAIRS[:2]})
    assert trained.generate(PAIRS[0][0], max_tokens=2).line()


def test_the_command_line_prints_prompt_and_response(run: Path, call: Any) -> None:
    done = call("generate", run, "Let's sing today.")
    assert (done.code, done.out) == (0, "Let's sing today.\nYes, sing today!\n")


def test_it_is_judged_by_the_responses(run: Path, tmp_path: Path) -> None:
    model = regard.load(run)
    found = model.evaluate()
    assert found.counts["tokens"] == sum(len(model.tokenizer.encode(text)) + 1 for _, text in PAIRS)
    assert found.counts["characters"] == sum(len(text) + 1 for _, text in PAIRS)
    assert found.metrics["perplexity"] < 1.2
    other = write(tmp_path / "other.tsv", [(response, prompt) for prompt, response in PAIRS])
    assert model.evaluate(str(other)).metrics["perplexity"] > 5 * found.metrics["perplexity"]


def test_columns_and_what_does_not_fit(tmp_path: Path) -> None:
    rows = [{"prompt": prompt, "response": response} for prompt, response in PAIRS * 2]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    few = {"data.train": str(file), "train.steps": 1, "train.eval_every": 1}
    regard.train(RECIPE, out=tmp_path / "run", set=few)
    file.write_text("".join(json.dumps({"q": row["prompt"], "a": row["response"]}) + "\n" for row in rows))
    with pytest.raises(DataError, match="prompt"):
        regard.train(RECIPE, out=tmp_path / "other", set=few)
    regard.train(RECIPE, out=tmp_path / "named", set={**few, "data.prompt": "q", "data.response": "a"})
    learned = {
        **few,
        "data.prompt": "q",
        "data.response": "a",
        "model.positions": "learned",
        "model.max_positions": 5,
    }
    with pytest.raises(DataError, match=r"the longest pair has \d+ tokens and the model sees 5 at once"):
        regard.train(RECIPE, out=tmp_path / "short", set=learned)
    with pytest.raises((BadInput, RecipeError), match=r"documents must be one of .*'pairs', got 'dialogue'"):
        regard.train(RECIPE, out=tmp_path / "none", set={**few, "data.documents": "dialogue"})
