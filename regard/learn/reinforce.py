"""REINFORCE: training what samples: hard attention, where to look (Xu 2015, sec. 4.1), and agents, what to do."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.loss import Loss
from regard.learn.settings import Training

KEPT = 0.9  # of the moving baseline, after each batch


def entropy_at(step: int, settings: Training) -> float:
    """The weight of the entropy in a step, counted from 1."""
    falls = settings.entropy_schedule == "linear"
    return settings.entropy_weight * (max(0.0, 1 - (step - 1) / settings.steps) if falls else 1.0)


def objective(
    loss: Loss, settings: Training, average: Tensor | None = None, entropy_weight: Tensor | None = None
) -> Tensor:
    """The loss to differentiate, per target token: total + penalty, and for models that sample nothing no more.

    With s_t the place sampled for token t, r_t its reward and b_t the baseline, the gradient is
        d total - sum over tokens of [reinforce_weight (r_t - b_t) d log p(s_t) + entropy_weight d H(s_t)].

    reinforce_reward = "row", as in the paper: r_t = log p(y | s), the log-likelihood of the whole row, which does
    not say which look was a good one. "token", the default: r_t = log p(y_t | s_1 .. s_t), that of the token which
    the place was sampled for; what a look does to later tokens, through the decoder's state, is left out.
    reinforce_baseline = "moving", as in the paper: b = 0.9 b + 0.1 r, where r is the mean of a batch. "rows", the
    default: the mean reward of the other rows at the same step.
    The defaults have less variance (measured in results/dates.md).

    For an agent, s_t is the action of step t and r_t its advantage; only the defaults make sense there, and
    recipes with others are refused (`tasks.core.recipe`). Where several updates learn from the same actions (PPO,
    Schulman et al. 2017), log p(s_t) becomes p(s_t) / p_then(s_t), clipped where it would go further than
    1 +- ppo_clip.

    `average`, a scalar, holds the moving baseline. It starts at 0, as in the authors' code. A batch is measured by
    the baseline of the batches before it, which leaves the gradient unbiased, and is then added to it.
    `entropy_weight`, a scalar, is that of this step; None: settings.entropy_weight."""
    found, total = loss.sampled, loss.total
    if loss.penalty is not None:
        total = total + loss.penalty
    if found is None:
        return total / loss.tokens
    reward = found.reward
    if settings.reinforce_reward == "row":
        reward = reward.sum(1, keepdim=True) * found.mask
    if settings.reinforce_baseline == "moving":
        assert average is not None
        expected = average.clone()
        average.lerp_(mean_reward(reward, found.mask, settings.reinforce_reward), 1 - KEPT)
    else:
        expected = baseline(reward, found.mask)
    gain = (reward - expected) * found.mask
    if found.before is None:
        better = gain * found.log_probability
    else:
        ratio = (found.log_probability - found.before).exp()
        better = torch.minimum(gain * ratio, gain * ratio.clamp(1 - settings.ppo_clip, 1 + settings.ppo_clip))
    surrogate = settings.reinforce_weight * better.sum()
    weight = settings.entropy_weight if entropy_weight is None else entropy_weight
    surrogate = surrogate + weight * (found.entropy * found.mask).sum()
    return (total - surrogate) / loss.tokens


def mean_reward(reward: Tensor, mask: Tensor, of: str) -> Tensor:
    """Of a batch (B, T): the mean over its rows, each of which has one reward, or over its tokens."""
    if of == "row":
        return reward.amin(1).mean()  # log-likelihoods are negative, and 0 at padding
    return reward.sum() / mask.sum().clamp_min(1)


def baseline(reward: Tensor, mask: Tensor) -> Tensor:
    """b_t of each row: the mean reward (B, T) of the other rows at step t; of the whole batch where there is none.
    Rewards are 0 where the mask is False."""
    others = mask.sum(0) - 1  # (T,)
    mean = (reward.sum(0) - reward) / others.clamp_min(1)
    return mean.where(others > 0, reward.sum() / mask.sum().clamp_min(1))
