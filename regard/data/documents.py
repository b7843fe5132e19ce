"""Documents from files: plain text, CSV or JSONL, plain or compressed.

A document comes in chunks, since one may take gigabytes. Whatever is wrong is a DataError, as for pairs."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator
from itertools import chain, groupby, islice
from pathlib import Path

from regard.data.pairs import (
    COMPRESSED,
    DAMAGED,
    DataError,
    columns_of,
    explained,
    few,
    find_files,
    open_bytes,
    open_lines,
    records,
)

CHUNK = 1 << 18  # bytes
LONGEST_FIELD = 1 << 24  # characters of a CSV field; beyond it there is rather a quote that nobody closed
HEADING = re.compile(r"\s*= [^=]+ =\s*")  # WikiText's for an article; those of its sections have more signs
Document = Iterator[str]


def read_documents(name: str | Path, *, documents: str = "file", column: str = "text") -> Iterator[Document]:
    """Each document as chunks, to be read before the next one is asked for.

    In plain text `documents` says what one is: the whole "file", every "line" (an empty one too, and without its
    line break), what lies between "blank" lines, or what stands under a "heading" = Like this =. In CSV and JSONL
    each row is one, its text in `column`.
    "wiki.{1,2}.txt" is several files, one after the other. Line breaks come as \\n alone."""
    if documents not in READERS:
        raise ValueError(f"documents must be one of {', '.join(READERS)}, got {documents!r}")
    paths = find_files(name)
    return (document for path in paths for document in _read(path, documents, column))


def _read(path: Path, documents: str, column: str) -> Iterator[Document]:
    plain = path.stem if path.suffix.lower() in COMPRESSED else path.name
    match Path(plain).suffix.lower():
        case ".csv":
            found = _csv(path, column)
        case ".jsonl" | ".ndjson":
            found = _jsonl(path, column)
        case _:
            found = READERS[documents](path)
    empty = True
    for document in found:
        empty = False
        yield document
    if empty:
        raise DataError(f"{path} is empty; it needs at least one document")


def _file(path: Path) -> Iterator[Document]:
    chunks = _chunks(path)
    for first in islice(chunks, 1):
        yield chain([first], chunks)


def _chunks(path: Path) -> Iterator[str]:
    """The file's text in pieces that are not empty; lines may be of any length."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
    line, more = 1, True
    with explained(path), open_bytes(path) as file:
        while more:
            try:
                data = file.read(CHUNK)
                more = bool(data)
                text = decoder.decode(data, final=not more)
            except DAMAGED as error:
                raise DataError(
                    f"{path}, line {line} or after: here the {path.suffix} file is damaged or cut short, "
                    f"or it never was one ({error}); fetch or compress it anew"
                ) from None
            except UnicodeDecodeError as error:
                line += error.object.count(b"\n", 0, error.start)
                raise DataError(
                    f"{path}, line {line}: the byte 0x{error.object[error.start]:02x} is not UTF-8; "
                    "convert the file to UTF-8"
                ) from None
            if "\0" in text:
                line += text.count("\n", 0, text.index("\0"))
                raise DataError(f"{path}, line {line}: holds a NUL byte; the file must be plain text in UTF-8")
            line += text.count("\n")
            if text:
                yield text


def _lines(path: Path) -> Iterator[Document]:
    for _, line in open_lines(path):
        yield iter([line])


def _between_blanks(path: Path) -> Iterator[Document]:
    for real, lines in groupby(open_lines(path), key=lambda line: bool(line[1].strip())):
        if real:
            yield (("\n" if place else "") + line for place, (_, line) in enumerate(lines))


def _under_headings(path: Path) -> Iterator[Document]:
    number = 0

    def place(line: tuple[int, str]) -> int:
        nonlocal number
        number += bool(HEADING.fullmatch(line[1]))
        return number

    for _, lines in groupby(open_lines(path), key=place):
        yield (("\n" if at else "") + line for at, (_, line) in enumerate(lines))


READERS = {"file": _file, "line": _lines, "blank": _between_blanks, "heading": _under_headings}


def _csv(path: Path, column: str) -> Iterator[Document]:
    # The csv module has one limit for all; raised, it harms no other reader.
    csv.field_size_limit(max(LONGEST_FIELD, csv.field_size_limit()))
    rows = records(path)
    where, header = next(rows, ("", []))
    if header and header.count(column) != 1:
        found = "no" if column not in header else "more than one"
        raise DataError(f"{where}: {found} column {column!r}; the header names {few(header)}")
    for where, row in rows:
        if len(row) != len(header):
            raise DataError(f"{where}: {columns_of(row)}, but the header has {len(header)}")
        yield iter([row[header.index(column)]])


def _jsonl(path: Path, column: str) -> Iterator[Document]:
    for number, line in open_lines(path):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: holds a {type(row).__name__}, but must hold an object with {column!r}")
        if column not in row:
            raise DataError(f"{where}: no key {column!r}; the object has {few(row)}")
        text = row[column]
        if not isinstance(text, str):
            raise DataError(f"{where}: {column!r} must be text, got {text!r:.40}")
        if re.search("[\0\ud800-\udfff]", text):  # JSON can spell what UTF-8 cannot
            raise DataError(f"{where}: holds a NUL or half a surrogate pair: {text!r:.40}")
        yield iter([text])
