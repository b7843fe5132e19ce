"""Vectors to a file, one at a time: .npy or .parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from regard.base.files import drafted
from regard.base.line_writer import check_output
from regard.base.records import need_parquet
from regard.tasks.core.inputs import Failed
from regard.tasks.core.results import Answer
from regard.tasks.embed.answers import TokenVectors, Vector
from regard.tasks.embed.card import suffix_of

PART = 1024  # rows written at once
Names = tuple[str | int, ...]  # what a row is called: its text, or its text, place and token
VectorRows = tuple[list[Names], np.ndarray]  # of one text: their names, and the vectors (rows, D)
Add = Callable[[Names, np.ndarray], None]


def vector_rows(answer: Answer, width: int, *, tokens: bool = False) -> VectorRows:
    """The rows of an answer: one, or with `tokens` one for each token. A text that could not be read has a row of
    NaN."""
    if isinstance(answer, TokenVectors):
        text = str(answer.text)
        return [(text, place, token) for place, token in enumerate(answer.tokens)], answer.vectors
    if isinstance(answer, Vector):
        return [(str(answer.text),)], answer.vector[None]
    assert isinstance(answer, Failed)
    text = answer.text or ""
    return [(text, 0, "") if tokens else (text,)], np.full((1, width), np.nan, np.float32)


@contextmanager
def vector_writer(output: Path, width: int, *, tokens: bool = False) -> Iterator[Callable[[VectorRows], None]]:
    """.npy, which holds the vectors alone, or .parquet; the file appears only when it is complete."""
    check_output(output)
    count = 0
    with (
        drafted(output, lambda: f"vectors of {count:,} texts" if count else "") as draft,
        (_npy if suffix_of(output) == ".npy" else _parquet)(draft, width, tokens) as add,
    ):

        def put(rows: VectorRows) -> None:
            nonlocal count
            for names, vector in zip(*rows, strict=True):
                add(names, vector)
            count += 1

        yield put


@contextmanager
def _npy(file: BinaryIO, width: int, tokens: bool) -> Iterator[Add]:
    """The number of rows stands in the header, which has a fixed length and is written again at the end."""
    count = 0
    _header(file, count, width)

    def add(names: Names, vector: np.ndarray) -> None:
        nonlocal count
        file.write(np.ascontiguousarray(vector, "<f4").tobytes())
        count += 1

    try:
        yield add
    finally:  # a part of the vectors is a valid file too
        file.seek(0)
        _header(file, count, width)


def _header(file: BinaryIO, count: int, width: int) -> None:
    """numpy pads the header for a first dimension of 20 digits, so that another count keeps its length."""
    table = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
    np.lib.format.write_array_header_1_0(file, table)


@contextmanager
def _parquet(draft: BinaryIO, width: int, tokens: bool) -> Iterator[Add]:
    arrow, parquet = need_parquet(".parquet")
    columns = [("text", arrow.string())]
    columns += [("place", arrow.int32()), ("token", arrow.string())] if tokens else []
    schema = arrow.schema([*columns, ("vector", arrow.list_(arrow.float32(), width))])
    rows: list[Names] = []
    vectors: list[np.ndarray] = []
    with parquet.ParquetWriter(draft, schema) as file:

        def flush() -> None:
            flat = arrow.array(np.concatenate(vectors), arrow.float32())
            named = [arrow.array([row[at] for row in rows], kind) for at, (_, kind) in enumerate(columns)]
            file.write_table(
                arrow.table([*named, arrow.FixedSizeListArray.from_arrays(flat, width)], schema=schema)
            )
            rows.clear()
            vectors.clear()

        def add(names: Names, vector: np.ndarray) -> None:
            rows.append(names)
            vectors.append(vector)
            if len(rows) == PART:
                flush()

        try:
            yield add
        finally:
            if rows:
                flush()
