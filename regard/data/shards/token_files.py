"""The tokens of one shard, as a folder: flat files of ids, an index in JSON, no pickle.

A column `source` of rows is source.ids (uint8, uint16 or uint32) and source.lengths (uint32, one for each row).
Rows are read in chunks of some thousand tokens: chunks.index (int64) has for each chunk its first row and where it
begins in each column, and one entry more for the end. index.json is written last; it has the size and sha256 of
each file, so that a damaged or partial folder is noticed. `reading.py` reads them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.base.files import LARGEST_JSON, parse_json, read_bytes
from regard.errors import DataError

FORMAT = 1
CHUNK = 1 << 12  # ids of a chunk at least
WRITE = 1 << 18  # items that are buffered before they are written
INDEX, CHUNKS = "index.json", "chunks.index"
TYPES = {"B": np.uint8, "H": np.uint16, "I": np.uint32, "q": np.int64}  # by the codes of `array`


def id_type(size: int) -> str:
    """The smallest type for the ids of a vocabulary."""
    return "H" if size <= 1 << 16 else "I"


class _Sink:
    """A file that is written from its beginning to its end, with its digest."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind, self.count = path, kind, 0
        self.waiting, self.digest, self.file = array(kind), hashlib.sha256(), BufferedWriter(FileIO(path, "xb"))

    def add(self, items: Iterable[int]) -> int:
        """How many there were."""
        before = len(self.waiting)
        self.waiting.extend(items)
        added = len(self.waiting) - before
        self.count += added
        if len(self.waiting) >= WRITE:
            self.flush()
        return added

    def flush(self) -> None:
        self.file.write(self.waiting)
        self.digest.update(self.waiting)
        self.waiting = array(self.kind)

    def close(self) -> dict[str, Any]:
        self.flush()
        self.file.close()
        return {"size": self.path.stat().st_size, "sha256": self.digest.hexdigest()}


class ShardWriter:
    """Writes the tokens of one shard into an empty folder. `columns`: their types, as `array` names them."""

    def __init__(self, folder: Path, columns: Mapping[str, str]) -> None:
        self.folder = folder
        self.ids = {name: _Sink(folder / f"{name}.ids", kind) for name, kind in columns.items()}
        self.lengths = {name: _Sink(folder / f"{name}.lengths", "I") for name in columns}
        self.index = _Sink(folder / CHUNKS, "q")
        self.rows = self.begun = self.chunks = 0
        self._mark()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for sink in self._sinks:
            sink.file.close()

    @property
    def _sinks(self) -> list[_Sink]:
        return [*self.ids.values(), *self.lengths.values(), self.index]

    @property
    def tokens(self) -> int:
        return sum(sink.count for sink in self.ids.values())

    def add(self, column: str, ids: Iterable[int]) -> None:
        """Ids without rows, as those of running text."""
        self.ids[column].add(ids)

    def row(self, **columns: Iterable[int]) -> None:
        for name, ids in columns.items():
            self.lengths[name].add([self.ids[name].add(ids)])
        self.rows += 1

    def end_chunk(self, at_least: int = CHUNK) -> bool:
        """The next row begins another chunk, if this one has so many ids; whether it does."""
        ends = self.tokens - self.begun >= at_least
        if ends:
            self._mark()
            self.chunks += 1
        return ends

    def _mark(self) -> None:
        self.index.add([self.rows, *(sink.count for sink in self.ids.values())])
        self.begun = self.tokens

    def finish(self, **about: Any) -> None:
        """`about`: what else is known of the shard, in JSON."""
        if self.tokens > self.begun:
            self._mark()
            self.chunks += 1
        found = {
            "format": FORMAT,
            "byteorder": sys.byteorder,
            "rows": self.rows,
            "chunks": self.chunks,
            "columns": {name: {"type": sink.kind, "count": sink.count} for name, sink in self.ids.items()},
            "about": about,
            "files": {sink.path.name: sink.close() for sink in self._sinks},
        }
        (self.folder / INDEX).write_text(json.dumps(found, indent=1) + "\n")


@dataclass(frozen=True)
class Shard:
    """The tokens of one shard, complete and checked."""

    folder: Path
    rows: int
    chunks: int
    types: dict[str, str]
    counts: dict[str, int]
    about: dict[str, Any]
    size: int  # bytes
    use: Any = field(default=None, compare=False, repr=False)  # as long as it lives, the cache keeps the tokens


def open_shard(folder: Path) -> Shard | None:
    """None where there is none, or it is not as it was written: it can be made again."""
    try:
        found = parse_json(read_bytes(folder / INDEX, LARGEST_JSON))
        if (found["format"], found["byteorder"]) != (FORMAT, sys.byteorder):
            return None
        for name, said in found["files"].items():
            with open(folder / Path(name).name, "rb") as file:
                whole = os.fstat(file.fileno()).st_size == said["size"]
                if not whole or hashlib.file_digest(file, "sha256").hexdigest() != said["sha256"]:
                    return None
        columns = found["columns"]
        return Shard(
            folder,
            found["rows"],
            found["chunks"],
            {name: column["type"] for name, column in columns.items()},
            {name: column["count"] for name, column in columns.items()},
            found["about"],
            sum(file["size"] for file in found["files"].values()),
        )
    except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
