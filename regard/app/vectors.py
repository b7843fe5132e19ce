"""Vectors to a file, as they come: .npy, .parquet or .jsonl."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from regard.app.console import writer
from regard.data.pairs import need_parquet

KINDS = (".npy", ".parquet", ".jsonl")
PART = 1024  # rows written at once
Add = Callable[[str, np.ndarray], None]


def kind_of(output: Path | None) -> str:
    if output is None or str(output) == "-":
        return ".jsonl"
    if output.suffix not in KINDS:
        raise ValueError(f"vectors are written as {', '.join(KINDS)}, got {output.name!r}")
    return output.suffix


@contextmanager
def vector_writer(output: Path | None, width: int) -> Iterator[Add]:
    """add(text, vector) for each; a file appears only when all are there. .npy holds the vectors alone."""
    kind = kind_of(output)
    if kind == ".jsonl":
        with writer(output) as write:
            yield lambda text, vector: write(
                json.dumps({"text": text, "vector": vector.tolist()}, ensure_ascii=False)
            )
        return
    assert output is not None
    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {output.parent} to write {output.name} in; make it first")
    temporary = output.with_name(f".{output.name}.tmp")
    try:
        with (_npy if kind == ".npy" else _parquet)(temporary, width) as add:
            yield add
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _npy(path: Path, width: int) -> Iterator[Add]:
    """How many rows there are stands in front, so that it is written last: in a header of fixed length."""
    count = 0
    with open(path, "wb") as file:
        _header(file, count, width)

        def add(text: str, vector: np.ndarray) -> None:
            nonlocal count
            file.write(np.ascontiguousarray(vector, "<f4").tobytes())
            count += 1

        yield add
        file.seek(0)
        _header(file, count, width)


def _header(file: object, count: int, width: int) -> None:
    """numpy leaves room for a first dimension of 20 digits, so that another count changes no length."""
    table = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
    np.lib.format.write_array_header_1_0(file, table)  # type: ignore[arg-type]


@contextmanager
def _parquet(path: Path, width: int) -> Iterator[Add]:
    arrow, parquet = need_parquet(path)
    schema = arrow.schema([("text", arrow.string()), ("vector", arrow.list_(arrow.float32(), width))])
    texts: list[str] = []
    vectors: list[np.ndarray] = []
    with parquet.ParquetWriter(path, schema) as file:

        def flush() -> None:
            flat = arrow.array(np.concatenate(vectors), arrow.float32())
            columns = [arrow.array(texts, arrow.string()), arrow.FixedSizeListArray.from_arrays(flat, width)]
            file.write_table(arrow.table(columns, schema=schema))
            texts.clear()
            vectors.clear()

        def add(text: str, vector: np.ndarray) -> None:
            texts.append(text)
            vectors.append(vector)
            if len(texts) == PART:
                flush()

        yield add
        if texts:
            flush()
