"""Texts, or pairs of texts, with a class label: from files, and in batches for a classifier."""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.base.files import class_folders, explain_os_errors
from regard.base.lines import open_chunks
from regard.base.patterns import COMPRESSED
from regard.base.records import (
    Columns,
    Row,
    Table,
    by_header,
    by_keys,
    by_tabs,
    check_text,
    find_tables,
    first_ten,
    form_of,
    header_of,
    read_csv,
    refuse_empty,
    split_at_tabs,
    tabbed_lines,
)
from regard.base.short_repr import printable
from regard.data.batches.batch import RowNumbers, Rows, check_batching, draw_batches
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import EncodedText, TextEncoding
from regard.errors import DataError

# Usual names of the text column, looked for in this order, each with that of the second text.
TEXTS = {
    "text": "",
    "text1": "text2",
    "sentence1": "sentence2",
    "premise": "hypothesis",
    "question1": "question2",
    "question": "sentence",
    "sentence": "",
    "review": "",
}
LABELS = ("label", "class", "sentiment", "category")
SOME = 20  # up to this many classes may have one text each
SEVERAL = 3  # from this many rows on, a label that only the first line has suggests a header

Labelled = tuple[str, str, str]  # text, second text or "", label


class LabelledColumns(Columns):
    """The columns of the text, of the second text (if any), and of the label."""

    @property
    def numbers(self) -> list[int] | None:
        """The numbers of the named columns; text and label must be named."""
        return Columns(tuple(name for name in self.names if name), ()).numbers

    def choose(self, header: Sequence[str], where: str) -> list[str]:
        """A column that is not named is found by its usual name; but the second text only if no column is named."""
        text, second, label = (name or usual for name, usual in zip(self.names, usual_columns(header), strict=True))
        for what, column in (("text", text), ("label", label)):
            if not column:
                raise DataError(
                    f"{where}: say which column is the {what}; none has a usual name, there are {first_ten(header)}"
                )
        if any(self.names):
            second = self.names[1]
        return [text, second, label] if second else [text, label]

    def are_in(self, header: Sequence[str]) -> bool:
        text, _, label = usual_columns(header)
        return bool(text and label)

    def as_in(self, table: Table) -> LabelledColumns:
        """The usual columns of the first of several files by their names: the others must have them too."""
        header = [] if isinstance(table, Path) and table.is_dir() else header_of(table)
        return LabelledColumns(usual_columns(header), ()) if self.are_in(header) else self


def usual_columns(header: Sequence[str]) -> tuple[str, str, str]:
    """The columns that have usual names, in capitals or not, of the text, the second text and the label; "" for a
    column that is missing."""
    by_usual = {name.lower(): name for name in header}
    text = next((name for name in TEXTS if name in by_usual), "")
    label = next((name for name in LABELS if name in by_usual), "")
    return by_usual.get(text, ""), by_usual.get(TEXTS.get(text, ""), ""), by_usual.get(label, "")


def read_labelled(
    name: str | Path, *, text: str = "", second: str = "", label: str = "", labels: Collection[str] = ()
) -> Iterator[Labelled]:
    """(text, second text or "", label) of each line or record of TSV, CSV or JSONL, plain or compressed, or of
    parquet. Any label but these `labels`, if any are given, is an error.

    `text`, `second` and `label` name columns of a CSV or TSV with a header, or keys of JSONL. In a TSV they can be
    numbers from 1; then there is no header. If none is given, the usual names are looked for in the header
    (TEXTS, LABELS); a TSV without them has two columns, text and label. A file with another suffix is read as a
    TSV if columns are given or its first line holds a tab; else each line is a label, a space and the text.
    "reviews.{1,2}.tsv" and "reviews-*.tsv" are several files, one after the other, with the same columns. A folder
    has a folder of .txt files for each class."""
    names = [column for column in (text, second, label) if column]
    if len(set(names)) < len(names):
        raise DataError(f"{name}: two of text, second and label are the same column; got {', '.join(names)}")
    columns = LabelledColumns((text, second, label), ())
    tables = find_tables(name, ("text", "label"), ("text1", "text2", "label"))
    if len(tables) > 1 and not names:
        columns = columns.as_in(tables[0])
    for path in tables:
        empty = True
        for where, row in _rows(path, columns):
            empty = False
            refuse_empty(row[0], "text", where)
            refuse_empty(row[2], "label", where)
            own = " ".join(row[2].split())  # labels are printed in lines and tables
            if labels and own not in labels:
                raise DataError(
                    f"{where}: the label {own[:40]!r} is no class of this model; there are {first_ten(labels)}"
                )
            yield row[0], row[1], own
        if empty:
            raise DataError(f"{path} has no labelled text; it needs at least one")


def _rows(path: Table, columns: LabelledColumns) -> Iterator[tuple[str, Labelled]]:
    form = form_of(path)
    if form in ("jsonl", "json", "parquet"):
        return _jsonl(path, columns)
    assert isinstance(path, Path)
    if path.is_dir():
        return _folder(path)
    if form == "csv":
        return _labelled(by_header(read_csv(path), columns))
    in_tabs, lines = tabbed_lines(path)
    if not in_tabs and not any(columns.names):
        return _label_first(lines)
    return _tsv(path, split_at_tabs(lines), columns)


def text_folders(folder: Path) -> dict[Path, list[Path]]:
    """The folders of the classes, each with its texts. A folder whose texts are directly in it is a class by
    itself, as those of "aclImdb/train/{pos,neg}"."""
    folders = class_folders(folder, _is_text)
    if any(folders.values()):
        return folders
    with explain_os_errors(folder):
        return {folder: [path for path in sorted(folder.iterdir()) if _is_text(path) and path.is_file()]}


def _is_text(path: Path) -> bool:
    name = path.stem if path.suffix.lower() in COMPRESSED else path.name
    return name.lower().endswith(".txt") and not name.startswith(".")


def _folder(folder: Path) -> Iterator[tuple[str, Labelled]]:
    for each, paths in text_folders(folder).items():
        if not paths:
            raise DataError(
                f"{each} holds no text files (.txt); a folder of labelled texts has a folder for each class, with "
                "its texts directly in it, one a file: add some, or remove the folder"
            )
        for path in paths:
            yield str(path), ("".join(open_chunks(path)).strip(), "", each.name)


def _label_first(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Labelled]]:
    for where, line in lines:
        label, *text = line.split(maxsplit=1)
        if not text:
            raise DataError(f"{where}: holds one word, but must be a label, a space and the text")
        yield where, (text[0], "", label)


def _labelled(rows: Iterable[Row]) -> Iterator[tuple[str, Labelled]]:
    """From text, label or text, second, label."""
    for where, fields in rows:
        yield where, (fields[0], fields[1] if len(fields) == 3 else "", fields[-1])


def _tsv(path: Path, rows: Iterator[Row], columns: LabelledColumns) -> Iterator[tuple[str, Labelled]]:
    """The rows; at their end a warning on stderr if the first may have been a header: no other has its label."""
    if columns.numbers and not (columns.names[0] and columns.names[2]):
        raise DataError(f"{path}: with columns by number give both text and label, got {first_ten(columns.names)}")
    count, again = 0, False
    for count, (where, row) in enumerate(_labelled(by_tabs(rows, columns, ("text", "label"), exact=True)), 1):
        if count == 1:
            first, header = where, row
        again = again or (count > 1 and row[2].split() == header[2].split())
        yield where, row
    # Where the first row was the header, it is not among them.
    if count >= SEVERAL and not again and first == f"{path}, line 1":
        names = zip(("text", "second", "label"), header, strict=True)
        named = ", ".join(f"data.{what}={field!r:.40}" for what, field in names if field)
        said = f"{first}: no other line has its label; if it is a header, name the columns: {named}"
        print(printable(said), file=sys.stderr)


def _jsonl(path: Table, columns: LabelledColumns) -> Iterator[tuple[str, Labelled]]:
    """A label may be a whole number, true or false."""
    for where, values in by_keys(path, columns, "text and label"):
        *texts, (key, label) = values
        text, second, *_ = *(check_text(value, name, where) for name, value in texts), ""
        label = json.dumps(label) if isinstance(label, bool | int) else check_text(label, key, where)
        yield where, (text, second, label)


class EncodedRows(NamedTuple):
    """Many encoded texts with their classes."""

    rows: Rows
    parts: Rows  # the lengths of each row's parts
    labels: array[int]
    truncated: int = 0


def classes(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels, sorted as numbers if all are whole numbers, else as text: the order of the logits."""
    counts = Counter(labels)
    if len(counts) < 2:
        raise DataError(
            f"there must be at least two classes, got {first_ten(sorted(counts))}; is the label in another column?"
        )
    if len(counts) > SOME and counts.total() < 2 * len(counts):
        raise DataError(
            f"{counts.total():,} texts have {len(counts):,} different labels, such as {first_ten(sorted(counts))}, "
            "most of them once; is the label in another column?"
        )
    if all(re.fullmatch(r"[+-]?[0-9]{1,18}", label) for label in counts):
        return tuple(sorted(counts, key=lambda label: (int(label), label)))
    return tuple(sorted(counts))


class LabelledData(RowNumbers):
    """Encoded texts and their classes, batched by token count as the model's encoding makes batches.

    Each text comes as its row, whether it was truncated, and its class. `truncated` is the number of those.
    `few_shapes`: batches of the same texts are rounded up to few shapes."""

    def __init__(
        self,
        rows: Iterable[tuple[EncodedText, bool, int]] | EncodedRows,
        *,
        encoding: TextEncoding,
        special: Special,
        batch_tokens: int,
        seed: int,
        few_shapes: bool = False,
    ) -> None:
        check_batching(batch_tokens=batch_tokens, seed=seed)
        self.batch_tokens, self.seed, self.encoding, self.special = batch_tokens, seed, encoding, special
        self.few_shapes = few_shapes
        every = rows if isinstance(rows, EncodedRows) else EncodedRows(Rows(), Rows(), array("i"))
        self.rows, self.parts, self.labels, self.truncated = every
        for (ids, parts), truncated, label in () if isinstance(rows, EncodedRows) else rows:
            self.rows.append(ids)
            self.parts.append(
                np.bincount(parts).tolist() if parts else []
            )  # 4 bytes for a part, not for each token
            self.labels.append(label)
            self.truncated += truncated
        if not len(self):
            raise DataError("there must be at least one labelled text, got none")

    def __len__(self) -> int:
        return len(self.rows)

    def order(self, epoch: int) -> list[np.ndarray]:
        """The epoch's batches as row indices, drawn anew each epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        tokens = self.parts if self.encoding.spelled else self.rows
        lengths = np.maximum(tokens.lengths(), 1)  # an empty text takes a position too
        return draw_batches(lengths, batch_tokens=self.batch_tokens, generator=generator)

    def row(self, number: int) -> EncodedText:
        parts = self.parts[number]
        return list(self.rows[number]), np.repeat(np.arange(len(parts)), parts).tolist()

    def batch(self, rows: np.ndarray) -> Any:
        unlabelled = self.encoding.batch([self.row(row) for row in rows], self.special)
        batch = replace(unlabelled, labels=torch.from_numpy(np.asarray(self.labels)[rows]).long())
        return self.rounded(batch) if self.few_shapes else batch

    def rounded(self, batch: Any) -> Any:
        """The batch padded to one of a few shapes."""
        return self.encoding.rounded(batch, batch_tokens=self.batch_tokens, most=self.longest)

    @cached_property
    def longest(self) -> int:
        """Tokens, one at least."""
        return max(1, int(self.rows.lengths().max()))

    def in_vain(self, epoch: int = 0) -> float:
        """The share of positions in an epoch's batches that is padding, before they are rounded up."""
        batches = [[self.parts[row] for row in rows] for rows in self.order(epoch)]
        positions = sum(map(self.encoding.positions, batches))
        return 1 - sum(map(self.encoding.real, batches)) / positions if positions else 0.0
