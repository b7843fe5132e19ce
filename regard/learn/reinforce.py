"""REINFORCE: training hard attention, which samples where to look (Xu 2015, sec. 4.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from regard.layers.loss import Loss
from regard.learn.settings import Training


@dataclass
class Baseline:
    """b <- 0.9 b + 0.1 mean reward   (Xu 2015). None before the first batch, which is its own baseline."""

    value: float | None = None

    def update(self, reward: float) -> None:
        if math.isfinite(reward):  # a float16 overflow must not spoil the average
            self.value = reward if self.value is None else 0.9 * self.value + 0.1 * reward


def objective(loss: Loss, baseline: Baseline, settings: Training) -> Tensor:
    """The loss to differentiate, per target token; total / tokens for models that sample nothing.

    With s the sampled positions, R = log p(y | s) and b the baseline from earlier batches, the gradient is
        d total - sum over rows of [reinforce_weight (R - b) d log p(s) + entropy_weight d H(s)].
    R is the log-likelihood of the whole row, as in the paper: only then, and with reinforce_weight 1, is this an
    unbiased estimate of the gradient of E[log p(y | s)], the lower bound that is maximised. A mean per token
    would have less variance between short and long rows, but it is the gradient of another objective."""
    if loss.chosen is None:
        return loss.total / loss.tokens
    reward = loss.likelihood.detach()  # (B,)
    mean = float(reward.mean())
    before = mean if baseline.value is None else baseline.value
    surrogate = settings.reinforce_weight * ((reward - before) * loss.chosen).sum()
    if loss.entropy is not None:
        surrogate = surrogate + settings.entropy_weight * loss.entropy.sum()
    baseline.update(mean)
    return (loss.total - surrogate) / loss.tokens
