"""REINFORCE: training what samples: hard attention, where to look (Xu 2015, sec. 4.1), and agents, what to do."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.base.shared_batch import over_all
from regard.layers.loss import Loss
from regard.learn.ppo import clipped
from regard.learn.settings import Training

KEPT = 0.9  # of the moving baseline, after each batch


class Objective:
    """`objective` with what changes from step to step: tensors on the device, for captured steps to read."""

    def __init__(self, settings: Training, device: torch.device) -> None:
        self.settings = settings
        self.baseline = torch.zeros((), device=device)  # the moving one
        self.entropy_weight = torch.full((), settings.entropy_weight, device=device)

    def begin(self, step: int) -> None:
        """Called before each step, counted from 1."""
        if self.settings.entropy_schedule == "linear":
            left = max(0.0, 1 - (step - 1) / self.settings.steps)
            self.entropy_weight.fill_(self.settings.entropy_weight * left)

    def __call__(self, loss: Loss) -> Tensor:
        return objective(loss, self.settings, self.baseline, self.entropy_weight)


def objective(
    loss: Loss, settings: Training, average: Tensor | None = None, entropy_weight: Tensor | None = None
) -> Tensor:
    """The loss to differentiate, per target token: total + penalty, and for models that sample nothing no more.

    With s_t the place sampled for token t, r_t its reward and b_t the baseline, the gradient is
        d total - sum over tokens of [reinforce_weight (r_t - b_t) d log p(s_t) + entropy_weight d H(s_t)].

    reinforce_reward = "row", as in the paper: r_t = log p(y | s), the log-likelihood of the whole row, which does
    not say which look was good. "token", the default: r_t = log p(y_t | s_1 .. s_t), that of the token which
    the place was sampled for; what a look does to later tokens, through the decoder's state, is left out.
    reinforce_baseline = "moving", as in the paper: b = 0.9 b + 0.1 r, where r is the mean of a batch. "rows", the
    default: the mean reward of the other rows at the same step.
    The defaults have less variance (measured in results/dates.md).

    For an agent, s_t is the action of step t and r_t its advantage; only the defaults make sense there, and
    recipes with others are refused (`tasks.core.recipe`). Where several updates learn from the same actions, PPO's
    clipped ratio takes the place of log p(s_t).

    `average`, a scalar, holds the moving baseline. It starts at 0, as in the authors' code. A batch is measured by
    the baseline of the batches before it, which leaves the gradient unbiased, and is then added to it.
    `entropy_weight`, a scalar, is that of this step; None: settings.entropy_weight."""
    sampled, total = loss.sampled, loss.total
    if loss.penalty is not None:
        total = total + loss.penalty
    if sampled is None:
        return total / loss.tokens
    reward = sampled.reward
    if settings.reinforce_reward == "row":
        reward = reward.sum(1, keepdim=True) * sampled.mask
    if settings.reinforce_baseline == "moving":
        assert average is not None
        expected = average.clone()
        latest = mean_reward(reward, sampled.mask, settings.reinforce_reward)
        average.lerp_(latest.to(average.dtype), 1 - KEPT)
    else:
        expected = baseline(reward, sampled.mask)
    gain = (reward - expected) * sampled.mask
    if sampled.before is None:
        better = gain * sampled.log_probability
    else:
        better = clipped(gain, sampled.log_probability, sampled.before, settings.ppo_clip)
    surrogate = settings.reinforce_weight * better.sum()
    weight = settings.entropy_weight if entropy_weight is None else entropy_weight
    surrogate = surrogate + weight * (sampled.entropy * sampled.mask).sum()
    return (total - surrogate) / loss.tokens


def mean_reward(reward: Tensor, mask: Tensor, of: str) -> Tensor:
    """The mean of a batch (B, T) over its rows, each of which has one reward, or over its tokens."""
    if of == "row":
        rows = reward.amin(1)  # log-likelihoods are negative, and 0 at padding
        return over_all(rows.sum()) / over_all(mask.any(1).sum()).clamp_min(1)
    return over_all(reward.sum()) / over_all(mask.sum()).clamp_min(1)


def baseline(reward: Tensor, mask: Tensor) -> Tensor:
    """b_t of each row: the mean reward (B, T) of the other rows at step t; of the whole batch where it is
    the only one. Rewards are 0 where the mask is False."""
    rewards, tokens = over_all(reward.sum(0)), over_all(mask.sum(0))  # (T,)
    others = tokens - 1
    mean = (rewards - reward) / others.clamp_min(1)
    return mean.where(others > 0, rewards.sum() / tokens.sum().clamp_min(1))
