"""Advantages against the loop of the paper."""

from __future__ import annotations

import pytest
import torch

from regard.models.snail.policy_gradient import advantages, normalised, running_mean


@pytest.mark.parametrize("decay", [0.7, 1.0, 0.0])
def test_advantages_are_those_of_a_loop_from_the_end(decay: float) -> None:
    rewards, values = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0))
    found = advantages(rewards, values, decay)
    after, later = torch.zeros(3), torch.zeros(3)
    for now in reversed(range(6)):
        after = rewards[:, now] + later - values[:, now] + decay * after
        later = values[:, now]
        torch.testing.assert_close(found[:, now], after)


def test_without_decay_an_advantage_is_what_was_earned_beyond_the_value() -> None:
    rewards, values = torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([[2.0, 1.0, 5.0]])
    assert advantages(rewards, values, 1.0).tolist() == [[1.0, 1.0, -3.0]]


@pytest.mark.parametrize(
    ("count", "wanted"), [(1, [4.0, 2.0, 6.0, 0.0]), (2, [4.0, 3.0, 4.0, 3.0]), (9, [4.0, 3.0, 4.0, 3.0])]
)
def test_a_running_mean_is_of_the_last_steps(count: int, wanted: list[float]) -> None:
    assert running_mean(torch.tensor([[4.0, 2.0, 6.0, 0.0]]), count).tolist() == [wanted]


def test_normalised_has_mean_0_and_deviation_1_and_survives_a_constant() -> None:
    found = normalised(torch.arange(10.0).view(2, 5))
    assert found.mean().item() == pytest.approx(0, abs=1e-6)
    assert found.std().item() == pytest.approx(1, abs=1e-4)
    assert not normalised(torch.ones(2, 3)).any()
