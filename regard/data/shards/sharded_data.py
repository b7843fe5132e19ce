"""Training data in shards, in batches whose order is a function of (seed, epoch) and takes no memory.

However much there is, a running text takes the memory of a batch, and rows that of a block of about a million
tokens. Both give the same batches whatever the number of processes: each takes its rows of every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from regard.data.batches.batch import Rows
from regard.data.shards.permutation import Permutation
from regard.data.shards.reading import RunningText, ShardRows
from regard.data.shards.token_files import CHUNK
from regard.data.text.windows import TextBatch, TextData

BLOCK = 1 << 20  # tokens of a block
BATCHES = 64  # that a block has at least, so that rows of one length come from many places
TOGETHER = 1 << 12  # windows whose places are computed at once

RowItem = tuple[int, int, int, Any]  # epoch, block, the index of its first batch, the item of the block's own data


class ShardedText(TextData):
    """As TextData, with windows that are read when they are needed and an order that is computed piece by piece."""

    ids: RunningText

    def order(self, epoch: int) -> Iterator[np.ndarray]:  # type: ignore[override]
        """As in TextData: from a random offset on, each window once."""
        return self.order_from(epoch, 0)[1]

    def bookmark(self, starts: np.ndarray) -> list[int]:
        """There is none: every place of the order is computed."""
        return []

    def order_from(self, epoch: int, index: int, bookmark: Sequence[int] = ()) -> tuple[int, Iterator[np.ndarray]]:
        """The order from this batch on."""
        return index, self._from(epoch, index)

    def _from(self, epoch: int, index: int) -> Iterator[np.ndarray]:
        last = len(self.ids) - self.length  # windows that could begin
        offset = int(np.random.default_rng([self.seed, epoch]).integers(min(self.length, last)))
        count = -(-(last - offset) // self.length)
        permutation = Permutation(count, [self.seed, epoch])
        rows = max(1, self.batch_tokens // self.length)
        step = rows * max(1, TOGETHER // rows)
        for first in range(index * rows, count, step):
            starts = offset + self.length * permutation(np.arange(first, min(first + step, count)))
            yield from (starts[row : row + rows] for row in range(0, len(starts), rows))

    def batch(self, starts: np.ndarray) -> TextBatch:
        return self._whole(self.ids.windows(starts, self.length + 1))


class ShardedRows:
    """Rows in blocks: the chunks of all shards in random order, of which some hundred at a time are a block. One
    block is in memory, as the data that `make` makes of its columns with a seed of its own; None: it has no row.

    The order of chunks is a function of (seed, epoch), so that each epoch has other blocks."""

    def __init__(
        self,
        rows: ShardRows,
        make: Callable[[dict[str, Rows], int], Any],
        *,
        batch_tokens: int,
        seed: int,
        count: int | None = None,
    ) -> None:
        """`count`: how many rows there are, where `make` leaves some out."""
        self.rows, self.make, self.seed = rows, make, seed
        self.count = len(rows) if count is None else count
        self.longest_source = 0  # of pairs
        self.blocks = -(-rows.chunks * CHUNK // max(BLOCK, BATCHES * batch_tokens))
        self.loaded: tuple[tuple[int, int], Any] | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def truncated(self) -> int:
        """Labelled texts of which the end was cut off."""
        return self.rows.total("truncated")

    def order(self, epoch: int) -> Iterator[RowItem]:
        return self.order_from(epoch, 0)[1]

    def bookmark(self, item: RowItem) -> list[int]:
        """The block of a batch, and the index of the block's first batch. How many batches the blocks before it
        have is known only once they are loaded: a training that goes on need not load them again."""
        _, block, first, _ = item
        return [block, first]

    def order_from(self, epoch: int, index: int, bookmark: Sequence[int] = ()) -> tuple[int, Iterator[RowItem]]:
        """The order from the bookmark on, and the index of its first batch."""
        block, first = bookmark or (0, 0)
        return first, self._from(epoch, block, first)

    def _from(self, epoch: int, block: int, first: int) -> Iterator[RowItem]:
        for number in range(block, self.blocks):
            items = self._items(epoch, number)
            yield from ((epoch, number, first, item) for item in items)
            first += len(items)

    def batch(self, item: RowItem) -> Any:
        epoch, block, _, inner = item
        return self.block(epoch, block).batch(inner)

    def share(self, item: RowItem, share: Any) -> tuple[Any, int]:
        """The rows of one of several processes, and how many all have."""
        epoch, block, _, inner = item
        return self.block(epoch, block).share(inner, share)

    def _items(self, epoch: int, block: int) -> list[Any]:
        data = self.block(epoch, block)
        return [] if data is None else list(data.order(epoch))

    def block(self, epoch: int, block: int) -> Any:
        if self.loaded is None or self.loaded[0] != (epoch, block):
            self.loaded = None  # freed before the next is loaded
            chunks, blocks = self.rows.chunks, self.blocks
            places = np.arange(chunks * block // blocks, chunks * (block + 1) // blocks)
            numbers = np.sort(Permutation(chunks, [self.seed, epoch])(places))
            seed = np.random.SeedSequence([self.seed, epoch, block + 1]).generate_state(1)[0]
            self.loaded = (epoch, block), self.make(self.rows.load(numbers.tolist()), int(seed))
        return self.loaded[1]
