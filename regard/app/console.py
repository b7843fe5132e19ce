"""Texts from arguments, a file or stdin; answers on stdout or in a file; progress and words on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def say(text: str) -> None:
    print(text, file=sys.stderr)


@contextmanager
def writer(output: Path | None, option: str = "--output") -> Iterator[Any]:
    """Prints lines, or writes them to a file that appears only when all are there."""
    if output is None or str(output) == "-":
        yield print
        return
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder; let {option} name a file")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {output.parent} to write {output.name} in; make it first")
    if output.exists() and not output.is_file():  # a pipe or /dev/null is written to, not replaced
        with open(output, "w", encoding="utf-8") as file:
            yield lambda line: print(line, file=file)
        return
    temporary = output.with_name(f".{output.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            yield lambda line: print(line, file=file)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def progress(count: int | None, what: str) -> Iterator[Any]:
    """A bar on stderr, where that is a terminal and there is something to wait for."""
    console = Console(stderr=True)
    if not console.is_terminal or (count is not None and count < 2):
        yield lambda: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    # On one terminal answers must go round the bar; to a file or pipe they must not go through it.
    together = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=together) as bar:
        task = bar.add_task(what, total=count)
        yield lambda: bar.advance(task)


def read_lines(
    texts: list[str] | None, source: Path | None, check: Callable[[str], Any]
) -> tuple[Iterator[str] | list[str], int | None]:
    """The texts and, where it is known, how many. A file is checked as it is counted: a line that is too long is
    told before hours of work, and not after them."""
    from regard.data.pairs import DataError, open_lines

    if texts:
        for text in texts:
            check_text(text)
        return texts, len(texts)
    if source is None:
        return read_stdin(), None
    if source.exists() and not source.is_file() and not source.is_dir():  # a pipe can be read once
        return (line for _, line in open_lines(source)), None
    count = 0
    for count, line in open_lines(source):
        try:
            check(line)
        except ValueError as error:
            raise DataError(f"{source}, line {count}: {error}") from None
    if not count:
        raise DataError(f"{source} is empty; it needs one text a line")
    return (line for _, line in open_lines(source)), count


def check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode(errors="surrogateescape").decode(errors="replace")
        raise typer.BadParameter(f"{shown[:40]!r} is not valid UTF-8; convert it first") from None


def read_stdin() -> Iterator[str]:
    from regard.data.pairs import number_lines

    with open(sys.stdin.fileno(), "rb", closefd=False) as file:
        for _, line in number_lines(file, "stdin"):
            yield line
