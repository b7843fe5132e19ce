"""Bandits and MDPs: what they pay, what is seen of them, and that all of it follows from seeds."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.data.made.environments import EPOCH, Bandits, MDPs, TrainingSeeds, World, mean_rewards, normal, uniform

KINDS = [Bandits(3, 6), MDPs(3, 4, horizon=5, episodes=2)]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=["bandits", "mdps"])


def test_random_numbers_are_uniform_and_unrelated() -> None:
    drawn = uniform(torch.arange(2000), 0, 50)
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.005)
    assert drawn.var().item() == pytest.approx(1 / 12, abs=0.002)
    other = uniform(torch.arange(2000), 1, 50)
    for first, second in ((drawn, other), (drawn[:-1], drawn[1:]), (drawn[:, :-1], drawn[:, 1:])):
        both = torch.stack([first.flatten(), second.flatten()])
        assert abs(float(torch.corrcoef(both)[0, 1])) < 4 / math.sqrt(both.shape[1])


def test_random_numbers_stay_the_same() -> None:
    """Runs are compared on environments of the same seeds, now and later."""
    seeds = torch.tensor([0, -1, 1 << 62])
    saved = [[0.0427534, 0.4113185], [0.3748321, 0.8271796], [0.6591861, 0.9115712]]
    assert torch.allclose(uniform(seeds, 0, 2), torch.tensor(saved), atol=1e-6)


def test_normal_numbers_are_normal() -> None:
    drawn = normal(torch.arange(2000), 2, 50)
    assert drawn.mean().item() == pytest.approx(0, abs=0.02)
    assert drawn.std().item() == pytest.approx(1, abs=0.02)
    assert (drawn.abs() < 1.96).float().mean().item() == pytest.approx(0.95, abs=0.005)


@each_kind
def test_an_environment_is_a_function_of_its_seed(kind: Any) -> None:
    both, alone = kind.draw(torch.tensor([5, 6])), kind.draw(torch.tensor([6]))
    for first, second in zip(both, alone, strict=True):
        assert torch.equal(first[1:], second)
    assert not torch.equal(both.rewards[0], both.rewards[1])
    assert not torch.equal(both.luck[0], both.luck[1])


@each_kind
def test_the_agent_sees_its_last_action_and_reward(kind: Any) -> None:
    world = kind.draw(torch.arange(4))
    seen = kind.see(0, world.first, None, None)
    assert seen.shape == (4, kind.inputs)
    assert not seen[:, :4].any()
    action = torch.tensor([0, 1, 2, 1])
    reward, state = kind.step(world, 0, world.first, action)
    seen = kind.see(1, state, action, reward)
    assert torch.equal(seen[:, :3].argmax(1), action)
    assert torch.equal(seen[:, 3], reward)


@each_kind
def test_what_was_seen_follows_from_a_whole_trial(kind: Any) -> None:
    world, done, seen = kind.draw(torch.arange(4)), [], []
    state, action, reward = world.first, None, None
    for now in range(kind.steps):
        seen.append(kind.see(now, state, action, reward))
        action = (torch.arange(4) + now) % 3
        reward, after = kind.step(world, now, state, action)
        done.append((state, action, reward))
        state = after
    states, actions, rewards = (torch.stack(one, 1) for one in zip(*done, strict=True))
    assert torch.equal(kind.saw(states, actions, rewards), torch.stack(seen, 1))


def test_an_arm_pays_by_its_probability() -> None:
    kind = Bandits(2, 400)
    world = kind.draw(torch.arange(100))
    for arm in (0, 1):
        action = torch.full((100,), arm)
        paid = torch.stack([kind.step(world, now, world.first, action)[0] for now in range(400)]).mean(0)
        assert (paid - world.rewards[:, 0, arm]).abs().max() < 0.12
    assert torch.allclose(kind.best(world), 400 * world.rewards[:, 0].amax(1))


def test_an_mdp_moves_by_its_probabilities_and_begins_each_episode_in_state_0() -> None:
    kind = MDPs(2, 3, horizon=4, episodes=300)
    world = kind.draw(torch.arange(20))
    state, visits = world.first, torch.zeros(20, 3)
    for now in range(kind.steps):
        flag = kind.see(now, state, 0 * state, state.float())[:, -1]
        assert flag.eq(float(now > 0 and now % 4 == 0)).all()
        _, after = kind.step(world, now, state, torch.zeros_like(state))
        if now % 4 == 0:
            assert not state.any()
            visits[torch.arange(20), after] += 1
        state = after
    expected = world.moves[:, 0, 0].diff(dim=1, prepend=torch.zeros(20, 1))
    assert (visits / 300 - expected).abs().max() < 0.12


def test_the_best_of_an_mdp_is_that_of_all_policies() -> None:
    """Two states, two actions, two steps: eight policies by hand."""
    kind = MDPs(2, 2, horizon=2, episodes=3)
    world = kind.draw(torch.arange(5))
    moves = world.moves.diff(dim=-1, prepend=torch.zeros_like(world.moves[..., :1]))
    for row in range(5):
        mean, move = world.rewards[row], moves[row]
        values = [
            mean[0, a] + move[0, a, 0] * mean[0, b] + move[0, a, 1] * mean[1, c]
            for a in (0, 1) for b in (0, 1) for c in (0, 1)
        ]  # fmt: skip
        assert kind.best(world)[row].item() == pytest.approx(3 * max(values).item(), rel=1e-5)


@each_kind
def test_prospects_are_what_players_earn(kind: Any) -> None:
    """Many trials in one environment, played at random: the mean of what is earned from a step on. At the first
    step one who knows the environment expects the best."""
    count, random = 20_000, torch.Generator().manual_seed(0)
    one = kind.draw(torch.tensor([7]))
    luck = (torch.rand if isinstance(kind, Bandits) else torch.randn)(count, kind.steps, generator=random)
    turns = torch.rand(count, kind.steps, generator=random)
    world = World(*(x.expand(count, *x.shape[1:]) for x in one[:3]), luck, turns)
    states, actions, rewards = played_at_random(kind, world, random)
    found = kind.prospects(world, states)
    assert found.shape == (count, kind.steps, 2)
    returns = rewards.flip(1).cumsum(1).flip(1)
    torch.testing.assert_close(returns.mean(0), found[..., 0].mean(0), rtol=0, atol=0.1)
    torch.testing.assert_close(found[:, 0, 1], kind.best(world))
    assert (found[..., 1] > found[..., 0]).all()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(kind.prospects(world, states), found)
    means = mean_rewards(world, states, actions)
    torch.testing.assert_close(means.mean(0), rewards.mean(0), rtol=0, atol=0.05)
    if isinstance(kind, MDPs):
        torch.testing.assert_close(means, rewards - luck, rtol=0, atol=1e-5)


def played_at_random(kind: Any, world: World, random: torch.Generator) -> tuple[torch.Tensor, ...]:
    """States, actions and rewards (B, T)."""
    state, done = world.first, []
    for now in range(kind.steps):
        action = torch.randint(kind.actions, state.shape, generator=random)
        reward, after = kind.step(world, now, state, action)
        done.append((state, action, reward))
        state = after
    return tuple(torch.stack(one, 1) for one in zip(*done, strict=True))


def test_training_seeds_follow_from_the_place_and_are_never_those_of_tests() -> None:
    data = TrainingSeeds(8, 1)
    items = list(data.order(0))
    assert len(items) == EPOCH
    assert torch.equal(data.batch(items[3]).seeds, TrainingSeeds(8, 1).batch((0, 3)).seeds)
    drawn = torch.cat([data.batch(item).seeds for item in [(0, 0), (0, 1), (1, 0)]])
    assert len(drawn.unique()) == 24
    assert drawn.min() > 1e6
    assert not torch.equal(TrainingSeeds(8, 2).batch((0, 0)).seeds, drawn[:8])
