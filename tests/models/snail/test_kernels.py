"""The Triton kernel that plays whole trials, against the plain form and against the policy of the whole trial."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from regard.data.made.environments import CHOICES, Seeds, uniform
from regard.models.snail.agent import SNAILAgent, SNAILAgentConfig, choose, play_by_steps

kernel = pytest.importorskip("regard.models.snail.kernels", reason="needs Triton")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICES = [
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")),
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")),
]
TINY: dict[str, Any] = {"dim": 8, "tc_filters": 4, "keys": 8, "values": 8, "pulls": 5, "actions": 3}
SMALL: dict[str, dict[str, Any]] = {
    "bandits": TINY,
    "without convolutions": {"temporal": False, "pulls": 4},
    "more pulls than one part of a look": TINY | {"temporal": False, "pulls": 19},
    "one pull": TINY | {"pulls": 1},
    "three blocks": TINY | {"tc_layers": 3, "pulls": 4},
    "sizes that no tile divides": {
        "environment": "mdps", "actions": 3, "states": 3, "horizon": 2, "episodes": 2,
        "dim": 40, "tc_filters": 20, "keys": 12, "values": 24,
    },
}  # fmt: skip
RECIPES: dict[str, dict[str, Any]] = {
    "5 arms, 10 pulls": {"actions": 5, "pulls": 10},
    "10 arms, 500 pulls": {"actions": 10, "pulls": 500},
    "50 arms, 100 pulls": {"actions": 50, "pulls": 100},
    "MDPs": {"environment": "mdps", "episodes": 10},
}


def agent(device: str, **sizes: Any) -> SNAILAgent:
    """With a policy that is far from uniform."""
    torch.manual_seed(0)
    model = SNAILAgent(SNAILAgentConfig(**sizes))
    with torch.no_grad():
        model.policy.weight.mul_(100)
        model.embed.weight.mul_(3)
    return model.eval().to(device)


@pytest.mark.thorough
@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("sizes", SMALL)
@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_the_kernel_plays_as_the_plain_form(device: str, sizes: str, greedy: bool) -> None:
    model = agent(device, **SMALL[sizes])
    seeds = torch.arange(17, device=device)  # two programs, the second one with a single trial
    world = model.environments.draw(seeds)
    chances = uniform(seeds, CHOICES, model.environments.steps)
    assert kernel.fits(model)
    found = kernel.play(model, world, chances, greedy=greedy)
    wanted = play_by_steps(model, world, chances, greedy=greedy)
    assert greedy or len(wanted[1].unique()) > 1
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("sizes", RECIPES)
@pytest.mark.parametrize("device", DEVICES[:1])
@torch.no_grad()
def test_actions_are_those_that_the_whole_trial_gives(device: str, sizes: str) -> None:
    """But for the few draws that fall within the rounding of a probability."""
    model, seeds = agent(device, **RECIPES[sizes]), torch.arange(600, device=device)
    played, kind = model.play(seeds), model.environments
    logits = model(played.inputs).flatten(0, 1)
    wanted = choose(logits, uniform(seeds, CHOICES, kind.steps).flatten()).view_as(played.actions)
    assert (wanted == played.actions).float().mean() > 0.9999
    world = kind.draw(seeds)
    state = world.first
    for now in range(kind.steps):
        torch.testing.assert_close(state, played.states[:, now])
        reward, state = kind.step(world, now, state, played.actions[:, now])
        torch.testing.assert_close(reward, played.rewards[:, now])


@pytest.mark.thorough
@pytest.mark.parametrize("device", DEVICES)
def test_a_trial_does_not_depend_on_the_others(device: str) -> None:
    model = agent(device, **TINY)
    both, alone = model.play(torch.arange(20, device=device)), model.play(torch.tensor([18], device=device))
    for ours, wanted in zip(both, alone, strict=True):
        assert torch.equal(ours[18:19], wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_the_loss_is_that_of_the_plain_form(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = agent(device, **TINY), Seeds(torch.arange(18, device=device))
    found = model.loss(batch)
    monkeypatch.setattr(kernel, "fits", lambda model: False)
    wanted = model.loss(batch)
    torch.testing.assert_close(found.total, wanted.total)
    torch.testing.assert_close(found.likelihood, wanted.likelihood)


def test_what_the_kernel_cannot_play_is_played_step_by_step() -> None:
    assert not kernel.fits(agent("cpu", **TINY | {"keys": 7}))
    assert not kernel.fits(agent("cpu", **TINY | {"actions": 257}))
    assert not kernel.fits(agent("cpu", **TINY).double())
    assert kernel.fits(agent("cpu", **TINY)) == kernel.INTERPRETED
