"""A batch whose rows are divided among processes: what is drawn or summed over all its rows.

Of B rows process r of n takes the rows r, r + n, r + 2 n, ... With one process, the usual case, everything here is
the plain operation on the batch itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Share:
    """Which rows of every batch are this process's."""

    rank: int
    count: int  # processes

    def of(self, rows: np.ndarray) -> np.ndarray:
        """A process for which there is no row computes the first, and it does not count: all processes must take
        part in every sum, or the others would wait for it."""
        own = rows[self.rank :: self.count]
        return own if len(own) else rows[:1]

    def numbers(self, total: int) -> np.ndarray:
        """Of the rows 0 .. total - 1."""
        return self.of(np.arange(total))


@dataclass(frozen=True)
class SharedBatch:
    """The batch that is being computed."""

    share: Share
    total: int  # rows, of all processes together
    generator: torch.Generator  # in the same state in every process
    sum: Callable[[Tensor], Tensor]  # over all processes; has a gradient

    @property
    def counts(self) -> bool:
        """False: there is no row for this process."""
        return self.share.rank < self.total

    @property
    def own(self) -> int:
        """Rows of this process."""
        return len(self.share.numbers(self.total))


_current: SharedBatch | None = None  # not of a thread: a backward pass may recompute in another


@contextmanager
def sharing() -> Iterator[None]:
    """Around the batches of a step, each of which is named by `begin`."""
    try:
        yield
    finally:
        begin(None)


def begin(batch: SharedBatch | None) -> None:
    """The rows that are computed from here on are a share of this batch."""
    global _current
    _current = batch


def current() -> SharedBatch | None:
    return _current


def counts() -> bool:
    """Whether the rows that are here count: False where there was no row for this process."""
    return _current is None or _current.counts


def rows_of_all(rows: int) -> int:
    """How many rows the whole batch has, of which `rows` are here."""
    return rows if _current is None else _current.total


def over_all(x: Tensor) -> Tensor:
    """The sum of x over all processes, with its gradient. A process without a row of its own adds 0."""
    if _current is None:
        return x
    return _current.sum(x if counts() else x * 0)


def draw(x: Tensor, fill: Callable[..., Any]) -> Tensor:
    """Random numbers of the shape of x (B, ..), by a method of torch such as `Tensor.uniform_`. They follow the row
    and not the process: drawn for the whole batch, of which this process takes its rows. In x every row may come
    several times, all rows first once, then once more (R-Drop)."""
    if _current is None:
        return fill(torch.empty_like(x))
    own = _current.own
    whole = x.new_empty(len(x) // own, _current.total, *x.shape[1:])
    fill(whole, generator=_current.generator)
    return whole[:, _current.share.numbers(_current.total)].flatten(0, 1)


def split(x: Tensor, parts: int) -> tuple[Tensor, ...]:
    """As `tensor_split` of the rows of the whole batch: of each part, the rows that are here."""
    if _current is None:
        return x.tensor_split(parts)
    sizes = [len(part) for part in np.array_split(np.arange(_current.total), parts)]
    rows = _current.share.numbers(_current.total)
    return x.tensor_split(np.searchsorted(rows, np.cumsum(sizes)[:-1]).tolist())
