"""Where a token stands. Attention alone cannot tell: it reads a memory as a bag of places.

Called with positions (L,) or (B, L), each gives (.., L, dim) to add to the embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def sinusoids(positions: Tensor, dim: int) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/dim)), PE(p, 2i+1) = cos(p / 10000^(2i/dim))   (Vaswani 2017, 3.5).

    Computed in float64: far from 0 a float32 angle has lost its digits."""
    pair = torch.arange(0, dim, 2, device=positions.device, dtype=torch.float64)
    angles = positions[..., None].double() / 10000 ** (pair / dim)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., :dim].float()


class Sinusoidal(nn.Module):
    """Fixed waves, from fast to slow: any length, bounded, and PE(p + k) is a linear map of PE(p)."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim
        self.table: Tensor
        self.register_buffer("table", torch.empty(0, dim), persistent=False)

    def forward(self, positions: Tensor, *, most: int | None = None) -> Tensor:
        """`most`: no position lies beyond, where the caller knows; to ask the positions is to wait for a card."""
        most = int(positions.max()) if most is None and positions.numel() else most or 0
        table = self.table  # another thread may put a shorter one there meanwhile
        if most >= len(table) or table.device != positions.device:
            size = max(most + 1, 2 * len(table), 64)
            table = self.table = sinusoids(torch.arange(size, device=positions.device), self.dim)
        return table[positions]


class Learned(nn.Module):
    """A table with a last row. There is nothing to say of what comes after it."""

    def __init__(self, dim: int, *, longest: int):
        super().__init__()
        self.table = nn.Embedding(longest, dim)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, positions: Tensor, *, most: int | None = None) -> Tensor:
        most = int(positions.max()) if most is None and positions.numel() else most or 0
        if most >= self.table.num_embeddings:
            raise ValueError(
                f"position {most} is beyond the last of the {self.table.num_embeddings} this model has learned; "
                "shorten the text, or train with a larger model.longest"
            )
        return self.table(positions)


class Number(nn.Module):
    """The plain number in every feature. Rejected: it grows without bound and drowns the embeddings."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, positions: Tensor, *, most: int | None = None) -> Tensor:
        return positions[..., None].float().expand(*positions.shape, self.dim)


class Fraction(Number):
    """position / (length - 1), in [0, 1]. Rejected: the same step means another distance in each sentence. Of one
    that is being written the length is not known, so that here it is taken against `longest`."""

    def __init__(self, dim: int, *, longest: int):
        super().__init__(dim)
        self.longest = longest

    def forward(self, positions: Tensor, *, most: int | None = None) -> Tensor:
        return super().forward(positions) / max(1, self.longest - 1)


POSITIONS = ("sinusoidal", "learned", "fraction", "number", "none")


def build_positions(name: str, dim: int, *, longest: int) -> nn.Module | None:
    if name == "sinusoidal":
        return Sinusoidal(dim)
    if name == "learned":
        return Learned(dim, longest=longest)
    if name == "fraction":
        return Fraction(dim, longest=longest)
    if name == "number":
        return Number(dim)
    if name == "none":
        return None
    raise ValueError(f"unknown positions {name!r}; there are {', '.join(POSITIONS)}")
