"""Reads the tokens of shards: as one running text, or as rows in chunks.

Only what is asked for is ever in memory: files are read piece by piece, since the pages of a memory map would count
as the process's own."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.batches.batch import Rows
from regard.data.shards.token_files import CHUNKS, TYPES, Shard
from regard.errors import DataError

OPEN = 64  # files that stay open
PIECE = 1 << 20  # ids
AGAIN = "tokens that were kept are gone or damaged: start again with --resume, and they are made anew"


class _Files:
    """Open files, the last used ones of many."""

    def __init__(self) -> None:
        self.open: OrderedDict[Path, FileIO] = OrderedDict()

    def __del__(self) -> None:
        for file in self.open.values():
            file.close()

    def read(self, path: Path, kind: str, begin: int, end: int) -> np.ndarray:
        """Items begin to end of a file of this type."""
        width = np.dtype(TYPES[kind]).itemsize
        try:
            if path not in self.open:
                self.open[path] = FileIO(path)
                while len(self.open) > OPEN:
                    self.open.popitem(last=False)[1].close()
            self.open.move_to_end(path)
            items = np.empty(end - begin, TYPES[kind])
            file, view = self.open[path], items.view(np.uint8).data
            file.seek(begin * width)
            got = 0
            while got < len(view) and (more := file.readinto(view[got:])):
                got += more
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror or error}); {AGAIN}") from None
        if got < len(view):
            raise DataError(f"{path} has become shorter; {AGAIN}")
        return items


class RunningText:
    """The ids of all shards one after the other, as if in one array: `len`, slices, and rows of places."""

    def __init__(self, shards: Sequence[Shard], begin: int = 0, end: int | None = None) -> None:
        self.shards, self.files = shards, _Files()
        self.ends = [0]
        for shard in shards:
            self.ends.append(self.ends[-1] + shard.counts["ids"])
        self.begin, self.end = begin, self.ends[-1] if end is None else end

    def __len__(self) -> int:
        return self.end - self.begin

    def read(self, begin: int, end: int) -> np.ndarray:
        """Ids begin to end: (end - begin,) int64."""
        begin, end, parts = begin + self.begin, end + self.begin, []
        number = bisect_right(self.ends, begin) - 1
        while begin < end:
            shard, first = self.shards[number], self.ends[number]
            stop = min(end, self.ends[number + 1])
            path = shard.folder / "ids.ids"
            if stop > begin:
                parts.append(self.files.read(path, shard.types["ids"], begin - first, stop - first))
            begin, number = stop, number + 1
        return np.concatenate(parts, dtype=np.int64) if parts else np.zeros(0, np.int64)

    def windows(self, starts: np.ndarray, length: int) -> np.ndarray:
        """(B, length)"""
        return np.stack([self.read(start, start + length) for start in starts.tolist()])

    def __getitem__(self, places: slice | np.ndarray) -> Any:
        """A part of the text for a slice. For places (B, L), whose rows are each a stretch of the text, their
        ids."""
        if isinstance(places, slice):
            begin, end, _ = places.indices(len(self))
            return RunningText(self.shards, self.begin + begin, self.begin + end)
        stretches = ((row, int(row.min()), int(row.max())) for row in places)
        return np.stack([self.read(first, last + 1)[row - first] for row, first, last in stretches])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All of it in memory."""
        ids = np.empty(len(self), dtype or np.int32)
        for begin in range(0, len(self), PIECE):
            ids[begin : begin + PIECE] = self.read(begin, min(begin + PIECE, len(self)))
        return ids


class ShardRows:
    """The rows of all shards, in chunks that are numbered through."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards, self.files = shards, _Files()
        self.ends = [0]
        for shard in shards:
            self.ends.append(self.ends[-1] + shard.chunks)

    @property
    def chunks(self) -> int:
        return self.ends[-1]

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def total(self, what: str) -> int:
        """The sum of a number that is known of each shard."""
        return sum(int(shard.about[what]) for shard in self.shards)

    def load(self, chunks: Iterable[int]) -> dict[str, Rows]:
        """The columns of these chunks."""
        parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in self.shards[0].types}
        for chunk in chunks:
            number = bisect_right(self.ends, chunk) - 1
            for name, part in self._chunk(self.shards[number], chunk - self.ends[number]).items():
                parts[name].append(part)
        return {name: in_rows(*map(np.concatenate, zip(*part, strict=True))) for name, part in parts.items()}

    def _chunk(self, shard: Shard, number: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Of each column the ids and the lengths of its rows."""
        width = 1 + len(shard.types)
        path = shard.folder / CHUNKS
        (first, *begins), (last, *ends) = (
            self.files.read(path, "q", number * width, (number + 2) * width).reshape(2, width).tolist()
        )
        return {
            name: (
                self.files.read(shard.folder / f"{name}.ids", kind, begin, end),
                self.files.read(shard.folder / f"{name}.lengths", "I", first, last),
            )
            for (name, kind), begin, end in zip(shard.types.items(), begins, ends, strict=True)
        }

    def lengths(self, *columns: str, rows: int = 1 << 20) -> Iterator[tuple[np.ndarray, ...]]:
        """The lengths of all rows in these columns, some at a time."""
        for shard in self.shards:
            for begin in range(0, shard.rows, rows):
                end = min(begin + rows, shard.rows)
                yield tuple(
                    self.files.read(shard.folder / f"{name}.lengths", "I", begin, end).astype(np.int64)
                    for name in columns
                )


def in_rows(ids: np.ndarray, lengths: np.ndarray) -> Rows:
    rows = Rows()
    rows.ids = array("i")
    rows.ids.frombytes(ids.astype(np.int32).view(np.uint8).data)
    rows.ends.frombytes(np.cumsum(lengths, dtype=np.int64).view(np.uint8).data)
    return rows


def taken(rows: Rows, keep: np.ndarray) -> Rows:
    """The rows for which `keep` is True."""
    lengths = rows.lengths()
    return in_rows(np.asarray(rows.ids)[np.repeat(keep, lengths)], lengths[keep])
