"""Inputs from a file as `--data` reads it: lines, columns of a TSV, CSV or JSONL, or a folder of text files.

Rows keep their order. A row that cannot be read is given as its error, so that answers keep the numbers of their
inputs; a file without the right columns is refused as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.base.lines import open_chunks, open_tried_lines
from regard.base.patterns import COMPRESSED
from regard.base.records import (
    LONGEST_FIELD,
    check_text,
    column_number,
    count_columns,
    find_columns,
    first_ten,
    form_of,
    read_csv,
    read_record,
    value_of,
)
from regard.errors import BadInput, DataError

# A line; the texts of a row or file, of which a pair has two; or why there is none.
FromFile = str | tuple[str, ...] | BadInput


@dataclass(frozen=True)
class InputColumns:
    """Which columns of a file hold the inputs."""

    usual: tuple[tuple[str, ...], ...] = (("text",),)  # looked for in this order, in capitals or not; two: a pair
    named: tuple[str, ...] = ()  # by the user: no others are looked for
    of_recipe: tuple[str, ...] = ()  # by the run's recipe: looked for first
    leading: int = 0  # so many columns of a TSV without a header hold an input; 0: it must have one column

    @property
    def numbers(self) -> list[int]:
        """The places of columns that are named by numbers."""
        places = [column_number(name) for name in self.named]
        return [place for place in places if place is not None] if None not in places else []

    def find(self, header: Sequence[str]) -> list[str]:
        """The names of the columns in a header, or among the keys of an object; [] if it has no such columns."""
        if self.named:
            return list(self.named)
        if self.of_recipe and set(self.of_recipe) <= set(header):
            return list(self.of_recipe)
        by_usual = {name.lower(): name for name in header}
        return next(([by_usual[name] for name in names] for names in self.usual if by_usual.keys() >= {*names}), [])

    def need(self, header: Sequence[str], where: str) -> list[str]:
        """As `find`; DataError where there are no such columns."""
        if names := self.find(header):
            return names
        usual = ", ".join(" and ".join(names) for names in self.usual)
        raise DataError(
            f"{where}: no column with a usual name ({usual}); there are {first_ten(header)}. Name the column of "
            "the inputs with --columns, in a TSV without a header by its number, from 1"
        )


def read_inputs(source: Path, columns: InputColumns) -> Iterator[tuple[str, FromFile]]:
    """Each input with its place: "in.csv, line 3"."""
    if source.is_dir():
        every: Iterator[tuple[str, FromFile]] = _folder(source)
    else:
        match form_of(source):
            case "csv":
                return _csv(source, columns)
            case "jsonl" | "json":
                return _jsonl(source, columns)
            case "tsv":
                return _tsv(source, columns)
        every = ((f"{source}, line {number}", line) for number, line in open_tried_lines(source))
    if columns.named:
        raise BadInput(f"--columns names {', '.join(columns.named)}, and {source} has no columns; leave it out")
    return every


def _csv(source: Path, columns: InputColumns) -> Iterator[tuple[str, FromFile]]:
    rows = read_csv(source)
    for where, header in islice(rows, 1):
        places = find_columns((where, header), columns.need(header, where))
        for place, fields in rows:
            yield place, _taken(fields, places, len(header), place)


def _tsv(source: Path, columns: InputColumns) -> Iterator[tuple[str, FromFile]]:
    """The first line may be a header."""
    places: list[int] = []
    width = 0
    for number, line in open_tried_lines(source):
        where = f"{source}, line {number}"
        if isinstance(line, BadInput):
            yield where, line
            continue
        fields = line.split("\t")
        if not places:
            places = columns.numbers
        if not places:
            names = columns.find(fields)
            places = (
                find_columns((where, fields), names, by_number=True) if names else _first(fields, columns, where)
            )
            if names:
                width = len(fields)
                continue
        yield where, _taken(fields, places, width, where)


def _first(fields: Sequence[str], columns: InputColumns, where: str) -> list[int]:
    """The places of the inputs in a TSV without a header, of which this is the first row."""
    count = columns.leading or 1
    if len(fields) < count or (len(fields) > 1 and not columns.leading):
        columns.need(fields, where)
    return list(range(count))


def _taken(fields: Sequence[str], places: Sequence[int], width: int, where: str) -> FromFile:
    if (width and len(fields) != width) or len(fields) <= max(places):
        wanted = f"the first line has {width}" if width else f"at least {max(places) + 1} are needed"
        return DataError(f"{where}: {count_columns(fields)}, but {wanted}")
    return tuple(fields[place] for place in places)


def _jsonl(source: Path, columns: InputColumns) -> Iterator[tuple[str, FromFile]]:
    keys: list[str] = []
    for number, line in open_tried_lines(source):
        where = f"{source}, line {number}"
        try:
            if isinstance(line, BadInput):
                raise line
            record = read_record(line, where, " and ".join(columns.named or columns.usual[0]))
            if not record.keys() >= {*keys} or not keys:
                keys = columns.find(list(record)) or keys or columns.need(list(record), where)
            yield where, tuple(check_text(value_of(record, key, where), key, where) for key in keys)
        except DataError as error:
            if not keys:  # not one line says what the file is
                raise
            yield where, error


def _folder(folder: Path) -> Iterator[tuple[str, FromFile]]:
    """Each text file is one input, in the order of their names."""
    for file in text_files(folder):
        try:
            yield str(file), (_whole(file),)
        except DataError as error:
            yield str(file), error


def text_files(folder: Path) -> list[Path]:
    """All .txt files in a folder and its folders, plain or compressed. Hidden files do not count."""
    files = sorted(file for file in folder.rglob("*") if _is_text(file.relative_to(folder)) and file.is_file())
    if not files:
        raise DataError(
            f"{folder} is a directory; name a file in it, or a directory with a .txt file for each text"
        )
    return files


def _is_text(path: Path) -> bool:
    name = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
    return name.suffix.lower() == ".txt" and not any(part.startswith(".") for part in path.parts)


def _whole(file: Path) -> str:
    text = ""
    for chunk in open_chunks(file):
        text += chunk
        if len(text) > LONGEST_FIELD:
            raise DataError(f"{file}: is longer than {LONGEST_FIELD:,} characters; split it")
    return text.removesuffix("\n")
