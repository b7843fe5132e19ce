"""Lines to stdout or to a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from regard.base.files import drafted
from regard.base.short_repr import printable


class Lines:
    """Writes lines. In a terminal, control characters are shown as escapes."""

    def __init__(self, file: TextIO | None) -> None:
        self.file = file  # None: stdout, whatever that is when a line is written
        shown = sys.stdout if file is None else file
        self.escaped = shown is not None and shown.isatty()
        self.count, self.within = 0, False  # within a line

    def __call__(self, line: str) -> None:
        self.part(f"{line}\n")
        self.count, self.within = self.count + 1, False

    def part(self, text: str) -> None:
        """A part of a line. What reads a pipe has it at once, and what is stopped has been written so far."""
        print(printable(text) if self.escaped else text, end="", file=self.file, flush=self.file is None)
        self.within = True

    def written(self) -> str:
        """What was written so far, in words; "" for nothing."""
        lines = f"{self.count:,} {'line' if self.count == 1 else 'lines'}" if self.count else ""
        return lines or ("a part of a line" if self.within else "")


@contextmanager
def line_writer(output: Path | None, option: str = "--output") -> Iterator[Lines]:
    """Prints lines, or writes them to a file that appears only when it is complete; see `drafted`."""
    if output is None or str(output) == "-":
        yield Lines(None)
        return
    check_output(output, option)
    if output.exists() and not output.is_file():  # a pipe or /dev/null is written to, not replaced
        with open(output, "w", encoding="utf-8", buffering=1) as file:  # by lines
            yield Lines(file)
        return
    lines: Lines | None = None
    with (
        drafted(output, lambda: lines.written() if lines else "") as draft,
        io.TextIOWrapper(draft, encoding="utf-8") as file,
    ):
        lines = Lines(file)
        yield lines


def check_output(output: Path, option: str = "--output") -> None:
    """A file can be written there."""
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder; let {option} name a file")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {output.parent} to write {output.name} in; make it first")
