"""One input among many that cannot be answered: the others are, in their order, and the bad ones are named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regard.errors import BadInput
from regard.tasks.core.inputs import NAMED, Failed, Reading, Tally, in_parts, read_all
from regard.tasks.core.table import load

LONG = "x" * 50  # more tokens than any of the runs takes
TOO_LONG = "tokens"


def lines(*texts: str | bytes, name: str = "in.txt") -> str:
    data = b"".join((text if isinstance(text, bytes) else text.encode()) + b"\n" for text in texts)
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return name


# ---- translate


def test_the_answers_round_a_bad_line_keep_their_places(call: Any, lively: str) -> None:
    good = ["a b c", "q w e r t y", "z y", "", "a b"]
    wanted = [answer.text for answer in load(lively).translate(good)]
    texts = [*good[:2], LONG, b"\xff\xfe", *good[2:], b"a\0b", b"y" * 2_000_000, "a b c"]
    done = call("translate", lively, "--input", lines(*texts), "--output", "out.txt", "--alignments", "links.txt")
    assert (done.code, done.out) == (1, "")
    told = done.err.splitlines()
    assert told[0] == "error: 4 of 10 texts were not answered:"
    assert told[1].startswith("  in.txt, line 3: 'xxxxxxxxxx")
    assert "has 51 tokens with the end token and this model takes 40; shorten or split it" in told[1]
    assert told[2].startswith("  in.txt, line 4: byte 1 (0xff) is not UTF-8")
    assert told[3].startswith("  in.txt, line 8: holds a NUL byte")
    assert told[4].startswith("  in.txt, line 9: is longer than 1,048,576 bytes")
    assert len(told) == 5
    answered = Path("out.txt").read_text().splitlines()
    assert answered == [*wanted[:2], "", "", *wanted[2:], "", "", wanted[0]]
    links = Path("links.txt").read_text().splitlines()
    assert len(links) == len(answered)
    assert [links[place] for place in (2, 3, 7, 8)] == [""] * 4
    assert links[0] == links[9] != ""


def test_many_lines_and_many_bad_ones(call: Any, lively: str) -> None:
    """More than are read at once; a long list is shortened."""
    texts = ["ab"[: 1 + row % 2] if row % 3 else LONG for row in range(1300)]
    done = call("translate", lively, "--input", lines(*texts, name="in.txt.gz"), "--json", "--max-length", "3")
    assert done.code == 1
    told = done.err.splitlines()
    assert told[0] == "error: 434 of 1,300 texts were not answered:"
    assert told[1].startswith("  in.txt.gz, line 1: ")
    assert told[NAMED + 1] == f"  ... and {434 - NAMED - 1} more; the last:"
    assert told[NAMED + 2].startswith("  in.txt.gz, line 1300: ")
    assert len(told) == NAMED + 3
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert len(rows) == 1300
    for number, (text, row) in enumerate(zip(texts, rows, strict=True), 1):
        if text == LONG:
            assert (row["input"], list(row)) == (LONG, ["input", "error"])
            assert row["error"].startswith(f"in.txt.gz, line {number}: ")
        else:
            assert row["source"] == text


def test_all_bad_and_none_good(call: Any, lively: str) -> None:
    done = call("translate", lively, "--input", lines(LONG, LONG))
    assert (done.code, done.out) == (1, "\n\n")
    assert done.err.startswith("error: 2 of 2 texts were not answered:\n  in.txt, line 1: ")


def test_stdin_and_several_arguments_likewise(
    call: Any, lively: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = call("translate", lively, "a b c").out
    lines("a b c", LONG, "a b c")
    with open(tmp_path / "in.txt") as file:
        monkeypatch.setattr("sys.stdin", file)
        done = call("translate", lively)
    assert (done.code, done.out) == (1, f"{wanted}\n{wanted}")
    assert "1 of 3 texts was not answered:\n  stdin, line 2: " in done.err
    done = call("translate", lively, "a b c", LONG, "a b c")
    assert (done.code, done.out) == (1, f"{wanted}\n{wanted}")
    assert "\n  text 2: " in done.err


def test_n_best_and_pictures_are_numbered_by_the_lines(call: Any, lively: str) -> None:
    name = lines("a b", LONG, "", "c d")
    done = call("translate", lively, "--input", name, "--n-best", "3", "--show", "map.svg")
    assert done.code == 1
    groups = np.array(done.out.splitlines()).reshape(4, 3)
    assert [bool("".join(line.split("\t")[-1] for line in group)) for group in groups] == [True, False, False, True]
    assert list(groups[1]) == ["", "", ""]
    assert sorted(path.name for path in Path().glob("*.svg")) == ["map-1.svg", "map-4.svg"]


def test_strict_stops_at_once_and_leaves_nothing(call: Any, lively: str) -> None:
    done = call("translate", lively, "--input", lines("a", LONG), "--strict", "--output", "out.txt")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: in.txt, line 2: 'xxx")
    assert not Path("out.txt").exists()
    done = call("translate", lively, "a", LONG, "--strict")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: text 2: 'xxx")


# ---- every other task


def test_a_single_text_that_is_too_long_was_asked_wrongly(call: Any, lively: str, gpt2: str, filler: str) -> None:
    for command, run in (("translate", lively), ("generate", gpt2), ("fill", filler)):
        text = "[MASK]" + "cat " * 50 if command == "fill" else LONG
        done = call(command, run, text, "--output", "out.txt")
        assert (done.code, done.out) == (2, ""), command
        assert "tokens" in done.err
        assert done.err.count("\n") == 1
        assert not Path("out.txt").exists()


def test_prompts(call: Any, gpt2: str) -> None:
    words = ["--temperature", "0", "--max-tokens", "4"]
    wanted = [call("generate", gpt2, prompt, *words).out for prompt in ("9 b", "8 b")]
    done = call("generate", gpt2, "--input", lines("9 b", LONG, "8 b", b"\xff"), *words)
    assert (done.code, done.out) == (1, f"{wanted[0]}\n{wanted[1]}\n")
    assert "2 of 4 texts were not answered:\n  in.txt, line 2: the prompt 'xxx" in done.err


def test_a_prompt_that_leaves_a_beam_too_little_room(call: Any, gpt2: str) -> None:
    name = lines("9 b", "9" * 30, "8 b")
    done = call("generate", gpt2, "--input", name, "--beam", "2", "--max-tokens", "5", "--json")
    assert done.code == 1
    assert [row.get("prompt") for row in map(json.loads, done.out.splitlines())] == ["9 b", None, "8 b"]
    assert "in.txt, line 2: a beam may write 3 tokens after this prompt" in done.err


def test_blanks(call: Any, filler: str) -> None:
    done = call("fill", filler, "--input", lines("the [MASK]", "the cat", "a [MASK]"), "--top", "1")
    assert done.code == 1
    first, bad, last = done.out.splitlines()
    filled = [load(filler).fill(text, top=1).text for text in ("the [MASK]", "a [MASK]")]
    assert (first.split("\t")[2], bad, last.split("\t")[2]) == (filled[0], "", filled[1])
    assert "in.txt, line 2: 'the cat' has no [MASK] to fill" in done.err


def test_classes(call: Any, classifier: str) -> None:
    done = call("classify", classifier, "--input", lines("the cat", b"\xff", "cat " * 50))
    assert done.code == 1
    assert [bool(line) for line in done.out.splitlines()] == [True, False, True]
    assert done.err.startswith("1 text was truncated")
    assert "1 of 3 texts was not answered:\n  in.txt, line 2: byte 1" in done.err


@pytest.mark.parametrize("kind", ["npy", "parquet", "jsonl"])
def test_vectors(call: Any, filler: str, kind: str) -> None:
    """A row of NaN stands for a line that cannot be read; JSON says why."""
    name = lines("the cat", b"\xff", "a dog")
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
    done = call("embed", filler, "--input", name, "--output", f"v.{kind}")
    assert (done.code, done.out) == (1, "")
    assert "1 of 3 texts was not answered:\n  in.txt, line 2: byte 1" in done.err
    if kind == "jsonl":
        first, bad, last = map(json.loads, Path("v.jsonl").read_text().splitlines())
        assert bad == {
            "input": None,
            "error": "in.txt, line 2: byte 1 (0xff) is not UTF-8; convert the file to UTF-8",
        }
        found = np.array([first["vector"], last["vector"]])
    else:
        rows = (
            np.load("v.npy") if kind == "npy" else np.stack(parquet.read_table("v.parquet")["vector"].to_pylist())
        )
        assert rows.shape[0] == 3
        assert np.isnan(rows[1]).all()
        found = rows[[0, 2]]
    np.testing.assert_allclose(found, load(filler).embed(["the cat", "a dog"]), atol=1e-5)


def test_vectors_in_two_formats_are_refused_before_anything_is_loaded(call: Any) -> None:
    done = call("embed", "nosuch", "a", "--json", "--output", "v.npy")
    assert (done.code, done.out) == (2, "")
    assert "--json asks for JSON lines and v.npy is another format" in done.err


def test_images(call: Any) -> None:
    """A broken one and a missing one among more than are read at once."""
    Path("images").mkdir()
    for number in range(40):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(f"images/{number:02}.png")
    Path("images/20.png").write_bytes(b"no image")
    done = call("recognise", "shapes", "none.png", "images")
    assert done.code == 1
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["none.png", *(f"images/{number:02}.png" for number in range(40))]
    assert [number for number, row in enumerate(rows) if row[1:] == ["", ""]] == [0, 21]
    assert "2 of 41 images were not answered:\n  none.png does not exist" in done.err
    assert "\n  images/20.png cannot be decoded" in done.err
    done = call("recognise", "shapes", "images", "--json", "--strict")
    assert (done.code, len(done.out.splitlines())) == (2, 20)
    assert done.err.startswith("error: images/20.png cannot be decoded")


# ---- from Python


def test_a_bad_text_in_a_list_is_named_by_its_index(lively: str, gpt2: str, filler: str, classifier: str) -> None:
    translator, writer, reader, sorter = map(load, (lively, gpt2, filler, classifier))
    for ask, bad, named in (
        (translator.translate, LONG, r"texts\[1\]: 'xxx.* has 51 tokens"),
        (translator.translate, None, r"texts\[1\]: a text must be a str, got None \(NoneType\)"),
        (writer.generate, LONG, r"prompts\[1\]: the prompt 'xxx.* has 50 tokens"),
        (writer.generate, 3, r"prompts\[1\]: a prompt must be a str, got 3 \(int\)"),
        (lambda many: reader.fill(["[MASK]", *many[1:]]), "cat", r"texts\[1\]: 'cat' has no \[MASK\] to fill"),
        (reader.embed, 2.5, r"texts\[1\]: a text must be a str, or a tuple of two .* got 2.5 \(float\)"),
        (sorter.classify, None, r"texts\[1\]: a text must be a str, or a tuple .* got None \(NoneType\)"),
    ):
        with pytest.raises(BadInput, match=named):
            ask(["a b", bad])


def test_what_is_no_text_is_said(lively: str, gpt2: str, filler: str, classifier: str) -> None:
    translator, writer, reader, sorter = map(load, (lively, gpt2, filler, classifier))
    for ask, wrong, said in (
        (translator.translate, 3, r"give one text or a list of them, got 3 \(int\)"),
        (translator.translate, None, r"give one text or a list of them, got None \(NoneType\)"),
        (translator.translate, b"a", r"give one text or a list of them, got b'a' \(bytes\)"),
        (translator.translate, {"a": 1}, r"got {'a': 1} \(dict\)"),
        (writer.generate, 3, r"give one prompt or a list of them, got 3 \(int\)"),
        (reader.fill, 3, r"a text with blanks must be a str, got 3 \(int\)"),
        (reader.embed, 3, r"a text must be a str, or a tuple of two for a pair; got 3 \(int\)"),
        (sorter.classify, None, r"a text must be a str, or a tuple of two for a pair; got None \(NoneType\)"),
        (load("shapes").recognise, None, "an image must be the name of a file, a PIL image.* got NoneType"),
        (load("shapes").recognise, ["nosuch.png"], r"images\[0\]: nosuch.png does not exist"),
    ):
        with pytest.raises(BadInput, match=said):
            ask(wrong)


def test_what_came_before_a_bad_one_is_answered(lively: str) -> None:
    run = load(lively)
    answers = run.answers(read_all(["a b", "c", LONG, "d"], run.read, "texts"))
    assert [next(answers).source, next(answers).source] == ["a b", "c"]
    with pytest.raises(BadInput, match=r"texts\[2\]"):
        next(answers)


# ---- the mechanism


def test_parts_end_before_what_cannot_be_read() -> None:
    def read(one: int) -> int:
        if one == 5:
            raise BadInput("no five")
        return one

    assert list(in_parts(read_all(range(5), read, "numbers"), 2)) == [[0, 1], [2, 3], [4]]
    parts = in_parts(read_all(range(9), read, "numbers"), 3)
    assert [next(parts), next(parts)] == [[0, 1, 2], [3, 4]]
    with pytest.raises(BadInput, match=r"numbers\[5\]: no five"):
        next(parts)


def test_failures_come_in_their_turn_however_far_a_task_reads_ahead() -> None:
    def read(one: str) -> str:
        if one == "bad":
            raise BadInput("bad")
        return one

    texts = ["bad", "a", "bad", "bad", "b", "c", "bad"]
    for ahead in (1, 2, 7):
        reading = Reading([(f"line {number}", text) for number, text in enumerate(texts)], read)
        answers = (one.upper() for part in in_parts(reading.good(), ahead) for one in part)
        found = list(reading.in_turn(answers, lambda: None))
        assert [one if isinstance(one, str) else one.error for one in found] == [
            *("line 0: bad", "A", "line 2: bad", "line 3: bad", "B", "C", "line 6: bad")
        ]
        tally = Tally()
        for one in found:
            tally.add(one.error if isinstance(one, Failed) else None)
        assert (tally.count, tally.failed) == (7, 4)
