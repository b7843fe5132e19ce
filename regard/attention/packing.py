"""Packed rows: sequences of different lengths end to end, so that no layer computes padding.

    packing = Packing(mask)                          # once for all layers
    x = packing.pack(x)                              # (B, T, dim) -> (1, N, dim), N real tokens
    x = x + attend(Question(x, packing=packing), attend.remember(x))
    x = packing.unpack(x)                            # (B, T, dim) again, 0 at padding

Layers that work on each token separately (linear, norm, dropout) take the packed row as it is. Attention must not
cross rows, so it runs on groups of rows of similar length (`split`, `join`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# The cost of one more group, in query-key pairs. On a GPU, launching a kernel takes as long as many comparisons.
GROUP = {"cpu": 1 << 13, "cuda": 1 << 20}


class Group(NamedTuple):
    """Rows that attention processes together, right-padded to the longest of them."""

    rows: int
    longest: int
    mask: Tensor | None  # (rows, longest); None: all have the same length


class Packing:
    """Maps the real tokens of a mask (B, T), wherever they are in their rows, to packed order: longest row first.

    The constructor syncs with the GPU once; the methods never do."""

    def __init__(self, mask: Tensor):
        if mask.dtype != torch.bool or mask.dim() != 2:
            raise ValueError(
                "packing needs a boolean mask (True = a real token) of shape (rows, positions); "
                f"got {mask.dtype} of shape {tuple(mask.shape)}"
            )
        self.mask = mask
        real = mask.cpu()
        lengths, order = real.sum(1).sort(descending=True, stable=True)
        row, place = real[order].nonzero(as_tuple=True)  # (N,) each
        row = order[row]
        self.size = len(row)
        self.rows = row.to(mask.device)  # (N,) the row of each token
        self._index = (row * mask.shape[1] + place).to(mask.device)  # (N,) its index in the flattened batch
        self._arrange(lengths[lengths > 0])

    def _arrange(self, lengths: Tensor) -> None:
        """Group the rows of these lengths, longest first, and index the M positions of the padded groups."""
        device = self.mask.device
        cuts = cut(lengths.tolist(), GROUP.get(device.type, GROUP["cuda"]))
        rows = torch.tensor([last - first for first, last in cuts], dtype=torch.long)
        longest = lengths[[first for first, _ in cuts]]
        width = longest.repeat_interleave(rows)  # of each row
        row = torch.arange(len(lengths)).repeat_interleave(width)  # (M,)
        place = torch.arange(len(row)) - (width.cumsum(0) - width)[row]
        real = place < lengths[row]
        self._sizes: list[int] = (rows * longest).tolist()
        self._spread = self._back = None
        if not real.all():
            # Padding repeats the last token of its own row, so NaN cannot get into another row.
            begin = lengths.cumsum(0) - lengths
            self._spread = (begin[row] + place.minimum(lengths[row] - 1)).to(device)  # (M,)
            self._back = real.nonzero()[:, 0].to(device)  # (N,)
        masks = real.to(device).split(self._sizes)
        self.groups: list[Group] = []
        for (first, last), mask in zip(cuts, masks, strict=True):
            long, short = int(lengths[first]), int(lengths[last - 1])
            self.groups.append(Group(last - first, long, mask.view(-1, long) if short < long else None))

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, ...) -> (1, N, ...)"""
        if x.shape[:2] != self.mask.shape:
            raise ValueError(f"this packing was made for shape {tuple(self.mask.shape)}, got {tuple(x.shape)}")
        return x.flatten(0, 1).index_select(0, self._index)[None]

    def unpack(self, x: Tensor) -> Tensor:
        """(1, N, ...) -> (B, T, ...), 0 at padding"""
        if x.shape[:2] != (1, self.size):
            raise ValueError(f"this packing holds (1, {self.size}) tokens, got {tuple(x.shape)}")
        batch = x.new_zeros(self.mask.numel(), *x.shape[2:]).index_copy(0, self._index, x[0])
        return batch.unflatten(0, self.mask.shape)

    def split(self, x: Tensor) -> list[Tensor]:
        """(1, .., N, D) -> (rows, .., longest, D) for each group"""
        x = x[0].movedim(-2, 0)  # (N, .., D)
        if self._spread is not None:
            x = x.index_select(0, self._spread)  # (M, .., D)
        return [
            part.unflatten(0, (group.rows, group.longest)).movedim(1, -2)
            for part, group in zip(x.split(self._sizes), self.groups, strict=True)
        ]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`; padding is dropped."""
        x = torch.cat([part.movedim(-2, 1).flatten(0, 1) for part in parts])  # (M, .., D)
        if self._back is not None:
            x = x.index_select(0, self._back)
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
