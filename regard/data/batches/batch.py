"""Pairs of token ids become padded batches, in an order that is a function of (seed, epoch)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from regard.base.shared_batch import Share
from regard.base.short_repr import short_repr
from regard.data.text.special_tokens import REGARD, Special

# Lengths within 5 % of each other count as equal, so that long rows, all of different lengths, are mixed too.
NOISE = 0.05

Pair = tuple[Sequence[int], Sequence[int]]


def pad(rows: Sequence[Sequence[int]], value: int, width: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of ids, padded at the end with `value`, at least to `width`, and the mask, True = a real token: (B, L)
    and (B, L)."""
    if not rows:
        raise ValueError("a batch needs at least one row, got none")
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    mask = np.arange(max(width, lengths.max())) < lengths[:, None]  # (B, L)
    ids = np.full(mask.shape, value, np.int64)  # numpy fills what a mask selects in a tenth of torch's time
    ids[mask] = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
    return torch.from_numpy(ids), torch.from_numpy(mask)


class TakenRows(ABC):
    """Data of which a share is the rows of a whole batch: what is drawn for it is drawn for all rows."""

    @abstractmethod
    def batch(self, item: Any) -> Any:
        """All rows."""

    def share(self, item: Any, share: Share) -> tuple[Any, int]:
        """The rows of this process, and how many all have."""
        batch = self.batch(item)
        total = len(next(iter(batch.tensors().values())))
        return batch.take(share.numbers(total)), total


class RowNumbers(ABC):
    """Data whose items are arrays of row numbers: a share reads its own rows alone."""

    @abstractmethod
    def batch(self, rows: np.ndarray) -> Any:
        """These rows."""

    def share(self, rows: np.ndarray, share: Share) -> tuple[Any, int]:
        """The rows of this process, and how many all have."""
        return self.batch(share.of(rows)), len(rows)


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """To the device, without a sync: through pinned memory, which torch keeps alive."""
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":
        expanded = 0 in tensor.stride()  # several elements in one place: it cannot be pinned as it is
        return (tensor.contiguous() if expanded else tensor).pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def wide(x: Tensor) -> Tensor:
    """`x` in float64; in float32 on Apple's GPUs, which have no float64."""
    return x.float() if x.device.type == "mps" else x.double()


class Batch:
    """Base of all batches, which are dataclasses of tensors; some may be None."""

    __repr__ = short_repr
    judged_by: ClassVar[tuple[str, ...]] = ()  # tensors that losses need and answers do not; they may be None

    def tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def each(self, work: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, **{name: work(value) for name, value in self.tensors().items()})  # type: ignore[type-var]

    def to(self, device: torch.device | str) -> Self:
        return self.each(lambda tensor: send(tensor, device))

    def unlabelled(self) -> Self:
        """Without labels: what answers depend on."""
        return replace(self, **dict.fromkeys(self.judged_by)) if self.judged_by else self  # type: ignore[type-var]

    def take(self, rows: np.ndarray) -> Self:
        """Some of the rows."""
        return self.each(lambda tensor: tensor[torch.from_numpy(rows).to(tensor.device)])

    def twice(self) -> Self:
        """Every row once more, after the last."""
        return self.each(lambda tensor: torch.cat([tensor, tensor]))


@dataclass(frozen=True, repr=False)
class PairBatch(Batch):
    """`target` is <s> ... </s>: target[:, :-1] is the input, target[:, 1:] is predicted. `source` ends in </s>."""

    source: Tensor  # (B, S)
    source_mask: Tensor  # (B, S)
    target: Tensor  # (B, T)
    target_mask: Tensor  # (B, T)


class Rows:
    """Many rows of ids in one array: 4 bytes per id; a list of ints takes at least 8."""

    def __init__(self, rows: Iterable[Iterable[int]] = ()) -> None:
        self.ids = array("i")
        self.ends = array("q", [0])  # row i is ids[ends[i] : ends[i + 1]]
        for row in rows:
            self.append(row)

    def append(self, row: Iterable[int]) -> None:
        self.ids.extend(row)
        self.ends.append(len(self.ids))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, row: int) -> array[int]:
        if not 0 <= row < len(self):
            raise IndexError(f"there are {len(self)} rows, counted from 0, got {row}")
        return self.ids[self.ends[row] : self.ends[row + 1]]

    def lengths(self) -> np.ndarray:
        return np.diff(np.asarray(self.ends))


Ids = Rows | Iterable[Iterable[int]]


class Filter:
    """Drops and counts pairs with an empty side, with a side of more than `drop_longer` tokens, or with a side more
    than `max_ratio` times as long as the other (0 = no limit)."""

    def __init__(self, *, drop_longer: int = 0, max_ratio: float = 0.0) -> None:
        if drop_longer < 0:
            raise ValueError(f"drop_longer must be at least 1, or 0 for no limit, got {drop_longer}")
        if max_ratio and not max_ratio >= 1:
            raise ValueError(f"max_ratio must be at least 1, or 0 for no limit, got {max_ratio}")
        self.drop_longer, self.max_ratio = drop_longer, max_ratio
        self.seen = 0
        self.dropped: Counter[str] = Counter()
        self.first = ""

    def __call__(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for source, target in pairs:
            if self.passes(len(source), len(target)):
                yield source, target

    def passes(self, source: int, target: int) -> bool:
        """Whether a pair of these lengths is kept; it is counted."""
        self.seen += 1
        faults = self._faults(min(source, target), max(source, target))
        reason = next((reason for reason, wrong in faults if wrong), "")
        if reason:
            self.dropped[reason] += 1
            self._tell_first(self.seen, source, target)
        return not reason

    def keeps(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The same for many pairs: (N,) bool."""
        kept = np.ones(len(sources), bool)
        for reason, wrong in self._faults(np.minimum(sources, targets), np.maximum(sources, targets)):
            if count := int((wrong & kept).sum()):
                self.dropped[reason] += count
            kept &= ~wrong
        if not kept.all():
            place = int(kept.argmin())
            self._tell_first(self.seen + place + 1, int(sources[place]), int(targets[place]))
        self.seen += len(kept)
        return kept

    def _faults(self, short: Any, long: Any) -> Iterator[tuple[str, Any]]:
        """What may be wrong with lengths, or with arrays of them, and whether it is."""
        yield "a side without tokens", short == 0
        if self.drop_longer:
            yield f"a side of more than {self.drop_longer} tokens", long > self.drop_longer
        if self.max_ratio:
            yield f"a side more than {self.max_ratio:g} times as long as the other", long > self.max_ratio * short

    def _tell_first(self, number: int, source: int, target: int) -> None:
        self.first = self.first or f"the first was pair {number:,}, with {source:,} tokens to {target:,}"

    def report(self) -> str:
        """One sentence; "" if no pair was dropped."""
        if not self.dropped:
            return ""
        reasons = ", ".join(f"{count:,} for {reason}" for reason, count in self.dropped.most_common())
        return f"Dropped {self.dropped.total():,} of {self.seen:,} pairs: {reasons}; {self.first}."


def draw_batches(longest: np.ndarray, *, batch_tokens: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Row indices, batch by batch: every row once, with rows x longest side <= batch_tokens.

    Rows of similar length share a batch, which keeps padding small; which of them, and the order of the batches, is
    random. A row longer than batch_tokens is a batch by itself."""
    rows = np.argsort(longest * (1 + NOISE * generator.random(len(longest))))
    batches, start = [], 0
    while start < len(rows):
        ahead = rows[start : start + max(1, batch_tokens // longest[rows[start]])]
        slots = np.arange(1, len(ahead) + 1) * np.maximum.accumulate(longest[ahead])
        count = max(1, int(np.searchsorted(slots, batch_tokens, side="right")))
        batches.append(ahead[:count])
        start += count
    return [batches[i] for i in generator.permutation(len(batches))]


def check_batching(*, batch_tokens: int, seed: int) -> None:
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")


class PairData:
    """Encoded pairs without special tokens (they are added here), batched by token count."""

    def __init__(
        self, sources: Ids, targets: Ids, *, batch_tokens: int, seed: int, special: Special = REGARD
    ) -> None:
        self.sources, self.targets = (side if isinstance(side, Rows) else Rows(side) for side in (sources, targets))
        if len(self.sources) != len(self.targets):
            raise ValueError(f"each source needs a target, got {len(self)} sources, {len(self.targets)} targets")
        if not len(self):
            raise ValueError("there must be at least one pair, got none")
        check_batching(batch_tokens=batch_tokens, seed=seed)
        self.batch_tokens, self.seed, self.special = batch_tokens, seed, special
        # With the special tokens: source </s>, <s> target </s>. Without a start token (below 0) each target has its
        # own, the token of its tag.
        self.starts = [special.start] if special.start >= 0 else []
        self.source_lengths = self.sources.lengths() + 1
        self.target_lengths = self.targets.lengths() + 1 + len(self.starts)

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def longest_source(self) -> int:
        return int(self.source_lengths.max())

    def order(self, epoch: int) -> list[np.ndarray]:
        """The epoch's batches as row indices, drawn anew each epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        longest = np.maximum(self.source_lengths, self.target_lengths)
        return draw_batches(longest, batch_tokens=self.batch_tokens, generator=generator)

    def batch(self, rows: np.ndarray) -> PairBatch:
        return self._padded(rows)

    def share(self, rows: np.ndarray, share: Share) -> tuple[PairBatch, int]:
        """As long as the whole batch: what hard attention draws depends on the number of places."""
        widths = (int(lengths[rows].max()) for lengths in (self.source_lengths, self.target_lengths))
        return self._padded(share.of(rows), *widths), len(rows)

    def _padded(self, rows: np.ndarray, source_width: int = 0, target_width: int = 0) -> PairBatch:
        end = self.special.end
        sources = pad([[*self.sources[row], end] for row in rows], self.special.pad, source_width)
        targets = pad([[*self.starts, *self.targets[row], end] for row in rows], self.special.pad, target_width)
        return PairBatch(*sources, *targets)
