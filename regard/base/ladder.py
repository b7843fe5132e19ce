"""Sizes of batches rounded up to a few, so that a CUDA graph, which has fixed shapes, serves many batches."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache

import torch.nn.functional as F
from torch import Tensor

LONGEST = 1 << 30


@cache
def ladder(ratio: float) -> tuple[int, ...]:
    """1, 2, 3, ...: each size about `ratio` times the one before it."""
    sizes = [1]
    while sizes[-1] < LONGEST:
        sizes.append(max(sizes[-1] + 1, int(sizes[-1] * ratio)))
    return tuple(sizes)


def round_up(size: int, ratio: float, most: int = LONGEST) -> int:
    """The next size of the ladder, but at most `most`, which no size exceeds."""
    sizes = ladder(ratio)
    return min(sizes[bisect_left(sizes, size)], most)


def round_rows(rows: int, length: int, ratio: float, batch_tokens: int) -> int:
    """How many rows a batch gets whose longest row has this length: as many as any full batch may have whose
    longest row is rounded up to the same length. A batch that is less than half full gets a power of two."""
    sizes = ladder(ratio)
    place = bisect_left(sizes, length)
    shortest = sizes[place - 1] + 1 if place else 1
    full = max(1, batch_tokens // shortest)
    return full if full // 2 < rows <= full else round_up(rows, 2)


def enlarge(x: Tensor, *shape: int) -> Tensor:
    """Pad `x` to `shape` with zeros at the end of each axis."""
    more = [(0, size - now) for size, now in zip(shape, x.shape, strict=True)]
    return F.pad(x, [side for pair in reversed(more) for side in pair])
