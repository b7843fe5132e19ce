"""REINFORCE: training hard attention, which samples where to look (Xu 2015, sec. 4.1)."""

from __future__ import annotations

from torch import Tensor

from regard.layers.loss import Loss
from regard.learn.settings import Training


def objective(loss: Loss, settings: Training) -> Tensor:
    """The loss to differentiate, per target token; total / tokens for models that sample nothing.

    With s_t the place sampled for token t, r_t = log p(y_t | s_1 .. s_t) its reward and b_t the baseline, the
    gradient is
        d total - sum over tokens of [reinforce_weight (r_t - b_t) d log p(s_t) + entropy_weight d H(s_t)].

    Two departures from the paper, both for less variance (measured in results/dates.md):
    - It rewards every place by the log-likelihood of the whole row, which does not say which look was a good one.
      We reward a place by the token it was sampled for; what a look does to later tokens, through the decoder's
      state, is left out.
    - Its baseline is a moving average over batches; ours is the mean reward of the other rows at the same step."""
    found = loss.sampled
    if found is None:
        return loss.total / loss.tokens
    gain = (found.reward - baseline(found.reward, found.mask)) * found.mask
    surrogate = settings.reinforce_weight * (gain * found.log_probability).sum()
    surrogate = surrogate + settings.entropy_weight * (found.entropy * found.mask).sum()
    return (loss.total - surrogate) / loss.tokens


def baseline(reward: Tensor, mask: Tensor) -> Tensor:
    """b_t of each row: the mean reward (B, T) of the other rows at step t; of the whole batch where there is none.
    Rewards are 0 where the mask is False."""
    others = mask.sum(0) - 1  # (T,)
    mean = (reward.sum(0) - reward) / others.clamp_min(1)
    return mean.where(others > 0, reward.sum() / mask.sum().clamp_min(1))
