"""Encoders trained on plain text: hidden words, what follows what, documents of every kind, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.data.batches.batch import Rows
from regard.errors import DataError, RecipeError
from regard.learn.loop import Report
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import TASKS, load
from regard.tasks.fill import prepare
from regard.tasks.fill.prepare import build_data, encoded, hold_out
from regard.tasks.fill.settings import MaskedSettings
from regard.tasks.shared.reader import Reader

# Each animal has a food and a place of its own, so that a hidden word follows from the others.
ANIMALS = {
    "cow": ("grass", "meadow"),
    "cat": ("mice", "house"),
    "bear": ("honey", "forest"),
    "gull": ("fish", "sea"),
}
RECIPE = """
[data]
train = "{train}"
valid = "{train}"
length = 32
batch_tokens = 512

[tokens]
kind = "wordpiece"
size = 200
lowercase = true

[model]
name = "bert"
dim = 32
layers = 1
heads = 2
max_positions = 40
head = "masked"
dropout = 0.0
attention_dropout = 0.0

[train]
steps = 4
learning_rate = 0.01
eval_every = 2
"""


def stories(count: int = 40) -> str:
    """Documents of four sentences each, about one animal."""
    draw, found = random.Random(0), []
    for _ in range(count):
        animal, (food, place) = draw.choice(sorted(ANIMALS.items()))
        lines = [
            f"the {animal} eats {food} .",
            f"the {animal} lives near the {place} .",
            f"{food} is what it likes .",
        ]
        found.append("\n".join([f"= {animal} =", *draw.sample(lines, 3)]))
    return "\n\n".join(found) + "\n"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "text.txt").write_text(stories())
    (folder / "recipe.toml").write_text(RECIPE.format(train=folder / "text.txt"))
    return str(folder / "recipe.toml")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> Path:
    """An encoder that has learned which words go together. Tests only read it."""
    folder = tmp_path_factory.mktemp("run")
    go(recipe, folder / "run", *triples(folder), "train.steps=100", "train.eval_every=25")
    return folder / "run"


def triples(folder: Path) -> list[str]:
    """Lines of three words, one of which is hidden and follows from the others."""
    (folder / "triples.txt").write_text(
        "".join(f"{one} {food} {place}\n" for one, (food, place) in ANIMALS.items()) * 10
    )
    files = [f"data.{name}={folder / 'triples.txt'}" for name in ("train", "valid")]
    return [*files, "data.documents=line", "data.mask_probability=0.25"]


def go(recipe: str, out: Path, *changes: str, start: Path | None = None, resume: bool = False) -> Report:
    job, text = read(recipe, changes, start)
    return training.train(job, out, recipe=text, command="regard train", start=start, resume=resume)


def validations(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row for row in rows if "valid_loss" in row]


def test_it_learns_and_then_gives_the_hidden_word(run: Path) -> None:
    losses = [row["valid_loss"] for row in validations(run)]
    assert losses[-1] < 0.2 < losses[0]
    assert validations(run)[-1]["masked_accuracy"] == 100
    reader = load(run)
    for animal, (food, place) in ANIMALS.items():
        for text, word in (
            (f"{animal} [MASK] {place}", food),
            (f"{animal} {food} [MASK]", place),
            (f"[MASK] {food} {place.upper()}", animal),
        ):
            found = reader.fill(text)
            assert found.blanks[0][0][0] == word
            assert found.blanks[0][0][1] > 0.8
            assert found.text == text.replace("[MASK]", word)
    assert reader.embed("cow grass meadow").shape == (32,)


def test_whole_words_are_learned(recipe: str, tmp_path: Path) -> None:
    """All words are in pieces here, and one of the three is hidden whole."""
    go(
        recipe,
        tmp_path / "run",
        *triples(tmp_path),
        "tokens.size=64",
        "data.whole_words=true",
        "train.steps=60",
        "train.eval_every=30",
    )
    losses = [row["valid_loss"] for row in validations(tmp_path / "run")]
    assert losses[-1] < 0.5 * losses[0]
    reader, settings = load(tmp_path / "run"), read(str(tmp_path / "run" / "recipe.toml"))[0].data
    documents = encoded(settings, "train", reader.tokenizer)
    data = build_data(settings, documents, reader.model, reader.tokenizer, seed=0)
    batch = data.batch(data.order(0)[0])
    hidden = [
        sum(reader.tokenizer.begins(ids[chosen].tolist()))
        for ids, chosen in zip(batch.targets, batch.predicted, strict=True)
    ]
    assert int(batch.predicted.sum()) > len(hidden), "words have several pieces"
    assert min(hidden) == 1


def test_next_sentences_are_evaluated_where_they_are_learned(recipe: str, run: Path, tmp_path: Path) -> None:
    assert "next_accuracy" not in validations(run)[-1]
    go(recipe, tmp_path / "both", "model.head=pretrain")
    for row in validations(tmp_path / "both"):
        assert 0 <= row["next_accuracy"] <= 100
        assert set(row) >= {"valid_loss", "masked_accuracy", "next_accuracy"}
    assert "next_accuracy" in (tmp_path / "both" / "README.md").read_text()


def test_from_python_it_is_evaluated_as_training_did(run: Path, tmp_path: Path) -> None:
    best = min(validations(run), key=lambda row: row["valid_loss"])
    reader, (file,) = load(run), read(str(run / "recipe.toml"))[0].data.train
    for found in (reader.evaluate(), reader.evaluate(file)):  # the recipe's own data, and the same as a file
        assert found.metrics["loss"] == pytest.approx(best["valid_loss"], rel=1e-6)
        assert found.metrics["masked_accuracy"] == best["masked_accuracy"]
        assert "next_accuracy" not in found.metrics
        assert found.counts["documents"] == 40


def test_the_metrics_are_those_counted_by_hand(run: Path) -> None:
    reader, settings = load(run), read(str(run / "recipe.toml"))[0].data
    data = build_data(
        settings,
        encoded(settings, "valid", reader.tokenizer),
        reader.model,
        reader.tokenizer,
        seed=0,
    )
    ticks: list[None] = []
    test = prepare.TestText(data, 1)
    found = TASKS["fill"].desk.evaluate(reader, test, tick=lambda: ticks.append(None)).metrics
    batches = [data.batch(item) for item in data.order(0)]
    losses, right = [], []
    with torch.no_grad():
        for batch in batches:
            for row in range(len(batch.tokens)):
                real = batch.mask[row]
                states = reader.model(batch.tokens[row, real][None], batch.segments[row, real][None])[0]
                chosen = batch.predicted[row, real]
                logits = reader.model.masked_logits(states[chosen])
                wanted = batch.targets[row, real][chosen]
                losses += torch.nn.functional.cross_entropy(logits, wanted, reduction="none").tolist()
                right += (logits.argmax(-1) == wanted).tolist()
    assert len(ticks) == len(batches)
    assert found["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    assert found["masked_accuracy"] == pytest.approx(100 * sum(right) / len(right))
    assert found["perplexity"] == pytest.approx(torch.tensor(found["loss"]).exp().item())
    assert TASKS["fill"].desk.evaluate(reader, test).metrics == found, "the same questions each time"


# ---- documents


@pytest.mark.parametrize(("kind", "count"), [("blank", 40), ("heading", 40), ("line", 199), ("file", 1)])
def test_documents_of_every_kind(kind: str, count: int, recipe: str, tmp_path: Path) -> None:
    go(recipe, tmp_path / "run", f"data.documents={kind}", "train.steps=2")
    settings = read(str(tmp_path / "run" / "recipe.toml"))[0].data
    found = encoded(settings, "train", load(tmp_path / "run").tokenizer)
    # 40 headings and 120 sentences; between documents an empty line, which has no tokens and so is none.
    assert len(found) == {199: 160}.get(count, count)
    assert f"{len(found):,} documents" in (tmp_path / "run" / "README.md").read_text()


@pytest.mark.parametrize("name", ["texts.csv", "texts.jsonl", "texts.txt"])
def test_files_of_every_kind_and_line_ends(name: str, recipe: str, tmp_path: Path) -> None:
    documents = [one.replace("\n", " ") for one in stories(8).strip().split("\n\n")]
    lines = {
        "texts.csv": ["text", *documents],
        "texts.jsonl": [json.dumps({"text": one}) for one in documents],
        "texts.txt": [line for one in documents for line in (one, "")],
    }[name]
    (tmp_path / name).write_bytes("\r\n".join([*lines, ""]).encode())
    settings = MaskedSettings(str(tmp_path / name))
    assert ["".join(one) for one in settings.read(settings.train)] == documents or name == "texts.txt"
    go(recipe, tmp_path / "run", f"data.train={tmp_path / name}", f"data.valid={tmp_path / name}", "train.steps=1")
    assert "\r" not in "".join(load(tmp_path / "run").tokenizer.inner.get_vocab())


def test_the_last_documents_are_held_out(recipe: str, tmp_path: Path) -> None:
    go(recipe, tmp_path / "run", 'data.valid=""', "data.valid_fraction=0.25")
    assert "30 documents" in (tmp_path / "run" / "README.md").read_text()


def test_of_one_document_the_last_sentences_are_held_out(recipe: str, tmp_path: Path) -> None:
    go(recipe, tmp_path / "run", 'data.valid=""', "data.documents=file", "data.valid_fraction=0.25")
    assert "1 documents" in (tmp_path / "run" / "README.md").read_text()
    sentences = Rows([number] for number in range(8))
    (first,), (last,) = hold_out([sentences], 0.25)
    assert [list(first[row]) for row in range(len(first))] == [[0], [1], [2], [3], [4], [5]]
    assert [list(last[row]) for row in range(len(last))] == [[6], [7]]


def test_too_little_held_out_is_named(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b\nc d\n\ne f\ng h\n\ni j\nk l\n")
    changes = [f"data.train={tmp_path / 'text.txt'}", 'data.valid=""', "model.head=pretrain"]
    with pytest.raises(
        DataError,
        match=r"what is held out of text.txt cannot be validated on: pairs need .*set data.valid",
    ):
        go(recipe, tmp_path / "run", *changes)
    assert not (tmp_path / "run").exists()


def test_it_reads_as_much_of_a_text_as_it_ever_learned_from(recipe: str, run: Path, tmp_path: Path) -> None:
    assert (load(run).max_length, load(run).model.config.max_positions) == (32, 40)
    for length, longest in ((16, 32), (36, 36)):
        go(recipe, tmp_path / str(length), f"data.length={length}", "train.steps=1", start=run)
        assert load(tmp_path / str(length)).max_length == longest


@pytest.mark.parametrize("text", ["a b\nc d\ne f\ng h\n", "a b\nc d\ne f\n\ng h\ni j\n"], ids=["one", "two"])
def test_too_little_left_to_learn_from_is_named(text: str, recipe: str, tmp_path: Path) -> None:
    """All of it would be enough."""
    (tmp_path / "text.txt").write_text(text)
    changes = [f"data.train={tmp_path / 'text.txt'}", "model.head=pretrain"]
    words = r"too little of text.txt is left .*held out for validation: .*of 3 sentences; .*or set data.valid"
    with pytest.raises(DataError, match=words):
        go(recipe, tmp_path / "run", *changes, 'data.valid=""')
    go(recipe, tmp_path / "run", *changes, f"data.valid={tmp_path / 'text.txt'}")


@pytest.mark.parametrize("changes", [[], ['data.valid=""']], ids=["valid", "held out"])
def test_lines_alone_have_no_next_sentence(changes: list[str], recipe: str, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"^there must be at least one document with two sentences; choose longer documents"
    ):
        go(recipe, tmp_path / "run", "model.head=pretrain", "data.documents=line", *changes)


# ---- what is refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ["data.length=41"],
            r"^data.length is 41 and the model takes 40 tokens \(model.max_positions\); set data.length=40 or "
            r"less$",
        ),
        (["model.head=pretrain", "model.segments=1"], "next sentences need two segments and the model has one"),
        (["tokens.kind=bpe", "tokens.size=300"], "tokens.kind must be wordpiece or word for bert, got 'bpe'"),
    ],
    ids=["too long", "one segment", "other tokens"],
)
def test_settings_that_do_not_fit(changes: list[str], said: str, recipe: str, tmp_path: Path) -> None:
    with pytest.raises((DataError, RecipeError), match=said):
        go(recipe, tmp_path / "run", *changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("data.documents=page", "documents must be one of .*, got 'page'"),
        ("data.length=7", "length must be at least 8, got 7"),
        ("data.mask_probability=0", r"mask_probability must lie in \(0, 1\), got 0"),
        ("data.valid_fraction=1", r"valid_fraction must lie in \(0, 1\), got 1"),
        ("data.batch_tokens=0", "batch_tokens must be at least 1, got 0"),
        ('data.train=""', "data.train to a file of text"),
        ("train.best_by=accuracy", "best_by must be valid_loss or masked_accuracy for bert, got 'accuracy'"),
        (
            "model.head=none",
            r"a model that can only embed is not trained and has no metrics; to train or evaluate, .*model\.head",
        ),
    ],
    ids=["documents", "length", "chosen", "held out", "batch", "no file", "best by", "no head"],
)
def test_a_recipe_checks_itself(change: str, said: str, recipe: str) -> None:
    with pytest.raises(RecipeError, match=said):
        read(recipe, [change])


def test_text_of_another_language_is_told(run: Path, recipe: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("我爱北京\n天安门\n\n日本語\nカタカナ\n" * 5)
    file = tmp_path / "text.txt"
    with pytest.raises(DataError, match="no word of the text is in the vocabulary; is its language"):
        go(recipe, tmp_path / "run", f"data.train={file}", f"data.valid={file}", start=run)


def test_a_batch_of_unknown_words_does_no_harm(run: Path, recipe: str, tmp_path: Path) -> None:
    """A row to a batch, and most rows hold nothing that could be asked for."""
    (tmp_path / "text.txt").write_text("我爱北京天安门 。\n\n" * 20 + "cow grass meadow\n")
    file = tmp_path / "text.txt"
    report = go(
        recipe,
        tmp_path / "run",
        *(f"data.{name}={file}" for name in ("train", "valid")),
        "data.batch_tokens=10",
        "train.steps=30",
        "train.eval_every=30",
        start=run,
    )
    assert report.step == 30
    assert all(torch.isfinite(x).all() for x in load_file(tmp_path / "run" / "model.safetensors").values())


# ---- going on


@pytest.mark.parametrize("head", ["masked", "pretrain"])
def test_resuming_ends_as_if_it_had_not_stopped(
    head: str, recipe: str, tmp_path: Path, interrupt: Callable[..., None]
) -> None:
    go(recipe, tmp_path / "whole", f"model.head={head}")
    interrupt(recipe, tmp_path / "halves", f"model.head={head}")
    go(recipe, tmp_path / "halves", f"model.head={head}", resume=True)
    whole, halves = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "halves"))
    assert all(torch.equal(whole[name], halves[name]) for name in whole)


def test_a_head_more_begins_with_what_is_there(
    run: Path, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go(recipe, tmp_path / "run", "model.head=pretrain", "train.learning_rate=1e-12", start=run)
    said = capsys.readouterr().err
    assert (
        f"Not taken from {run}, and so initialised anew: pooler.weight, pooler.bias, next.weight, next.bias" in said
    )
    before, after = load(run), load(tmp_path / "run")
    assert isinstance(after, Reader)
    assert after.model.config.head == "pretrain"
    text = "cow [MASK] meadow"
    assert after.fill(text).blanks[0][0][0] == before.fill(text).blanks[0][0][0] == "grass"


def test_without_a_test_file_the_held_out_part_is_evaluated_on(tmp_path: Path, recipe: str) -> None:
    """The same rows as in training: the loss is that of the best validation."""
    report = go(recipe, tmp_path / "run", "data.valid=", "data.valid_fraction=0.25")
    found = load(tmp_path / "run").evaluate()
    assert report.best is not None
    assert found.metrics["loss"] == pytest.approx(report.best["valid_loss"], abs=1e-5)
    assert found.counts["documents"] == 10
