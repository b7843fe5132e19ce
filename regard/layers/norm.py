"""The norms of a Transformer's block: whose numbers share a mean.

layer norm   gamma (x - mean) / sqrt(var + eps) + beta    of the features of one token
batch norm   the same                                     of one feature in all tokens of the batch"""

from __future__ import annotations

import torch
from torch import Tensor, nn

NORMS = ("post", "pre", "none", "batch")


class BatchNorm(nn.Module):
    """gamma (x - mean) / sqrt(var + eps) + beta   (Ioffe & Szegedy 2015), mean and variance of each feature over
    the real tokens of the batch, in eval mode their running averages.

    So in training a token depends on the others of its batch, later ones of its own text too: a causal model
    trains on what it cannot see when it writes."""

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.norm = nn.BatchNorm1d(dim, eps)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, T, dim); mask (B, T): True = a real token. In training those of padding come out as 0."""
        if mask is None or not self.training:
            return self.norm(x.flatten(0, 1)).view_as(x)
        real = self.norm(x[mask])  # (N, dim)
        return torch.zeros_like(x, dtype=real.dtype).masked_scatter(mask[..., None], real)


def build_norm(name: str, dim: int, eps: float) -> nn.Module:
    """The norm of a block with this setting."""
    if name == "batch":
        return BatchNorm(dim, eps)
    return nn.Identity() if name == "none" else nn.LayerNorm(dim, eps)
