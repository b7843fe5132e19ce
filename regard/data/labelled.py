"""Texts, or pairs of them, and the class that each belongs to: from files, and in batches for an encoder."""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Batch, Rows, check_batching, draw_batches, pad
from regard.data.pairs import COMPRESSED, DataError, columns_of, few, find_files, open_lines, records
from regard.data.text import Special, Tokenizer

# Headers that speak for themselves, looked for in this order: the name of the text, that of the second one with it.
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
SHORTEST = 5  # [CLS] A [SEP] B [SEP]
SOME = 20  # so many classes may have one text each
SEVERAL = 3  # rows from which on a label of the first line's own is odd

Row = tuple[str, str, str]  # text, second text or "", label
Names = tuple[str, str, str]  # of their columns, in the same order


def read_labelled(name: str | Path, *, text: str = "", second: str = "", label: str = "") -> Iterator[Row]:
    """(text, second text or "", label) of each line or record of TSV, CSV or JSONL, plain or compressed.

    Columns are named as in the header of a CSV or TSV or as JSON's keys; those of a TSV can be numbers from 1, and
    then every line is a row. With none named the header's usual names are taken (TEXTS, LABELS); a TSV without
    them has two columns, text and label. A file of another kind is read as a TSV where columns are named or its
    first line holds a tab, else it has lines of a label, a space and the text. "reviews.{1,2}.tsv" is several
    files, one after the other."""
    named = (text, second, label)
    given = [column for column in named if column]
    if len(set(given)) < len(given):
        raise DataError(f"{name}: two of text, second and label are the same column; got {', '.join(given)}")
    for path in find_files(name):
        empty = True
        for row in _read(path, named):
            empty = False
            yield row
        if empty:
            raise DataError(f"{path} has no labelled text; it needs at least one")


def _read(path: Path, named: Names) -> Iterator[Row]:
    plain = path.stem if path.suffix.lower() in COMPRESSED else path.name
    match Path(plain).suffix.lower():
        case ".csv":
            rows = _by_header(records(path), named)
        case ".jsonl" | ".ndjson" | ".json":
            rows = _jsonl(path, named)
        case suffix:
            lines = _lines(path)
            first = list(islice(lines, 1))
            tabs = suffix == ".tsv" or any(named) or any("\t" in line for _, line in first)
            lines = chain(first, lines)
            rows = _tsv(path, lines, named) if tabs else _label_first(lines)
    for where, row in rows:
        for what, field in zip(("text", "label"), (row[0], row[2]), strict=True):
            if not field.strip():
                raise DataError(f"{where}: the {what} is empty; fill it in or remove the line")
        yield row[0], row[1], " ".join(row[2].split())  # a label stands in lines and tables


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in open_lines(path):
        if not line.strip():
            raise DataError(f"{path}, line {number}: the line is empty; fill it in or remove it")
        yield f"{path}, line {number}", line


def _label_first(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Row]]:
    for where, line in lines:
        label, *text = line.split(maxsplit=1)
        if not text:
            raise DataError(f"{where}: holds one word, but must be a label, a space and the text")
        yield where, (text[0], "", label)


def _tsv(path: Path, lines: Iterable[tuple[str, str]], named: Names) -> Iterator[tuple[str, Row]]:
    fields = ((where, line.split("\t")) for where, line in lines)
    if any(named) and all(re.fullmatch("[1-9][0-9]{0,5}|", column) for column in named):
        if not named[0] or not named[2]:
            raise DataError(
                f"{path}: where columns are numbers, both text and label must be given, got {few(named)}"
            )
        yield from _doubted(_pick(fields, [int(column) - 1 if column else None for column in named]))
        return
    where, first = next(fields, ("", []))
    if not first:
        return
    whole = chain([(where, first)], fields)
    usual = _usual(first)
    if any(named) or (usual[0] and usual[2]):
        yield from _by_header(whole, named)
        return
    if len(first) != 2:
        raise DataError(
            f"{where}: {columns_of(first)} and no header with usual names (text, label); say which column is the "
            f"text and which the label, by numbers from 1"
        )
    yield from _doubted(_pick(whole, [0, None, 1], exactly=2))


def _doubted(rows: Iterator[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """The rows; at their end a word on stderr if the first has a label of its own, as a header would."""
    count, again = 0, False
    for count, (where, row) in enumerate(rows, 1):
        if count == 1:
            first, header = where, row
        again = again or (count > 1 and row[2].split() == header[2].split())
        yield where, row
    if count >= SEVERAL and not again:
        columns = zip(("text", "second", "label"), header, strict=True)
        named = ", ".join(f"data.{what}={field!r:.40}" for what, field in columns if field)
        print(
            f"{first}: no other line has its label; if it is a header, name the columns: {named}", file=sys.stderr
        )


def _by_header(fields: Iterator[tuple[str, list[str]]], named: Names) -> Iterator[tuple[str, Row]]:
    where, header = next(fields, ("", []))
    if not header:
        return
    places = []
    for column in _chosen(named, header, where):
        if column and header.count(column) != 1:
            which = "no" if column not in header else "more than one"
            raise DataError(f"{where}: {which} column {column!r}; the header names {few(header)}")
        places.append(header.index(column) if column else None)
    yield from _pick(fields, places, exactly=len(header))


def _pick(
    fields: Iterable[tuple[str, list[str]]], places: Sequence[int | None], *, exactly: int = 0
) -> Iterator[tuple[str, Row]]:
    least = 1 + max(place for place in places if place is not None)
    for where, row in fields:
        if exactly and len(row) != exactly:
            raise DataError(f"{where}: {columns_of(row)}, but the first line has {exactly}")
        if len(row) < least:
            raise DataError(f"{where}: {columns_of(row)}, but a line needs at least {least}, parted by tabs")
        text, second, label = ("" if place is None else row[place] for place in places)
        yield where, (text, second, label)


def _jsonl(path: Path, named: Names) -> Iterator[tuple[str, Row]]:
    """One object a line; the first shows the keys of all. A label may be a whole number, true or false."""
    keys: Names | None = None
    for where, line in _lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: is not JSON, which must be one object a line: {error}") from None
        if not isinstance(record, dict):
            raise DataError(
                f"{where}: holds a {type(record).__name__}, but must hold an object with text and label"
            )
        keys = keys or _chosen(named, list(record), where)
        found = []
        for what, key in zip(("text", "second", "label"), keys, strict=True):
            if key and key not in record:
                raise DataError(f"{where}: no key {key!r}; the object has {few(record)}")
            value = record[key] if key else ""
            if what == "label" and isinstance(value, bool | int):
                value = json.dumps(value)
            if not isinstance(value, str):
                raise DataError(f"{where}: {key!r} must be text, got {value!r:.40}")
            if re.search("[\0\ud800-\udfff]", value):  # JSON can spell what UTF-8 cannot
                raise DataError(f"{where}: holds a NUL or half a surrogate pair: {value!r:.40}")
            found.append(value)
        yield where, (found[0], found[1], found[2])


def _usual(header: Sequence[str]) -> Names:
    """The columns that have usual names, whatever their capitals; "" for one that is missing."""
    known = {name.lower(): name for name in header}
    text = next((name for name in TEXTS if name in known), "")
    label = next((name for name in LABELS if name in known), "")
    return known.get(text, ""), known.get(TEXTS.get(text, ""), ""), known.get(label, "")


def _chosen(named: Names, header: Sequence[str], where: str) -> Names:
    """What is not named is taken by its usual name; but there is no second text unasked where others are named."""
    text, second, label = (name or usual for name, usual in zip(named, _usual(header), strict=True))
    for what, column in (("text", text), ("label", label)):
        if not column:
            raise DataError(
                f"{where}: say which column is the {what}; none has a usual name, there are {few(header)}"
            )
    return text, named[1] if any(named) else second, label


def classes(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels, by number where all are whole numbers, else by the alphabet: the order of a head."""
    found = Counter(labels)
    if len(found) < 2:
        raise DataError(
            f"there must be two classes or more to learn to tell apart, got {few(sorted(found))}; "
            f"is the label in another column?"
        )
    if len(found) > SOME and found.total() < 2 * len(found):
        raise DataError(
            f"{found.total():,} texts have {len(found):,} different labels, as {few(sorted(found))}, so that most "
            "stand there once; is the label in another column?"
        )
    if all(re.fullmatch(r"[+-]?[0-9]{1,18}", label) for label in found):
        return tuple(sorted(found, key=lambda label: (int(label), label)))
    return tuple(sorted(found))


def encode_pair(
    first: Sequence[int], second: Sequence[int] | None, special: Special, longest: int
) -> tuple[list[int], list[int]]:
    """[CLS] first [SEP], or [CLS] first [SEP] second [SEP], and the segment, 0 or 1, of each token.

    What is more than `longest` is cut off at the end, of the longer part first: so `transformers` does it."""
    if longest < SHORTEST:
        raise ValueError(f"longest must be at least {SHORTEST}, got {longest}")
    if second is None:
        ids = [special.start, *first[: longest - 2], special.end]
        return ids, [0] * len(ids)
    room = longest - 3
    if len(first) + len(second) > room:
        short = min(len(first), len(second), room // 2)
        keep = (short, room - short) if len(first) <= len(second) else (room - short, short)
        first, second = first[: keep[0]], second[: keep[1]]
    ids = [special.start, *first, special.end, *second, special.end]
    return ids, [0] * (len(first) + 2) + [1] * (len(second) + 1)


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """[CLS] A [SEP] or [CLS] A [SEP] B [SEP], and the number of each row's class."""

    tokens: Tensor  # (B, T)
    segments: Tensor  # (B, T): 0 for the first part, 1 for the second
    mask: Tensor  # (B, T)
    labels: Tensor  # (B,)


class LabelledData:
    """Encoded texts without special tokens (they are added here) and their classes, batched by token count.

    `cut` says how many were longer than `longest`."""

    def __init__(
        self,
        rows: Iterable[tuple[Sequence[int], Sequence[int] | None, int]],
        *,
        tokenizer: Tokenizer,
        longest: int,
        batch_tokens: int,
        seed: int,
    ) -> None:
        check_batching(batch_tokens=batch_tokens, seed=seed)
        self.batch_tokens, self.seed, self.special = batch_tokens, seed, tokenizer.special
        self.rows, self.firsts, self.labels, self.cut = Rows(), array("i"), array("i"), 0
        for first, second, label in rows:
            ids, segments = encode_pair(first, second, self.special, longest)
            self.rows.append(ids)
            self.firsts.append(segments.count(0))
            self.labels.append(label)
            self.cut += len(first) + 2 + (0 if second is None else len(second) + 1) > longest
        if not len(self):
            raise ValueError("there must be at least one labelled text, got none")

    def __len__(self) -> int:
        return len(self.rows)

    def order(self, epoch: int) -> list[np.ndarray]:
        """The epoch's batches as row numbers, drawn anew each epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        return draw_batches(self.rows.lengths(), batch_tokens=self.batch_tokens, generator=generator)

    def batch(self, rows: np.ndarray) -> LabelledBatch:
        tokens, mask = pad([self.rows[row] for row in rows], self.special.pad)
        firsts, labels = (torch.from_numpy(np.asarray(side)[rows]).long() for side in (self.firsts, self.labels))
        segments = mask & (torch.arange(tokens.shape[1]) >= firsts[:, None])  # (B, T)
        return LabelledBatch(tokens, segments.long(), mask, labels)
