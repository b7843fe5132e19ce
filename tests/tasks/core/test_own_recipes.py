"""Recipes for one's own data: what chooses the best weights, sizes by the data, and what a run is worth."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import RecipeError, RunError
from regard.runs.folder import Folder
from regard.tasks.classify.bag_of_words import bag_accuracy
from regard.tasks.core.recipe import chosen_by, read
from regard.tasks.core.recipe_files import recipe_text
from regard.tasks.core.settings import Tokens
from regard.tasks.core.table import TASKS
from regard.tasks.translate import evaluate

OWN = [
    path.stem
    for path in sorted(Path(regard.__file__).with_name("recipes").glob("*.toml"))
    if path.stem.endswith(("-labelled", "-pairs", "-images", "-text", "-captions"))
]
TINY_SET: dict[str, Any] = {"train.steps": 2, "train.eval_every": 1, "train.device": "cpu"}
TINY = ["train.steps=2", "train.eval_every=1", "train.device=cpu"]


@pytest.mark.parametrize("name", OWN)
def test_recipes_for_own_data_stop_early_by_the_tasks_own_metric(name: str) -> None:
    """Those with a linear part keep the last weights: of a few thousand texts too few are held out to choose."""
    job, _ = read(name, {"data.train": "mine.tsv"})
    assert job.train.patience > 0
    assert job.train.best_by == ("last" if getattr(job.config, "bigrams", 0) else "auto")


def test_what_has_a_direction_is_not_flipped() -> None:
    for name in ("vit-images", "senet-images"):
        assert not read(name, {"data.train": "mine"})[0].data.flip  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("verb", "best_by", "chosen"),
    [
        ("translate", "auto", ("bleu", "rougeL", "exact_match", "loss")),
        ("translate", "exact_match", ("exact_match", "bleu", "rougeL", "loss")),
        ("translate", "valid_loss", ("loss", "bleu", "rougeL", "exact_match")),
        ("classify", "auto", ("accuracy", "loss")),
        ("classify", "last", ("accuracy", "loss")),
        ("generate", "auto", ("loss",)),
        ("caption", "auto", ("cider", "exact_match", "loss")),
    ],
)
def test_the_card_says_what_chooses_the_best_weights(verb: str, best_by: str, chosen: tuple[str, ...]) -> None:
    assert chosen_by(best_by, TASKS[verb]) == chosen


def test_a_perfect_translator_stops(
    words: str, tmp_path: Path, train: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loss goes on falling, which is no reason to go on."""
    exact = iter([90.0, 100.0, 100.0])
    monkeypatch.setattr(evaluate, "exact_match", lambda *_: next(exact))
    report = train(words, tmp_path, "train.steps=9", "train.eval_every=1", "train.patience=9", "data.eval_pairs=1")
    assert (report.step, report.early) == (3, True)
    assert "the last 2 validations were perfect" in capfd.readouterr().err


def test_rare_words_are_unknown_so_that_unknown_is_learned() -> None:
    texts = ["a common word", "a common thing", "a rare one"]
    for kind in ("word", "space"):
        tokenizer = Tokens(kind=kind, size=100, min_count=2).learn(texts, "regard")
        known = tokenizer.tokens(range(len(tokenizer)))
        assert {"a", "common"} <= set(known)
        assert not {"word", "rare", "thing"} & set(known)
    assert len(Tokens(kind="bpe", size=400, min_count=9).learn(texts, "regard")) < 270
    assert "rare" in (every := Tokens(kind="word", size=100).learn(texts, "regard")).tokens(range(len(every)))


@pytest.mark.parametrize("name", ["pooling", "lstmn", "han", "bert"])
def test_classifiers_of_words_have_a_linear_part_in_recipes_for_own_data_alone(name: str) -> None:
    """The other recipes are those of the papers."""
    own, _ = read(f"{name}-labelled", {"data.train": "mine.tsv"})
    assert own.config.bigrams > 0  # type: ignore[attr-defined]
    paper = {"pooling": "imdb-pooling", "lstmn": "sst2-lstmn", "han": "imdb-han", "bert": "sst2-bert"}[name]
    assert read(paper)[0].config.bigrams == 0  # type: ignore[attr-defined]


# ---- model.size = auto


def pairs(path: Path, count: int) -> str:
    path.write_text("".join(f"a{number} b\tb a{number}\n" for number in range(count)))
    return str(path)


def sized(tmp_path: Path, *changes: str) -> list[str]:
    return ["data.batch_tokens=64", "tokens.size=300", "data.eval_pairs=2", *TINY, *changes]


def test_a_model_is_sized_by_its_data_and_says_so(tmp_path: Path, train: Any, capfd: Any, monkeypatch: Any) -> None:
    from regard.models.transformer import Transformer

    file = pairs(tmp_path / "few.tsv", 60)
    numbers = {
        "small": {"dim": 8, "layers": 1, "heads": 2, "ff": 8},
        "large": {"dim": 16, "layers": 2, "heads": 2, "ff": 8},
    }
    monkeypatch.setattr(Transformer, "SIZES", numbers)
    monkeypatch.setattr(Transformer, "AUTO_SIZES", {"small": 0, "large": 40})
    changes = sized(tmp_path, f"data.train={file}", "model.size=auto", "decode.max_length=6")
    train("transformer-pairs", tmp_path / "run", *changes)
    said = capfd.readouterr().err
    assert "For 55 training pairs: model.size large (dim 16, layers 2, heads 2, ff 8), unless it is set" in said
    assert Folder(tmp_path / "run").config.dim == 16

    # What goes on keeps its size, also where sizes have changed since; what is set beside it wins.
    monkeypatch.setattr(Transformer, "AUTO_SIZES", {"small": 0})
    train("transformer-pairs", tmp_path / "run", *changes, "train.steps=3", resume=True)
    assert Folder(tmp_path / "run").config.dim == 16
    train("transformer-pairs", tmp_path / "own", *changes, "model.layers=3")
    config = Folder(tmp_path / "own").config
    assert (config.dim, config.layers) == (8, 3)


@pytest.mark.parametrize(("side", "image_size", "patch"), [(8, 32, 8), (32, 32, 8), (50, 64, 16), (200, 64, 16)])
def test_an_image_model_follows_the_size_of_the_images(
    tmp_path: Path, side: int, image_size: int, patch: int
) -> None:
    from regard.tasks.core.model_size import fit_to_data

    labels = np.arange(20) % 2
    np.savez(tmp_path / "mine.npz", images=np.zeros((20, side, side), np.uint8), labels=labels)
    task = TASKS["recognise"]
    for name in ("vit-images", "senet-images"):
        job, _ = read(name, {"data.train": str(tmp_path / "mine.npz")})
        config = fit_to_data(job, task, None).config
        assert config.image_size == image_size
        assert getattr(config, "patch_size", patch) == patch
    told, _ = read("vit-images", {"data.train": str(tmp_path / "mine.npz"), "model.image_size": 48})
    assert fit_to_data(told, task, None).config.image_size == 48
    large, _ = read("vit-images", {"data.train": str(tmp_path / "mine.npz"), "model.size": "small"})
    config = fit_to_data(large, task, None).config
    assert (config.dim, config.image_size) == (384, image_size), "a size that is set leaves that of images to them"


@pytest.mark.parametrize(("classes", "matching"), [(15, False), (60, True)])
def test_a_few_shot_learner_follows_the_number_of_classes(tmp_path: Path, classes: int, matching: bool) -> None:
    """Those that are held out for validation do not count."""
    from regard.tasks.core.model_size import fit_to_data

    labels = np.arange(2 * classes) % classes
    np.savez(tmp_path / "mine.npz", images=np.zeros((2 * classes, 8, 8), np.uint8), labels=labels)
    job, _ = read("snail-images", {"data.train": str(tmp_path / "mine.npz")})
    config = fit_to_data(job, TASKS["fewshot"], None).config
    assert (config.pixels, config.matching, config.conv_filters) == (8, matching, 32)


def test_auto_is_for_models_that_have_sizes_by_data() -> None:
    with pytest.raises(RecipeError, match=r"model\.size of bahdanau must be one of none, got 'auto'"):
        read("bahdanau-pairs", ["data.train=x.tsv", "model.size=auto"])
    with pytest.raises(RecipeError, match="must be one of mini, tiny, small, base, big, auto, got 'huge'"):
        read("transformer-pairs", ["data.train=x.tsv", "model.size=huge"])


# ---- a run that loses to the simplest ways


def test_a_bag_of_words_knows_words_and_their_order() -> None:
    texts = [f"{first} {second}" for first in "abcd" for second in "wxyz"] * 8
    by_word = ["yes" if text[0] in "ab" else "no" for text in texts]
    assert bag_accuracy(texts[:64], by_word[:64], texts[64:], by_word[64:]) == 100
    turned = ["not good", "good not"] * 20
    assert bag_accuracy(turned, ["a", "b"] * 20, turned, ["a", "b"] * 20) == 100
    assert bag_accuracy(["a", "b"], ["x", "y"], ["a", "b", "c", ""], ["x", "x", "z", "z"]) == 25


@pytest.fixture
def reviews(tmp_path: Path) -> str:
    rows = [
        (f"a {word} film {number}", label) for number in range(80) for word, label in (("fine", "+"), ("bad", "-"))
    ]
    path = tmp_path / "reviews.tsv"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    return str(path)


def test_a_classifier_below_a_bag_of_words_says_so(reviews: str, tmp_path: Path, train: Any, capfd: Any) -> None:
    small = [f"data.train={reviews}", "model.embed=4", "model.dim=2", "train.learning_rate=1e-9", *TINY]
    train("pooling-labelled", tmp_path / "bad", *small)
    said = [line for line in capfd.readouterr().err.splitlines() if "loses to simpler ways" in line]
    assert len(said) == 1
    assert "a bag of words (TF-IDF and logistic regression) 100.00" in said[0]
    able = [
        "model.embed=16",
        "model.layers=0",
        "model.dropout=0",
        "model.word_dropout=0",
        "train.schedule=constant",
    ]
    pace = ["train.learning_rate=0.1", "train.warmup_steps=0", "train.steps=40", "train.eval_every=40"]
    train("pooling-labelled", tmp_path / "good", *small, *able, *pace)
    assert "loses to" not in capfd.readouterr().err


def test_a_run_without_a_linear_part_gets_one_by_the_recipe(reviews: str, tmp_path: Path, capfd: Any) -> None:
    """It begins at 0, so that it changes no answer until it has learned, but how sure it is."""
    pace: dict[str, Any] = {"data.train": reviews, "train.steps": 2, "train.eval_every": 1, "train.device": "cpu"}
    small = {"model.embed": 4, "model.dim": 2, "model.bigrams": 0}
    old = regard.train("pooling-labelled", out=tmp_path / "old", set={**pace, **small})
    slow = {"model.bigrams": 64, "train.learning_rate": 1e-9}
    regard.train("pooling-labelled", out=tmp_path / "new", set={**pace, **slow}, start=tmp_path / "old")
    assert "bigrams.words.weight" in capfd.readouterr().err
    new = regard.load(tmp_path / "new")
    assert (old.model.config.bigrams, new.model.config.bigrams) == (0, 64)
    share, _ = new.model.config.bigram_shares
    odds = [run.classify("a fine film").probabilities for run in (old, new)]
    before, after = (math.log(each["+"] / each["-"]) for each in odds)
    assert after == pytest.approx(share * before, abs=1e-5)


def test_a_run_older_than_its_shares_adds_the_logits(reviews: str, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"model.embed": 4, "model.dim": 2, "model.bigrams": 64}
    before: dict[str, Any] = {"model.bigram_scale": 1.0, "model.bigram_shares": (1.0, 1.0)}
    changes = {"data.train": reviews, **TINY_SET, **sizes, **before}
    run = regard.train("pooling-labelled", out=tmp_path / "run", set=changes)
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    assert (config.pop("bigram_shares"), config.pop("bigram_scale")) == ([1, 1], 1)
    path.write_text(json.dumps(config))
    wanted = run.classify("a fine film").probabilities
    assert regard.load(tmp_path / "run").classify("a fine film").probabilities == wanted


@pytest.fixture
def scratch(reviews: str, tmp_path: Path) -> Path:
    """A run of bert-labelled from random weights."""
    small = {"tokens.size": 300, "model.dim": 4, "model.heads": 2, "model.layers": 1, "model.bigrams": 64}
    regard.train("bert-labelled", out=tmp_path / "scratch", set={"data.train": reviews, **TINY_SET, **small})
    return tmp_path / "scratch"


def test_a_bert_with_a_linear_part_is_a_folder_of_ours_alone(scratch: Path, tmp_path: Path) -> None:
    run = regard.load(scratch)
    wanted = run.classify("a fine film").probabilities
    assert Folder(scratch).contents.config["model_type"] == "regard-bert"
    run.save(tmp_path / "saved")
    assert regard.load(tmp_path / "saved").classify("a fine film").probabilities == wanted
    with pytest.raises(RunError, match=r"cannot be exported: BERT there has no linear part.*model\.bigrams = 0"):
        run.export(tmp_path / "exported")


def test_from_a_run_bert_is_fine_tuned_and_stays_a_folder_of_transformers(
    reviews: str, scratch: Path, tmp_path: Path
) -> None:
    """[scratch] of the recipe is for random weights."""
    changes = {"data.train": reviews}
    (own, text), table = read("bert-labelled", changes), tomllib.loads(recipe_text("bert-labelled"))
    assert own.train.learning_rate == table["scratch"]["train"]["learning_rate"]
    assert "scratch" not in text
    assert read(table, changes)[0] == own
    small = {"tokens.size": 300, "model.dim": 4, "model.heads": 2}
    regard.train("bert-text", out=tmp_path / "read", set={**changes, **TINY_SET, **small})
    for start, rows in ((tmp_path / "read", 0), (scratch, 64)):
        job, _ = read("bert-labelled", changes, start=start)
        assert job.train.learning_rate == table["train"]["learning_rate"]
        assert job.config.bigrams == rows  # type: ignore[attr-defined]
    tuned = regard.train(
        "bert-labelled", out=tmp_path / "tuned", set={**changes, **TINY_SET}, start=tmp_path / "read"
    )
    assert Folder(tmp_path / "tuned").contents.config["model_type"] == "bert"
    assert tuned.model.bigrams is None


@pytest.mark.parametrize("odd", [3, {"learning_rate": 1}])
def test_scratch_has_sections(odd: Any) -> None:
    with pytest.raises(RecipeError, match=r"scratch must have sections, as \[scratch\.train\]"):
        read({**tomllib.loads(recipe_text("bert-labelled")), "scratch": odd}, {"data.train": "mine.tsv"})


def test_a_recogniser_below_its_nearest_images_says_so(tmp_path: Path, train: Any, capfd: Any) -> None:
    """Every second shade is of one class, which no straight line tells apart."""
    shades = np.arange(90) % 15
    pixels, labels = np.broadcast_to(16 * shades[:, None, None], (90, 8, 8)).astype(np.uint8), shades % 2
    np.savez(tmp_path / "grey.npz", images=pixels, labels=labels)
    tiny = [f"data.train={tmp_path / 'grey.npz'}", "model.image_size=8", "model.patch_size=4", "model.dim=8"]
    train(
        "vit-images", tmp_path / "run", *tiny, "model.layers=1", "model.heads=2", "train.learning_rate=1e-9", *TINY
    )
    assert "the nearest image by its pixels 100.00" in capfd.readouterr().err


def test_a_few_shot_learner_below_the_nearest_example_says_so(tmp_path: Path, train: Any, capfd: Any) -> None:
    """All images of a class are equal: their pixels tell everything."""
    shades = np.arange(24) // 3
    pixels = np.broadcast_to(30 * shades[:, None, None], (24, 16, 16)).astype(np.uint8)
    np.savez(tmp_path / "grey.npz", images=pixels, labels=shades)
    tiny = [f"data.train={tmp_path / 'grey.npz'}", "data.valid_episodes=40", "model.ways=3", "model.image_size=16"]
    small = [
        "model.conv_filters=4",
        "model.embed=8",
        "model.keys=[8,8]",
        "model.values=[8,8]",
        "train.capture=false",
    ]
    train("snail-images", tmp_path / "run", *tiny, *small, "train.learning_rate=1e-9", *TINY)
    assert "the nearest image by its pixels 100.00" in capfd.readouterr().err


def test_tasks_without_simple_ways_say_nothing(words: str) -> None:
    assert TASKS["translate"].desk.simple_ways(read(words)[0], replace) == {}
