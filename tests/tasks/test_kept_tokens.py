"""Training on many files: tokens are kept, and a training goes on exactly, for every task that reads text."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard

import regard
from regard.errors import DataError
from regard.tasks.generate.settings import TextSettings
from regard.tasks.translate.settings import PairSettings

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
TRAIN = {"steps": 6, "eval_every": 3, "learning_rate": 0.01}


def sentence(number: int) -> str:
    return " ".join(random.Random(number).choices(WORDS, k=3 + number % 5)) + "."


def text_row(number: int) -> dict[str, Any]:
    return {"text": f"{sentence(number)} One. {sentence(number + 1).capitalize()}"}


def pair_row(number: int) -> dict[str, Any]:
    return {"source": sentence(number), "target": sentence(number).upper()}


def label_row(number: int) -> dict[str, Any]:
    return {"text": sentence(number), "label": "odd" if number % 2 else "even"}


ROWS = {"generate": text_row, "fill": text_row, "embed": text_row, "translate": pair_row, "classify": label_row}
RECIPES: dict[str, dict[str, Any]] = {
    "generate": {
        "data": {"length": 8, "batch_tokens": 64},
        "tokens": {"kind": "word"},
        "model": {"name": "gpt2", "dim": 8, "layers": 1, "heads": 1, "max_positions": 8},
    },
    "fill": {
        "data": {"length": 16, "batch_tokens": 128},
        "tokens": {"kind": "wordpiece", "size": 60},
        "model": {"name": "bert", "dim": 8, "layers": 1, "heads": 1, "ff": 8, "max_positions": 16},
    },
    "embed": {
        "data": {"batch_tokens": 64},
        "tokens": {"kind": "word"},
        "model": {
            "name": "elmo",
            "dim": 4,
            "cell": 8,
            "layers": 1,
            "character_dim": 4,
            "widths": [1],
            "filters": [4],
        },
    },
    "translate": {
        "data": {"batch_tokens": 64, "eval_pairs": 2, "drop_longer": 9},
        "tokens": {"kind": "word"},
        "model": {"name": "bahdanau", "embed": 4, "encoder": 4, "decoder": 8, "readout": 4, "max_positions": 40},
        "decode": {"max_length": 6},
    },
    "classify": {
        "data": {"batch_tokens": 64, "truncate": 8},
        "tokens": {"kind": "word"},
        "model": {"name": "pooling", "embed": 4, "dim": 4},
    },
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


def write(task: str) -> None:
    Path("s").mkdir()
    for part in range(3):
        lines = "".join(json.dumps(ROWS[task](number)) + "\n" for number in range(40 * part, 40 * (part + 1)))
        Path(f"s/{part}.jsonl.zst").write_bytes(zstandard.compress(lines.encode()))
    Path("valid.jsonl").write_text("".join(json.dumps(ROWS[task](number)) + "\n" for number in range(200, 210)))


def train(task: str, out: str, steps: int = 6, **options: Any) -> Any:
    recipe = RECIPES[task] | {"train": TRAIN | {"steps": steps}}
    recipe["data"] = recipe["data"] | {"train": "s/*.jsonl.zst", "valid": "valid.jsonl"}
    return regard.train(recipe, out=out, **options)


def losses(out: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in Path(out, "log.jsonl").read_text().splitlines()]
    return [{key: row[key] for key in ("step", "loss", "valid_loss") if key in row} for row in rows]


@pytest.mark.parametrize("task", RECIPES)
def test_a_training_on_many_files_goes_on_exactly(
    task: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(task)
    train(task, "whole")
    assert "Tokens of 3 files, 3 of them tokenised now" in capsys.readouterr().err
    train(task, "parts", steps=3)
    train(task, "parts", resume=True)
    assert "tokenised now" not in capsys.readouterr().err
    assert losses("parts") == losses("whole")
    lines = Path("s/1.jsonl.zst").read_bytes()
    Path("s/1.jsonl.zst").write_bytes(zstandard.compress(zstandard.decompress(lines)[:-1]))
    with pytest.raises(DataError, match=r"begun with: s/1\.jsonl\.zst: "):
        train(task, "parts", steps=7, resume=True)


def test_added_and_missing_files_are_named(here: Path) -> None:
    write("translate")
    train("translate", "run", steps=3)
    Path("s/3.jsonl.zst").write_bytes(Path("s/0.jsonl.zst").read_bytes())
    Path("s/2.jsonl.zst").unlink()
    with pytest.raises(DataError, match=r"s/2\.jsonl\.zst: no longer there; s/3\.jsonl\.zst: new"):
        train("translate", "run", resume=True)


def test_the_end_of_the_text_is_held_out_of_many_files(here: Path) -> None:
    write("generate")
    recipe = RECIPES["generate"] | {"train": TRAIN, "data": {"train": "s/*.jsonl.zst", "batch_tokens": 64}}
    run = regard.train(recipe, out="run")
    again = run.evaluate()
    assert again.metrics["loss"] == pytest.approx(run.report.best["valid_loss"])
    assert again.counts["words"] > 10


def test_when_tokens_are_kept(here: Path) -> None:
    write("generate")
    Path("a.txt").write_text("a")
    assert TextSettings(train="s/*.jsonl.zst").keeps_tokens
    assert not TextSettings(train="s/*.jsonl.zst", token_cache="never").keeps_tokens
    assert not TextSettings(train="a.txt").keeps_tokens
    assert not TextSettings(train=("a.txt", "s/0.jsonl.zst")).keeps_tokens, "runs that were begun before go on"
    Path("a[1].txt").write_text("a")
    assert not TextSettings(train="a[1].txt").keeps_tokens, "a file of that name"
    assert TextSettings(train="a.txt", token_cache="always").keeps_tokens
    assert not PairSettings(train="s/*.jsonl.zst").keeps_tokens, "pairs are held out by their texts"
    assert PairSettings(train="s/*.jsonl.zst", valid="valid.jsonl").keeps_tokens
    assert not PairSettings(made="dates").keeps_tokens
    with pytest.raises(DataError, match=r"nothing can be held out of the training data; set data\.valid"):
        PairSettings(train="a.txt", token_cache="always").keeps_tokens  # noqa: B018
