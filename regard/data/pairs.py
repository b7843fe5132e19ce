"""Pairs of texts from a tab-separated file."""

from __future__ import annotations

import codecs
from pathlib import Path


class DataError(ValueError):
    """A file of the user's does not hold what it should."""


def read_bytes(path: str | Path) -> bytes:
    """The file's bytes, or a DataError that says why there are none."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; name a file in it")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the name and the folder") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def read_pairs(path: str | Path) -> list[tuple[str, str]]:
    """One pair a line: source, tab, target, in UTF-8 (a byte order mark and CRLF are accepted).

    Lines end at newlines alone: other separators of Unicode (U+2028, U+0085) are part of the text."""
    lines = read_bytes(path).removeprefix(codecs.BOM_UTF8).split(b"\n")
    if lines[-1] == b"":  # what follows the last newline is no line
        lines.pop()
    if not lines:
        raise DataError(f"{path} is empty; it needs at least one line: source, tab, target")
    return [_pair(line.removesuffix(b"\r"), f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def _pair(line: bytes, where: str) -> tuple[str, str]:
    if b"\0" in line:
        raise DataError(f"{where}: holds a NUL byte; the file must be plain text in UTF-8")
    try:
        columns = line.decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8; convert the file to UTF-8"
        ) from None
    if len(columns) != 2:
        raise DataError(
            f"{where}: {len(columns)} column{'s' * (len(columns) != 1)}, but a line needs exactly two: "
            "source, tab, target"
        )
    for side, text in zip(("source", "target"), columns, strict=True):
        if not text.strip():
            raise DataError(f"{where}: the {side} is empty; fill it in or remove the line")
    return columns[0], columns[1]
