"""`regard translate`: input from files, pipes and stdin; output that is whole or not there."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regard.decode.settings import Decoding
from regard.tasks.core.table import load
from regard.tasks.translate import run as translating
from regard.tasks.translate.translation import Translation

TEXTS = ["a b c", "q w e r t y", "z y"]


def listed() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def write_input(texts: list[str], name: str = "in.txt") -> str:
    data = "".join(f"{text}\n" for text in texts).encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return name


@pytest.fixture(scope="session")
def answers(lively: str) -> list[str]:
    """What the command should print for TEXTS."""
    found = [answer.text for answer in load(lively).translate(TEXTS)]
    assert len({*found, ""}) == 4
    return found


def test_translate_reads_a_file_and_writes_one(call: Any, lively: str, answers: list[str]) -> None:
    """With a byte order mark, CRLF, a blank line, and no newline at the end."""
    Path("in.txt").write_bytes(f"\ufeff{TEXTS[0]}\r\n\r\n{TEXTS[1]}\n{TEXTS[2]}".encode())
    done = call("translate", lively, "--input", "in.txt", "--output", "out.txt")
    assert done == (0, "", "")
    assert Path("out.txt").read_text() == f"{answers[0]}\n\n{answers[1]}\n{answers[2]}\n"
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", "out.txt"]


def test_translate_reads_stdin(
    call: Any, lively: str, answers: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    with open(tmp_path / "in.txt") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert call("translate", lively).out.splitlines() == answers


def test_translate_waits_for_nobody_at_a_terminal(call: Any, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    done = call("translate", run)
    assert (done.code, done.out) == (2, "")
    assert "give texts as arguments, a file with --input, or lines on stdin" in done.err


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
    alone = {text: load(lively).translate([text], Decoding(max_length=4))[0].text for text in sorted(set(texts))}
    assert [row["text"] for row in rows] == [alone[text] for text in texts]


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
    words = ["--output", "out.txt", "--alignments", "links.txt", "--strict"]
    done = call("translate", lively, "--input", name, *words)
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
        done = call("translate", lively, "--output", "out.txt", "--strict")
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


def test_a_line_too_long_is_named_before_any_work(call: Any, lively: str) -> None:
    Path("in.txt").write_text("a b\n" * 70 + "x" * 50 + "\n")
    Path("out.txt").write_text("from before")
    done = call("translate", lively, "--input", "in.txt", "--output", "out.txt", "--strict")
    assert (done.code, done.out) == (2, "")
    assert "in.txt, line 71: " in done.err
    assert "has 51 tokens with the end token and this model takes 40" in done.err
    assert Path("out.txt").read_text() == "from before"
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", "out.txt"]


def test_no_output_is_left_after_ctrl_c(
    call: Any, lively: str, ctrl_c: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Translation.line

    def press(answer: Translation) -> str:
        ctrl_c()
        return line(answer)

    monkeypatch.setattr(Translation, "line", press)
    done = call("translate", lively, *TEXTS, "--output", "out.txt")
    assert done == (130, "", "stopped\n")
    assert not list(Path().iterdir())


def test_a_device_is_written_to_and_not_replaced(call: Any, lively: str, tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    assert call("translate", lively, "a b", "--output", link) == (0, "", "")
    assert link.is_symlink()
    assert call("translate", lively, "a b", "--output", "/dev/null") == (0, "", "")
    assert Path("/dev/null").is_char_device()


def test_nothing_is_left_after_a_failure_in_the_middle(
    call: Any, lively: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last text is too long for the model; those before it have been answered by then."""
    monkeypatch.setattr(translating, "AHEAD", 1)  # texts are read a batch at a time
    for old in ("out.txt", "links.txt"):
        Path(old).write_text("from before")
    words = ["--output", "out.txt", "--alignments", "links.txt", "--max-length", "3", "--strict"]
    with stdin_from(piped(b"a b\n" * 70 + b"x" * 50), monkeypatch):
        done = call("translate", lively, *words)
    assert (done.code, done.out) == (2, "")
    assert "has 51 tokens with the end token and this model takes 40" in done.err
    assert Path("out.txt").read_text() == Path("links.txt").read_text() == "from before"
    assert listed() == ["links.txt", "out.txt"]


def test_what_was_answered_before_ctrl_c_is_kept_beside_the_files(
    call: Any, lively: str, ctrl_c: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, pressed = Translation.line, []

    def press(answer: Translation) -> str:
        pressed.append(answer)
        if len(pressed) == 2:
            ctrl_c()
        return line(answer)

    wanted = call("translate", lively, TEXTS[0], "--alignments", "wanted.txt").out
    monkeypatch.setattr(Translation, "line", press)
    Path("out.txt").write_text("from before")
    done = call("translate", lively, *TEXTS, "--output", "out.txt", "--alignments", "links.txt")
    assert (done.code, done.out) == (130, "")
    assert done.err == (
        "out.txt.partial keeps what was done, 1 line; out.txt was not written\n"
        "links.txt.partial keeps what was done, 1 line; links.txt was not written\n"
        "stopped\n"
    )
    assert len(pressed) == 2
    assert listed() == ["links.txt.partial", "out.txt", "out.txt.partial", "wanted.txt"]
    assert Path("out.txt").read_text() == "from before"
    assert Path("out.txt.partial").read_text() == wanted
    assert Path("links.txt.partial").read_text() == Path("wanted.txt").read_text()


def test_a_file_is_written_though_there_is_no_stdout(
    call: Any, lively: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started with `>&-`, Python has no stdout at all."""
    monkeypatch.setattr(sys, "stdout", None)
    assert call("translate", lively, TEXTS[0], "--output", "out.txt") == (0, "", "")
    assert listed() == ["out.txt"]
