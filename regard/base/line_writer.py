"""Lines to stdout or to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.base.files import drafted


@contextmanager
def line_writer(output: Path | None, option: str = "--output") -> Iterator[Callable[[str], None]]:
    """Prints lines, or writes them to a file that appears only when it is complete."""
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
    with drafted(output) as draft, open(draft, "w", encoding="utf-8") as file:
        yield lambda line: print(line, file=file)
