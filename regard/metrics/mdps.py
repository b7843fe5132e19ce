"""Tabular MDPs played without learning: at random, and by posterior sampling.

Episodes of `horizon` steps begin in state 0. Rewards are N(mu, 1) with mu from N(1, 1), the distribution of the
next state is drawn from a flat Dirichlet, and players know this much (Duan et al. 2016, RL^2).

Letters: E environments, S states, A actions, H horizon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Seen:
    """What has happened so far in each environment."""

    sums: np.ndarray  # (E, S, A): of rewards
    times: np.ndarray  # (E, S, A): how often each action was taken
    moves: np.ndarray  # (E, S, A, S): how often each state came next; after the last step of an episode none does
    random: np.random.Generator = field(repr=False)


# What has been seen, horizon -> the action in each state at each step of the next episode (E, H, S)
Planner = Callable[[Seen, int], np.ndarray]


def play(
    means: np.ndarray,
    moves: np.ndarray,
    luck: np.ndarray,
    turns: np.ndarray,
    horizon: int,
    plan: Planner,
    seed: int = 0,
) -> np.ndarray:
    """Total rewards (E,): means (E, S, A), cumulative moves (E, S, A, S), luck and turns (E, steps)."""
    random, rows = np.random.default_rng((seed, *luck.shape)), np.arange(len(means))
    seen = Seen(np.zeros(means.shape), np.zeros(means.shape), np.zeros(moves.shape), random)
    total = np.zeros(len(means))
    for start in range(0, luck.shape[1], horizon):
        chosen, state = plan(seen, horizon), np.zeros(len(means), dtype=int)
        for step in range(horizon):
            action = chosen[rows, step, state]
            reward = means[rows, state, action] + luck[:, start + step]
            after = (moves[rows, state, action] < turns[:, start + step, None]).sum(1).clip(max=means.shape[1] - 1)
            seen.sums[rows, state, action] += reward
            seen.times[rows, state, action] += 1
            if step < horizon - 1:
                seen.moves[rows, state, action, after] += 1
            total, state = total + reward, after
    return total


def any_action(seen: Seen, horizon: int) -> np.ndarray:
    """At random."""
    count, states, actions = seen.sums.shape
    return seen.random.integers(0, actions, (count, horizon, states))


def posterior_sampling(seen: Seen, horizon: int) -> np.ndarray:
    """The best policy of an MDP drawn from the posterior, a new one in each episode   (PSRL, Osband et al. 2013)"""
    shares = seen.random.standard_gamma(1 + seen.moves)
    times = 1 + seen.times
    means = (1 + seen.sums) / times + seen.random.standard_normal(times.shape) / np.sqrt(times)
    return best_actions(means, shares / shares.sum(-1, keepdims=True), horizon)


def best_actions(means: np.ndarray, moves: np.ndarray, horizon: int) -> np.ndarray:
    """Of a known MDP, by value iteration from the last step to the first: means (E, S, A), moves (E, S, A, S) ->
    (E, H, S)"""
    value, policy = np.zeros(means.shape[:2]), []
    for _ in range(horizon):
        gains = means + (moves @ value[:, None, :, None])[..., 0]
        policy.append(gains.argmax(-1))
        value = gains.max(-1)
    return np.stack(policy[::-1], 1)


PLANNERS: dict[str, Planner] = {"random": any_action, "psrl": posterior_sampling}
