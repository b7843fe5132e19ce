"""Answers on stdout or in a file, progress and words on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
