"""Rows and columns of TSV, CSV and JSONL files, plain or compressed, and of parquet, for every kind of data.

A row comes with its place, such as "train.tsv, line 3", which every error names. Only one row is in memory, of
parquet one row group."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.base.files import explain_os_errors, find_files
from regard.base.lines import open_lines
from regard.base.memory_rows import MemoryRows
from regard.base.patterns import form_by_name
from regard.errors import DataError

LONGEST_FIELD = 1 << 24  # characters of a CSV field; a longer field means a quote that is never closed
PARQUET_ROWS = 1024  # rows that are turned into Python's objects at once
NOT_UTF8 = re.compile("[\0\ud800-\udfff]")  # JSON can escape what UTF-8 cannot hold

Row = tuple[str, Sequence[str]]  # its place, its fields
Record = tuple[str, dict[str, object]]  # its place, its keys and values
Table = Path | MemoryRows  # a file, or rows in memory, which are read as JSONL is


def find_tables(name: str | Path, *shapes: tuple[str, ...]) -> Sequence[Table]:
    """The files of that name, or rows in memory; `shapes`: the keys of rows that are tuples."""
    return [name.keyed(*shapes)] if isinstance(name, MemoryRows) else find_files(name)


def form_of(path: Table) -> str:
    """The form by the file's name, whether compressed or not; "" for none of `patterns.FORMS`."""
    return "jsonl" if isinstance(path, MemoryRows) else form_by_name(path)


def read_tsv(path: Path) -> Iterator[Row]:
    return split_at_tabs(filled_lines(path))


def split_at_tabs(lines: Iterable[tuple[str, str]]) -> Iterator[Row]:
    for where, line in lines:
        yield where, line.split("\t")


def tabbed_lines(path: Path) -> tuple[bool, Iterator[tuple[str, str]]]:
    """Is this a TSV, by its name or its first line? And its lines."""
    lines = filled_lines(path)
    first = list(islice(lines, 1))
    return form_of(path) == "tsv" or any("\t" in line for _, line in first), chain(first, lines)


def read_csv(path: Path) -> Iterator[Row]:
    """By the csv module: quoted fields may hold commas and line breaks."""
    # The module has one limit for all its readers; raising it harms none of them.
    csv.field_size_limit(max(LONGEST_FIELD, csv.field_size_limit()))
    name, first = str(path), 1
    reader = csv.reader((line + "\n" for _, line in open_lines(path)), strict=True)
    try:
        for fields in reader:
            where = _lines(name, first, reader.line_num)
            refuse_empty("".join(fields), "line", where)
            yield where, fields
            first = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{_lines(name, first, reader.line_num)}: is not CSV: {error}") from None


def read_jsonl(path: Table, keys: str) -> Iterator[Record]:
    """One object per line; `keys` says in error messages which keys it needs."""
    if isinstance(path, MemoryRows):
        yield from path.records()
        return
    for where, line in filled_lines(path):
        yield where, read_record(line, where, keys)


def read_record(line: str, where: str, keys: str) -> dict[str, object]:
    """The object in a line of JSONL."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: is not JSON ({error}); each line must be one object") from None
    if not isinstance(record, dict):
        raise DataError(f"{where}: holds a {type(record).__name__}, but must hold an object with {keys}")
    return record


def filled_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line with its place; an empty line is an error."""
    name = str(path)
    for number, line in open_lines(path):
        where = f"{name}, line {number}"
        refuse_empty(line, "line", where)
        yield where, line


# ---- columns


@dataclass(frozen=True)
class Columns:
    """Which columns to take: by their names in a header or as keys of JSONL, or by numbers from 1 in a TSV without
    a header. A column without a name ("") is found by the first of its usual names that occurs, or by its
    number."""

    names: tuple[str, ...]
    usual: tuple[tuple[str, ...], ...]

    @property
    def numbers(self) -> list[int] | None:
        """Their places, if they are named by numbers alone."""
        places = [column_number(name) if name else place for place, name in enumerate(self.names)]
        numbers = [place for place in places if place is not None]
        return numbers if any(self.names) and len(numbers) == len(places) else None

    def choose(self, header: Sequence[str], where: str) -> list[str]:
        """The names of the columns to take, from the header or the keys of an object at this place."""
        return [
            name or next((each for each in usual if each in header), usual[0])
            for name, usual in zip(self.names, self.usual, strict=True)
        ]

    def are_in(self, header: Sequence[str]) -> bool:
        """Are these the names of columns, and all that are needed?"""
        return set(self.choose(header, "")) <= set(header)


def by_header(rows: Iterator[Row], columns: Columns, *, by_number: bool = False) -> Iterator[Row]:
    """The columns of a table whose first row names them. `by_number`: as in `find_columns`."""
    for where, header in islice(rows, 1):
        places = find_columns((where, header), columns.choose(header, where), by_number=by_number)
        yield from take_columns(rows, places, width=len(header))


def by_tabs(rows: Iterator[Row], columns: Columns, usual: tuple[str, str], *, exact: bool = False) -> Iterator[Row]:
    """The columns of a TSV, whose first row may be a header. If no columns are named and none has a usual name,
    there must be two; `usual` says in error messages what they are. `exact`: every row must have two then."""
    if columns.numbers:
        yield from take_columns(rows, columns.numbers)
        return
    for where, first in islice(rows, 1):
        rows = chain([(where, first)], rows)
        if any(columns.names) or columns.are_in(first):
            yield from by_header(rows, columns, by_number=True)
        elif len(first) == 2:
            yield from take_columns(rows, [0, 1], width=2 if exact else 0)
        else:
            raise DataError(
                f"{where}: {count_columns(first)} and no header with usual names ({', '.join(usual)}); say which "
                f"column is the {usual[0]} and which the {usual[1]}, by numbers from 1"
            )


def by_keys(path: Table, columns: Columns, keys: str) -> Iterator[tuple[str, list[tuple[str, object]]]]:
    """The chosen keys and values of each object of JSONL, or row of parquet, in the order of the columns. Columns
    without a name get their keys from the first object. `keys`: as in `read_jsonl`."""
    if form_of(path) == "parquet":
        yield from _by_parquet(Path(path), columns)
        return
    chosen: list[str] = []
    for where, record in read_jsonl(path, keys):
        if not chosen or (not record.keys() >= set(chosen) and columns.are_in(list(record))):
            chosen = columns.choose(list(record), where)
        yield where, [(key, value_of(record, key, where)) for key in chosen]


def find_columns(header: Row, names: Iterable[str], *, by_number: bool = False) -> list[int]:
    """Where in the header the named columns are. `by_number`: a file without a header could be read too."""
    where, fields = header
    for name in names:
        if fields.count(name) != 1:
            which = "no" if name not in fields else "more than one"
            hint = (
                "; is it no header? Then give columns by number, from 1" if name not in fields and by_number else ""
            )
            raise DataError(f"{where}: {which} column {name!r}; the header names {first_ten(fields)}{hint}")
    return [fields.index(name) for name in names]


def take_columns(rows: Iterable[Row], columns: Sequence[int], *, width: int = 0) -> Iterator[Row]:
    """The fields at `columns` of each row. Every row must have `width` columns; 0: enough for these."""
    least = 1 + max(columns)
    for where, fields in rows:
        if width and len(fields) != width:
            raise DataError(f"{where}: {count_columns(fields)}, but the first line has {width}")
        if len(fields) < least:
            raise DataError(
                f"{where}: {count_columns(fields)}, but a line needs at least {least}, separated by tabs"
            )
        yield where, [fields[column] for column in columns]


def value_of(record: Mapping[str, object], key: str, where: str) -> object:
    if key not in record:
        raise DataError(f"{where}: no key {key!r}; the object has {first_ten(record)}")
    return record[key]


def check_text(value: object, key: str, where: str) -> str:
    """The value of a JSON key, which must be text."""
    if not isinstance(value, str):
        raise DataError(f"{where}: {key!r} must be text, got {value!r:.40}")
    if NOT_UTF8.search(value):
        raise DataError(f"{where}: holds a NUL or half a surrogate pair: {value!r:.40}")
    return value


def check_texts(value: object, key: str, where: str) -> list[str]:
    """The value of a JSON key, which must be a text or a list of them."""
    texts = value if isinstance(value, list) else [value]
    if not texts:
        raise DataError(f"{where}: the list under {key!r} is empty")
    return [check_text(text, key, where) for text in texts]


def refuse_empty(text: str, what: str, where: str) -> None:
    if not text.strip():
        raise DataError(f"{where}: the {what} is empty; fill it in or remove the line")


def column_number(name: str) -> int | None:
    """The place of a column named by its number, "1" being the first; None if `name` is not such a number."""
    return int(name) - 1 if re.fullmatch("[1-9][0-9]{0,5}", name) else None


def count_columns(fields: Sequence[str]) -> str:
    return f"{len(fields)} column{'s' * (len(fields) != 1)}"


def first_ten(names: Iterable[str]) -> str:
    """The first ten names in quotes, for error messages."""
    shown = [repr(name) for name in islice(names, 11)]
    return ", ".join(shown if len(shown) < 11 else [*shown[:10], "..."]) or "none"


def header_of(path: Table) -> list[str]:
    """The names in the first line of a table, or the keys of its first row; [] where there are no rows."""
    match form_of(path):
        case "parquet":
            with _parquet(Path(path)) as file:
                return list(file.schema_arrow.names)
        case "csv":
            return [name for _, fields in islice(read_csv(Path(path)), 1) for name in fields]
        case "jsonl" | "json":
            return [key for _, record in islice(read_jsonl(path, "columns"), 1) for key in record]
    return [name for _, fields in islice(read_tsv(Path(path)), 1) for name in fields]


def _by_parquet(path: Path, columns: Columns) -> Iterator[tuple[str, list[tuple[str, object]]]]:
    """Row group after row group, of which only these columns are read."""
    with _parquet(path) as file:
        names = list(file.schema_arrow.names)
        chosen, before = columns.choose(names, str(path)), 0
        find_columns((str(path), names), chosen)
        for part in file.iter_batches(batch_size=PARQUET_ROWS, columns=list(dict.fromkeys(chosen))):
            every = [part.column(name).to_pylist() for name in chosen]
            for number, values in enumerate(zip(*every, strict=True), before + 1):
                yield f"{path}, row {number}", list(zip(chosen, values, strict=True))
            before += len(part)


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    pyarrow, parquet = need_parquet(path)
    try:
        with explain_os_errors(path), parquet.ParquetFile(path) as file:
            yield file
    except pyarrow.ArrowException as error:
        raise DataError(f"{path} is damaged or not a parquet file: {error}") from None


def need_parquet(path: str | Path) -> tuple[ModuleType, ModuleType]:
    """pyarrow and pyarrow.parquet, which are an optional dependency."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path} needs one more package: pip install 'regard[parquet]'") from None
    return pyarrow, pyarrow.parquet


def _lines(name: str, first: int, last: int) -> str:
    return f"{name}, line {first}" if last <= first else f"{name}, lines {first} to {last}"
