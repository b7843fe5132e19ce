"""Vectors to a file, one at a time: .npy, .parquet or .jsonl."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from regard.base.files import drafted
from regard.base.line_writer import check_output
from regard.base.records import need_parquet
from regard.tasks.core.desk import write_answers
from regard.tasks.core.inputs import Failed
from regard.tasks.embed.answers import TokenVectors, Vector
from regard.tasks.embed.card import suffix_of

PART = 1024  # rows written at once
Names = tuple[str | int, ...]  # what a row is called: its text, or its text, place and token
Add = Callable[[Names, np.ndarray], None]


@contextmanager
def vector_writer(
    output: Path | None, width: int, *, tokens: bool = False
) -> Iterator[Callable[[Vector | TokenVectors | Failed], None]]:
    """A file appears only when it is complete. .npy holds the vectors alone. A text that could not be read has a
    row of NaN, in .jsonl its error. `tokens`: a row for each token, in .jsonl still a line for each text."""
    suffix = suffix_of(output)
    if suffix == ".jsonl":
        with write_answers(output, as_json=True) as write:
            yield write
        return
    assert output is not None
    check_output(output)
    count = 0
    with (
        drafted(output, lambda: f"vectors of {count:,} texts" if count else "") as draft,
        (_npy if suffix == ".npy" else _parquet)(draft, width, tokens) as add,
    ):

        def put(answer: Vector | TokenVectors | Failed) -> None:
            nonlocal count
            if isinstance(answer, Failed):
                text = answer.text or ""
                add((text, 0, "") if tokens else (text,), np.full(width, np.nan, np.float32))
            elif isinstance(answer, TokenVectors):
                for place, (token, vector) in enumerate(zip(answer.tokens, answer.vectors, strict=True)):
                    add((str(answer.text), place, token), vector)
            else:
                add((str(answer.text),), answer.vector)
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
