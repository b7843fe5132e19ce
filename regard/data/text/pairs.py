"""Pairs of texts from files: aligned files, TSV, CSV or JSONL, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from regard.base.files import find_files
from regard.base.records import (
    Row,
    check_text,
    column_number,
    count_columns,
    filled_lines,
    find_columns,
    form_of,
    read_csv,
    read_jsonl,
    read_tsv,
    refuse_empty,
    take_columns,
    value_of,
)
from regard.errors import DataError


@dataclass(frozen=True)
class Columns:
    """Which two to take: names in a CSV header, keys of JSONL ("" = source, target), numbers in a TSV (1, 2).

    Aligned files have no columns and ignore this."""

    source: str = ""
    target: str = ""


USUAL = Columns()


def read_pairs(name: str | Path, columns: Columns = USUAL) -> Iterator[tuple[str, str]]:
    """(source, target) of each line or record; more than one target is an error.

    `name` is a path, or "train.{en,de}.gz" for aligned files; see find_files."""
    for row in _read(name, columns, single=True):
        yield row[0], row[1]


def read_rows(name: str | Path, columns: Columns = USUAL) -> Iterator[tuple[str, ...]]:
    """(source, reference, ...): as read_pairs, with as many references as the data has.

    They are further aligned files, further columns of a TSV (unless `columns` says which), or a list in JSONL."""
    return _read(name, columns, single=False)


def _read(name: str | Path, columns: Columns, *, single: bool) -> Iterator[tuple[str, ...]]:
    paths = find_files(name)
    if single and len(paths) > 2:
        raise DataError(f"{name}: {len(paths)} files, but exactly two are needed: source and target")
    empty = True
    for where, fields in _rows(paths, columns, single):
        empty = False
        for place, text in enumerate(fields):
            refuse_empty(text, "target" if place else "source", where)
        yield tuple(fields)
    if empty:
        raise DataError(f"{name} is empty; it needs at least one pair of source and target")


def _rows(paths: list[Path], columns: Columns, single: bool) -> Iterator[Row]:
    if len(paths) > 1:
        return _aligned(paths)
    match form_of(paths[0]):
        case "csv":
            return _csv(paths[0], columns)
        case "jsonl" | "json":
            return _jsonl(paths[0], columns, single)
    return _tsv(paths[0], columns, single)


def _aligned(paths: list[Path]) -> Iterator[Row]:
    """Line n of each file."""
    for number, lines in enumerate(zip_longest(*map(filled_lines, paths)), 1):
        if None in lines:
            short = paths[lines.index(None)]
            long = next(path for path, line in zip(paths, lines, strict=True) if line)
            raise DataError(
                f"{short} ends after line {number - 1}, but {long} goes on; "
                "aligned files must have the same number of lines"
            )
        yield lines[0][0], [text for _, text in lines]


def _tsv(path: Path, columns: Columns, single: bool) -> Iterator[Row]:
    names = _names(path, columns, "1", "2")
    places = [column_number(name) for name in names]
    if None in places:
        raise DataError(
            f"{path}: columns of a file with tabs are numbers from 1, got {names[places.index(None)]!r}; files "
            "that share the names of columns must be of one form"
        )
    if columns != USUAL:
        yield from take_columns(read_tsv(path), [place for place in places if place is not None])
        return
    for where, fields in read_tsv(path):
        if single and len(fields) != 2:
            raise DataError(f"{where}: {count_columns(fields)}, but a line needs exactly two: source, tab, target")
        if len(fields) < 2:
            raise DataError(f"{where}: {count_columns(fields)}, but a line needs at least 2, separated by tabs")
        yield where, fields


def _csv(path: Path, columns: Columns) -> Iterator[Row]:
    rows = read_csv(path)
    for header in islice(rows, 1):
        places = find_columns(header, _names(path, columns, "source", "target"))
        yield from take_columns(rows, places, width=len(header[1]))


def _jsonl(path: Path, columns: Columns, single: bool) -> Iterator[Row]:
    """The target is a text or a list of them."""
    source, target = _names(path, columns, "source", "target")
    for where, record in read_jsonl(path, f"{source} and {target}"):
        first, targets = value_of(record, source, where), value_of(record, target, where)
        if not isinstance(targets, list):
            targets = [targets]
        if single and len(targets) != 1:
            raise DataError(f"{where}: {len(targets)} targets under {target!r}, but there must be exactly one")
        if not targets:
            raise DataError(f"{where}: the list under {target!r} is empty")
        texts = [check_text(first, source, where)]
        texts += [check_text(text, target, where) for text in targets]
        yield where, texts


def _names(path: Path, columns: Columns, source: str, target: str) -> tuple[str, str]:
    names = columns.source or source, columns.target or target
    if names[0] == names[1]:
        raise DataError(f"{path}: source and target are both column {names[0]!r}; they must differ")
    return names
