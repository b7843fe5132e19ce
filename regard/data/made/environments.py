"""Environments of reinforcement learning, many at once: Bernoulli bandits and tabular MDPs (Duan 2016, RL^2).

An environment is a function of its seed, an int64: its parameters, and its luck at every step. So seeds travel in a
batch, training is resumed exactly, and all players of one seed meet the same luck. Random numbers come from a hash
of (seed, stream, place): it is the same on every device, needs no generator, and can be captured in a CUDA graph.

Before each step an agent sees its last action (one-hot), the last reward and, in an MDP, the state (one-hot) and
whether an episode has just ended; at the very first step there is no action and no reward.

Letters: B environments, A actions, S states, T steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.base.shared_batch import split
from regard.data.batches.batch import Batch, TakenRows

PARAMETERS, SHARES, REWARDS, MOVES, CHOICES = range(5)  # streams of random numbers
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15 - 2**64, 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
BITS = 23  # of a uniform number: k + 1/2 is exact in float32
TRAINED = 1 << 40  # seeds of training start here; test environments are 0, 1, 2 .., for validation -1, -2, -3 ..
EPOCH = 1000  # batches


def _mixed(x: Tensor) -> Tensor:
    """The finaliser of splitmix64 (Steele et al. 2014): int64 -> int64, where every bit depends on every bit."""
    for shift, factor in ((30, FIRST), (27, SECOND)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def uniform(seeds: Tensor, stream: int, count: int) -> Tensor:
    """Numbers in (0, 1): seeds (B,) -> (B, count). A stream has other numbers than the others."""
    start = _mixed(seeds + (stream + 1) * (STEP // 4))
    places = torch.arange(1, count + 1, device=seeds.device) * STEP
    bits = (_mixed(start[:, None] + places) >> (64 - BITS)) & ((1 << BITS) - 1)
    return (bits.float() + 0.5) / (1 << BITS)


def normal(seeds: Tensor, stream: int, count: int) -> Tensor:
    """Standard normal numbers (B, count)   (Box & Muller 1958)"""
    first, second = uniform(seeds, stream, 2 * count).chunk(2, 1)
    return (-2 * first.log()).sqrt() * (2 * torch.pi * second).cos()


class World(NamedTuple):
    """Environments with their luck. `first` (B,): the state of each at the start; a bandit's never changes."""

    first: Tensor
    rewards: Tensor  # (B, S, A): the mean reward of an action
    moves: Tensor  # (B, S, A, S): cumulative probabilities of the next state; a bandit has none
    luck: Tensor  # (B, T): of rewards, uniform for a bandit, else normal
    turns: Tensor  # (B, T): of moves, uniform


class Trajectory(NamedTuple):
    """All steps that an agent took in B environments."""

    inputs: Tensor  # (B, T, I): what it saw before each step
    states: Tensor  # (B, T)
    actions: Tensor  # (B, T)
    rewards: Tensor  # (B, T)


class Environments(Protocol):
    """One kind of environment."""

    @property
    def actions(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def inputs(self) -> int: ...  # numbers that an agent sees

    def draw(self, seeds: Tensor) -> World: ...

    def step(self, world: World, now: int, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """The reward (B,) of an action (B,) at step `now`, and the next state (B,)."""
        ...

    def see(self, now: int, state: Tensor, action: Tensor | None, reward: Tensor | None) -> Tensor:
        """What the agent sees (B, inputs) before step `now`; None: nothing was done yet."""
        ...

    def saw(self, states: Tensor, actions: Tensor, rewards: Tensor) -> Tensor:
        """What an agent saw before each step of whole trials: (B, T) each -> (B, T, inputs)."""
        ...

    def best(self, world: World) -> Tensor:
        """(B,) the expected total reward of a player who knows the environment."""
        ...

    def prospects(self, world: World, states: Tensor) -> Tensor:
        """The rewards to be expected from each step to the last, in states (B, T): of a player who acts at random,
        and of a player who knows the environment (B, T, 2)."""
        ...


@dataclass(frozen=True)
class Bandits:
    """An arm pays 1 with its own probability, drawn uniformly from [0, 1], else 0."""

    actions: int
    pulls: int

    @property
    def steps(self) -> int:
        return self.pulls

    @property
    def inputs(self) -> int:
        return self.actions + 1

    def draw(self, seeds: Tensor) -> World:
        chances = uniform(seeds, PARAMETERS, self.actions)[:, None]  # (B, 1, A)
        luck = uniform(seeds, REWARDS, self.pulls)
        return World(torch.zeros_like(seeds), chances, chances, luck, luck)

    def step(self, world: World, now: int, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        chance = world.rewards[:, 0].gather(1, action[:, None])[:, 0]
        return (world.luck[:, now] < chance).float(), state

    def see(self, now: int, state: Tensor, action: Tensor | None, reward: Tensor | None) -> Tensor:
        return _last(state, self.actions, action, reward)

    def saw(self, states: Tensor, actions: Tensor, rewards: Tensor) -> Tensor:
        return _before(actions, rewards, self.actions)

    def best(self, world: World) -> Tensor:
        return self.pulls * world.rewards.amax((1, 2))

    def prospects(self, world: World, states: Tensor) -> Tensor:
        left = torch.arange(self.pulls, 0, -1, device=states.device)
        arms = world.rewards[:, 0]
        return left[:, None] * torch.stack([arms.mean(1), arms.amax(1)], 1)[:, None]


@dataclass(frozen=True)
class MDPs:
    """`episodes` of `horizon` steps in the same MDP, each from state 0. The reward of an action in a state is
    N(mu, 1) with mu from N(1, 1), the next state from a distribution that is drawn from a flat Dirichlet."""

    actions: int
    states: int
    horizon: int
    episodes: int

    @property
    def steps(self) -> int:
        return self.horizon * self.episodes

    @property
    def inputs(self) -> int:
        return self.actions + 1 + self.states + 1

    def draw(self, seeds: Tensor) -> World:
        shape = (self.states, self.actions, self.states)
        means = 1 + normal(seeds, PARAMETERS, self.states * self.actions).unflatten(1, shape[:2])
        shares = -uniform(seeds, SHARES, math.prod(shape)).log()  # exponential: their shares are Dirichlet(1)
        moves = shares.unflatten(1, shape).cumsum(-1)
        luck, turns = normal(seeds, REWARDS, self.steps), uniform(seeds, MOVES, self.steps)
        return World(torch.zeros_like(seeds), means, moves / moves[..., -1:], luck, turns)

    def step(self, world: World, now: int, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        pair = state * self.actions + action
        reward = world.rewards.flatten(1).gather(1, pair[:, None])[:, 0] + world.luck[:, now]
        if (now + 1) % self.horizon == 0:
            return reward, world.first
        row = world.moves.flatten(1, 2).gather(1, pair[:, None, None].expand(-1, 1, self.states))[:, 0]
        later = (row < world.turns[:, now, None]).sum(1)
        return reward, later.clamp_max(self.states - 1)

    def see(self, now: int, state: Tensor, action: Tensor | None, reward: Tensor | None) -> Tensor:
        ended = float(now > 0 and now % self.horizon == 0)
        here = F.one_hot(state, self.states).float()
        last = _last(state, self.actions, action, reward)
        return torch.cat([last, here, torch.full_like(here[:, :1], ended)], 1)

    def saw(self, states: Tensor, actions: Tensor, rewards: Tensor) -> Tensor:
        place = torch.arange(self.steps, device=states.device)
        ended = ((place > 0) & (place % self.horizon == 0)).float().expand_as(rewards)
        visited = _one_hot(states, self.states)
        return torch.cat([_before(actions, rewards, self.actions), visited, ended[..., None]], -1)

    def best(self, world: World) -> Tensor:
        return self.episodes * self._values(world, torch.amax)[:, 0, 0]

    def prospects(self, world: World, states: Tensor) -> Tensor:
        values = torch.stack([self._values(world, over) for over in (torch.mean, torch.amax)], -1)
        here = values.repeat(1, self.episodes, 1, 1)
        here = here.gather(2, states[..., None, None].expand(-1, -1, -1, 2))[:, :, 0]
        later = self.episodes - 1 - torch.arange(self.steps, device=states.device) // self.horizon  # episodes
        return here + later[:, None] * values[:, :1, 0]

    def _values(self, world: World, over: Callable[[Tensor, int], Tensor]) -> Tensor:
        """(B, horizon, S): the rewards to be expected from each step of an episode to its last, by value iteration.
        over: torch.amax for the best of the actions, torch.mean for any of them."""
        moves = world.moves.diff(dim=-1, prepend=torch.zeros_like(world.moves[..., :1]))
        values = [torch.zeros_like(world.rewards[..., 0])]  # (B, S), after the last step
        with torch.autocast(moves.device.type, enabled=False):
            for _ in range(self.horizon):
                values.append(over(world.rewards + (moves @ values[-1][:, None, :, None])[..., 0], -1))
        return torch.stack(values[:0:-1], 1)


def mean_rewards(world: World, states: Tensor, actions: Tensor) -> Tensor:
    """The mean rewards of actions in states (B, T): what they earn without the luck of the draw."""
    return world.rewards.flatten(1).gather(1, states * world.rewards.shape[2] + actions)


def _last(state: Tensor, actions: int, action: Tensor | None, reward: Tensor | None) -> Tensor:
    """(B, A + 1): the last action and the last reward."""
    if action is None or reward is None:
        return torch.zeros(len(state), actions + 1, device=state.device)
    return torch.cat([F.one_hot(action, actions).float(), reward[:, None]], 1)


def _before(actions: Tensor, rewards: Tensor, count: int) -> Tensor:
    """(B, T, A + 1): the action and the reward before each step."""
    done = torch.cat([_one_hot(actions, count), rewards[..., None]], -1)
    return F.pad(done[:, :-1], (0, 0, 1, 0))


def _one_hot(x: Tensor, count: int) -> Tensor:
    """As F.one_hot, which needs a GPU sync."""
    return (x[..., None] == torch.arange(count, device=x.device)).float()


# ---- batches


@dataclass(frozen=True, repr=False)
class Seeds(Batch):
    seeds: Tensor  # (B,)


@dataclass(frozen=True, repr=False)
class Experience(Batch):
    """Trials that were played, and how they were judged then."""

    inputs: Tensor  # (B, T, I)
    actions: Tensor  # (B, T)
    rewards: Tensor  # (B, T)
    advantages: Tensor  # (B, T)
    returns: Tensor  # (B, T): mean rewards from each step to the last
    prospects: Tensor  # (B, T, 2)
    log_probability: Tensor  # (B, T) of the actions

    def parts(self, count: int) -> list[Experience]:
        """The trials in so many parts."""
        parts = (split(tensor, count) for tensor in self.tensors().values())
        return [Experience(*tensors) for tensors in zip(*parts, strict=True)]


class TrainingSeeds(TakenRows):
    """New environments in each batch, a function of (seed, epoch, index)."""

    def __init__(self, batch_size: int, seed: int) -> None:
        self.batch_size, self.seed = batch_size, seed

    def order(self, epoch: int) -> Iterator[tuple[int, int]]:
        return ((epoch, index) for index in range(EPOCH))

    def batch(self, item: tuple[int, int]) -> Seeds:
        drawn = np.random.default_rng((self.seed, *item)).integers(TRAINED, 1 << 63, self.batch_size)
        return Seeds(torch.from_numpy(drawn))
