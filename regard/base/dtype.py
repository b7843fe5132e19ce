"""Which dtype to compute in."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """float32 instead of half precision, for what would overflow or lose too much there; float64 stays float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
