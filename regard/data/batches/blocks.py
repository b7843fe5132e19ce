"""Training pairs larger than memory: distributed at random over block files, one of which is in memory.

Why not one np.memmap of all pairs: of 32 million pairs (6 GiB of ids, 24 blocks), from a cold cache and with memory
to spare, batches of 4096 tokens took 6 to 7 ms from blocks and 51 to 54 ms from a memmap in random order
(MADV_RANDOM; without it 224 ms, until most of the file was cached). To draw the order of all pairs took 41 s, that
of a block 1 s; the peak of memory was 0.6 GiB with blocks and 1.9 GiB with a memmap. Read from beginning to end
they are alike: 9 and 7 ms."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.base.files import FULL, drafted_folder
from regard.base.processes import is_first, of_first
from regard.base.shared_batch import Share
from regard.data.batches.batch import Pair, PairBatch, PairData, Rows, check_batching, draw_batches
from regard.data.text.special_tokens import REGARD, Special
from regard.errors import DataError

# Bytes per pair besides its ids: the ends of its rows, its lengths, its place while the order is drawn.
OVERHEAD = 96
# At least this many of the longest pair must fit the budget; with fewer, random blocks would often overflow.
LEAST_PAIRS = 16
SIDES = ("source", "target")
Item = tuple[int, int, np.ndarray]  # a block, the index of its first batch in the epoch, rows of the block
SUFFIXES = (".ids", ".lengths")  # int32, in the machine's byte order, because blocks are temporary


def gather(
    pairs: Iterable[Pair],
    *,
    folder: Path,
    budget: int,
    batch_tokens: int,
    seed: int,
    special: Special = REGARD,
) -> PairData | BlockData:
    """The pairs in memory if they take at most `budget` bytes, else in blocks under `folder`.

    What an earlier call left in `folder` is removed. New blocks are written to a temporary folder beside it, which
    needs twice their size, and renamed when complete. They are a function of pairs, budget and seed."""
    check_batching(batch_tokens=batch_tokens, seed=seed)
    if budget < 1:
        raise ValueError(f"budget must be at least 1 byte, got {budget}")
    if is_first():
        _remove(folder)
    buffer, pairs = PairBuffer(), iter(pairs)
    for source, target in pairs:
        buffer.append(source, target)
        if buffer.bytes > budget:
            break
    else:
        return PairData(*buffer.sides, batch_tokens=batch_tokens, seed=seed, special=special)

    def write() -> BlockData:
        return _write_blocks(buffer, pairs, folder, budget, batch_tokens=batch_tokens, seed=seed, special=special)

    return of_first(write)  # under torchrun all processes read the same files


def _write_blocks(
    buffer: PairBuffer,
    pairs: Iterator[Pair],
    folder: Path,
    budget: int,
    *,
    batch_tokens: int,
    seed: int,
    special: Special,
) -> BlockData:
    try:
        with drafted_folder(folder) as draft:
            _spill(buffer, pairs, draft / "all", budget)
            # Half full on average, so that an uneven distribution still fits.
            blocks = 2 * -(-buffer.total // budget)
            while not _distribute(draft, blocks, budget=budget, seed=seed):
                blocks *= 2
    except OSError as error:
        if error.errno in FULL:
            needs = f"the blocks of training data need about {2 * buffer.total:,} bytes or more while being written"
            raise OSError(error.errno, f"{error.strerror}; {needs}", str(folder)) from None
        raise
    return BlockData(
        folder,
        blocks,
        count=buffer.count,
        longest_source=buffer.longest_source,
        batch_tokens=batch_tokens,
        seed=seed,
        special=special,
    )


class BlockData:
    """Pairs in block files, each a random sample of all; one block is in memory. Otherwise like PairData."""

    def __init__(
        self,
        folder: Path,
        blocks: int,
        *,
        count: int,
        longest_source: int,
        batch_tokens: int,
        seed: int,
        special: Special = REGARD,
    ) -> None:
        self.folder, self.blocks, self.count = folder, blocks, count
        self.longest_source = longest_source
        self.batch_tokens, self.seed, self.special = batch_tokens, seed, special
        self.loaded: tuple[int, PairData] | None = None

    def __len__(self) -> int:
        return self.count

    def order(self, epoch: int) -> Iterator[Item]:
        """The epoch's batches; needs only the lengths, so no ids are read."""
        return self.order_from(epoch, 0)[1]

    def bookmark(self, item: Item) -> list[int]:
        """How many batches the blocks before this one have is known only once their lengths are read: a training
        that goes on need not read them again."""
        block, first, _ = item
        return [block, first]

    def order_from(self, epoch: int, index: int, bookmark: Sequence[int] = ()) -> tuple[int, Iterator[Item]]:
        """The order from the bookmark's block on, and the index of its first batch."""
        blocks = np.random.default_rng([self.seed, epoch]).permutation(self.blocks).tolist()
        block, first = bookmark or (blocks[0], 0)
        return first, self._from(epoch, blocks[blocks.index(block) :], first)

    def _from(self, epoch: int, blocks: list[int], first: int) -> Iterator[Item]:
        for block in blocks:
            source, target = (_lengths(self.folder / f"{block}.{side}") for side in SIDES)
            # block + 1, because numpy ignores a trailing 0 in a seed.
            generator = np.random.default_rng([self.seed, epoch, block + 1])
            longest = np.maximum(source + 1, target + 2)  # with the special tokens
            batches = draw_batches(longest, batch_tokens=self.batch_tokens, generator=generator)
            yield from ((block, first, rows) for rows in batches)
            first += len(batches)

    def batch(self, item: Item) -> PairBatch:
        block, _, rows = item
        return self._block(block).batch(rows)

    def share(self, item: Item, share: Share) -> tuple[PairBatch, int]:
        block, _, rows = item
        return self._block(block).share(rows, share)

    def _block(self, block: int) -> PairData:
        if self.loaded is None or self.loaded[0] != block:
            self.loaded = None  # freed before the next is loaded: two would not fit
            sides = (_load(self.folder / f"{block}.{side}") for side in SIDES)
            data = PairData(*sides, batch_tokens=self.batch_tokens, seed=self.seed, special=self.special)
            self.loaded = block, data
        return self.loaded[1]


class PairBuffer:
    """Pairs in memory that wait to be written to a file, and totals over all pairs so far."""

    def __init__(self) -> None:
        self.sides = Rows(), Rows()
        self.bytes = self.total = self.count = self.largest = self.longest_source = 0

    def append(self, source: Sequence[int], target: Sequence[int]) -> None:
        for side, row in zip(self.sides, (source, target), strict=True):
            side.append(row)
        size = 4 * (len(source) + len(target)) + OVERHEAD
        self.bytes, self.total, self.count = self.bytes + size, self.total + size, self.count + 1
        self.largest = max(self.largest, size)
        self.longest_source = max(self.longest_source, len(source) + 1)  # with </s>

    def write(self, stem: Path) -> None:
        """Appends to the files; afterwards no pairs are in memory."""
        for name, side in zip(SIDES, self.sides, strict=True):
            with open(f"{stem}.{name}.ids", "ab") as file:
                file.write(side.ids)
            with open(f"{stem}.{name}.lengths", "ab") as file:
                file.write(side.lengths().astype(np.int32).data)
        self.sides, self.bytes = (Rows(), Rows()), 0


def _spill(buffer: PairBuffer, pairs: Iterator[Pair], stem: Path, budget: int) -> None:
    """All pairs to one file, because the number of blocks is known only after the last pair."""
    buffer.write(stem)
    for source, target in pairs:
        buffer.append(source, target)
        if buffer.largest * LEAST_PAIRS > budget:
            break
        if buffer.bytes > budget // 2:
            buffer.write(stem)
    if buffer.largest * LEAST_PAIRS > budget:
        raise DataError(
            f"a pair takes {buffer.largest:,} bytes of a budget of {budget:,}; "
            f"raise the budget to at least {buffer.largest * LEAST_PAIRS:,} or drop long pairs"
        )
    buffer.write(stem)


def _distribute(folder: Path, blocks: int, *, budget: int, seed: int) -> bool:
    """Each pair to a block drawn from (seed, its index). False, and no blocks, if a block exceeds the budget."""
    generator = np.random.default_rng([seed, blocks])
    parts, waiting = [PairBuffer() for _ in range(blocks)], 0
    for pair in zip(*(_read(folder / f"all.{side}") for side in SIDES), strict=True):
        part = parts[int(generator.random() * blocks)]
        waiting -= part.bytes
        part.append(*pair)
        waiting += part.bytes
        if waiting > budget // 2:
            for number, full in enumerate(parts):
                if full.bytes:
                    full.write(folder / str(number))
            waiting = 0
    for number, part in enumerate(parts):
        part.write(folder / str(number))
    fits = max(part.total for part in parts) <= budget
    for path in folder.iterdir():
        if path.name.startswith("all.") == fits:  # the single file if the blocks fit, else the blocks
            path.unlink()
    return fits


def _read(stem: Path) -> Iterator[array[int]]:
    """Row after row; only one is in memory."""
    with open(f"{stem}.lengths", "rb") as lengths, open(f"{stem}.ids", "rb") as ids:
        while piece := lengths.read(1 << 14):
            for length in array("i", piece):
                row = array("i")
                row.fromfile(ids, length)
                yield row


def _lengths(stem: Path) -> np.ndarray:
    return np.fromfile(f"{stem}.lengths", np.int32).astype(np.int64)


def _load(stem: Path) -> Rows:
    rows = Rows()
    rows.ends.frombytes(np.cumsum(_lengths(stem)).tobytes())
    rows.ids = array("i", [0]) * rows.ends[-1]
    with open(f"{stem}.ids", "rb") as file:
        if file.readinto(rows.ids) < 4 * len(rows.ids):
            raise OSError(f"{stem}.ids was truncated after it was written; start the training again")
    return rows


def _remove(folder: Path) -> None:
    if not folder.exists():
        return
    paths = list(folder.iterdir())
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise OSError(
                f"{folder} is the folder for blocks of training data, but {path.name} is in it; empty the folder"
            )
    for path in paths:
        path.unlink()
    folder.rmdir()
