"""Pairs of texts from files: aligned files, TSV, CSV or JSONL, plain or compressed, or parquet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from regard.base.files import find_aligned
from regard.base.memory_rows import MemoryRows
from regard.base.patterns import COLUMNED
from regard.base.records import (
    Columns,
    Row,
    Table,
    by_header,
    by_keys,
    check_text,
    check_texts,
    column_number,
    count_columns,
    filled_lines,
    form_of,
    read_csv,
    read_tsv,
    refuse_empty,
    take_columns,
)
from regard.errors import DataError


def read_pairs(name: str | Path, *, source: str = "", target: str = "") -> Iterator[tuple[str, str]]:
    """(source, target) of each line or record; more than one target is an error.

    `name` is a path, "train.{en,de}.gz" for aligned files, or a pattern of either; see find_aligned. `source` and
    `target` say which columns to take: names in a CSV header or of parquet, or keys of JSONL ("" = source, target),
    numbers in a TSV (1, 2). Aligned files have no columns and ignore this."""
    for row in _read(name, (source, target), single=True):
        yield row[0], row[1]


def read_references(name: str | Path, *, source: str = "", target: str = "") -> Iterator[tuple[str, ...]]:
    """(source, reference, ...): as read_pairs, with as many references as the data has.

    They are further aligned files, further columns of a TSV (unless columns are named), or a list in JSONL."""
    return _read(name, (source, target), single=False)


def read_tagged(
    name: str | Path, *, source: str = "", target: str = "", tag: str
) -> Iterator[tuple[str, str, str]]:
    """(source, target, tag): as read_pairs, with a third column that says which kind of target it is, in a TSV the
    third unless numbers are given. The tag of aligned files is the target's word in the braces: de in {en,de}."""
    if not isinstance(name, MemoryRows) and "{" in str(name):
        word = str(name).partition("}")[0].rpartition(",")[2]
        for first, second in read_pairs(name):
            yield first, second, word
        return
    tables = [name] if isinstance(name, MemoryRows) else [path for [path] in find_aligned(name)]
    for table in tables:
        keyed = table.keyed(("source", "target", tag)) if isinstance(table, MemoryRows) else table
        for where, fields in _tagged(keyed, source, target, tag):
            for kind, text in zip(("source", "target", "tag"), fields, strict=True):
                refuse_empty(text, kind, where)
            yield fields[0], fields[1], fields[2]


def _tagged(path: Table, source: str, target: str, tag: str) -> Iterator[Row]:
    if form_of(path) not in (*COLUMNED, "json"):
        numbers = [column_number(name) for name in (source or "1", target or "2", tag)]
        if None in numbers:
            raise DataError(f"{path}: columns of a file with tabs are numbers from 1; got {tag!r} as target_tag")
        return take_columns(read_tsv(Path(str(path))), [number for number in numbers if number is not None])
    names = (source or "source", target or "target", tag)
    columns = Columns(names, tuple((name,) for name in names))
    if form_of(path) == "csv":
        return by_header(read_csv(Path(str(path))), columns)
    return (
        (where, [check_text(text, key, where) for key, text in values])
        for where, values in by_keys(path, columns, " and ".join(names))
    )


def _read(name: str | Path, named: tuple[str, str], *, single: bool) -> Iterator[tuple[str, ...]]:
    if isinstance(name, MemoryRows):
        yield from _filled(_rows(name.keyed(("source", "target")), named, single), name)
        return
    groups = find_aligned(name)
    for paths in groups:
        yield from _filled(_group(paths, name, named, single), name if len(groups) == 1 else paths[0])


def read_group(paths: list[Path], *, source: str = "", target: str = "") -> Iterator[tuple[str, str]]:
    """As read_pairs, of one group of `find_aligned`."""
    for row in _filled(_group(paths, paths[0], (source, target), True), paths[0]):
        yield row[0], row[1]


def _group(paths: list[Path], name: str | Path, named: tuple[str, str], single: bool) -> Iterator[Row]:
    """The rows of a file, or of aligned files."""
    if single and len(paths) > 2:
        raise DataError(f"{name}: {len(paths)} files, but exactly two are needed: source and target")
    return _aligned(paths) if len(paths) > 1 else _rows(paths[0], named, single)


def _filled(rows: Iterator[Row], name: str | Path) -> Iterator[tuple[str, ...]]:
    empty = True
    for where, fields in rows:
        empty = False
        for place, text in enumerate(fields):
            refuse_empty(text, "target" if place else "source", where)
        yield tuple(fields)
    if empty:
        raise DataError(f"{name} is empty; it needs at least one pair of source and target")


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


def _rows(path: Table, named: tuple[str, str], single: bool) -> Iterator[Row]:
    form = form_of(path)
    usual = ("source", "target") if form in (*COLUMNED, "json") else ("1", "2")
    source, target = named[0] or usual[0], named[1] or usual[1]
    if source == target:
        raise DataError(f"{path}: source and target are both column {source!r}; they must differ")
    columns = Columns((source, target), ((source,), (target,)))
    match form:
        case "csv":
            return by_header(read_csv(Path(path)), columns)
        case "jsonl" | "json" | "parquet":
            return _jsonl(path, columns, single)
    assert isinstance(path, Path)
    if columns.numbers is None:
        wrong = next(name for name in columns.names if column_number(name) is None)
        raise DataError(
            f"{path}: columns of a file with tabs are numbers from 1, got {wrong!r}; files "
            "that share the names of columns must be of one form"
        )
    return take_columns(read_tsv(path), columns.numbers) if any(named) else _tsv(path, single)


def _tsv(path: Path, single: bool) -> Iterator[Row]:
    for where, fields in read_tsv(path):
        if single and len(fields) != 2:
            raise DataError(f"{where}: {count_columns(fields)}, but a line needs exactly two: source, tab, target")
        if len(fields) < 2:
            raise DataError(f"{where}: {count_columns(fields)}, but a line needs at least 2, separated by tabs")
        yield where, fields


def _jsonl(path: Table, columns: Columns, single: bool) -> Iterator[Row]:
    """The target is a text or a list of them."""
    for where, values in by_keys(path, columns, " and ".join(columns.names)):
        (source, text), (target, texts) = values
        if single and isinstance(texts, list) and len(texts) != 1:
            raise DataError(f"{where}: {len(texts)} targets under {target!r}, but there must be exactly one")
        yield where, [check_text(text, source, where), *check_texts(texts, target, where)]
