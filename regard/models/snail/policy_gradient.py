"""Advantages of actions, for policy gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.base.shared_batch import current, over_all, rows_of_all


def advantages(rewards: Tensor, values: Tensor, decay: float) -> Tensor:
    """A_t = sum_k decay^k d_{t+k},  d_t = r_t + V_{t+1} - V_t   (GAE, Schulman et al. 2016, without a discount)

    Rewards and values (B, T); nothing is earned after the last step. decay (lambda in the paper): with 0 the
    advantage relies on the values, with 1 on the rewards. One product with a triangular matrix takes the place of a
    loop from the last step to the first."""
    later = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
    surprise = rewards + later - values
    place = torch.arange(rewards.shape[1], device=rewards.device)
    ahead = place[:, None] - place  # (from, to)
    weights = decay ** ahead.clamp_min(0).to(surprise.dtype)
    with torch.autocast(rewards.device.type, enabled=False):
        return surprise @ weights.masked_fill(ahead < 0, 0)


def running_mean(x: Tensor, count: int) -> Tensor:
    """The mean of the last `count` steps up to each step, or of as many as there are: (B, T) -> (B, T)"""
    total = F.pad(x.cumsum(1), (count, 0))
    steps = torch.arange(1, x.shape[1] + 1, device=x.device).clamp_max(count)
    return (total[:, count:] - total[:, :-count]) / steps


def normalised(x: Tensor) -> Tensor:
    """`x` (B, ..) with mean 0 and standard deviation 1 over all entries of the batch."""
    if current() is None:
        return (x - x.mean()) / (x.std() + 1e-6)
    count = x[0].numel() * rows_of_all(len(x))
    x = x - over_all(x.sum()) / count
    return x / ((over_all(x.square().sum()) / (count - 1)).sqrt() + 1e-6)
