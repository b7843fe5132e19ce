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
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.base.files import find_files
from regard.base.records import Row as Fields
from regard.base.records import (
    check_text,
    column_number,
    count_columns,
    filled_lines,
    find_columns,
    first_ten,
    form_of,
    read_csv,
    read_jsonl,
    refuse_empty,
    split_at_tabs,
    take_columns,
    value_of,
)
from regard.data.batches.batch import Rows, check_batching, draw_batches
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import Row, TextEncoding
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


class Names(NamedTuple):
    """Columns by name, "" for none."""

    text: str
    second: str
    label: str


def read_labelled(
    name: str | Path, *, text: str = "", second: str = "", label: str = "", labels: Collection[str] = ()
) -> Iterator[Labelled]:
    """(text, second text or "", label) of each line or record of TSV, CSV or JSONL, plain or compressed. Any label
    but these `labels`, if any are given, is an error.

    `text`, `second` and `label` name columns of a CSV or TSV with a header, or keys of JSONL. In a TSV they can be
    numbers from 1; then there is no header. If none is given, the usual names are looked for in the header
    (TEXTS, LABELS); a TSV without them has two columns, text and label. A file with another suffix is read as a
    TSV if columns are given or its first line holds a tab; else each line is a label, a space and the text.
    "reviews.{1,2}.tsv" is several files, one after the other."""
    named = Names(text, second, label)
    given = [column for column in named if column]
    if len(set(given)) < len(given):
        raise DataError(f"{name}: two of text, second and label are the same column; got {', '.join(given)}")
    for path in find_files(name):
        empty = True
        for where, row in _rows(path, named):
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


def _rows(path: Path, named: Names) -> Iterator[tuple[str, Labelled]]:
    form = form_of(path)
    if form == "csv":
        return _by_header(read_csv(path), named)
    if form in ("jsonl", "json"):
        return _jsonl(path, named)
    lines = filled_lines(path)
    first = list(islice(lines, 1))
    lines = chain(first, lines)
    if form == "tsv" or any(named) or any("\t" in line for _, line in first):
        return _tsv(path, split_at_tabs(lines), named)
    return _label_first(lines)


def _label_first(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Labelled]]:
    for where, line in lines:
        label, *text = line.split(maxsplit=1)
        if not text:
            raise DataError(f"{where}: holds one word, but must be a label, a space and the text")
        yield where, (text[0], "", label)


def _tsv(path: Path, rows: Iterator[Fields], named: Names) -> Iterator[tuple[str, Labelled]]:
    if any(named) and all(not column or column_number(column) is not None for column in named):
        if not named.text or not named.label:
            raise DataError(f"{path}: with columns by number give both text and label, got {first_ten(named)}")
        numbers = [column_number(column) for column in named if column]
        columns = [number for number in numbers if number is not None]
        yield from _warn_of_header(_labelled(take_columns(rows, columns)))
        return
    for where, first in islice(rows, 1):
        rows = chain([(where, first)], rows)
        usual = _usual(first)
        if any(named) or (usual.text and usual.label):
            yield from _by_header(rows, named, by_number=True)
        elif len(first) == 2:
            yield from _warn_of_header(_labelled(take_columns(rows, [0, 1], width=2)))
        else:
            raise DataError(
                f"{where}: {count_columns(first)} and no header with usual names (text, label); say which column "
                "is the text and which the label, by numbers from 1"
            )


def _warn_of_header(rows: Iterator[tuple[str, Labelled]]) -> Iterator[tuple[str, Labelled]]:
    """The rows; at their end a warning on stderr if no other row has the first one's label, as with a header."""
    count, again = 0, False
    for count, (where, row) in enumerate(rows, 1):
        if count == 1:
            first, header = where, row
        again = again or (count > 1 and row[2].split() == header[2].split())
        yield where, row
    if count >= SEVERAL and not again:
        columns = zip(Names._fields, header, strict=True)
        named = ", ".join(f"data.{what}={field!r:.40}" for what, field in columns if field)
        print(
            f"{first}: no other line has its label; if it is a header, name the columns: {named}", file=sys.stderr
        )


def _by_header(rows: Iterator[Fields], named: Names, *, by_number: bool = False) -> Iterator[tuple[str, Labelled]]:
    for where, header in islice(rows, 1):
        names = [column for column in _choose(named, header, where) if column]
        columns = find_columns((where, header), names, by_number=by_number)
        yield from _labelled(take_columns(rows, columns, width=len(header)))


def _labelled(rows: Iterable[Fields]) -> Iterator[tuple[str, Labelled]]:
    """From text, label or text, second, label."""
    for where, fields in rows:
        yield where, (fields[0], fields[1] if len(fields) == 3 else "", fields[-1])


def _jsonl(path: Path, named: Names) -> Iterator[tuple[str, Labelled]]:
    """The first object shows the keys of all. A label may be a whole number, true or false."""
    keys: Names | None = None
    for where, record in read_jsonl(path, "text and label"):
        keys = keys or _choose(named, list(record), where)
        text = check_text(value_of(record, keys.text, where), keys.text, where)
        second = check_text(value_of(record, keys.second, where), keys.second, where) if keys.second else ""
        label = value_of(record, keys.label, where)
        label = json.dumps(label) if isinstance(label, bool | int) else check_text(label, keys.label, where)
        yield where, (text, second, label)


def _usual(header: Sequence[str]) -> Names:
    """The columns that have usual names, in capitals or not; "" for one that is missing."""
    known = {name.lower(): name for name in header}
    text = next((name for name in TEXTS if name in known), "")
    label = next((name for name in LABELS if name in known), "")
    return Names(known.get(text, ""), known.get(TEXTS.get(text, ""), ""), known.get(label, ""))


def _choose(named: Names, header: Sequence[str], where: str) -> Names:
    """A column that is not named is found by its usual name; but the second text only if no column is named."""
    usual = _usual(header)
    second = named.second if any(named) else usual.second
    chosen = Names(named.text or usual.text, second, named.label or usual.label)
    for what, column in (("text", chosen.text), ("label", chosen.label)):
        if not column:
            raise DataError(
                f"{where}: say which column is the {what}; none has a usual name, there are {first_ten(header)}"
            )
    return chosen


def classes(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels, sorted as numbers if all are whole numbers, else as text: the order of the logits."""
    found = Counter(labels)
    if len(found) < 2:
        raise DataError(
            f"there must be at least two classes, got {first_ten(sorted(found))}; is the label in another column?"
        )
    if len(found) > SOME and found.total() < 2 * len(found):
        raise DataError(
            f"{found.total():,} texts have {len(found):,} different labels, such as {first_ten(sorted(found))}, "
            "most of them once; is the label in another column?"
        )
    if all(re.fullmatch(r"[+-]?[0-9]{1,18}", label) for label in found):
        return tuple(sorted(found, key=lambda label: (int(label), label)))
    return tuple(sorted(found))


class LabelledData:
    """Encoded texts and their classes, batched by token count as the model's encoding makes batches.

    Each text comes as its row, whether it was truncated, and its class. `truncated` is the number of those.
    `few_shapes`: batches of the same texts are rounded up to few shapes."""

    def __init__(
        self,
        rows: Iterable[tuple[Row, bool, int]],
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
        self.rows, self.parts, self.labels, self.truncated = Rows(), Rows(), array("i"), 0
        for (ids, parts), truncated, label in rows:
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

    def row(self, number: int) -> Row:
        parts = self.parts[number]
        return list(self.rows[number]), np.repeat(np.arange(len(parts)), parts).tolist()

    def batch(self, rows: np.ndarray) -> Any:
        found = self.encoding.batch([self.row(row) for row in rows], self.special)
        found = replace(found, labels=torch.from_numpy(np.asarray(self.labels)[rows]).long())
        return self.rounded(found) if self.few_shapes else found

    def rounded(self, batch: Any) -> Any:
        """In one of few shapes."""
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
