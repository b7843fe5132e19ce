"""`regard classify`, and `evaluate` of classifiers of texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.tasks.core.table import load

LABELS = ("bad", "fair", "good")
MOST = 16  # tokens the model takes
UNKNOWN = "1 text has words that this model does not know and cannot read: 'zebra', '☃'\n"


def test_classify_tells_the_class_and_how_sure(call: Any, classifier: str) -> None:
    texts = ["the cat", "zebra ☃", "cat " * 50]
    done = call("classify", classifier, *texts)
    assert done.code == 0
    begins = "the one that begins with 'cat cat cat cat cat cat cat cat cat cat '"
    cut = f"1 text was truncated to the {MOST} tokens this model takes: {begins} (16 of 52 tokens)\n"
    assert done.err == cut + UNKNOWN
    for line, found in zip(done.out.splitlines(), load(classifier).classify(texts), strict=True):
        label, share = line.split("\t")
        assert label == found.label
        assert float(share) == pytest.approx(found.probabilities[label], abs=1e-4)


def test_pairs_by_an_option_or_a_tab(call: Any, classifier: str) -> None:
    wanted = load(classifier).classify(("the cat", "a dog")).probabilities
    option = json.loads(call("classify", classifier, "the cat", "--second", "a dog", "--json").out)
    tab = json.loads(call("classify", classifier, "the cat\ta dog", "--json").out)
    assert option == tab
    assert (option["text"], option["second"]) == ("the cat", "a dog")
    assert option["probabilities"] == pytest.approx(wanted, abs=1e-6)
    assert list(option["probabilities"]) == list(wanted)
    alone = json.loads(call("classify", classifier, "the cat", "--json").out)
    assert "second" not in alone
    assert alone["probabilities"] != option["probabilities"]
    for words in (["a", "b", "--second", "c"], ["--input", "in.txt", "--second", "c"]):
        done = call("classify", classifier, *words)
        assert (done.code, done.out) == (2, "")
        assert "--second is the second text of one pair" in done.err


def test_a_pair_too_long_is_truncated_as_in_python(call: Any, classifier: str) -> None:
    pair = ("cat " * 30, "dog " * 4)
    done = call("classify", classifier, pair[0], "--second", pair[1], "--json")
    assert "1 text was truncated" in done.err
    assert json.loads(done.out)["probabilities"] == pytest.approx(
        load(classifier).classify(pair).probabilities, abs=1e-6
    )


def test_a_model_of_one_segment_refuses_pairs(call: Any, tmp_path: Path, encoders: Any) -> None:
    run = encoders.build(tmp_path / "single", head="classify", labels=LABELS, segments=1)
    assert call("classify", run, "the cat").code == 0
    done = call("classify", run, "the cat\ta dog")
    assert done.code == 2
    assert "this model was made for single texts (segments = 1), got a pair" in done.err


def test_classes_of_any_name(call: Any, tmp_path: Path, encoders: Any) -> None:
    names = ("a\tb\nc", "<b>&\"'", "日本 ☃", "x" * 300)
    run = encoders.build(tmp_path / "odd", head="classify", labels=names)
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


def test_a_file_to_a_file(call: Any, classifier: str) -> None:
    texts = [f"{word} {number}" for number in range(60) for word in ("cat", "dogs play", "outside")]
    Path("in.txt").write_text("\n".join(texts))
    assert call("classify", classifier, "--input", "in.txt", "--output", "out.tsv").out == ""
    labels = [line.split("\t")[0] for line in Path("out.tsv").read_text().splitlines()]
    assert labels == [found.label for found in load(classifier).classify(texts)]


def test_a_classifier_is_evaluated_by_its_answers(call: Any, classifier: str, encoders: Any) -> None:
    texts = [" ".join(encoders.sentences[number % 3].split()[: 2 + number % 5]) for number in range(30)]
    answers = [found.label for found in load(classifier).classify(texts)]
    truths = [LABELS[(LABELS.index(label) + (number % 4 == 0)) % 3] for number, label in enumerate(answers)]
    rows = "".join(f"{label},{text}\n" for text, label in zip(texts, truths, strict=True))
    Path("test.csv").write_text("class,sentence\n" + rows)
    done = call("evaluate", classifier, "--data", "test.csv", "--json")
    assert done.code == 0
    row = json.loads(done.out)
    right = sum(map(str.__eq__, answers, truths))
    assert (row["count"], row["accuracy"]) == (30, pytest.approx(100 * right / 30))
    assert np.trace(np.array(row["confusion"])) == right
    assert row["accuracy_low"] < row["accuracy"] < row["accuracy_high"]
    assert [one["label"] for one in row["classes"]] == list(LABELS)
    table = call("evaluate", classifier, "--data", "test.csv", "--columns", "sentence,class").out
    assert f"accuracy       {row['accuracy']:.2f}" in table
    classes, confused, data = (part.splitlines() for part in table.split("\n\n")[1:])
    assert data == ["evaluated on test.csv"]
    assert [line.split()[0] for line in classes[1:]] == list(LABELS)
    assert sum(int(line.split()[-1]) for line in confused[1:]) == 30 - right


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (
            "text,label\nthe cat,good\na dog,so so\n",
            [],
            "test.csv, line 3: the label 'so so' is no class of this model; there are 'bad', 'fair', 'good'",
        ),
        ("text,label\nthe cat,\n", [], "the label is empty"),
        ("text,mark\nthe cat,good\n", [], "say which column is the label; none has a usual name"),
        ("text,label\nthe cat,good\n", ["--columns", "text,mark"], "no column 'mark'; the header names"),
        (
            "text,label\nthe cat,good\n",
            ["--columns", "text"],
            "columns must be TEXT,LABEL or TEXT,SECOND,LABEL, got",
        ),
        ("text,label\nthe cat,good\n", ["--beam", "2"], "--beam is not for runs that classify"),
        ("text,label\nthe cat,good\n", ["--stride", "2"], "--stride is not for runs that classify"),
        ("text,label\n", [], "test.csv has no labelled text; it needs at least one"),
    ],
    ids=["unknown class", "empty", "no label", "no column", "columns", "beam", "stride", "no rows"],
)
def test_a_classifier_and_data_that_do_not_go_together(
    call: Any, classifier: str, content: str, options: list[str], said: str
) -> None:
    Path("test.csv").write_text(content)
    done = call("evaluate", classifier, "--data", "test.csv", *options)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize("most", [8, 200])
def test_a_foreign_classifier_is_evaluated_on_as_much_as_it_reads(
    call: Any, tmp_path: Path, most: int, encoders: Any
) -> None:
    """A folder without a recipe; data.truncate would be 128."""
    run = encoders.build(tmp_path / "run", head="classify", labels=LABELS, max_positions=256)
    path = Path(run) / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": most}))
    texts = [" ".join([line] * times) for line in encoders.sentences for times in (1, 5, 18, 40)]
    truths = [found.label for found in load(run).classify(texts)]
    Path("test.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in zip(texts, truths, strict=True)))
    row = json.loads(call("evaluate", run, "--data", "test.tsv", "--json").out)
    assert row["accuracy"] == 100
    assert row["truncated"] == sum(len(text.split()) + 2 > most for text in texts)


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


def test_runs_without_a_head_or_of_other_tasks_are_not_evaluated(
    call: Any, headless: str, classifier: str, filler: str
) -> None:
    done = call("evaluate", headless, "--data", "x.txt")
    assert (done.code, "a model that can only embed is not trained and has no metrics" in done.err) == (2, True)
    mixed = call("evaluate", classifier, filler, "--data", "x.txt")
    assert mixed.code == 2
    assert f"{classifier} (classify), {filler} (fill)" in mixed.err
