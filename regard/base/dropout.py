"""Dropout with cheap random numbers on the CPU, where drawing a float per element costs more than using it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 1 << 16  # 16 random bits per element: one 64-bit number serves four


def drop(x: Tensor, rate: float, training: bool) -> Tensor:
    """Zero each element with probability `rate` (to a multiple of 2^-16), divide the others by 1 - rate."""
    if not training or rate == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    return _Drop.apply(x, rate)


class Dropout(nn.Module):
    """`shared`: an axis along which all elements are dropped or kept together; of (B, T, D), 1 is locked dropout,
    with one mask for all steps (Gal & Ghahramani 2016), -1 drops whole words."""

    def __init__(self, rate: float, *, shared: int | None = None):
        super().__init__()
        self.rate, self.shared = rate, shared

    def forward(self, x: Tensor) -> Tensor:
        if self.shared is None or not self.training or self.rate == 0:
            return drop(x, self.rate, self.training)
        return x * drop(torch.ones_like(x.narrow(self.shared, 0, 1)), self.rate, True)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        noise = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        level = min(round(rate * LEVELS), LEVELS - 1) - LEVELS // 2  # LEVELS itself would not fit 16 bits
        keep = (noise.view(torch.int16)[: x.numel()] >= level).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = 1 / (1 - rate)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None
