"""Rows that are in memory and not in a file, as people hold them: lists of dicts, tuples or texts, data frames of
pandas and polars, `datasets` of Hugging Face. None of these packages is imported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard.errors import BadInput, DataError

NAME = "(rows in memory)"  # where a file's name would be: in recipe.toml and in messages
AGAIN = "the data was given in memory and is in no file; give the same rows again: regard.train(..., data=...)"


class MemoryRows(str):
    """Rows in the place of a file's name: settings take it for such a name, and readers find the rows.

    Only the same object is equal: rows of training and of validation have the same name and are not the same."""

    rows: list[Any]
    where: str  # what the user calls them: data['train']

    def __new__(cls, rows: Iterable[Any], where: str) -> MemoryRows:
        self = super().__new__(cls, NAME)
        self.rows, self.where = list(rows), where
        return self

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def keyed(self, *shapes: tuple[str, ...]) -> MemoryRows:
        """The same with a dict for every row: `shapes` are the keys of rows that are tuples, lists or single
        values. A tuple that is longer than all shapes has several values of its last key."""
        rows = (self._keyed(row, place, shapes) for place, row in enumerate(self.rows))
        return MemoryRows(rows, self.where)

    def _keyed(self, row: Any, place: int, shapes: Sequence[tuple[str, ...]]) -> dict[str, Any]:
        if isinstance(row, Mapping):
            return {str(key): plain(value) for key, value in row.items()}
        values = [plain(value) for value in row] if isinstance(row, tuple | list) else [plain(row)]
        fitting = next((shape for shape in shapes if len(shape) == len(values)), None)
        if fitting is None and len(shapes[-1]) > 1 and len(values) > len(shapes[-1]):
            fitting = shapes[-1]
            values = [*values[: len(fitting) - 1], values[len(fitting) - 1 :]]
        if fitting is None:
            forms = " or ".join(f"({', '.join(shape)})" for shape in shapes)
            raise DataError(f"{self.where}[{place}] must be a dict or {forms}, got {row!r:.60}")
        return dict(zip(fitting, values, strict=True))

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each row, which `keyed` has made a dict, with its place."""
        for place, row in enumerate(self.rows):
            yield f"{self.where}[{place}]", row

    @property
    def in_columns(self) -> bool:
        """Do the rows have columns with names?"""
        return all(isinstance(row, Mapping) for row in self.rows[:1])

    def digest(self) -> str:
        """sha256 over all that the rows hold."""
        digest, encode = hashlib.sha256(), json.JSONEncoder(default=_in_json).encode
        for row in self.rows:
            digest.update(encode(row).encode() + b"\n")
        return digest.hexdigest()


def rows_of(data: Any, where: str) -> MemoryRows:
    """What a user holds, as rows. Labels that are numbers become the names that `datasets` have for them."""
    rows = _rows(data, where)
    if not rows:
        raise DataError(f"{where} has no rows; it needs at least one")
    features = getattr(data, "features", None)
    for key, feature in features.items() if isinstance(features, Mapping) else ():
        names = getattr(feature, "names", None)
        if isinstance(names, list):
            rows = [{**row, key: names[row[key]] if row[key] in range(len(names)) else row[key]} for row in rows]
    return MemoryRows(rows, where)


def _rows(data: Any, where: str) -> list[Any]:
    if hasattr(data, "to_dicts"):  # polars
        return list(data.to_dicts())
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        return list(data.to_dict("records"))
    if isinstance(data, Mapping):
        return _from_columns(data, where)
    if isinstance(data, tuple) and len(data) == 2 and hasattr(data[0], "shape") and hasattr(data[1], "__len__"):
        return list(_together(data, where))  # an array of images, and an array or a list of labels
    many = isinstance(data, Iterable) or hasattr(data, "__getitem__")
    if isinstance(data, str | bytes) or not many or getattr(data, "ndim", 1) == 0:  # a number of numpy is no rows
        raise BadInput(
            f"{where} must be rows (a list of dicts, tuples or texts, a data frame, a dataset) or the name of a "
            f"file, got {data!r:.40} ({type(data).__name__})"
        )
    return list(data)


def _from_columns(data: Mapping[Any, Any], where: str) -> list[dict[str, Any]]:
    """{"text": [...], "label": [...]} -> a dict for each row."""
    for key, column in data.items():
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise BadInput(f"{where} must have a list under each key, got {column!r:.40} under {key!r:.40}")
    return [dict(zip(map(str, data), values, strict=True)) for values in _together(list(data.values()), where)]


def _together(columns: Sequence[Any], where: str) -> Iterator[tuple[Any, ...]]:
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise DataError(f"{where}: columns must be of one length, got {', '.join(map(str, islice(lengths, 5)))}")
    return zip(*columns, strict=True)


def plain(value: Any) -> Any:
    """Scalars of numpy, pandas and torch as Python's own, so that a label is text or a number."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def is_tensor(value: Any) -> bool:
    """Of torch, which is not imported for it."""
    return hasattr(value, "detach") and hasattr(value, "numpy")


def array_of(tensor: Any) -> Any:
    """A tensor as an array of numpy, wherever it is. Half precision becomes float32: numpy has no bfloat16."""
    held = tensor.detach().cpu()
    return (held.float() if held.is_floating_point() else held).numpy()


def _in_json(value: Any) -> Any:
    """What JSON has no form for, by its contents."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    if is_tensor(value):
        return _in_json(array_of(value))
    if isinstance(value, bytes) or hasattr(value, "tobytes"):  # numpy and Pillow
        form = [str(getattr(value, name, "")) for name in ("dtype", "mode", "shape", "size")]
        return [*form, hashlib.sha256(value if isinstance(value, bytes) else value.tobytes()).hexdigest()]
    return repr(value)
