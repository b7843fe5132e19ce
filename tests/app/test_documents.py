"""Pooling classifiers and `han` from the command line: trained on texts in which one word decides the class."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import DataError, NoAttention, RecipeError
from regard.show import Document
from regard.tasks.core.table import load

WORDS = {"good": ("wonderful", "superb"), "bad": ("awful", "dreadful")}
DECIDING = {word for words in WORDS.values() for word in words}
NOUNS = ["film", "plot", "scene", "music", "story"]
ADJECTIVES = ["long", "short", "red", "loud", "quiet", "old", "new"]
SMALL = {
    "model.embed": 16,
    "model.dim": 8,
    "model.dropout": 0.0,
    "model.word_dropout": 0.0,
    "data.batch_tokens": 1024,
    "train.learning_rate": 0.01,
    "train.warmup_steps": 5,
}
TEXT = "The film was long. The plot seemed superb, I think. The <b>Zebra</b> felt old."


def reviews(count: int) -> list[tuple[str, str]]:
    """Of two to five sentences, one of which has a word that decides."""
    dice = random.Random(0)
    rows = []
    for number in range(count):
        label = ("good", "bad")[number % 2]
        filler = [
            f"The {dice.choice(NOUNS)} was {dice.choice(ADJECTIVES)} and {dice.choice(ADJECTIVES)}."
            for _ in range(dice.randrange(1, 5))
        ]
        told = f"The {dice.choice(NOUNS)} seemed {dice.choice(WORDS[label])}, I think."
        filler.insert(dice.randrange(len(filler) + 1), told)
        rows.append((" ".join(filler), label))
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("documents") / "train.tsv"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in reviews(400)))
    return path


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For runs that need not learn anything."""
    path = tmp_path_factory.mktemp("few") / "train.tsv"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in reviews(60)))
    return path


def trained(data: Path, name: str, *, steps: int = 2, **changes: Any) -> Path:
    out = data.parent / f"{name}-{'-'.join(str(value) for value in changes.values()) or 'plain'}-{steps}"
    if not out.exists():
        asked = {"data.train": str(data), **SMALL, "train.steps": steps, "train.eval_every": steps, **changes}
        regard.train(f"{name}-labelled", out=out, set=asked)
    return out


@pytest.fixture(scope="module")
def han(data: Path) -> str:
    return str(trained(data, "han", steps=100))


def scores(run: Path | str) -> tuple[float, float]:
    """How often the word that decides gets the most weight in its sentence, and that sentence in the text."""
    words, sentences = [], []
    for found in load(run).classify([text for text, _ in reviews(60)]):
        picture = found.document()
        at = next(place for place, words in enumerate(picture.sentences) if DECIDING & set(words))
        place = next(place for place, word in enumerate(picture.sentences[at]) if word in DECIDING)
        words.append(picture.weights[at].argmax() == place)
        weights = picture.sentence_weights
        sentences.append(weights is None or weights.argmax() == at)
    return float(np.mean(words)), float(np.mean(sentences))


def test_the_word_that_decides_gets_the_most_weight(data: Path) -> None:
    changes = {"model.layers": 0, "model.dropout": 0.3, "model.bigrams": 0, "data.batch_tokens": 512}
    run = trained(data, "pooling", steps=100, **changes)
    assert load(run).evaluate().metrics["accuracy"] == 100
    assert scores(run)[0] > 0.9


def test_the_sentence_that_decides_is_found(han: str) -> None:
    """States of a GRU know their neighbours too, so the word beside the one that decides may get the weight."""
    assert load(han).evaluate().metrics["accuracy"] > 95
    words, sentences = scores(han)  # by chance 1 in 8, and 1 in 3.5
    assert words > 0.25
    assert sentences > 0.45


def test_classify_shows_the_document(call: Any, han: str) -> None:
    done = call("classify", han, TEXT, "--show", "look.html")
    assert done.code == 0
    assert done.out.split("\t")[0] == "good"
    page = Path("look.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert (data["kind"], len(data["sentences"])) == ("document", 3)
    assert "superb" in data["sentences"][1]
    assert "<b>" not in page
    for name in ("look.png", "look.svg"):
        assert call("classify", han, TEXT, "--show", name).code == 0
        assert Path(name).stat().st_size > 1000
    shown = call("classify", han, TEXT, "--show", "-")
    assert "superb" in shown.out
    assert "Zebra" in shown.out  # as it is written, although the word is unknown
    row = json.loads(call("classify", han, TEXT, "--json").out)
    assert row["text"] == TEXT
    assert sum(row["probabilities"].values()) == pytest.approx(1)


def test_from_python(han: str) -> None:
    found = load(han).classify(TEXT)
    picture = found.document()
    assert isinstance(picture, Document)
    assert [len(words) for words in picture.sentences] == [5, 8, 12]
    for weights in (*picture.weights, picture.sentence_weights):
        assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert found.document("words.*").sentence_weights is None
    assert not np.concatenate(found.document("sentences.*").weights).any()
    assert "svg" in found._repr_html_()
    assert load(han).classify([TEXT, "zebra", "superb"])[2].probabilities == pytest.approx(
        load(han).classify("superb").probabilities, abs=1e-5
    )


def test_a_pooling_classifier_has_one_level(call: Any, few: Path) -> None:
    run = str(trained(few, "pooling"))
    picture = load(run).classify(TEXT).document()
    assert (len(picture.sentences), picture.sentence_weights) == (1, None)
    assert picture.weights[0].sum() == pytest.approx(1, abs=1e-5)
    assert call("classify", run, TEXT, "--show", "-").code == 0


def test_pieces_of_words_are_shown_as_words(few: Path) -> None:
    run = trained(few, "han", **{"tokens.kind": "bpe", "tokens.size": 300})
    picture = load(run).classify(TEXT).document()
    assert picture.sentences[1] == ["The", "plot", "seemed", "superb", ",", "I", "think", "."]
    assert len(picture.pieces.sentences[1]) > 8
    for words, pieces in zip(picture.weights, picture.pieces.weights, strict=True):
        assert words.sum() == pytest.approx(pieces.sum())


@pytest.mark.parametrize(("name", "pool"), [("pooling", "mean"), ("pooling", "last"), ("han", "max")])
def test_without_weights_there_is_nothing_to_show(call: Any, few: Path, name: str, pool: str) -> None:
    run = str(trained(few, name, **{"model.pool": pool}))
    assert call("classify", run, TEXT).code == 0
    done = call("classify", run, TEXT, "--show", "-")
    assert (done.code, done.out) == (2, "")
    assert f"this {name} pools by '{pool}', which has no weights to show; leave --show out" in done.err
    with pytest.raises(NoAttention, match="has no weights to show"):
        load(run).classify(TEXT).document()


@pytest.mark.parametrize("name", ["han", "pooling"])
def test_hostile_documents(call: Any, few: Path, name: str) -> None:
    run = str(trained(few, name))
    texts = ["\u200b", "...", "☃ 象 zebra", "long " * 3000, "a. " * 300, "<br />"]
    found = load(run).classify(texts)
    assert [one.source for one in found] == texts
    done = call("classify", run, *texts, "--show", "many.svg")
    assert done.code == 0
    assert len(done.out.splitlines()) == len(texts)
    assert "truncated to the" in done.err
    assert Path("many-3.svg").exists()
    pair = call("classify", run, "a\tb")
    assert (pair.code, pair.out) == (2, "")
    assert "this model was made for single texts, got a pair" in pair.err


def test_pairs_are_no_documents(call: Any) -> None:
    Path("pairs.csv").write_text("text1,text2,label\n" + "a cat,a dog,x\na dog,a cat,y\n" * 20)
    done = call(
        "train", "han-labelled", "--set", "data.train=pairs.csv", "--set", "data.valid=pairs.csv", "--out", "m"
    )
    assert done.code == 2
    assert "has a second text, and this model takes single ones" in done.err


def test_training_goes_on_from_a_run_and_after_a_stop(call: Any, han: str, few: Path) -> None:
    words = [f"--set=data.train={few}", "--set=train.eval_every=2", "--set=train.warmup_steps=0"]
    start = ["train", "han-labelled", "--from", han, *words, "--out", "more"]
    assert call(*start, "--set=train.steps=2", "--set=model.max_words=20").code == 0
    config = load("more").model.config
    assert (config.dim, config.max_words, config.max_sentences) == (8, 20, 128)
    assert call(*start, "--set=train.steps=4", "--set=model.max_words=20", "--resume").code == 0
    assert load("more").evaluate().metrics["accuracy"] > 90
    wrong = call("train", "pooling-labelled", "--from", han, *words, "--out", "other")
    assert (wrong.code, "the recipe trains 'pooling' and" in wrong.err) == (2, True)


def test_what_a_document_classifier_is_not_for(call: Any, han: str) -> None:
    for verb in ("embed", "fill"):
        done = call(verb, han, "a [MASK]")
        assert done.code == 2
        assert f"has the model HAN, for `regard classify` and not for `regard {verb}`" in done.err
    done = call("export", han, "--to", "folder")
    assert (done.code, Path("folder").exists()) == (2, False)
    assert "cannot be exported: transformers has no model like han" in done.err


def test_poolings_are_compared(call: Any, inline: None, few: Path) -> None:
    small = [f"{key}={value}" for key, value in SMALL.items()] + ["train.steps=2", "train.eval_every=2"]
    changes = [word for one in (f"data.train={few}", *small) for word in ("--set", one)]
    done = call(
        "compare", "han-labelled", "--vary", "model.pool=attention,mean", "--seeds", "1", *changes, "--out", "c"
    )
    assert done.code == 0, done.err
    assert "| attention |" in done.out
    assert "| mean |" in done.out


@pytest.mark.parametrize("name", ["pooling", "han"])
def test_embeddings_begin_with_the_vectors_of_a_file(
    name: str, few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors = tmp_path / "vectors.txt"
    numbers = " ".join(["0.5"] * 16)
    vectors.write_text(f"superb {numbers}\nunheard-of {numbers}\nfilm {numbers}\n")
    run = trained(few, name, steps=1, **{"data.vectors": str(vectors), "train.learning_rate": 1e-9})
    assert "2 of " in (said := capsys.readouterr().err)
    assert f"words begin with their vectors of {vectors}" in said
    opened = load(run)
    words, table = opened.tokenizer.tokens(range(len(opened.tokenizer))), opened.model.word_table.weight
    close = [word for word, row in zip(words, table, strict=True) if (row - 0.5).abs().max() < 1e-3]
    assert sorted(close) == ["film", "superb"]


def test_a_training_goes_on_without_the_file_of_vectors(few: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text(f"superb {' '.join(['0.5'] * 16)}\n")
    changes = {"data.train": str(few), **SMALL, "data.vectors": str(vectors), "train.eval_every": 1}
    regard.train("pooling-labelled", out=tmp_path / "run", set={**changes, "train.steps": 1})
    vectors.unlink()
    run = regard.train("pooling-labelled", out=tmp_path / "run", set={**changes, "train.steps": 2}, resume=True)
    assert run.report is not None
    assert run.report.step == 2


def test_vectors_that_cannot_be_taken(few: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text(f"zzz {' '.join(['1'] * 16)}\n")
    with pytest.raises(DataError, match="has none of the"):
        trained(few, "pooling", **{"data.vectors": str(vectors)})
    changes = {"data.train": str(few), "data.vectors": str(vectors)}
    with pytest.raises(RecipeError, match="bert does not take them"):
        regard.train("bert-labelled", out=tmp_path / "bert", set=changes)


def test_generated_reviews_are_learned_and_evaluated(tmp_path: Path) -> None:
    changes = {**SMALL, "data.train_count": 60, "data.valid_count": 20, "data.test_count": 30, "train.steps": 2}
    run = regard.train("reviews-han", out=tmp_path / "run", set={**changes, "train.eval_every": 2})
    found = run.evaluate()
    assert 30 in found.counts.values()
    assert run.model.config.labels == ("negative", "positive")


def test_a_picture_tells_the_class_and_its_probability(call: Any) -> None:
    done = call("classify", "reviews", "A dull film. I left early.", "--show", "look.svg")
    label, share = done.out.split("\t")
    assert f">{label} {100 * float(share):.1f} %, " in Path("look.svg").read_text()
