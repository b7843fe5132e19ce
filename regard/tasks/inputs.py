"""What a task is asked with: texts or images, read from arguments, a file or stdin."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.errors import BadInput, DataError


@dataclass(frozen=True)
class Asked:
    """The inputs of one command: an iterable, and how many there are where that is known."""

    items: Iterable[str] | Iterable[Path]
    count: int | None


class Inputs(ABC):
    """One kind of input, with its help texts for the command line."""

    what: ClassVar[str]  # in the plural, for a progress bar
    metavar: ClassVar[str]
    help: ClassVar[str]
    from_file: ClassVar[str] = ""  # help of --input; "": there is no such option
    example: ClassVar[str]  # what stands for it in the README of a run

    def check(self, given: Sequence[str], source: Path | None) -> None:
        """BadInput where the wrong things are given, before anything is loaded."""
        return None

    @abstractmethod
    def read(self, given: Sequence[str], source: Path | None, check: Callable[[str], None]) -> Asked:
        """From arguments, else from a file, else from stdin. `check` raises ValueError for an input that cannot be
        answered."""


class Texts(Inputs):
    what = "texts"
    metavar = "TEXT"
    help = "Texts; without any, lines of stdin."
    from_file = "A file with one text a line; also .gz, .xz, .zst."
    example = '"..."'

    def check(self, given: Sequence[str], source: Path | None) -> None:
        if given and source:
            raise BadInput("give texts or --input, not both")
        if not given and source is None and (sys.stdin is None or sys.stdin.isatty()):
            raise BadInput("give texts as arguments, a file with --input, or lines on stdin")

    def read(self, given: Sequence[str], source: Path | None, check: Callable[[str], None]) -> Asked:
        """The lines of a file are checked while they are counted: one that is too long is reported at once, and not
        after hours of work."""
        from regard.data.lines import open_lines

        if given:
            for text in given:
                check_text(text)
            return Asked(given, len(given))
        if source is None:
            return Asked(read_stdin(), None)
        if source.exists() and not source.is_file() and not source.is_dir():  # a pipe can be read once
            return Asked((line for _, line in open_lines(source)), None)
        count = 0
        for count, line in open_lines(source):
            try:
                check(line)
            except ValueError as error:
                raise DataError(f"{source}, line {count}: {error}") from None
        if not count:
            raise DataError(f"{source} is empty; it needs one text a line")
        return Asked((line for _, line in open_lines(source)), count)


class Images(Inputs):
    what = "images"
    metavar = "IMAGE"
    help = "Image files, or folders whose images are all taken."
    example = "FILE"

    def check(self, given: Sequence[str], source: Path | None) -> None:
        if not given:
            raise BadInput("give image files, or folders of them")

    def read(self, given: Sequence[str], source: Path | None, check: Callable[[str], None]) -> Asked:
        files = image_files(map(Path, given))
        return Asked(files, len(files))


def image_files(paths: Iterable[Path]) -> list[Path]:
    """The files that are named, and all images in the folders that are named."""
    from regard.data.images import SUFFIXES, is_image

    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise FileNotFoundError(f"there is no image {path}")
            found.append(path)
            continue
        inside = sorted(one for one in path.rglob("*") if is_image(one.relative_to(path)) and one.is_file())
        if not inside:
            raise DataError(f"{path} holds no images ({', '.join(sorted(SUFFIXES))})")
        found += inside
    return found


def check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode(errors="surrogateescape").decode(errors="replace")
        raise BadInput(f"{shown[:40]!r} is not valid UTF-8; convert it first") from None


def read_stdin() -> Iterator[str]:
    from regard.data.lines import number_lines

    with open(sys.stdin.fileno(), "rb", closefd=False) as file:
        for _, line in number_lines(file, "stdin"):
            yield line
