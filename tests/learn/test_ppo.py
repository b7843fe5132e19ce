"""PPO's objective. What several updates learn from is tested with an agent, in tests/models/snail/test_agent.py."""

import pytest
import torch

from regard.layers.loss import Loss, Sampled
from regard.learn.reinforce import objective
from regard.learn.settings import Training


@pytest.mark.parametrize("gain", [1.0, -1.0])
def test_an_update_does_not_go_further_than_the_clip(gain):
    """Rows whose action is now 0.5 to 2 times as likely. The other rows make the sum of all gains 0."""
    ratio = torch.tensor([0.5, 0.9, 1.0, 1.1, 2.0])
    log_probability = ratio.log()[:, None].requires_grad_()
    gains = torch.full((5, 1), gain)
    both = torch.cat([gains, -gains])
    before = torch.zeros(10, 1)
    chosen = torch.cat([log_probability, torch.zeros(5, 1)])
    sampled = Sampled(both, chosen, torch.zeros(10, 1), torch.ones(10, 1).bool(), before)
    settings = Training(steps=1, entropy_weight=0.0, ppo_clip=0.2)
    objective(Loss(torch.zeros(()), torch.zeros(10), torch.tensor(1), sampled), settings).backward()
    free = [True, True, True, True, False] if gain > 0 else [False, True, True, True, True]
    scale = gain * 10 / 9  # the baseline is the mean of the other nine
    assert log_probability.grad[:, 0].tolist() == pytest.approx(
        [-scale * r * f for r, f in zip(ratio.tolist(), free, strict=True)]
    )
