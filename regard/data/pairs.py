"""Pairs of texts from files, line by line: aligned files, TSV, CSV, JSONL, plain or compressed.

Whatever is wrong is a DataError that names file and line. Nothing is held but the line at hand."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from regard.data.files import find_data

LONGEST_LINE = 1 << 20  # bytes; a line beyond it is no sentence but a file without line breaks
AT_MOST = len(codecs.BOM_UTF8) + LONGEST_LINE + len(b"\r\n")  # read of a line: enough to see that it is too long
COMPRESSED = (".gz", ".xz", ".zst")
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
# Fed in small pieces, since four bytes of zstd may stand for 128 KiB of text.
PIECE = 128


class DataError(ValueError):
    """A file of the user's does not hold what it should."""


@dataclass(frozen=True)
class Columns:
    """Which two to take: names in a CSV header, keys of JSONL ("" = source, target), numbers in a TSV (1, 2).

    Line-aligned files have no columns and take no notice."""

    source: str = ""
    target: str = ""


USUAL = Columns()
Row = tuple[str, ...]


def read_pairs(name: str | Path, columns: Columns = USUAL) -> Iterator[tuple[str, str]]:
    """(source, target) of each line or record; more than one target is an error.

    `name` is a path, or "train.{en,de}.gz" for files whose lines belong together; see find_files."""
    for row in _rows(name, columns, single=True):
        yield row[0], row[1]


def read_rows(name: str | Path, columns: Columns = USUAL) -> Iterator[Row]:
    """(source, reference, ...): as read_pairs, with as many references as the data has.

    They are further aligned files, further columns of a TSV (unless `columns` says which), or a list in JSONL."""
    return _rows(name, columns, single=False)


def find_files(name: str | Path) -> list[Path]:
    """ "train.{en,de}.gz" is train.en.gz and train.de.gz, source first; without braces it is one file.

    Each is sought here, else under $REGARD_DATA. A file that bears the whole name, braces too, comes first."""
    name = str(name)
    try:
        return [find_data(name)]
    except FileNotFoundError as error:
        if "{" not in name and "}" not in name:
            raise DataError(str(error)) from None
    pattern = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", name)
    if not pattern:
        raise DataError(f"{name} must have one pair of braces, as train.{{en,de}}.gz has, or none")
    before, choices, after = pattern.groups()
    if "," not in choices:
        raise DataError(f"{name}: the braces must hold two names or more, parted by commas, as train.{{en,de}}.gz")
    try:
        return [find_data(before + choice + after) for choice in choices.split(",")]
    except FileNotFoundError as error:
        raise DataError(f"{name}: {error}") from None


def open_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The file's lines, unpacked by its suffix; see number_lines."""
    with explained(path), open_bytes(Path(path)) as file:
        yield from number_lines(file, str(path))


def number_lines(file: io.BufferedIOBase, name: str) -> Iterator[tuple[int, str]]:
    r"""Numbered lines from 1, in UTF-8 (a byte order mark and CRLF are accepted); `name` is for errors.

    Lines end at \n alone: other separators of Unicode (U+2028, U+0085) are part of the text."""
    number = 1
    try:
        line = file.readline(AT_MOST).removeprefix(codecs.BOM_UTF8)
        while line:
            yield number, _text(line, f"{name}, line {number}")
            number += 1
            line = file.readline(AT_MOST)
    except DAMAGED as error:
        raise DataError(
            f"{name}, line {number}: here the {Path(name).suffix} file is damaged or cut short, or it never "
            f"was one ({error}); fetch or compress it anew"
        ) from None


def read_bytes(path: str | Path) -> bytes:
    """The file's bytes, or a DataError that says why there are none."""
    with explained(path):
        return Path(path).read_bytes()


@contextmanager
def explained(path: str | Path) -> Iterator[None]:
    try:
        yield
    except IsADirectoryError:
        raise DataError(f"{path} is a directory; name a file in it") from None
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the name and the folder") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def open_bytes(path: Path) -> io.BufferedIOBase:
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path)
        case ".xz":
            return lzma.open(path)
        case ".zst":
            return _open_zstd(path)
    return open(path, "rb")


def need_parquet(path: str | Path) -> tuple[Any, Any]:
    """pyarrow and its parquet, which are an extra."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path} needs one more package: pip install 'regard[parquet]'") from None
    return pyarrow, pyarrow.parquet


def _open_zstd(path: Path) -> io.BufferedIOBase:
    try:
        import zstandard
    except ImportError:
        raise DataError(f"{path} needs a package to unpack it: pip install 'regard[zstd]'") from None
    return io.BufferedReader(_Zstd(open(path, "rb"), zstandard))


class _Zstd(io.RawIOBase):
    """The text of a .zst file, frame after frame. The package's own reader takes one cut short for a whole one."""

    def __init__(self, file: IO[bytes], package: ModuleType) -> None:
        self.file, self.package = file, package
        self.frame: Any = None  # begun and not ended
        self.packed, self.text = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.text:
            packed = self.packed or self.file.read(PIECE)
            if not packed and self.frame:
                raise EOFError("it ends within a frame")
            if not packed:
                return 0
            self.frame = self.frame or self.package.ZstdDecompressor().decompressobj()
            try:
                self.text = memoryview(self.frame.decompress(packed))
            except self.package.ZstdError as error:
                raise EOFError(error) from None  # one class for all kinds of damage
            self.packed = self.frame.unused_data
            if self.frame.eof:
                self.frame = None
        count = min(len(buffer), len(self.text))
        buffer[:count], self.text = self.text[:count], self.text[count:]
        return count

    def close(self) -> None:
        self.file.close()
        super().close()


def _text(line: bytes, where: str) -> str:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) > LONGEST_LINE:
        raise DataError(
            f"{where}: is longer than {LONGEST_LINE:,} bytes; is it text with line breaks? Split or remove the line"
        )
    if b"\0" in line:
        raise DataError(f"{where}: holds a NUL byte; the file must be plain text in UTF-8")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8; convert the file to UTF-8"
        ) from None


def _rows(name: str | Path, columns: Columns, *, single: bool) -> Iterator[Row]:
    paths = find_files(name)
    if len(paths) > 1:
        if single and len(paths) > 2:
            raise DataError(f"{name}: {len(paths)} files, but exactly two are needed: source and target")
        rows = _aligned(paths)
    else:
        [path] = paths
        plain = path.stem if path.suffix.lower() in COMPRESSED else path.name
        reader = READERS.get(Path(plain).suffix.lower(), _tsv)
        rows = reader(path, columns, single)
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 (asked for after the loop)
        yield row
    if not count:
        raise DataError(f"{name} is empty; it needs at least one pair of source and target")


def _aligned(paths: list[Path]) -> Iterator[Row]:
    """Line n of each file."""
    for number, lines in enumerate(zip_longest(*map(open_lines, paths)), 1):
        if None in lines:
            short = paths[lines.index(None)]
            long = next(path for path, line in zip(paths, lines, strict=True) if line)
            raise DataError(
                f"{short} ends after line {number - 1}, but {long} goes on; "
                "files whose lines belong together must have equally many"
            )
        row = tuple(text for _, text in lines)
        for path, text in zip(paths, row, strict=True):
            _refuse_empty(text, "line", f"{path}, line {number}")
        yield row


def _tsv(path: Path, columns: Columns, single: bool) -> Iterator[Row]:
    chosen = _chosen(path, columns, "1", "2")
    wrong = next((value for value in chosen if not re.fullmatch("[1-9][0-9]{0,5}", value)), None)
    if wrong is not None:
        raise DataError(
            f"{path}: columns of a file with tabs are numbers from 1, got {wrong!r}; files that share names of "
            "columns must be of one form"
        )
    places = [int(value) - 1 for value in chosen]
    exact = single and columns == USUAL
    for number, line in open_lines(path):
        where = f"{path}, line {number}"
        _refuse_empty(line, "line", where)
        row = tuple(line.split("\t"))
        if exact and len(row) != 2:
            raise DataError(f"{where}: {columns_of(row)}, but a line needs exactly two: source, tab, target")
        if len(row) <= max(places):
            raise DataError(
                f"{where}: {columns_of(row)}, but a line needs at least {max(places) + 1}, parted by tabs"
            )
        if columns != USUAL:
            row = tuple(row[place] for place in places)
        yield _checked(row, where)


def _csv(path: Path, columns: Columns, single: bool) -> Iterator[Row]:
    """Records by the csv module: quoted fields may hold commas and line breaks."""
    found = records(path)
    where, header = next(found, ("", []))
    if not header:
        return
    places = []
    for name in _chosen(path, columns, "source", "target"):
        if header.count(name) != 1:
            which = "no" if name not in header else "more than one"
            raise DataError(f"{where}: {which} column {name!r}; the header names {few(header)}")
        places.append(header.index(name))
    for where, record in found:
        if len(record) != len(header):
            raise DataError(f"{where}: {columns_of(record)}, but the header has {len(header)}")
        yield _checked(tuple(record[place] for place in places), where)


def records(path: Path) -> Iterator[tuple[str, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in open_lines(path)), strict=True)
    while True:
        first = reader.line_num + 1
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{_span(path, first, reader.line_num)}: is not CSV: {error}") from None
        if record is None:
            return
        where = _span(path, first, reader.line_num)
        _refuse_empty("".join(record), "line", where)
        yield where, record


def _span(path: Path, first: int, last: int) -> str:
    return f"{path}, line {first}" if last <= first else f"{path}, lines {first} to {last}"


def _jsonl(path: Path, columns: Columns, single: bool) -> Iterator[Row]:
    """One object a line; the target is a text or a list of them."""
    keys = _chosen(path, columns, "source", "target")
    for number, line in open_lines(path):
        where = f"{path}, line {number}"
        _refuse_empty(line, "line", where)
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise DataError(
                f"{where}: holds a {type(record).__name__}, but must hold an object with {' and '.join(keys)}"
            )
        for key in keys:
            if key not in record:
                raise DataError(f"{where}: no key {key!r}; the object has {few(record)}")
        source, targets = (record[key] for key in keys)
        if not isinstance(targets, list):
            targets = [targets]
        if single and len(targets) != 1:
            raise DataError(f"{where}: {len(targets)} targets under {keys[1]!r}, but there must be exactly one")
        if not targets:
            raise DataError(f"{where}: the list under {keys[1]!r} is empty")
        for text in (source, *targets):
            if not isinstance(text, str):
                raise DataError(f"{where}: {' and '.join(keys)} must be text, got {text!r:.40}")
            if re.search("[\0\ud800-\udfff]", text):  # JSON can spell what UTF-8 cannot
                raise DataError(f"{where}: holds a NUL or half a surrogate pair: {text!r:.40}")
        yield _checked((source, *targets), where)


READERS = {".csv": _csv, ".jsonl": _jsonl, ".ndjson": _jsonl}


def _chosen(path: Path, columns: Columns, source: str, target: str) -> tuple[str, str]:
    chosen = columns.source or source, columns.target or target
    if chosen[0] == chosen[1]:
        raise DataError(f"{path}: source and target are both column {chosen[0]!r}; they must differ")
    return chosen


def few(names: Iterable[str]) -> str:
    shown = [repr(name) for name in islice(names, 11)]
    return ", ".join(shown if len(shown) < 11 else [*shown[:10], "..."]) or "none"


def columns_of(row: Sequence[str]) -> str:
    return f"{len(row)} column{'s' * (len(row) != 1)}"


def _refuse_empty(text: str, what: str, where: str) -> None:
    if not text.strip():
        raise DataError(f"{where}: the {what} is empty; fill it in or remove the line")


def _checked(row: Row, where: str) -> Row:
    for place, text in enumerate(row):
        _refuse_empty(text, "target" if place else "source", where)
    return row
