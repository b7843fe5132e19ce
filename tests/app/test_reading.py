"""Commands of encoders: fill, embed, classify; and evaluate, compare and train --from where they are concerned."""

from __future__ import annotations

import errno
import gzip
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.app import vectors
from regard.data.text import Tokenizer
from regard.models.bert import Bert, BertConfig
from regard.tasks import load, read
from regard.tasks.folder import begin, save_weights
from regard.tasks.known import Known

LINES = ["the cat sat on the mat .", "a dog barked at the cats !", "dogs and cats play outside all day ."]
LABELS = ("bad", "fair", "good")
LONGEST = 16
LABELLED = """
[data]
train = "{folder}/train.tsv"
valid = "{folder}/train.tsv"
batch_tokens = 256

[tokens]
kind = "wordpiece"
size = 120

[model]
name = "bert"
dim = 16
layers = 1
heads = 2
longest = 16
head = "classify"

[train]
steps = 2
rate = 0.001
every = 2
"""


def build(folder: Path, **changes: Any) -> str:
    """A run with drawn weights, whose answers differ from text to text."""
    tokens = Tokenizer.train(LINES * 3, kind="wordpiece", size=120, lowercase=True, layout="bert")
    settings = {"dim": 16, "layers": 2, "heads": 2, "longest": LONGEST, **changes}
    model = Bert(BertConfig(len(tokens), **settings))
    torch.manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            spread = 0.2 if weight.dim() == 1 else 1.2 / weight.shape[-1] ** 0.5
            weight.add_(torch.randn_like(weight), alpha=spread)
    begin(folder, model, Known(tokens, labels=model.config.labels), "")
    save_weights(folder, model)
    return str(folder)


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("filler") / "filler")


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("sorter") / "sorter", head="classify", labels=LABELS)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("bare") / "bare", head="none", pooler=False)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recipe for labelled texts."""
    folder = tmp_path_factory.mktemp("reviews")
    rows = [
        (f"the {word} {animal}", label)
        for label, word in zip(LABELS, ("dull", "plain", "fine"), strict=True)
        for animal in ("cat", "dog", "bird", "fish")
    ]
    (folder / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    (folder / "reviews.toml").write_text(LABELLED.format(folder=folder))
    return str(folder / "reviews.toml")


# ---- fill


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
        ("", r"'' has no [MASK] to fill"),
        ("the cat", "'the cat' has no [MASK] to fill"),
        ("[MASK] " + "cat " * LONGEST, "has 19 tokens and this model takes 16; shorten it"),
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
    done = call("fill", filler, "--input", "in.txt", "--output", "out.txt")
    assert done.code == 2
    assert "in.txt, line 2: 'the cat' has no [MASK] to fill" in done.err
    assert not Path("out.txt").exists()


# ---- embed


def as_arrays(name: str) -> tuple[list[str] | None, np.ndarray]:
    path = Path(name)
    if path.suffix == ".npy":
        return None, np.load(path, allow_pickle=False)
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [row["text"] for row in rows], np.array([row["vector"] for row in rows], np.float32)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(path)
    return table["text"].to_pylist(), np.stack(table["vector"].to_numpy())


@pytest.mark.parametrize("name", ["out.npy", "out.parquet", "out.jsonl"])
@pytest.mark.parametrize("options", [[], ["--pool", "cls", "--normalise"]], ids=["mean", "cls"])
def test_vectors_are_the_same_in_every_form(call: Any, filler: str, name: str, options: list[str]) -> None:
    texts = ["the cat", "", "dogs ☃ outside", "cat " * 40, " a\tb "]
    Path("in.txt").write_text("\r\n".join([*texts, ""]))
    done = call("embed", filler, "--input", "in.txt", "--output", name, *options)
    assert done.code == 0
    assert done.err == f"1 text was cut to the {LONGEST} tokens this model takes\n"
    named, found = as_arrays(name)
    assert named in (None, texts)
    assert found.dtype == np.float32
    wanted = load(filler).embed(texts, pool="cls" if options else "mean", normalise=bool(options))
    np.testing.assert_array_equal(found, wanted)
    assert sorted(path.name for path in Path().iterdir()) == sorted(["in.txt", name])


def test_thousands_of_lines_keep_their_order(call: Any, filler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "PART", 700)
    texts = [" ".join(["cat"] * (1 + number * 7 % 11)) for number in range(5000)]
    Path("in.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    by_text = {text: load(filler).embed(text) for text in sorted(set(texts))}
    wanted = np.stack([by_text[text] for text in texts])
    for name in ("out.npy", "out.parquet"):
        assert call("embed", filler, "--input", "in.txt.gz", "--output", name).code == 0
        named, found = as_arrays(name)
        assert named in (None, texts)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_vectors_on_stdout_are_lines_of_json(call: Any, bare: str) -> None:
    for words in (["the cat", "a dog"], ["the cat", "a dog", "--output", "-"]):
        rows = [json.loads(line) for line in call("embed", bare, *words).out.splitlines()]
        assert [row["text"] for row in rows] == ["the cat", "a dog"]
        assert [len(row["vector"]) for row in rows] == [16, 16]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output", "out.csv"], "vectors are written as .npy, .parquet, .jsonl, got 'out.csv'"),
        (["--output", "there/is/no.npy"], "there is no folder there/is to write no.npy in; make it first"),
        (["--output", "there/is/no.jsonl"], "there is no folder there/is to write no.jsonl in; make it first"),
        (["--pool", "max"], "--pool must be one of mean, cls, got 'max'"),
        (["--input", "in.txt"], "give texts or --input, not both"),
        (["--sites", "x"], "say where to with --show"),
    ],
    ids=["form", "no folder", "no folder for lines", "pool", "both", "sites"],
)
def test_embed_asked_wrongly(call: Any, filler: str, words: list[str], said: str) -> None:
    done = call("embed", filler, "the cat", *words)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("name", ["out.npy", "out.parquet", "out.jsonl"])
@pytest.mark.parametrize("what", ["stopped", "full"])
def test_what_is_stopped_leaves_the_old_file(
    call: Any, filler: str, name: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Ctrl-C, or where the disk is full."""
    Path(name).write_text("what was there before")
    Path("in.txt").write_text("cat\n" * 50)
    found = read.Reader.vectors

    def stop(*args: Any, **options: Any) -> Iterator[np.ndarray]:
        for number, vector in enumerate(found(*args, **options)):
            if number == 20:
                if what == "full":
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
                signal.raise_signal(signal.SIGINT)
            yield vector

    monkeypatch.setattr(read.Reader, "vectors", stop)
    done = call("embed", filler, "--input", "in.txt", "--output", name)
    assert done.code == 1
    assert done.err == ("stopped\n" if what == "stopped" else f"error: {name}: No space left on device\n")
    assert Path(name).read_text() == "what was there before"
    assert sorted(path.name for path in Path().iterdir()) == sorted(["in.txt", name])


def test_an_empty_file_is_told(call: Any, filler: str) -> None:
    Path("in.txt").write_text("")
    for command in ("embed", "fill"):
        done = call(command, filler, "--input", "in.txt")
        assert (done.code, done.out) == (2, "")
        assert "in.txt is empty; it needs one text a line" in done.err


@pytest.mark.parametrize(
    ("raw", "said"),
    [(b"a\n\xff\n", "in.txt, line 2"), (b"a\nb\x00\n", "in.txt, line 2")],
    ids=["not utf-8", "nul"],
)
def test_lines_that_are_no_text_are_named(call: Any, filler: str, raw: bytes, said: str) -> None:
    Path("in.txt").write_bytes(raw)
    done = call("embed", filler, "--input", "in.txt")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# ---- classify


def test_classify_tells_the_class_and_how_sure(call: Any, sorter: str) -> None:
    texts = ["the cat", "", " ", "zebra ☃", "cat " * 50]
    done = call("classify", sorter, *texts)
    assert done.code == 0
    assert done.err == f"1 text was cut to the {LONGEST} tokens this model takes\n"
    for line, found in zip(done.out.splitlines(), load(sorter).classify(texts), strict=True):
        label, share = line.split("\t")
        assert label == found.label
        assert float(share) == pytest.approx(found.probabilities[label], abs=1e-4)


def test_pairs_by_an_option_or_a_tab(call: Any, sorter: str) -> None:
    wanted = load(sorter).classify(("the cat", "a dog")).probabilities
    option = json.loads(call("classify", sorter, "the cat", "--second", "a dog", "--json").out)
    tab = json.loads(call("classify", sorter, "the cat\ta dog", "--json").out)
    assert option == tab
    assert (option["text"], option["second"]) == ("the cat", "a dog")
    assert option["probabilities"] == pytest.approx(wanted, abs=1e-6)
    assert list(option["probabilities"]) == list(wanted)
    alone = json.loads(call("classify", sorter, "the cat", "--json").out)
    assert "second" not in alone
    assert alone["probabilities"] != option["probabilities"]
    for words in (["a", "b", "--second", "c"], ["--input", "in.txt", "--second", "c"]):
        assert "--second is the second text of one pair" in call("classify", sorter, *words).err.replace("\n", " ")


def test_a_pair_too_long_is_cut_as_in_python(call: Any, sorter: str) -> None:
    pair = ("cat " * 30, "dog " * 4)
    done = call("classify", sorter, pair[0], "--second", pair[1], "--json")
    assert "1 text was cut" in done.err
    assert json.loads(done.out)["probabilities"] == pytest.approx(
        load(sorter).classify(pair).probabilities, abs=1e-6
    )


def test_a_model_of_one_segment_refuses_pairs(call: Any, tmp_path: Path) -> None:
    run = build(tmp_path / "single", head="classify", labels=LABELS, segments=1)
    assert call("classify", run, "the cat").code == 0
    done = call("classify", run, "the cat\ta dog")
    assert done.code == 1
    assert "this model was made for single texts (segments = 1), got a pair" in done.err


def test_classes_of_any_name(call: Any, tmp_path: Path) -> None:
    names = ("a\tb\nc", "<b>&\"'", "日本 ☃", "x" * 300)
    run = build(tmp_path / "odd", head="classify", labels=names)
    done = call("classify", run, "the <b> & cat", "--json", "--show", "look.html")
    row = json.loads(done.out)
    assert sorted(row["probabilities"]) == sorted(names)
    assert row["label"] in names
    assert "<b>" not in Path("look.html").read_text()
    lines = [
        line.split("\t")
        for line in call("classify", run, *(f"the cat{'s' * n}" for n in range(20))).out.splitlines()
    ]
    assert {len(line) for line in lines} == {2}, "label TAB probability, whatever the label"


def test_a_file_to_a_file(call: Any, sorter: str) -> None:
    texts = [f"{word} {number}" for number in range(60) for word in ("cat", "dogs play", "outside")]
    Path("in.txt").write_text("\n".join(texts))
    assert call("classify", sorter, "--input", "in.txt", "--output", "out.tsv").out == ""
    labels = [line.split("\t")[0] for line in Path("out.tsv").read_text().splitlines()]
    assert labels == [found.label for found in load(sorter).classify(texts)]


# ---- pictures


@pytest.mark.parametrize("command", ["fill", "embed", "classify"])
def test_looks_are_drawn(call: Any, filler: str, sorter: str, command: str) -> None:
    run = sorter if command == "classify" else filler
    done = call(command, run, "the [MASK] sat", "--show", "look.svg")
    assert (done.code, done.err) == (0, "wrote look.svg\n")
    assert "[CLS]" in Path("look.svg").read_text()
    several = call(command, run, "the [MASK]", "a [MASK]", "--show", "look.png", "--sites", "blocks.0.*")
    assert several.err == "wrote look-1.png\nwrote look-2.png\n"
    assert Path("look-2.png").read_bytes().startswith(b"\x89PNG")
    shown = call(command, run, "the [MASK]", "--show", "-").out
    assert "blocks.1.attend" in shown
    assert ("█" in shown.partition("blocks")[0] and " %" in shown) == (command != "embed")  # how likely: bars
    wrong = call(command, run, "the [MASK]", "--show", "x.svg", "--sites", "decoder.*")
    assert wrong.code != 0
    assert "decoder.*" in wrong.err
    assert "blocks.0.attend" in wrong.err


# ---- runs that are for something else


@pytest.mark.parametrize(
    ("command", "which", "said"),
    [
        ("fill", "sorter", "this model has no head that foretells hidden words (its head is 'classify')"),
        ("fill", "bare", "this model has no head that foretells hidden words (its head is 'none')"),
        ("classify", "filler", "this model has no classes to choose from (its head is 'pretrain')"),
        ("classify", "bare", "teach it some: `regard train bert-labelled --from RUN --set data.train=FILE`"),
        (
            "translate",
            "filler",
            "is a Bert, which is for `regard fill, embed or classify` and not for `regard translate`",
        ),
        (
            "generate",
            "sorter",
            "is a Bert, which is for `regard fill, embed or classify` and not for `regard generate`",
        ),
        (
            "embed",
            "run",
            "is a Bahdanau, which is for `regard translate` and not for `regard fill, embed or classify`",
        ),
        ("fill", "run", "is a Bahdanau, which is for `regard translate`"),
    ],
    ids=lambda value: value if " " not in value else "",
)
def test_a_run_for_something_else(
    call: Any, request: pytest.FixtureRequest, command: str, which: str, said: str
) -> None:
    done = call(command, request.getfixturevalue(which), "the [MASK]")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_the_systems_are_listed(call: Any) -> None:
    done = call("models")
    assert done.code == 0
    assert "bert-labelled" in done.out
    assert "bert-text" in done.out


# ---- evaluate


def test_a_foreign_encoder_is_judged_by_a_text(call: Any, filler: str) -> None:
    """Its folder has no recipe; rows are as long as it takes."""
    Path("text.txt").write_text("\n\n".join("\n".join(LINES) for _ in range(6)))
    done = call("evaluate", filler, "--data", "text.txt", "--json")
    assert done.code == 0
    row = json.loads(done.out)
    assert row["documents"] == 6
    assert row["tokens"] == 6 * sum(len(load(filler).tokenizer.encode(line)) for line in LINES)
    assert set(row) == {"run", "documents", "tokens", "loss", "perplexity", "masked_accuracy", "next_accuracy"}
    again = call("evaluate", filler, "--data", "text.txt")
    assert f"masked_accuracy  {row['masked_accuracy']:.4f}" in again.out
    assert call("evaluate", filler).err.count("name data to judge it by: --data FILE") == 1


def test_encoders_of_other_heads_stand_side_by_side(call: Any, filler: str, tmp_path: Path) -> None:
    other = build(tmp_path / "masked", head="masked")
    Path("text.txt").write_text("\n\n".join("\n".join(LINES) for _ in range(6)))
    for runs in ([filler, other], [other, filler]):
        done = call("evaluate", *runs, "--data", "text.txt")
        assert (done.code, done.err) == (0, "")
        [following] = [line for line in done.out.splitlines() if line.startswith("next_accuracy")]
        assert len(following.split()) == 2, "one has it and one has not"


def test_a_classifier_is_judged_by_its_answers(call: Any, sorter: str) -> None:
    texts = [" ".join(LINES[number % 3].split()[: 2 + number % 5]) for number in range(30)]
    answers = [found.label for found in load(sorter).classify(texts)]
    truths = [LABELS[(LABELS.index(label) + (number % 4 == 0)) % 3] for number, label in enumerate(answers)]
    rows = "".join(f"{label},{text}\n" for text, label in zip(texts, truths, strict=True))
    Path("test.csv").write_text("class,sentence\n" + rows)
    done = call("evaluate", sorter, "--data", "test.csv", "--json")
    assert done.code == 0
    row = json.loads(done.out)
    right = sum(map(str.__eq__, answers, truths))
    assert (row["count"], row["accuracy"]) == (30, pytest.approx(100 * right / 30))
    assert np.trace(np.array(row["confusion"])) == right
    assert row["accuracy_low"] < row["accuracy"] < row["accuracy_high"]
    assert [one["label"] for one in row["classes"]] == list(LABELS)
    table = call("evaluate", sorter, "--data", "test.csv", "--columns", "sentence,class").out
    assert f"accuracy       {row['accuracy']:.4f}" in table
    classes, confused = (part.splitlines() for part in table.split("\n\n")[1:])
    assert [line.split()[0] for line in classes[1:]] == list(LABELS)
    assert sum(int(line.split()[-1]) for line in confused[1:]) == 30 - right


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (
            "text,label\nthe cat,good\na dog,so so\n",
            [],
            "'a dog' is labelled 'so so', which is no class of this model",
        ),
        ("text,label\nthe cat,\n", [], "the label is empty"),
        ("text,mark\nthe cat,good\n", [], "say which column is the label; none has a usual name"),
        ("text,label\nthe cat,good\n", ["--columns", "text,mark"], "no column 'mark'; the header names"),
        (
            "text,label\nthe cat,good\n",
            ["--columns", "text"],
            "--columns must be TEXT,LABEL or TEXT,SECOND,LABEL here",
        ),
        ("text,label\nthe cat,good\n", ["--beam", "2"], "--show and --beam are for translators"),
        ("text,label\nthe cat,good\n", ["--stride", "2"], "--stride is for language models"),
        ("text,label\n", [], "test.csv has no labelled text; it needs at least one"),
    ],
    ids=["unknown class", "empty", "no label", "no column", "columns", "beam", "stride", "no rows"],
)
def test_a_classifier_and_data_that_do_not_go_together(
    call: Any, sorter: str, content: str, options: list[str], said: str
) -> None:
    Path("test.csv").write_text(content)
    done = call("evaluate", sorter, "--data", "test.csv", *options)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize("longest", [8, 200])
def test_a_foreign_classifier_is_judged_by_as_much_as_it_reads(call: Any, tmp_path: Path, longest: int) -> None:
    """A folder without a recipe; data.longest would be 128."""
    run = build(tmp_path / "run", head="classify", labels=LABELS, longest=256)
    path = Path(run) / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": longest}))
    texts = [" ".join([line] * times) for line in LINES for times in (1, 5, 18, 40)]
    truths = [found.label for found in load(run).classify(texts)]
    Path("test.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in zip(texts, truths, strict=True)))
    row = json.loads(call("evaluate", run, "--data", "test.tsv", "--json").out)
    assert row["accuracy"] == 100
    assert row["cut"] == sum(len(text.split()) + 2 > longest for text in texts)


def test_single_texts_for_a_run_that_learned_pairs(call: Any, reviews: str) -> None:
    """--columns TEXT,LABEL leaves out the second column that the recipe names."""
    Path("pairs.csv").write_text("first,other,label\n" + "the cat,a dog,good\nthe dog,a cat,bad\n" * 4)
    names = {"train": "pairs.csv", "valid": "pairs.csv", "text": "first", "second": "other", "label": "label"}
    words = [word for key, value in names.items() for word in ("--set", f"data.{key}={value}")]
    assert call("train", reviews, *words, "--out", "mine").code == 0
    assert json.loads(call("evaluate", "mine", "--json").out)["count"] == 8
    Path("test.csv").write_text("text,label\nthe cat,good\n")
    done = call("evaluate", "mine", "--data", "test.csv", "--columns", "text,label", "--json")
    assert (done.code, json.loads(done.out)["count"]) == (0, 1)


def test_runs_without_a_head_or_of_other_tasks_are_not_judged(
    call: Any, bare: str, sorter: str, filler: str
) -> None:
    done = call("evaluate", bare, "--data", "x.txt")
    assert (done.code, "has no head that answers" in done.err) == (2, True)
    mixed = call("evaluate", sorter, filler, "--data", "x.txt")
    assert mixed.code == 2
    assert f"{sorter} (classify), {filler} (fill)" in mixed.err


# ---- train --from, and compare


def test_a_classifier_is_taught_from_an_encoder(call: Any, filler: str, sorter: str, reviews: str) -> None:
    done = call("train", reviews, "--from", filler, "--out", "mine")
    assert (done.code, done.out) == (0, "mine\n")
    assert f"Not in {filler}, and so learned from the start: classify.weight, classify.bias" in done.err
    assert load("mine").model.config.layers == 2
    assert call("classify", "mine", "the dull cat").out.split("\t")[0] in LABELS
    held = json.loads(call("evaluate", "mine", "--json").out)
    assert held["count"] == 12
    same = call("train", reviews, "--from", sorter, "--out", "same")
    assert same.code == 0
    assert "learned from the start" not in same.err
    assert load("same").model.config.labels == LABELS


def test_a_classifier_goes_back_to_hidden_words(call: Any, sorter: str) -> None:
    Path("book.txt").write_text(("\n".join(LINES) + "\n\n") * 60)
    words = ["--set", "data.train=book.txt", "--set", "data.length=16"]
    words += ["--set", "train.steps=1", "--set", "train.every=1", "--set", "train.warmup=0"]
    done = call("train", "bert-text", "--from", sorter, *words, "--out", "mine")
    assert (done.code, done.out) == (0, "mine\n")
    assert load("mine").model.config.labels == ()
    assert call("fill", "mine", "the [MASK] sat").code == 0


def test_without_a_file_a_classifier_is_judged_by_what_was_held_out(call: Any) -> None:
    rows = [f"text {number} is {label}\t{label}\n" for number in range(100) for label in LABELS]
    Path("train.tsv").write_text("".join(rows))
    Path("mine.toml").write_text(LABELLED.format(folder="."))
    assert call("train", "mine.toml", "--set", "data.valid=", "--out", "mine").code == 0
    done = call("evaluate", "mine", "--json")
    assert done.code == 0
    assert 0 < json.loads(done.out)["count"] < 30  # one in twenty of 300


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("tokens.kind=bpe", "tokens.kind must be wordpiece for bert, got 'bpe'"),
        ("decode.beam=5", "[decode] says how answers are written, and a bert made to classify writes none"),
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
        *words, "--set", "train.steps=1", "--set", "train.every=1", "--set", "train.warmup=0", "--out", "mine"
    )
    assert (done.code, done.out) == (0, "mine\n")
    assert load("mine").model.config.dim == 16
    wrong = call(*words, "--set", "model.dim=64", "--out", "other")
    assert wrong.code == 2
    assert "--set model.dim=64 cannot be: with --from the model and its tokens are those of" in wrong.err


def test_another_model_is_not_begun_with(call: Any, run: str, reviews: str) -> None:
    done = call("train", reviews, "--from", run, "--out", "mine")
    assert done.code == 2
    assert "the recipe trains 'bert' and" in done.err
    assert not Path("mine").exists()


def test_classifiers_are_compared_from_an_encoder(call: Any, filler: str, sorter: str, reviews: str) -> None:
    words = ["compare", reviews, "--vary", "train.rate=0.01", "--seeds", "1", "--metric", "accuracy", "--out", "c"]
    done = call(*words, "--from", filler)
    assert done.code == 0
    [row] = [line for line in done.out.splitlines() if line.startswith("|")][2:]
    result = json.loads(Path("c/0.01-0/result.json").read_text())
    assert f"| {result['accuracy']:.1f} |" in row
    assert f"--from {filler}" in Path("c/0.01-0/README.md").read_text()
    assert load("c/0.01-0").model.config.layers == 2
    for other in ([], ["--from", sorter]):
        again = call(*words, *other)
        assert again.code == 2
        assert f"c holds trainings begun with --from {filler}, now it is" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metric", "bleu"], "--metric must be one of accuracy, loss, macro_f1, got 'bleu'"),
        (["bert-text,data.train=x.txt", "--metric", "accuracy"], "cannot be compared"),
    ],
    ids=["metric", "tasks"],
)
def test_what_cannot_be_compared(call: Any, reviews: str, words: list[str], said: str) -> None:
    done = call("compare", reviews, *words, "--out", "c")
    assert done.code == 2
    assert said in done.err
    assert not Path("c").exists()


def test_what_follows_is_compared_where_it_is_learned(call: Any) -> None:
    recipe = "bert-text,data.train=x.txt,data.valid=x.txt,model.head=masked"
    done = call("compare", recipe, "--metric", "next_accuracy", "--out", "c")
    assert done.code == 2
    assert "next_accuracy is for model.head=pretrain" in done.err
