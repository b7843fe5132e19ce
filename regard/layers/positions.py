"""Position encodings: attention by itself does not know the order of its memory.

Called with positions (L,) or (B, L), each returns (.., L, dim) to add to the embeddings. `most` is an upper bound
of the positions, if the caller knows it, so that no GPU sync is needed. `lengths` (B,) are the sentences' lengths,
if they are known: in an encoder, not while decoding."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from regard.base.exporting import exporting


def sinusoids(positions: Tensor, dim: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/dim)), PE(p, 2i+1) = cos(p / 10000^(2i/dim))   (Vaswani 2017, 3.5).

    Computed in float64, as large angles lose precision in float32; on the CPU, as Apple's GPUs have no float64."""
    pair = torch.arange(0, dim, 2, dtype=torch.float64)
    angles = positions.cpu()[..., None].double() / 10000 ** (pair / dim)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., :dim].to(positions.device, dtype)


class Sinusoidal(nn.Module):
    """Fixed waves, from fast to slow: any length, bounded, and PE(p + k) is a linear function of PE(p)."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim
        self.table: Tensor
        self.register_buffer("table", torch.empty(0, dim), persistent=False)
        self.shorter: list[Tensor] = []  # earlier tables: a CUDA graph reads on where it read when it was captured

    def forward(self, positions: Tensor, *, most: int | None = None, lengths: Tensor | None = None) -> Tensor:
        if exporting():  # for any length: no table
            return sinusoids(positions, self.dim, self._dtype)
        most = int(positions.max()) if most is None and positions.numel() else most or 0
        return self.rows(most, positions.device)[positions]

    def rows(self, most: int, device: torch.device) -> Tensor:
        """A row for each position up to `most`, and perhaps more."""
        table = self.table  # another thread may meanwhile assign a shorter table
        if most >= len(table) or table.device != device:
            size = max(most + 1, 2 * len(table), 64)
            self.shorter.append(table)
            table = self.table = sinusoids(torch.arange(size), self.dim, self._dtype).to(device)
        return table

    @property
    def _dtype(self) -> torch.dtype:
        return torch.promote_types(self.table.dtype, torch.float32)

    def _apply(self, *args: Any, **options: Any) -> Self:
        """Of `.double()`, `.to(..)`, ...: a table in another dtype is made again, not rounded."""
        before = self.table.dtype
        super()._apply(*args, **options)
        self.shorter.clear()
        if self.table.dtype != before:
            self.table = self.table[:0]
        return self


class Learned(nn.Module):
    """A learned embedding for each of max_positions positions; later positions are an error."""

    def __init__(self, dim: int, *, max_positions: int):
        super().__init__()
        self.table = nn.Embedding(max_positions, dim)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, positions: Tensor, *, most: int | None = None, lengths: Tensor | None = None) -> Tensor:
        most = int(positions.max()) if most is None and positions.numel() else most or 0
        self._check(most)
        return self.table(positions)

    def rows(self, most: int, device: torch.device) -> Tensor:
        """A row for each position up to `most`, and perhaps more."""
        self._check(most)
        return self.table.weight

    def _check(self, most: int) -> None:
        if most >= self.table.num_embeddings:
            raise ValueError(
                f"position {most} is beyond the last of the {self.table.num_embeddings} positions of this model; "
                "shorten the text, or train with a larger model.max_positions"
            )


class Number(nn.Module):
    """The position itself in every feature. For comparison only: unbounded, it swamps the embeddings."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim
        self.model_dtype: Tensor  # empty: `.double()` changes its dtype, as those of all weights
        self.register_buffer("model_dtype", torch.empty(0), persistent=False)

    def forward(self, positions: Tensor, *, most: int | None = None, lengths: Tensor | None = None) -> Tensor:
        dtype = torch.promote_types(self.model_dtype.dtype, torch.float32)
        return positions[..., None].to(dtype).expand(*positions.shape, self.dim)


class Fraction(Number):
    """position / (length - 1), in [0, 1]. For comparison only: the same step has another size in each sentence.
    While decoding the length is not known, so there `length` is max_positions."""

    def __init__(self, dim: int, *, max_positions: int):
        super().__init__(dim)
        self.max_positions = max_positions

    def forward(self, positions: Tensor, *, most: int | None = None, lengths: Tensor | None = None) -> Tensor:
        if lengths is None:
            return super().forward(positions) / max(1, self.max_positions - 1)
        last = (lengths - 1).clamp_min(1)[:, None]  # (B, 1)
        return super().forward(positions.expand(lengths.shape[0], -1)) / last[..., None]


POSITIONS = ("sinusoidal", "learned", "fraction", "number", "none")


def build_positions(name: str, dim: int, *, max_positions: int) -> nn.Module | None:
    if name == "sinusoidal":
        return Sinusoidal(dim)
    if name == "learned":
        return Learned(dim, max_positions=max_positions)
    if name == "fraction":
        return Fraction(dim, max_positions=max_positions)
    if name == "number":
        return Number(dim)
    if name == "none":
        return None
    raise ValueError(f"unknown positions {name!r}; there are {', '.join(POSITIONS)}")
