"""Squeeze-and-excitation: the whole image decides how far each channel is opened   (Hu et al. 2018)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.record import record


class Excite(nn.Module):
    """x_c * gate_c, gate = sigmoid(W_2 relu(W_1 z)), z_c = the mean of x_c over all places   (eq. 2 to 4)

    W_1 reduces the channels by `reduction`. A trace sees the gates as "gate" (B, C). W_1 and W_2 have no weight
    decay: a convolution that is normalised loses nothing by it, but gates would no longer see the image."""

    traced = ("gate",)
    decayed = False

    def __init__(self, channels: int, reduction: int):
        super().__init__()
        hidden = max(1, channels // reduction)
        self.inner, self.outer = nn.Linear(channels, hidden), nn.Linear(hidden, channels)

    def forward(self, x: Tensor) -> Tensor:
        squeezed = x.mean((2, 3))  # (B, C)
        gate = torch.sigmoid(self.outer(F.relu(self.inner(squeezed))))
        record(self, "gate", gate, axis=0)
        return x * gate[:, :, None, None]
