import pytest
import torch

from regard.layers.loss import Loss
from regard.learn.reinforce import Baseline, objective
from regard.learn.settings import Training

REWARDS = torch.tensor([-1.0, -3.0, -0.5, -2.0], dtype=torch.float64)  # log p(y | place)


def entropy_of(logits):
    return -(logits.log_softmax(-1).exp() * logits.log_softmax(-1)).sum(-1)


@pytest.mark.parametrize("start", [0.0, -1.3, 5.0])
def test_expected_gradient_is_exact(start):
    """Over all places, p(place) * gradient of the surrogate = gradient of E[log p(y | place)] + entropy,
    whatever the baseline."""
    settings = Training(steps=1, reinforce_weight=0.7, entropy_weight=0.3)
    logits = torch.tensor([0.2, -0.4, 1.1, 0.0], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)  # what follows the look learns too
    probabilities = logits.softmax(-1).detach()
    seen = [torch.zeros_like(logits), torch.zeros_like(scale)]
    for place, probability in enumerate(probabilities):
        likelihood = (scale * REWARDS[place])[None]  # (B=1,)
        loss = Loss(
            total=-likelihood.sum(),
            likelihood=likelihood.detach(),
            tokens=torch.tensor(1),
            chosen=logits.log_softmax(-1)[place][None],
            entropy=entropy_of(logits)[None],
        )
        value = objective(loss, Baseline(start), settings)
        for total, part in zip(seen, torch.autograd.grad(value, [logits, scale]), strict=True):
            total += probability * part
    exact_look = 0.7 * (logits.softmax(-1) * scale.detach() * REWARDS).sum() + 0.3 * entropy_of(logits)
    assert torch.allclose(seen[0], -torch.autograd.grad(exact_look, logits)[0], atol=1e-12)
    assert torch.allclose(seen[1], -(probabilities * REWARDS).sum(), atol=1e-12)


def test_per_token_and_without_sampling():
    total = torch.tensor(12.0, requires_grad=True)
    loss = Loss(total=total, likelihood=torch.tensor([-12.0]), tokens=torch.tensor(4))
    baseline = Baseline()
    assert objective(loss, baseline, Training(steps=1)).item() == 3.0
    assert baseline.value is None


def test_baseline_is_a_moving_average_of_the_batches_before():
    def batch(*rewards):
        chosen = torch.zeros(len(rewards), requires_grad=True)
        loss = Loss(torch.tensor(0.0), torch.tensor(rewards), torch.tensor(2), chosen=chosen)
        objective(loss, baseline, settings).backward()
        return chosen.grad

    settings, baseline = Training(steps=1), Baseline()
    assert batch(-1.0, -3.0).tolist() == [-0.5, 0.5]  # -(R - b) / tokens with b = the batch's own mean, -2
    assert baseline.value == -2.0
    assert batch(-4.0, -8.0).tolist() == [1.0, 3.0]  # b is still -2
    assert baseline.value == pytest.approx(0.9 * -2 + 0.1 * -6)
    before = baseline.value
    batch(float("nan"), 0.0)
    assert baseline.value == before
