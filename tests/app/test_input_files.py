"""`--input` reads what `--data` reads: lines, TSV, CSV, JSONL, folders. What is not read of an input is said."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import BadInput
from regard.tasks.core.table import load

TEXTS = ["a b c", "q w e", "z y"]
LONG = " ".join(f"This is sentence {number}, and it is fine." for number in range(20))


def table(*rows: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def jsonl(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


FILES = {
    "in.txt": "".join(f"{text}\n" for text in TEXTS),
    "in.jsonl": jsonl(*({"id": 1, "source": text, "target": "x"} for text in TEXTS)),
    "in.ndjson": jsonl(*({"text": text} for text in TEXTS)),
    "in.csv": table(["id", "Source"], *(["1", text] for text in TEXTS)),
    "in.tsv": "".join(f"{text}\ttarget\n" for text in TEXTS),
    "head.tsv": "id\tsource\n" + "".join(f"1\t{text}\n" for text in TEXTS),
}


@pytest.mark.parametrize("name", FILES)
def test_texts_come_from_what_data_may_be(call: Any, lively: str, name: str) -> None:
    wanted = [answer.text for answer in load(lively).translate(TEXTS)]
    Path(name).write_text(FILES[name])
    words = ["--alignments", "links.txt"]
    done = call("translate", lively, "--input", name, *words)
    assert (done.code, done.out.splitlines(), done.err) == (0, wanted, "")
    assert len(Path("links.txt").read_text().splitlines()) == len(TEXTS)
    Path(f"{name}.gz").write_bytes(gzip.compress(FILES[name].encode()))
    assert call("translate", lively, "--input", f"{name}.gz", *words) == done


def test_columns_can_be_named_and_a_recipe_names_its_own(call: Any, lively: str, tmp_path: Path) -> None:
    wanted = call("translate", lively, *TEXTS).out
    Path("in.csv").write_text(table(["de", "source", "en"], *(["b", "a a", text] for text in TEXTS)))
    Path("in.jsonl").write_text(jsonl(*({"en": text, "source": "a"} for text in TEXTS)))
    Path("in.tsv").write_text("".join(f"1\tb\t{text}\n" for text in TEXTS))
    for name, column in (("in.csv", "en"), ("in.jsonl", "en"), ("in.tsv", "3")):
        assert call("translate", lively, "--input", name, "--columns", column).out == wanted
    run = tmp_path / "run"
    call("translate", lively, "a")
    run.mkdir()
    for file in Path(lively).iterdir():
        if file.is_file():
            (run / file.name).write_bytes(file.read_bytes())
    recipe = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(recipe.replace("[data]", '[data]\nsource = "en"\ntarget = "de"', 1))
    assert call("translate", str(run), "--input", "in.csv").out == wanted


WRONG = {
    "no column": (
        "in.csv",
        table(["en", "de"], ["a", "b"]),
        [],
        "in.csv, line 1: no column with a usual name (source",
    ),
    "no key": ("in.jsonl", jsonl({"en": "a"}), [], "there are 'en'. Name the column of the inputs with --columns"),
    "not there": ("in.csv", table(["en"], ["a"]), ["--columns", "fr"], "no column 'fr'; the header names 'en'"),
    "two of them": ("in.csv", table(["en", "de"], ["a", "b"]), ["--columns", "en,de"], "one column at most"),
    "lines": ("in.txt", "a\n", ["--columns", "en"], "in.txt has no columns; leave it out"),
    "an array": ("in.json", '["a", "b"]\n', [], "in.json, line 1: holds a list, but must hold an object"),
    "empty": ("in.csv", "source\n", [], "in.csv is empty"),
    "an open quote": ("in.csv", 'source\n"a\n', [], "is not CSV"),
}


@pytest.mark.parametrize(("name", "content", "words", "said"), WRONG.values(), ids=WRONG)
def test_the_wrong_kind_of_file_or_column(
    call: Any, lively: str, name: str, content: str, words: list[str], said: str
) -> None:
    Path(name).write_text(content)
    done = call("translate", lively, "--input", name, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_row_that_cannot_be_read_keeps_its_place(call: Any, lively: str) -> None:
    first, last = call("translate", lively, "a b", "z y").out.splitlines()
    Path("in.jsonl").write_text(
        jsonl({"source": "a b"}, {"source": 5}) + "{\n" + jsonl({"x": 1}, {"source": "z y"})
    )
    done = call("translate", lively, "--input", "in.jsonl")
    assert (done.code, done.out.splitlines()) == (1, [first, "", "", "", last])
    assert "in.jsonl, line 2: 'source' must be text, got 5" in done.err
    assert "in.jsonl, line 3: is not JSON" in done.err
    Path("in.csv").write_text("source,x\na b,1\nq\nz y,2\n")
    done = call("translate", lively, "--input", "in.csv")
    assert (done.code, done.out.splitlines()) == (1, [first, "", last])
    assert "in.csv, line 3: 1 column, but the first line has 2" in done.err
    assert call("translate", lively, "--input", "in.csv", "--strict").code == 2


def test_columns_without_a_file(call: Any, lively: str) -> None:
    done = call("translate", lively, "a b", "--columns", "en")
    assert (done.code, "--columns names columns of --input FILE" in done.err) == (2, True)


# ---- documents, pairs, prompts, images


def test_documents_with_line_breaks_and_tabs(call: Any) -> None:
    documents = ["A dull film.\nI left\tit.", "A superb film.\n\nI thought it was moving."]
    wanted = [answer.to_dict() for answer in load("reviews").classify(documents)]
    Path("in.csv").write_text(table(["label", "Text"], *(["x", text] for text in documents)))
    Path("in.jsonl").write_text(jsonl(*({"text": text, "label": 1} for text in documents)))
    Path("folder/inner").mkdir(parents=True)
    for name, text in zip(("a.txt", "inner/b.txt"), documents, strict=True):
        Path("folder", name).write_text(text + "\n")
    for hidden in (".c.txt", "d.md"):
        Path("folder", hidden).write_text("no")
    for name in ("in.csv", "in.jsonl", "folder"):
        done = call("classify", "reviews", "--input", name, "--json")
        assert (done.code, done.err) == (0, "")
        rows = [json.loads(line) for line in done.out.splitlines()]
        assert [row["input"] for row in rows] == documents
        for row, answer in zip(rows, wanted, strict=True):
            assert row["probabilities"] == pytest.approx(answer["probabilities"])
    Path("none").mkdir()
    assert (
        "none is a directory; name a file in it, or a directory with a .txt file"
        in call("classify", "reviews", "--input", "none").err
    )


def test_pairs_of_texts(call: Any, classifier: str) -> None:
    wanted = call("classify", classifier, "the cat\ta dog", "--json").out
    Path("in.csv").write_text("premise,hypothesis,label\nthe cat,a dog,x\n")
    assert call("classify", classifier, "--input", "in.csv", "--json").out == wanted
    assert json.loads(wanted)["input"] == ["the cat", "a dog"]
    Path("in.tsv").write_text("the cat\ta dog\n")
    assert call("classify", classifier, "--input", "in.tsv", "--columns", "1,2", "--json").out == wanted
    alone = call("classify", classifier, "the cat").out
    assert call("classify", classifier, "--input", "in.tsv", "--columns", "1").out == alone
    done = call("classify", classifier, "--input", "in.tsv")  # the second column may be a text or a label
    assert (done.code, "Name the column of the inputs with --columns" in done.err) == (2, True)


def test_every_task_that_is_asked_with_texts(call: Any, gpt2: str, filler: str) -> None:
    Path("in.csv").write_text('prompt,text\n"9\nb",the [MASK]\n')
    row = json.loads(call("generate", gpt2, "--input", "in.csv", "--max-tokens", "3", "--json").out)
    assert row["input"] == row["prompt"] == "9\nb"
    assert json.loads(call("fill", filler, "--input", "in.csv", "--json").out)["input"] == "the [MASK]"
    assert json.loads(call("embed", filler, "--input", "in.csv").out)["input"] == "the [MASK]"
    Path("in.jsonl").write_text(jsonl({"sequence": "01010101 11001100"}))
    assert json.loads(call("recall", "copy", "--input", "in.jsonl", "--json").out)["input"] == "01010101 11001100"


# ---- what is not read is said


def test_a_document_that_is_cut_says_so(call: Any) -> None:
    answer = load("reviews").classify(LONG)
    assert answer.cut is not None
    assert answer.cut.parts["sentences"] == (16, 20)
    assert str(answer.cut).startswith("16 of 20 sentences")
    assert "Only a part of the input was read: 16 of 20 sentences" in answer._repr_html_()
    assert load("reviews").classify("Fine.").cut is None
    done = call("classify", "reviews", LONG, "Fine.", "--json")
    cut, whole = map(json.loads, done.out.splitlines())
    assert cut["cut"]["sentences"] == {"read": 16, "of": 20}
    assert "cut" not in whole
    assert done.err.startswith("1 text was truncated to the ")
    assert "16 of 20 sentences" in done.err


def test_an_array_of_vectors_cannot_tell_and_stderr_does(filler: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(filler).embed(["the cat", "cat " * 50])
    assert "1 text was truncated to the 16 tokens this model takes" in capsys.readouterr().err


def test_vectors_of_texts_that_are_cut_say_so(call: Any, filler: str) -> None:
    run = load(filler)
    cut = run.embed_tokens("cat " * 50).cut
    assert (cut.parts, run.embed_tokens("cat").cut) == ({"tokens": (16, 52)}, None)
    row = json.loads(call("embed", filler, "cat " * 50).out)
    assert row["cut"] == {"tokens": {"read": 16, "of": 52}}


def test_what_a_model_does_not_know_of_a_text_is_named(
    call: Any, lively: str, worded: str, filler: str, classifier: str
) -> None:
    """In the record, in Python's answer and on stderr, whatever the task."""
    asked = (
        ("translate", lively, "a ☃ b é ☃", ["☃", "é"], "characters"),
        ("translate", worded, "☃ zebra", ["☃", "zebra"], "words"),
        ("classify", classifier, "the cat ☃", ["☃"], "characters"),
        ("classify", "reviews", "A qwxz film.", ["qwxz"], "words"),
        ("fill", filler, "the☃ [MASK] sat", ["the☃"], "words"),
        ("embed", filler, "the cat ☃", ["☃"], "characters"),
    )
    for verb, run, text, unknown, kind in asked:
        done = call(verb, run, text, *(() if verb == "embed" else ("--json",)))
        assert json.loads(done.out)["unknown"] == unknown, verb
        named = ", ".join(map(repr, unknown))
        assert done.err == f"1 text has {kind} that this model does not know and cannot read: {named}\n"
    assert load(lively).translate("é").unknown == ("é",)
    assert load(classifier).classify(("the ☃", "the ☂")).unknown == ("☃", "☂")
    assert load(filler).embed_tokens("☃ cat").unknown == ("☃",)
    known = call("embed", filler, "the cat sat")
    assert (json.loads(known.out).get("unknown"), known.err) == (None, "")


def test_what_links_do_not_know_is_said(call: Any, lively: str) -> None:
    Path("pairs.tsv").write_text("a b\tb a\na é\tb\na\t☃\n")
    done = call("align", lively, "--data", "pairs.tsv")
    assert "2 pairs have characters that this model does not know and cannot read: 'é', '☃'\n" in done.err


# ---- nothing


@pytest.mark.parametrize(
    ("name", "verb"), [("dates", "translate"), ("reviews", "classify"), ("sentences-bert", "embed")]
)
def test_an_empty_text_is_refused_in_python_as_in_a_command(call: Any, name: str, verb: str) -> None:
    """As by a server: tests/app/serve/test_asking.py."""
    said = f"the text is empty; give something to {verb}"
    for text in ("", " \t"):
        done = call(verb, name, text)
        assert (done.code, done.out, done.err) == (2, "", f"error: {said}\n")
        with pytest.raises(BadInput, match=said):
            getattr(regard.load(name), verb)(text)


def test_an_empty_line_keeps_its_place_or_is_named(call: Any) -> None:
    Path("in.txt").write_text("3 May 1979\n\n4 May 1979\n")
    assert call("translate", "dates", "--input", "in.txt").out == "1979-05-03\n\n1979-05-04\n"
    assert call("translate", "dates", "3 May 1979", "").out == "1979-05-03\n\n"
    done = call("classify", "reviews", "--input", "in.txt")
    assert (done.code, done.out.splitlines()[1]) == (1, "")
    assert "in.txt, line 2: the text is empty; give something to classify" in done.err
    assert call("generate", "shakespeare", "", "--max-tokens", 2).code == 0
