"""Classifiers of texts and pairs: what they are trained from, how they go on, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.errors import BadInput, DataError, RecipeError, RunError
from regard.learn.loop import Report
from regard.models.bert import Bert, BertConfig
from regard.models.gpt2 import GPT2, GPT2Config
from regard.runs.folder import Folder, begin, save_weights
from regard.tasks.classify.prepare import build_data
from regard.tasks.classify.settings import LabelledSettings
from regard.tasks.core import training
from regard.tasks.core.before_training import read_artifacts
from regard.tasks.core.recipe import read
from regard.tasks.core.table import TASKS, load

GOOD, BAD = ["lovely", "bright", "funny"], ["dull", "gloomy", "silly"]
ANIMALS = ["cat", "dog", "bird", "fish", "horse"]
RECIPE = """
[data]
train = "{train}"
batch_tokens = 512

[tokens]
kind = "wordpiece"
size = 200
lowercase = true

[model]
name = "bert"
dim = 16
layers = 1
heads = 2
max_positions = 24
head = "classify"
dropout = 0.0
attention_dropout = 0.0

[train]
steps = {steps}
learning_rate = 0.01
eval_every = {every}
best_by = "accuracy"
"""


def reviews() -> list[tuple[str, str]]:
    """The adjective decides."""
    return [
        (f"a {adjective} {first} with a {second}", label)
        for label, adjectives in (("good", GOOD), ("bad", BAD))
        for adjective in adjectives
        for first in ANIMALS
        for second in ANIMALS
    ]


def write(path: Path, rows: Any) -> str:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def recipe_of(folder: Path, rows: Any, *, steps: int = 4, every: int = 2) -> str:
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(train=write(folder / "train.tsv", rows), steps=steps, every=every))
    return str(path)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return recipe_of(tmp_path_factory.mktemp("recipe"), reviews())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: str) -> Path:
    """A classifier that has learned. Tests only read it."""
    folder = tmp_path_factory.mktemp("run") / "run"
    go(recipe, folder, "train.steps=60", "train.eval_every=30")
    return folder


def go(recipe: str, out: Path, *changes: str, start: Path | None = None, resume: bool = False) -> Report:
    job, text = read(recipe, changes, start)
    return training.train(job, out, recipe=text, command="regard train", start=start, resume=resume)


def test_it_learns_what_it_is_shown(run: Path) -> None:
    reader = load(run)
    assert reader.model.config.labels == ("bad", "good")
    for text, label in (("A LOVELY horse with a dog", "good"), ("a gloomy bird with a bird", "bad")):
        found = reader.classify(text)
        assert found.label == label
        assert found.probabilities[label] > 0.9
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    last = [row for row in rows if "accuracy" in row][-1]
    assert last["accuracy"] == 100
    assert "regard classify DIR" in (run / "README.md").read_text()
    assert "labelled texts, 2 classes" in (run / "README.md").read_text()


def test_it_reads_no_more_of_a_text_than_it_learned_from(recipe: str, run: Path, tmp_path: Path) -> None:
    assert load(run).max_length == 24  # the model's own, where data.truncate is more
    go(recipe, tmp_path / "run", "data.truncate=10", start=run)
    reader = load(tmp_path / "run")
    assert (reader.max_length, reader.model.config.max_positions) == (10, 24)
    words = ["a", "lovely", "cat", "with", "a", "bird", "and", "a", "dull", "dog", "with", "a", "fish"]
    long, short = " ".join(words), " ".join(words[:8])
    assert len(reader.read(long).row[0]) == 10
    assert reader.classify(long).probabilities == reader.classify(short).probabilities
    told = json.loads((tmp_path / "run/tokenizer_config.json").read_text())
    assert told["model_max_length"] == 10


@pytest.mark.parametrize("said", [10**30, 1e30, 1, -5, True, "12", None])
def test_a_length_that_says_nothing_is_not_followed(run: Path, tmp_path: Path, said: Any) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": said}))
    assert load(folder).max_length == 24


def test_the_best_weights_are_kept_by_accuracy(run: Path) -> None:
    """The kept weights give the accuracy that the card tells."""
    reader, settings = load(run), read(str(run / "recipe.toml"))[0].data
    data = build_data(settings, settings.rows("valid"), reader, seed=0)
    found = TASKS["classify"].desk.evaluate(reader, data)
    assert (found.metrics["accuracy"], found.counts["texts"]) == (100, len(data))
    by_hand = [reader.classify(text).label == label for text, _, label in settings.rows("valid")]
    assert len(by_hand) == len(data)
    assert all(by_hand)


def test_from_python_it_is_evaluated_as_training_did(run: Path, tmp_path: Path) -> None:
    """On what was held out of the training file, and on the same as a file."""
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    best = max((row for row in rows if "accuracy" in row), key=lambda row: (row["accuracy"], -row["valid_loss"]))
    held = read(str(run / "recipe.toml"))[0].data.rows("valid")
    file = write(tmp_path / "held.tsv", [(text, label) for text, _, label in held])
    for found in (load(run).evaluate(), load(run).evaluate(file)):
        assert found.metrics["accuracy"] == best["accuracy"]
        assert found.metrics["loss"] == pytest.approx(best["valid_loss"], rel=1e-6)
        assert found.counts["texts"] == len(held)


# ---- what is held out


def test_one_in_twenty_is_held_out_whatever_the_order(tmp_path: Path) -> None:
    rows = reviews()
    settings = LabelledSettings(train=write(tmp_path / "a.tsv", rows))
    held, learned = settings.rows("valid"), settings.rows("train")
    assert 2 <= len(held) <= 20
    assert sorted([*held, *learned]) == sorted((text, "", label) for text, label in rows)
    assert settings.rows("test") == held
    turned = LabelledSettings(train=write(tmp_path / "b.tsv", rows[::-1]))
    assert sorted(turned.rows("valid")) == sorted(held)


def test_files_of_their_own_are_taken_whole(tmp_path: Path) -> None:
    names: dict[str, Any] = {
        name: write(tmp_path / f"{name}.tsv", [(f"text of {name}", name)]) for name in ("train", "valid", "test")
    }
    settings = LabelledSettings(**names)
    for name in names:
        assert settings.rows(name) == [(f"text of {name}", "", name)]
    assert replace(settings, test="").rows("test") == [("text of valid", "", "valid")]
    several = LabelledSettings(train=(names["train"], names["valid"]), valid=names["test"])
    assert [label for *_, label in several.rows("train")] == ["train", "valid"]
    assert several.name == "train.tsv, valid.tsv"


def test_a_label_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "a\tb", "label": " so\t \nso "}))
    assert list(LabelledSettings(train="x").read([str(tmp_path / "rows.jsonl")])) == [("a\tb", "", "so so")]


@pytest.mark.parametrize("split", ["train", "valid"])
def test_too_few_to_hold_any_out_is_told(split: str, tmp_path: Path) -> None:
    """None of them falls among those held out, or all do."""
    found = LabelledSettings(train=write(tmp_path / "all.tsv", reviews())).rows(split)
    recipe = recipe_of(tmp_path, [(text, label) for text, _, label in (*found[:2], *found[-2:])])
    with pytest.raises(
        DataError, match=r"train.tsv has too few texts to hold some out for validation; set data.valid"
    ):
        go(recipe, tmp_path / "run")
    go(recipe, tmp_path / "run", f"data.valid={tmp_path / 'train.tsv'}", "train.steps=1", "train.eval_every=1")


def test_a_class_of_which_all_is_held_out_is_known(tmp_path: Path) -> None:
    held = LabelledSettings(train=write(tmp_path / "all.tsv", reviews())).rows("valid")[0][0]
    rows = [(text, "rare" if text == held else label) for text, label in reviews()]
    go(recipe_of(tmp_path, rows), tmp_path / "run")
    assert Folder(tmp_path / "run").config.labels == ("bad", "good", "rare")


# ---- what is refused


def many(count: int) -> list[tuple[str, str]]:
    return [(f"good {number}", f"a text with the number {number}") for number in range(count)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [(text, "good") for text, _ in reviews()],
            "at least two classes, .*got 'good'; is the label in another column",
        ),
        (many(300), r"300 texts have 300 different labels, such as .*; is the label in another column\?"),
        ([*many(50), *many(20)], "70 texts have 50 different labels"),
        ([("a", "b"), ("c", "")], "line 2: the label is empty"),
        ([("a", "b"), ("c",)], "line 2: 1 column, but the first line has 2|line 2: one column"),
        ([("a", "b", "c")], "3 columns and no header with usual names"),
    ],
    ids=["one class", "columns turned round", "mostly once", "empty label", "no label", "three columns"],
)
def test_data_that_cannot_be_learned_from(rows: Any, said: str, tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, rows)
    with pytest.raises(DataError, match=said):
        go(recipe, tmp_path / "run", f"data.valid={tmp_path / 'train.tsv'}")
    assert not (tmp_path / "run").exists()


def test_hundreds_of_real_classes_are_learned(tmp_path: Path) -> None:
    rows = [
        (f"{first} and {second}", f"class {number}")
        for number, first in enumerate("abcdefghijklmnopqrstuvwxyz")
        for second in ("one", "two", "three", "four")
    ]
    go(recipe_of(tmp_path, rows), tmp_path / "run")
    assert len(Folder(tmp_path / "run").config.labels) == 26


def test_a_few_classes_may_have_one_text_each(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, [("one fish", "a"), ("two fish", "b"), ("red fish", "c")])
    go(recipe, tmp_path / "run", f"data.valid={tmp_path / 'train.tsv'}")


def test_a_label_that_is_only_in_the_validation_file(tmp_path: Path, recipe: str) -> None:
    other = write(tmp_path / "valid.tsv", [("a dull cat", "bad"), ("a cat", "so so")])
    with pytest.raises(
        DataError, match=r"valid.tsv, line 2: the label 'so so' is no class of this model; there are 'bad'"
    ):
        go(recipe, tmp_path / "run", f"data.valid={other}")


def test_settings_check_themselves() -> None:
    for changes, said in (
        ({"train": ""}, "data.train to a file of labelled texts"),
        ({"truncate": 7}, "truncate must be at least 8, got 7"),
        ({"batch_tokens": 0}, "batch_tokens must be at least 1, got 0"),
        ({"train": 3}, "train must be a file or a list of files, got 3"),
    ):
        with pytest.raises(ValueError, match=said):
            LabelledSettings(**{"train": "x", **changes})  # type: ignore[arg-type]


def test_classes_are_not_set_by_hand(recipe: str) -> None:
    with pytest.raises(RecipeError, match=r"model.labels follow from the data"):
        read(recipe, ['model.labels=["a", "b"]'])
    with pytest.raises(RecipeError, match="best_by must be valid_loss or accuracy for bert, got 'bleu'"):
        read(recipe, ["train.best_by=bleu"])


# ---- pairs


def write_pairs(path: Path) -> Path:
    """Whether the second animal is the first: neither text alone tells."""
    rows = [(first, second, str(first == second).lower()) for first in ANIMALS for second in ANIMALS] * 8
    lines = [json.dumps({"premise": f"a {a}", "hypothesis": f"the {b}", "label": label}) for a, b, label in rows]
    path.write_text("\n".join(lines))
    return path


def test_pairs_are_learned_with_their_segments(tmp_path: Path) -> None:
    recipe, file = recipe_of(tmp_path, reviews()), write_pairs(tmp_path / "pairs.jsonl")
    go(recipe, tmp_path / "run", f"data.train={file}", f"data.valid={file}")
    reader = load(tmp_path / "run")
    settings = read(str(tmp_path / "run" / "recipe.toml"))[0].data
    data = build_data(settings, settings.rows("valid"), reader, seed=0)
    batch = data.batch(data.order(0)[0])
    names = reader.tokenizer.tokens(batch.tokens[0].tolist())
    assert names[:3] == ["[CLS]", "a", names[2]]
    assert names[3:5] == ["[SEP]", "the"]
    assert batch.segments[0].tolist() == [0, 0, 0, 0, 1, 1, 1]
    row = reader.read(("a cat", "the dog")).row
    assert row[1] == [0, 0, 0, 0, 1, 1, 1]


def test_a_model_of_one_segment_is_not_given_pairs(tmp_path: Path) -> None:
    recipe, file = recipe_of(tmp_path, reviews()), write_pairs(tmp_path / "pairs.jsonl")
    with pytest.raises(
        DataError, match=r"'a cat' has a second text, and this model takes single ones \(model.segments"
    ):
        go(recipe, tmp_path / "run", f"data.train={file}", f"data.valid={file}", "model.segments=1")
    go(recipe, tmp_path / "other", "model.segments=1")


def test_long_texts_are_truncated_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"{text} " + "and so on " * 30, label) for text, label in reviews()]
    recipe = recipe_of(tmp_path, rows)
    go(recipe, tmp_path / "run", "data.truncate=12")
    said = capsys.readouterr().err
    assert "texts were truncated to 12 tokens (data.truncate)" in said
    go(recipe, tmp_path / "again", "data.truncate=100")
    assert "texts were truncated to the 24 tokens this model takes\n" in capsys.readouterr().err


# ---- going on


def test_resuming_ends_as_if_it_had_not_stopped(
    recipe: str, tmp_path: Path, interrupt: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    go(recipe, tmp_path / "whole")
    interrupt(recipe, tmp_path / "halves")
    go(recipe, tmp_path / "halves", resume=True)
    whole, halves = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "halves"))
    assert all(torch.equal(whole[name], halves[name]) for name in whole)
    with pytest.raises(RunError, match="already holds a training"):
        go(recipe, tmp_path / "halves")


def test_the_same_classes_keep_their_head(
    run: Path, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go(recipe, tmp_path / "run", "train.learning_rate=1e-12", start=run)
    assert "initialised anew" not in capsys.readouterr().err
    before, after = (Folder(folder).model().state_dict() for folder in (run, tmp_path / "run"))
    go(recipe, tmp_path / "run", "train.learning_rate=1e-12", start=run, resume=True)
    assert f"run goes on with its own weights; {run} is only for the beginning" in capsys.readouterr().err
    for name, weight in after.items():
        torch.testing.assert_close(weight, before[name], atol=1e-6, rtol=0)


def test_the_same_classes_in_another_order_keep_their_head(run: Path, recipe: str, tmp_path: Path) -> None:
    """As in folders made elsewhere, whose classes need not be in the order of the alphabet."""
    model: Any = Folder(run).model()
    known = read_artifacts(TASKS["classify"], run)
    turned = Bert(replace(model.config, labels=("good", "bad")))
    turned.adopt(model)
    with torch.no_grad():
        for ours, theirs in (
            (turned.classify.weight, model.classify.weight),
            (turned.classify.bias, model.classify.bias),
        ):
            ours.copy_(theirs.flip(0))
    begin(tmp_path / "turned", turned, replace(known, labels=("good", "bad")), "")
    save_weights(tmp_path / "turned", turned)
    go(recipe, tmp_path / "run", "train.learning_rate=1e-12", start=tmp_path / "turned")
    reader = load(tmp_path / "run")
    assert reader.model.config.labels == ("good", "bad")
    assert reader.classify("a funny fish with a dog").probabilities["good"] > 0.9


def test_other_classes_get_a_new_head_and_are_told(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(text, {"good": "gut", "bad": "schlecht"}[label]) for text, label in reviews()]
    go(recipe_of(tmp_path, rows), tmp_path / "run", "train.learning_rate=1e-12", start=run)
    assert (
        f"Not taken from {run}, and so initialised anew: classify.weight, classify.bias\n"
        in capsys.readouterr().err
    )
    before, after = (Folder(folder).model().state_dict() for folder in (run, tmp_path / "run"))
    torch.testing.assert_close(after["pooler.weight"], before["pooler.weight"], atol=1e-6, rtol=0)
    assert not torch.allclose(after["classify.weight"], before["classify.weight"], atol=1e-3)
    assert load(tmp_path / "run").model.config.labels == ("gut", "schlecht")


def test_it_begins_with_an_encoder_its_words_and_sizes(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = read_artifacts(TASKS["fill"], make(tmp_path / "encoder", head="masked"))
    go(recipe, tmp_path / "run", start=tmp_path / "encoder")
    said = capsys.readouterr().err
    assert "initialised anew: pooler.weight, pooler.bias, classify.weight, classify.bias" in said
    reader = load(tmp_path / "run")
    assert (reader.model.config.dim, reader.model.config.layers) == (20, 2)
    assert reader.tokenizer.encode("a lovely cat") == known.tokenizer.encode("a lovely cat")


def make(folder: Path, **changes: Any) -> Path:
    tokens = Tokenizer.train([text for text, _ in reviews()], kind="wordpiece", size=90, numbering="bert")
    model = Bert(BertConfig(len(tokens), dim=20, layers=2, heads=2, max_positions=30, **changes))
    begin(folder, model, Artifacts(tokens), "")
    save_weights(folder, model)
    return folder


def test_another_kind_of_model_is_refused(recipe: str, tmp_path: Path) -> None:
    tokens = Tokenizer.train(["abc"], kind="character", numbering="gpt2")
    model = GPT2(GPT2Config(len(tokens), dim=8, layers=1, heads=1, max_positions=16))
    begin(tmp_path / "gpt2", model, Artifacts(tokens), "")
    save_weights(tmp_path / "gpt2", model)
    with pytest.raises(
        RecipeError, match=r"the recipe trains 'bert' and .* has the model gpt2; they must be the same"
    ):
        go(recipe, tmp_path / "run", start=tmp_path / "gpt2")


@pytest.mark.parametrize("change", ["model.dim=32", "model.max_positions=9", "tokens.size=50", "model.size=tiny"])
def test_sizes_and_tokens_are_those_of_the_run(change: str, run: Path, recipe: str) -> None:
    with pytest.raises(RecipeError, match=r"with --from the model and its tokens are those of .* and of the"):
        read(recipe, [change], run)


@pytest.mark.parametrize("pairs", [True, False])
def test_a_run_takes_what_it_learned_pairs_or_single_texts(tmp_path: Path, pairs: bool) -> None:
    """As far as its recipe names the columns."""
    recipe, file = recipe_of(tmp_path, reviews()), write_pairs(tmp_path / "pairs.jsonl")
    first, second = (name for name in json.loads(Path(file).read_text().splitlines()[0]) if name != "label")
    names = [f"data.text={first}", "data.label=label", *([f"data.second={second}"] if pairs else [])]
    go(recipe, tmp_path / "run", f"data.train={file}", f"data.valid={file}", *names)
    reader = load(tmp_path / "run")
    good, bad = (("a cat", "the dog"), "a cat") if pairs else ("a cat", ("a cat", "the dog"))
    assert reader.classify(good).label in reader.model.config.labels
    learned, came = ("pairs of texts", "a single one") if pairs else ("single texts", "a pair")
    with pytest.raises(
        BadInput, match=rf"texts\[1\]: this run learned classes of {learned} and got {came}, 'a cat'"
    ):
        reader.classify([good, bad])
    assert reader.embed([good, bad]).shape[0] == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("model", ["han", "pooling"])
def test_on_a_gpu_documents_are_read_in_few_shapes(model: str, tmp_path: Path) -> None:
    """Trained captured, stopped and resumed, and asked about many texts."""
    sizes = ["model.embed=8", "model.dim=8", "model.dropout=0", "model.word_dropout=0", "data.batch_tokens=512"]
    kept = ["train.schedule=constant", "train.learning_rate=0.01", "train.eval_every=6", "train.best_by=accuracy"]
    kept.append("train.precision=float32")
    told = [*sizes, *kept, f"data.train={write(tmp_path / 'reviews.tsv', reviews())}", "train.capture=true"]
    recipe, runs = f"{model}-labelled", [tmp_path / "straight", tmp_path / "stopped"]
    go(recipe, runs[0], *told, "train.steps=12")
    go(recipe, runs[1], *told, "train.steps=6")
    go(recipe, runs[1], *told, "train.steps=12", resume=True)
    one, other, slow = load(runs[0], "cuda"), load(runs[1], "cuda"), load(runs[0], "cpu")
    texts = [text for text, _ in reviews()] * 3
    for run in (one, other, one):  # a graph is captured for a shape that comes again
        wanted = [answer.probabilities for answer in slow.classify(texts)]
        assert [answer.probabilities for answer in run.classify(texts)] == [
            pytest.approx(row, abs=1e-2) for row in wanted
        ]
