"""Pairs of ids become padded batches, in an order that (seed, epoch) fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from regard.data.text import END, PAD, START

# Lengths within 5 % of each other count as alike: enough to mix long rows, of which no two are equal.
NOISE = 0.05


def pad(rows: Sequence[Sequence[int]], value: int) -> tuple[Tensor, Tensor]:
    """Rows of ids, filled up at the end with value, and the mask of what is real: (B, L) and (B, L)."""
    if not rows:
        raise ValueError("a batch needs at least one row, got none")
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, L)
    ids = torch.full(mask.shape, value, dtype=torch.long)
    ids[mask] = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.long)
    return ids, mask


@dataclass(frozen=True)
class PairBatch:
    """`target` is <s> ... </s>: a model is fed target[:, :-1] and must say target[:, 1:]. `source` ends in </s>."""

    source: Tensor  # (B, S)
    source_mask: Tensor  # (B, S)
    target: Tensor  # (B, T)
    target_mask: Tensor  # (B, T)

    def to(self, device: torch.device | str) -> PairBatch:
        return PairBatch(
            self.source.to(device),
            self.source_mask.to(device),
            self.target.to(device),
            self.target_mask.to(device),
        )


class PairData:
    """Encoded pairs without special tokens (they are added here), batched by token count."""

    def __init__(self, sources: list[list[int]], targets: list[list[int]], *, batch_tokens: int, seed: int) -> None:
        if len(sources) != len(targets):
            raise ValueError(f"each source needs a target, got {len(sources)} sources, {len(targets)} targets")
        if not sources:
            raise ValueError("there must be at least one pair, got none")
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        if seed < 0:
            raise ValueError(f"seed must not be negative, got {seed}")
        self.sources, self.targets = sources, targets
        self.batch_tokens, self.seed = batch_tokens, seed
        # With the special tokens: source </s>, <s> target </s>.
        self.source_lengths = np.array([len(row) + 1 for row in sources])
        self.target_lengths = np.array([len(row) + 2 for row in targets])

    def __len__(self) -> int:
        return len(self.sources)

    def order(self, epoch: int) -> list[np.ndarray]:
        """The epoch's batches as row numbers: every row once, rows x longest side <= batch_tokens.

        Rows of like length go together, which keeps padding small; which of them share a batch, and the
        order of the batches, is drawn anew each epoch. A pair longer than batch_tokens is a batch alone."""
        generator = np.random.default_rng([self.seed, epoch])
        longest = np.maximum(self.source_lengths, self.target_lengths)
        rows = np.argsort(longest * (1 + NOISE * generator.random(len(self))))
        batches, start = [], 0
        while start < len(rows):
            ahead = rows[start : start + max(1, self.batch_tokens // longest[rows[start]])]
            slots = np.arange(1, len(ahead) + 1) * np.maximum.accumulate(longest[ahead])
            count = max(1, int(np.searchsorted(slots, self.batch_tokens, side="right")))
            batches.append(ahead[:count])
            start += count
        return [batches[i] for i in generator.permutation(len(batches))]

    def batch(self, rows: np.ndarray) -> PairBatch:
        source, source_mask = pad([[*self.sources[row], END] for row in rows], PAD)
        target, target_mask = pad([[START, *self.targets[row], END] for row in rows], PAD)
        return PairBatch(source, source_mask, target, target_mask)

    def padding(self, epoch: int) -> float:
        """The share of the epoch's slots, source and target together, that hold no token."""
        sides = (self.source_lengths, self.target_lengths)
        slots = sum(len(rows) * int(side[rows].max()) for rows in self.order(epoch) for side in sides)
        return 1 - sum(int(side.sum()) for side in sides) / slots
