"""A task's own mixture of a model's layers   (Peters et al. 2018, eq. 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.record import record


class ScalarMix(nn.Module):
    """gamma sum_j softmax(s)_j h_j, with learned gamma and s. A trace sees softmax(s) as "layers" (1, L)."""

    traced = ("layers",)

    def __init__(self, layers: int):
        super().__init__()
        self.scores, self.gamma = nn.Parameter(torch.zeros(layers)), nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Tensor:
        """softmax(s) (L,): how much each layer counts."""
        return self.scores.softmax(0)

    def forward(self, states: Tensor) -> Tensor:
        """(B, L, T, D) -> (B, T, D)"""
        weights = self.weights
        record(self, "layers", weights[None], axis=0)
        return torch.einsum("l,bltd->btd", self.gamma * weights, states)
