"""A bidirectional language model trained on plain text, its vectors, and a classifier on top of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import BadInput, DataError, NoAttention, RecipeError
from regard.learn.loop import Report
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import TASKS, load
from regard.tasks.embed.run import Embedder

# "bank" has two meanings, each with words of its own before and after it.
MEADOW = "the river near a bank has grass and trees"
MONEY = "he paid the bank with coins and notes"
RECIPE = """
[data]
train = "{text}"
valid = "{text}"
batch_tokens = 256

[tokens]
kind = "word"
size = 40

[model]
name = "elmo"
character_dim = 4
widths = [1, 2, 3]
filters = [8, 8, 8]
dim = 8
cell = 24
layers = 2
cell_clip = 0
projection_clip = 0
dropout = 0.0

[train]
steps = 4
learning_rate = 0.02
eval_every = 2
"""
LABELLED = """
[data]
train = "{texts}"
valid = "{texts}"
batch_tokens = 256

[model]
name = "elmo"
head = "classify"
reader = 8
dropout = 0.0

[train]
steps = 30
learning_rate = 0.03
eval_every = 15
best_by = "accuracy"
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "text.txt").write_text(f"{MEADOW} .\n{MONEY} .\n" * 8)
    (folder / "recipe.toml").write_text(RECIPE.format(text=folder / "text.txt"))
    return str(folder / "recipe.toml")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> Path:
    """A language model that knows the two sentences. Tests only read it."""
    folder = tmp_path_factory.mktemp("run") / "run"
    go(recipe, folder, "train.steps=60", "train.eval_every=30")
    return folder


@pytest.fixture
def labelled(tmp_path: Path) -> str:
    texts = "".join(f"{text}\t{label}\n" for text, label in ((MEADOW, "outside"), (MONEY, "inside")) * 8)
    (tmp_path / "texts.tsv").write_text(texts)
    (tmp_path / "labelled.toml").write_text(LABELLED.format(texts=tmp_path / "texts.tsv"))
    return str(tmp_path / "labelled.toml")


def go(recipe: str, out: Path, *changes: str, start: Path | None = None) -> Report:
    job, text = read(recipe, changes, start)
    return training.train(job, out, recipe=text, command="regard train", start=start)


def opened(folder: Path) -> Embedder:
    found = load(folder, "cpu")
    assert type(found) is Embedder
    return found


def validations(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [row for row in rows if "valid_loss" in row]


# ---- the language model


def test_it_learns_both_directions(run: Path) -> None:
    first, last = validations(run)[0], validations(run)[-1]
    for name in ("forward_perplexity", "backward_perplexity"):
        assert last[name] < first[name]
        assert last[name] < 1.5, "only the first word, and the last, cannot be known"
    assert last["valid_loss"] == pytest.approx(
        math.log(last["forward_perplexity"] * last["backward_perplexity"]) / 2, rel=1e-6
    )
    assert "16 sentences, 152 words" in (run / "README.md").read_text()


def test_the_perplexities_are_those_counted_by_hand(run: Path) -> None:
    reader = opened(run)
    settings = read(str(run / "recipe.toml"))[0].data
    with TASKS["embed"].desk.test_data(reader, settings) as data:
        ticks: list[None] = []
        found = TASKS["embed"].desk.evaluate(reader, data, tick=lambda: ticks.append(None))
        sums, predictions = np.zeros(2), 0
        for row in range(len(data)):
            batch = data.batch(np.array([row]))
            model: Any = reader.model
            with torch.no_grad():
                states = model._all_states(batch)[-1]
                forward, backward = states.chunk(2, -1)
                for place, part in enumerate((forward[0, :-1], backward[0, 1:])):
                    wanted = batch.words[0, 1:] if place == 0 else batch.words[0, :-1]
                    known = model.out(part).log_softmax(-1)
                    sums[place] -= float(known.gather(1, wanted[:, None]).sum())
            predictions += batch.words.shape[1] - 1
    assert len(ticks) == len(data.order(0))
    assert found.counts == {"sentences": 16, "words": 152}
    assert found.metrics["forward_perplexity"] == pytest.approx(math.exp(sums[0] / predictions), rel=1e-4)
    assert found.metrics["backward_perplexity"] == pytest.approx(math.exp(sums[1] / predictions), rel=1e-4)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(sums.sum() / predictions / 2), rel=1e-4)


def test_from_python_it_is_evaluated_as_training_did(run: Path) -> None:
    best = min(validations(run), key=lambda row: row["valid_loss"])
    reader, (file,) = opened(run), read(str(run / "recipe.toml"))[0].data.train
    for found in (reader.evaluate(), reader.evaluate(file)):
        assert found.metrics["loss"] == pytest.approx(best["valid_loss"], rel=1e-5)


def test_the_end_of_the_text_is_held_out(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"a line of number {number}\n" for number in range(40)))
    out = tmp_path / "run"
    go(recipe, out, f"data.train={tmp_path / 'text.txt'}", "data.valid=", "data.valid_fraction=0.1")
    assert "36 sentences" in (out / "README.md").read_text()
    assert opened(out).evaluate().counts == {"sentences": 4, "words": 20}


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        (["tokens.kind=bpe", "tokens.size=300"], RecipeError, "tokens.kind must be word or space, got 'bpe'"),
        (
            ["data.valid=", "data.train=ONE"],
            DataError,
            "ONE: 1 sentences are too few to hold some out for validation; set data.valid",
        ),
        (["data.valid=EMPTY"], DataError, "at least one sentence with words, got none"),
        (["train.label_smoothing=0.1"], RecipeError, "label_smoothing is not for a elmo that is made to embed"),
        (["train.best_by=accuracy"], RecipeError, "best_by must be valid_loss or forward_perplexity or"),
    ],
    ids=["pieces", "one sentence", "no words", "smoothing", "best by"],
)
def test_what_cannot_be_learned_from(
    recipe: str, tmp_path: Path, changes: list[str], kind: type[Exception], said: str
) -> None:
    (tmp_path / "ONE").write_text("only one sentence\n")
    (tmp_path / "EMPTY").write_text(" \n")
    named = [change.replace("ONE", f"{tmp_path}/ONE").replace("EMPTY", f"{tmp_path}/EMPTY") for change in changes]
    with pytest.raises(kind, match=said):
        go(recipe, tmp_path / "run", *named)


# ---- vectors


def test_a_word_has_another_vector_in_another_sentence(run: Path) -> None:
    reader = opened(run)
    meadow, money = (reader.embed_tokens(text) for text in (MEADOW, MONEY))
    assert meadow.tokens == tuple(MEADOW.split())
    assert meadow.vectors.shape == (9, 16)
    first, second = (one.vectors[one.tokens.index("bank")] for one in (meadow, money))
    assert np.abs(first - second).max() > 0.1
    words = [reader.embed_tokens(text, layer=0) for text in (MEADOW, MONEY)]
    np.testing.assert_allclose(*(one.vectors[one.tokens.index("bank")] for one in words), atol=1e-6)


def test_vectors_are_those_of_the_layers(run: Path) -> None:
    """A text alone and among longer ones; the mix of a model without a task is the mean of the layers."""
    reader, texts = opened(run), [MEADOW, "the bank", "", "trees and grass"]
    for text, found in zip(texts, reader.embed_tokens(texts), strict=True):
        layers = [reader.embed_tokens([text], layer=layer)[0].vectors for layer in range(3)]
        np.testing.assert_allclose(found.vectors, np.mean(layers, 0), atol=1e-6)
        whole = found.vectors.mean(0) if text else np.zeros(16)
        np.testing.assert_allclose(reader.embed([text])[0], whole, atol=1e-6)
        one = reader.embed_tokens([text], layer=1, normalise=True)[0].vectors
        np.testing.assert_allclose(np.linalg.norm(one, axis=-1), np.ones(len(one)), atol=1e-5)
    assert reader.embed([]).shape == (0, 16)


@pytest.mark.parametrize("layer", [-1, 3, 1.0, True, "2"])
def test_layers_that_are_not_there(run: Path, layer: Any) -> None:
    for ask in (opened(run).embed, opened(run).embed_tokens):
        with pytest.raises(BadInput, match="layer must lie in 0 to 2, 0 for the token embeddings; got"):
            ask("the bank", layer=layer)


def test_what_such_a_model_has_not(run: Path) -> None:
    reader = opened(run)
    with pytest.raises(BadInput, match=r"this elmo has no \[CLS\], so pool must be mean"):
        reader.embed("the bank", pool="cls")
    answer = next(reader.vectors([reader.read("the bank")]))
    with pytest.raises(NoAttention, match="no attention to show"):
        answer.picture(["blocks.0"])
    picture = answer.picture()
    assert (picture.kind, picture.rows, picture.vectors.tolist()) == (
        "vectors",
        ("the bank",),
        [answer.vector.tolist()],
    )


def test_neighbours_are_of_the_same_meaning(run: Path) -> None:
    reader = opened(run)
    corpus = ["he paid the bank with notes", "river near a bank has grass", MEADOW]
    every = reader.neighbours(MEADOW, "bank", corpus, top=100)
    assert reader.neighbours(MEADOW, "bank", corpus, top=3) == every[:3]
    assert every[0].token == "bank"
    banks = [one.text for one in every if one.token == "bank"]
    assert banks == [corpus[1], corpus[0]]
    assert len(every) == sum(len(text.split()) for text in corpus[:2]), "the text itself is left out"
    similarities = [one.similarity for one in every]
    assert similarities == sorted(similarities, reverse=True)
    one = every[5]
    assert one.text.split()[one.place] == one.token
    vectors = (
        reader.embed_tokens(text, normalise=True).vectors[place]
        for text, place in ((MEADOW, MEADOW.split().index("bank")), (one.text, one.place))
    )
    assert one.similarity == pytest.approx(float(np.dot(*vectors)), abs=1e-5)


@pytest.mark.parametrize(
    ("word", "corpus", "top", "said"),
    [
        ("banks", [MONEY], 3, "'banks' is no token of .*; there are the, river"),
        ("bank", MONEY, 3, "corpus must be a list of texts, got a single one"),
        ("bank", [MONEY], 0, "top must be"),
    ],
    ids=["word", "corpus", "top"],
)
def test_neighbours_asked_wrongly(run: Path, word: str, corpus: Any, top: int, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        opened(run).neighbours(MEADOW, word, corpus, top=top)


# ---- a classifier on top


def test_a_classifier_learns_a_mix_of_frozen_layers(run: Path, labelled: str, tmp_path: Path) -> None:
    go(labelled, tmp_path / "top", start=run)
    reader, below = opened(tmp_path / "top"), opened(run)
    assert validations(tmp_path / "top")[-1]["accuracy"] == 100
    assert [one.label for one in reader.classify([MEADOW, MONEY])] == ["outside", "inside"]
    for part in ("words", "lstm"):
        ours, theirs = (getattr(one.model, part).state_dict() for one in (reader, below))
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs), "frozen"
    found = reader.evaluate()
    weights = found.to_dict()["layer_weights"]
    assert list(weights) == ["0", "1", "2"]
    assert sum(weights.values()) == pytest.approx(1)
    assert len(set(weights.values())) == 3, "they have been learned"
    assert "weights of the layers\nlayer 0" in found.notes[-1]
    layers = np.stack([below.embed_tokens(MEADOW, layer=layer).vectors for layer in range(3)])
    mixed = np.einsum("l,ltd->td", list(weights.values()), layers) * reader.model.mix.gamma.item()
    np.testing.assert_allclose(reader.embed_tokens(MEADOW).vectors, mixed, atol=1e-5)


def test_a_classifier_of_the_words_alone(run: Path, labelled: str, tmp_path: Path) -> None:
    go(labelled, tmp_path / "top", "model.mix=[0]", start=run)
    assert opened(tmp_path / "top").evaluate().to_dict()["layer_weights"] == {"0": 1.0}


def test_a_classifier_that_attends_shows_its_words(run: Path, labelled: str, tmp_path: Path) -> None:
    go(labelled, tmp_path / "top", "model.pool=attention", "train.steps=2", start=run)
    picture = opened(tmp_path / "top").classify("The river, unheard-of!").document()
    assert picture.sentences == [["The", "river", ",", "unheard", "-", "of", "!"]]
    assert picture.weights[0].sum() == pytest.approx(1, abs=1e-5)


def test_a_frozen_model_without_a_start_is_told(labelled: str, run: Path, tmp_path: Path, capsys: Any) -> None:
    small = [
        f"model.{line.replace(' ', '')}" for line in RECIPE.split("[model]")[1].split("[train]")[0].split("\n")
    ]
    changes = [one for one in small if "=" in one and "name" not in one and "dropout" not in one]
    go(labelled, tmp_path / "new", *changes, "tokens.kind=word", "train.steps=2")
    said = "words, lstm: these stay frozen at their random initial weights; start from a trained run: --from RUN"
    assert said in capsys.readouterr().err
    go(labelled, tmp_path / "top", "train.steps=2", start=run)
    assert "frozen" not in capsys.readouterr().err


def test_a_language_model_goes_on_from_another(run: Path, recipe: str, tmp_path: Path) -> None:
    go(recipe, tmp_path / "more", "train.steps=2", "train.learning_rate=1e-3", start=run)
    assert validations(tmp_path / "more")[-1]["valid_loss"] < validations(run)[0]["valid_loss"]
