"""Documents from files: plain text, CSV or JSONL, plain or compressed, or parquet.

A document comes in chunks, because it may be gigabytes long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from pathlib import Path

from regard.base.lines import open_chunks, open_lines
from regard.base.records import Columns, Table, by_header, by_keys, check_text, find_tables, form_of, read_csv
from regard.errors import DataError

# Where a sentence ends within a line: before a capital or a quote, or at a full stop between spaces.
END = re.compile(r"[.!?][\"'”’)\]]*\s+")
QUOTES = "\"'“‘«"
SPACED = re.compile(r"(?<=\s[.!?])\s+")
HEADING = re.compile(r"\s*= [^=]+ =\s*")  # of an article in WikiText; those of its sections have more signs
Document = Iterator[str]


def read_documents(name: str | Path, *, documents: str = "file", column: str = "text") -> Iterator[Document]:
    """Each document as chunks, which must be read before the next document is asked for.

    In plain text `documents` says what a document is: the whole "file", every "line" (empty lines too, and without
    its line break), what lies between "blank" lines, or what follows a "heading" = Like this =. In CSV,
    JSONL and parquet each row is a document, with its text in `column`. "wiki.{1,2}.txt" and "wiki-*.txt" are
    several files, one after the other. Line breaks are always \\n. Of rows in memory each is a document too."""
    if documents not in READERS:
        raise ValueError(f"documents must be one of {', '.join(READERS)}, got {documents!r}")
    tables = find_tables(name, (column,))
    return (document for table in tables for document in _read(table, documents, column))


def _read(path: Table, documents: str, column: str) -> Iterator[Document]:
    match form_of(path):
        case "jsonl" | "parquet":
            every = _jsonl(path, column)
        case "csv":
            every = _csv(Path(path), column)
        case _:
            every = READERS[documents](Path(path))
    empty = True
    for document in every:
        empty = False
        yield document
    if empty:
        raise DataError(f"{path} is empty; it needs at least one document")


def _file(path: Path) -> Iterator[Document]:
    chunks = open_chunks(path)
    for first in islice(chunks, 1):
        yield chain([first], chunks)


def _lines(path: Path) -> Iterator[Document]:
    for _, line in open_lines(path):
        yield iter([line])


def _between_blanks(path: Path) -> Iterator[Document]:
    for filled, lines in groupby(open_lines(path), key=lambda line: bool(line[1].strip())):
        if filled:
            yield _joined(lines)


def _under_headings(path: Path) -> Iterator[Document]:
    number = 0

    def article(line: tuple[int, str]) -> int:
        nonlocal number
        number += bool(HEADING.fullmatch(line[1]))
        return number

    for _, lines in groupby(open_lines(path), key=article):
        yield _joined(lines)


def _joined(lines: Iterator[tuple[int, str]]) -> Document:
    """The lines with a line break before each but the first."""
    return (("\n" if place else "") + line for place, (_, line) in enumerate(lines))


READERS = {"file": _file, "line": _lines, "blank": _between_blanks, "heading": _under_headings}


def _csv(path: Path, column: str) -> Iterator[Document]:
    for _, texts in by_header(read_csv(path), Columns((column,), ((column,),))):
        yield iter(texts)


def _jsonl(path: Table, column: str) -> Iterator[Document]:
    for where, values in by_keys(path, Columns((column,), ((column,),)), repr(column)):
        yield iter([check_text(text, key, where) for key, text in values])


# ---- their sentences


def read_sentences(documents: Iterable[Document]) -> Iterator[Iterator[str]]:
    """The sentences of each document, which must be read before the next document is asked for.

    In a document of several lines each line is a sentence; a full stop between spaces ends a sentence too, because
    lines of WikiText are paragraphs. In a document of one line a sentence also ends at . ! or ? before a space and
    a capital or quote."""
    for document in documents:
        lines = (line for line in map(str.strip, _whole_lines(document)) if line)
        first = list(islice(lines, 2))
        if len(first) == 1:
            yield (part for sentence in SPACED.split(first[0]) for part in _parts(sentence))
        else:
            yield (sentence for line in chain(first, lines) for sentence in SPACED.split(line))


def _whole_lines(chunks: Document) -> Iterator[str]:
    begun: list[str] = []  # the parts of a line that may go on
    for chunk in chunks:
        rest, *others = chunk.split("\n")
        begun.append(rest)
        for line in others:
            yield "".join(begun)
            begun = [line]
    yield "".join(begun)


def _parts(text: str) -> Iterator[str]:
    begin = 0
    for end in END.finditer(text):
        after = text[end.end() : end.end() + 1]
        if after.isupper() or (after and after in QUOTES):
            yield text[begin : end.end()].rstrip()
            begin = end.end()
    yield text[begin:]
