"""Packed rows: sequences of different lengths end to end, so that no layer computes padding.

    packing = Packing(mask)                          # once for all layers
    x = packing.pack(x)                              # (B, T, dim) -> (1, N, dim), N real tokens
    x = x + attend(Question(x, packing=packing), attend.remember(x))
    x = packing.unpack(x)                            # (B, T, dim) again, 0 at padding

Layers that work on each token separately (linear, norm, dropout) take the packed row as it is. Attention must not
cross rows: a kernel that knows where each row begins (`starts`) computes all of them at once; without such a
kernel, attention runs on groups of rows of similar length (`groups`, `split`, `join`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import BadInput

# The cost of one more group, in query-key pairs. On a GPU, launching a kernel takes as long as many comparisons.
GROUP = {"cpu": 1 << 13, "cuda": 1 << 20}


class PaddedGroup(NamedTuple):
    """Rows that attention processes together, right-padded to the longest of them."""

    rows: int
    longest: int
    mask: Tensor | None  # (rows, longest); None: all have the same length


class Grouped(NamedTuple):
    """How packed rows become padded groups of M positions in all."""

    groups: list[PaddedGroup]
    sizes: list[int]  # positions of each group
    spread: Tensor | None  # (M,) the packed token at each position; None: there is no padding
    back: Tensor | None  # (N,) the position of each packed token


class Packing:
    """Maps the real tokens of a mask (B, T), wherever they are in their rows, to packed order: longest row first.

    The constructor syncs with the GPU once, and so does the first use of the groups."""

    def __init__(self, mask: Tensor):
        # Made for every batch, so not by `checked`, which takes half as long as all of this.
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.dim() != 2:
            came = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
            raise BadInput(
                f"packing needs a boolean mask (True = a real token) of shape (rows, positions); got {came}"
            )
        self.mask = mask
        self.lengths, order = mask.sum(1).sort(descending=True, stable=True)  # (B,) each
        row, place = mask[order].nonzero(as_tuple=True)  # (N,) each
        self.rows = order[row]  # (N,) the row of each token
        self.size = len(row)
        self._index = self.rows * mask.shape[1] + place  # (N,) its index in the flattened batch

    def __repr__(self) -> str:
        rows, longest = self.mask.shape
        return f"<Packing: {self.size:,} tokens of {rows} rows, padded to {longest}>"

    @cached_property
    def starts(self) -> Tensor:
        """(B + 1,) where each row begins in the packed order, and where the last row ends."""
        return F.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)

    @cached_property
    def groups(self) -> list[PaddedGroup]:
        """Rows of similar length, longest first."""
        return self._grouped.groups

    @cached_property
    def _grouped(self) -> Grouped:
        """Group the rows and index the M positions of the padded groups."""
        device = self.mask.device
        lengths = self.lengths.cpu()
        lengths = lengths[lengths > 0]
        cuts = cut(lengths.tolist(), GROUP.get(device.type, GROUP["cuda"]))
        rows = torch.tensor([last - first for first, last in cuts], dtype=torch.long)
        longest = lengths[[first for first, _ in cuts]]
        width = longest.repeat_interleave(rows)  # of each row
        row = torch.arange(len(lengths)).repeat_interleave(width)  # (M,)
        place = torch.arange(len(row)) - (width.cumsum(0) - width)[row]
        real = place < lengths[row]
        sizes: list[int] = (rows * longest).tolist()
        spread = back = None
        if not real.all():
            # Padding repeats the last token of its own row, so NaN cannot get into another row.
            begin = lengths.cumsum(0) - lengths
            spread = (begin[row] + place.minimum(lengths[row] - 1)).to(device)
            back = real.nonzero()[:, 0].to(device)
        groups = []
        for (first, last), mask in zip(cuts, real.to(device).split(sizes), strict=True):
            long, short = int(lengths[first]), int(lengths[last - 1])
            groups.append(PaddedGroup(last - first, long, mask.view(-1, long) if short < long else None))
        return Grouped(groups, sizes, spread, back)

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, ...) -> (1, N, ...)"""
        if x.shape[:2] != self.mask.shape:
            raise BadInput(f"this packing was made for shape {tuple(self.mask.shape)}, got {tuple(x.shape)}")
        return x.flatten(0, 1).index_select(0, self._index)[None]

    def unpack(self, x: Tensor) -> Tensor:
        """(1, N, ...) -> (B, T, ...), 0 at padding"""
        if x.shape[:2] != (1, self.size):
            raise BadInput(f"this packing holds (1, {self.size}) tokens, got {tuple(x.shape)}")
        batch = x.new_zeros(self.mask.numel(), *x.shape[2:]).index_copy(0, self._index, x[0])
        return batch.unflatten(0, self.mask.shape)

    def split(self, x: Tensor) -> list[Tensor]:
        """(1, .., N, D) -> (rows, .., longest, D) for each group"""
        grouped = self._grouped
        x = x[0].movedim(-2, 0)  # (N, .., D)
        if grouped.spread is not None:
            x = x.index_select(0, grouped.spread)  # (M, .., D)
        return [
            part.unflatten(0, (group.rows, group.longest)).movedim(1, -2)
            for part, group in zip(x.split(grouped.sizes), grouped.groups, strict=True)
        ]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`; padding is dropped."""
        x = torch.cat([part.movedim(-2, 1).flatten(0, 1) for part in parts])  # (M, .., D)
        if self._grouped.back is not None:
            x = x.index_select(0, self._grouped.back)
        return x.movedim(0, -2)[None]


def cut(lengths: Sequence[int], cost: int) -> list[tuple[int, int]]:
    """Start a new group where the pairs wasted on padding would exceed the cost of one more group."""
    cuts, waste = [0], 0
    for row, length in enumerate(lengths):
        waste += lengths[cuts[-1]] ** 2 - length**2
        if waste > cost:
            cuts.append(row)
            waste = 0
    return list(zip(cuts, [*cuts[1:], len(lengths)], strict=True)) if lengths else []
