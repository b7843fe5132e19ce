"""`regard translate` with all it can be asked for: lengths, coverage, unknown words, alignments, any input."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regard.app import cli_write
from regard.tasks import Decoding, load

TEXTS = ["a b c", "q w e r t y", "z y"]


def listed() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def write_input(texts: list[str], name: str = "in.txt") -> str:
    data = "".join(f"{text}\n" for text in texts).encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return name


# ---- how long, and how much of the source


def test_the_least_and_the_most_tokens(call: Any, lively: str) -> None:
    """Tokens are characters here."""
    least = call("translate", lively, *TEXTS, "--min-length", "9", "--max-length", "10")
    assert (least.code, least.err) == (0, "")
    assert {len(line) for line in least.out.splitlines()} <= {9, 10}
    most = call("translate", lively, *TEXTS, "--max-length", "3", "--beam", "2")
    assert len(most.out.splitlines()) == 3
    assert max(len(line) for line in most.out.splitlines()) <= 3


def test_the_least_holds_beyond_the_usual_most(call: Any, lively: str) -> None:
    """Unless told, an answer ends at twice the source + 20 tokens: 28 here."""
    done = call("translate", lively, TEXTS[2], "--min-length", "60")
    assert done.code == 0
    assert len(done.out.rstrip("\n")) >= 60


def test_coverage_chooses_another_answer(call: Any, lively: str) -> None:
    """The same answers of the beam, in another order: looking everywhere may outweigh the score."""
    words = ["translate", lively, TEXTS[1], "--beam", "8", "--best", "8", "--max-length", "6", "--json"]
    [plain, covered] = [json.loads(call(*words, "--coverage", value).out) for value in ("0", "50")]
    texts = [[row["text"], *(other["text"] for other in row["others"])] for row in (plain, covered)]
    assert sorted(texts[0]) == sorted(texts[1])
    assert texts[0] != texts[1]
    answer = load(lively).translate(TEXTS[1], Decoding(beam=8, best=8, max_length=6, coverage=50.0))
    assert covered["text"] == answer.text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--min-length 5 --max-length 5", "min_length must be below max_length = 5"),
        ("--min-length -1", "--min-length"),
        ("--max-length 99999999", "max_length must be a whole number from 0"),
        ("--coverage -1 --beam 3", "--coverage"),
        ("--coverage nan --beam 3", "coverage"),
        ("--coverage 1", "coverage chooses among the answers of a beam; set beam above 1"),
        ("--best 0", "--best"),
        ("--best 3 --temperature 1", "a draw gives one answer"),
        ("--dictionary nosuch.tsv", "there is no file nosuch.tsv"),
        ("--dictionary .", ". is a directory"),
        ("--alignments .", "--alignments"),
        ("--alignments no/such/links", "there is no folder no/such"),
        ("--output x --alignments x", "--alignments"),
        ("--show no/such/x.svg", "no/such"),
        ("--show x.pdf", "x.pdf"),
        ("--show x.pdf --json", "x.pdf"),
    ],
)
def test_what_is_asked_wrongly_leaves_nothing(
    call: Any, lively: str, words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    done = call("translate", lively, "a b", *words.split())
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert listed() == []


@pytest.mark.parametrize("words", ["--coverage 1 --beam 3", "--replace-unknown", "--alignments x", "--show x.svg"])
def test_a_run_that_looks_at_nothing_is_asked_wrongly_where_it_looks(call: Any, vector: str, words: str) -> None:
    assert call("translate", vector, "a b").code == 0
    done = call("translate", vector, "a b", "--output", "out.txt", *words.split())
    assert (done.code, done.out) == (2, "")
    assert "Seq2seq" in done.err
    assert done.err.count("\n") == 1
    assert listed() == []


# ---- unknown words


def test_unknown_words_are_copied_from_the_source(call: Any, worded: str) -> None:
    kept = call("translate", worded, *TEXTS)
    known = set(kept.out.split())
    copied = call("translate", worded, *TEXTS, "--replace-unknown")
    assert (copied.code, copied.err) == (0, "")
    lines = copied.out.splitlines()
    assert len(lines) == 3
    for text, line in zip(TEXTS, lines, strict=True):
        assert line.split(), "this run writes unknown words"
        assert set(line.split()) <= set(text.split()) | known
    assert call("translate", worded, *TEXTS, "--keep-unknown") == kept


def test_a_dictionary_says_what_an_unknown_word_becomes(call: Any, worded: str) -> None:
    copied = call("translate", worded, *TEXTS, "--replace-unknown").out
    letters = sorted(set(" ".join(TEXTS).split()))
    unknown = [letter for letter in letters if letter not in load(worded).tokenizer.inner.get_vocab()]
    assert unknown
    Path("words.tsv").write_text("".join(f"{letter}\t{letter * 2}é\n" for letter in letters))
    looked_up = call("translate", worded, *TEXTS, "--dictionary", "words.tsv")
    assert (looked_up.code, looked_up.err) == (0, "")
    assert "é" in looked_up.out
    back = {f"{letter * 2}é": letter for letter in letters}
    assert [back.get(word, word) for word in looked_up.out.split()] == copied.split()
    Path("one.tsv").write_text("nothing\trien\n")  # what it does not know is copied
    assert call("translate", worded, *TEXTS, "--dictionary", "one.tsv").out == copied


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\tb\nc\n", "error: d.tsv, line 2: 1 column, but a line needs exactly two"),
        (b"a\tb\tc\n", "error: d.tsv, line 1: 3 columns"),
        (b"a\tb\n\n", "error: d.tsv, line 2: the line is empty"),
        (b"\xff\tb\n", "error: d.tsv, line 1: byte 1 (0xff) is not UTF-8"),
        (b"", "error: d.tsv is empty"),
    ],
)
def test_a_wrong_dictionary_names_file_and_line(call: Any, worded: str, data: bytes, said: str) -> None:
    Path("d.tsv").write_bytes(data)
    done = call("translate", worded, "a b", "--dictionary", "d.tsv", "--output", "out.txt")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)
    assert listed() == ["d.tsv"]


# ---- alignments and pictures


def test_alignments_have_a_line_for_each_text(call: Any, lively: str) -> None:
    texts = ["ab cd", "", "x"]
    done = call("translate", lively, *texts, "--alignments", "links.txt", "--best", "3")
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == 7, "three answers for two, one for the blank one"
    links = Path("links.txt").read_text().splitlines()
    answers = load(lively).translate(texts, Decoding(beam=3, best=3))
    assert links == [" ".join(f"{i}-{j}" for i, j in sorted(answer.alignment)) for answer in answers]
    assert (bool(links[0]), links[1]) == (True, "")
    for text, answer, line in zip(texts, answers, links, strict=True):
        for link in line.split():
            source, target = map(int, link.split("-"))
            assert source < len(text.split())
            assert target < len(answer.text.split())


def test_a_picture_is_drawn_of_an_answer_of_unknown_words_too(call: Any, worded: str) -> None:
    """Unknown words are left out of the text, but they looked at something."""
    assert call("translate", worded, TEXTS[0]).out == "\n"
    done = call("translate", worded, TEXTS[0], "--show", "seen.svg")
    assert done.err == "wrote seen.svg\n"
    assert listed() == ["seen.svg"]


# ---- input of any kind


@pytest.mark.parametrize("suffix", ["txt", "txt.gz"])
def test_many_lines_keep_their_order(call: Any, lively: str, suffix: str) -> None:
    """More than are read at once, of all lengths, with blank ones."""
    texts = ["abcdefgh"[: 1 + 5 * row % 8] if row % 7 else "" for row in range(600)]
    name = write_input(texts, f"in.{suffix}")
    done = call("translate", lively, "--input", name, "--output", "out.txt", "--max-length", "4", "--json")
    assert (done.code, done.out, done.err) == (0, "", "")
    rows = [json.loads(line) for line in Path("out.txt").read_text().splitlines()]
    assert [row["source"] for row in rows] == texts
    alone = {text: load(lively).translate(text, Decoding(max_length=4)).text for text in sorted(set(texts))}
    assert [row["text"] for row in rows] == [alone[text] for text in texts]


def test_the_file_may_be_replaced_by_its_answers(call: Any, lively: str) -> None:
    name = write_input(TEXTS)
    wanted = call("translate", lively, *TEXTS).out
    assert call("translate", lively, "--input", name, "--output", name) == (0, "", "")
    assert Path(name).read_text() == wanted


WRONG = {
    "not UTF-8": ("in.txt", b"a\nb\n\xff\n", "in.txt, line 3: byte 1 (0xff) is not UTF-8"),
    "NUL": ("in.txt", b"a\nb\0c\n", "in.txt, line 2: holds a NUL byte"),
    "a line of 10 MB": ("in.txt", b"a\n" + b"x" * 10_000_000 + b"\n", "in.txt, line 2: is longer than 1,048,576"),
    "a cut gz": ("in.txt.gz", gzip.compress(b"a b\n" * 9000)[:-9], "in.txt.gz, line "),
    "no gz": ("in.txt.gz", b"a b\n", "in.txt.gz, line 1: here the .gz file is damaged"),
    "an empty gz": ("in.txt.gz", gzip.compress(b""), "in.txt.gz is empty"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_names_file_and_line_and_leaves_nothing(call: Any, lively: str, what: str) -> None:
    name, data, said = WRONG[what]
    Path(name).write_bytes(data)
    done = call("translate", lively, "--input", name, "--output", "out.txt", "--alignments", "links.txt")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {said}"), done.err
    assert (done.err.count("\n"), len(done.err) < 500) == (1, True)
    assert listed() == [name]


def test_an_argument_that_is_not_utf8(call: Any, lively: str) -> None:
    done = call("translate", lively, os.fsdecode(b"caf\xe9"))
    assert (done.code, done.out) == (2, "")
    assert "not valid UTF-8" in done.err


@pytest.mark.parametrize("texts", [["a b"], TEXTS])
def test_a_pipe_may_be_named_as_the_input(call: Any, lively: str, texts: list[str]) -> None:
    """As in --input <(command): it can be read once only."""
    here, there = os.pipe()
    os.write(there, "".join(f"{text}\n" for text in texts).encode())
    os.close(there)
    try:
        done = call("translate", lively, "--input", f"/dev/fd/{here}", "--json")
    finally:
        os.close(here)
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line)["source"] for line in done.out.splitlines()] == texts


# ---- stdin


@contextmanager
def stdin_from(handle: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file behind `handle` as this process's own stdin, for Python and for the system."""
    before = os.dup(0)
    os.dup2(handle, 0)
    os.close(handle)
    try:
        with open(0, closefd=False) as file, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def piped(data: bytes) -> int:
    here, there = os.pipe()
    os.write(there, data)
    os.close(there)
    return here


def socketed(data: bytes) -> int:
    """What a shell on another machine, or a program that is no shell, often gives for stdin."""
    here, there = socket.socketpair()
    there.sendall(data)
    there.close()
    return here.detach()


def half_read(data: bytes) -> int:
    """As in `(read first; regard translate run) < file`."""
    Path("in.txt").write_bytes(b"read already\n" + data)
    handle = os.open("in.txt", os.O_RDONLY)
    os.read(handle, len(b"read already\n"))
    return handle


@pytest.mark.parametrize("kind", [piped, socketed, half_read])
def test_lines_of_stdin(call: Any, lively: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = call("translate", lively, *TEXTS, "--json")
    with stdin_from(kind("\n".join(TEXTS).encode()), monkeypatch):
        assert call("translate", lively, "--json") == wanted


def test_nothing_on_stdin_is_nothing_to_answer(call: Any, lively: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with stdin_from(piped(b""), monkeypatch):
        assert call("translate", lively) == (0, "", "")


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"a\n\xff\n", "byte 1 (0xff) is not UTF-8"), (b"a\nb\0\n", "holds a NUL byte")],
)
def test_wrong_stdin_names_the_line(
    call: Any, lively: str, data: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stdin_from(piped(data), monkeypatch):
        done = call("translate", lively, "--output", "out.txt")
    assert (done.code, done.out) == (2, "")
    assert re.match(rf"error: \S*stdin\S*, line 2: {re.escape(said)}", done.err)
    assert listed() == []


def test_no_terminal_and_no_stdin(call: Any, lively: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started with `<&-`, Python has no stdin at all."""
    monkeypatch.setattr(sys, "stdin", None)
    done = call("translate", lively)
    assert (done.code, done.out) == (2, "")
    assert "lines on stdin" in done.err
    assert call("translate", lively, "a b").code == 0


# ---- all or nothing


def test_nothing_is_left_after_a_failure_in_the_middle(call: Any, lively: str) -> None:
    """The last text is too long for the model; those before it have been answered by then."""
    texts = ["a b"] * 600 + ["x" * 50]
    for old in ("out.txt", "links.txt"):
        Path(old).write_text("from before")
    words = ["--output", "out.txt", "--alignments", "links.txt", "--max-length", "3"]
    done = call("translate", lively, *texts, *words)
    assert (done.code, done.out) == (1, "")
    assert "has 51 tokens with the end token and this model takes 40" in done.err
    assert Path("out.txt").read_text() == Path("links.txt").read_text() == "from before"
    assert listed() == ["links.txt", "out.txt"]


def test_no_alignments_are_left_after_ctrl_c(call: Any, lively: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line, pressed = cli_write.as_line, []

    def press(*args: Any) -> str:
        pressed.append(args)
        if len(pressed) == 2:
            signal.raise_signal(signal.SIGINT)
        return line(*args)

    monkeypatch.setattr(cli_write, "as_line", press)
    done = call("translate", lively, *TEXTS, "--output", "out.txt", "--alignments", "links.txt")
    assert done == (1, "", "stopped\n")
    assert len(pressed) == 2
    assert listed() == []


def test_a_file_is_written_though_there_is_no_stdout(
    call: Any, lively: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started with `>&-`, Python has no stdout at all."""
    monkeypatch.setattr(sys, "stdout", None)
    assert call("translate", lively, TEXTS[0], "--output", "out.txt") == (0, "", "")
    assert listed() == ["out.txt"]
