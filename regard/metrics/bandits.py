"""Bernoulli bandits played without learning: random, UCB1, Thompson sampling, Gittins index.

Arms pay 1 with a probability that is uniform in [0, 1]. Pull t of environment e pays if draws[e, t] is below the
probability of the arm that was pulled, so all players of the same draws have the same luck.

Letters: E environments, K arms, T pulls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from regard.metrics.accuracy import Z

# (successes, failures, pull) of all arms, (E, K) and a number from 0 on -> the index of each arm (E, K)
Index = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
GRID = 512  # charges that the Gittins index is calibrated with


def mean_interval(values: np.ndarray) -> tuple[float, float]:
    """95 % confidence interval of the mean of many independent values (normal approximation)."""
    if len(values) < 2:
        raise ValueError(f"an interval needs at least 2 values, got {len(values)}")
    reach = Z * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean() - reach), float(values.mean() + reach)


def play(probabilities: np.ndarray, draws: np.ndarray, index: Index, *, seed: int = 0) -> np.ndarray:
    """Pull the arm with the largest index, ties broken at random: (E, K), (E, T) -> total rewards (E,)"""
    random, rows = np.random.default_rng((seed, *draws.shape)), np.arange(len(probabilities))
    successes, failures = np.zeros(probabilities.shape), np.zeros(probabilities.shape)
    for pull in range(draws.shape[1]):
        indices = index(successes, failures, pull)
        ties = indices == indices.max(1, keepdims=True)
        arm = np.where(ties, random.random(ties.shape), -1).argmax(1)
        paid = draws[:, pull] < probabilities[rows, arm]
        successes[rows, arm] += paid
        failures[rows, arm] += ~paid
    total: np.ndarray = successes.sum(1)
    return total


def any_arm(successes: np.ndarray, failures: np.ndarray, pull: int) -> np.ndarray:
    """All arms alike: a random arm is pulled."""
    return np.zeros(successes.shape)


def ucb1(successes: np.ndarray, failures: np.ndarray, pull: int) -> np.ndarray:
    """mean + sqrt(2 ln t / n), and every arm once before that   (Auer, Cesa-Bianchi & Fischer 2002)"""
    times = successes + failures
    pulls = np.maximum(times, 1)
    return np.where(times > 0, successes / pulls + np.sqrt(2 * np.log(max(pull, 1)) / pulls), np.inf)


def thompson(seed: int) -> Index:
    """A draw from the posterior Beta(1 + successes, 1 + failures) of each arm   (Thompson 1933)"""
    random = np.random.default_rng((seed, 1))
    return lambda successes, failures, pull: random.beta(1 + successes, 1 + failures)


def gittins(pulls: int) -> Index:
    """The Gittins index with the discount 1 - 1 / pulls: optimal if play ended after each pull with probability
    1 / pulls, and close to optimal for so many pulls."""
    table = gittins_table(pulls, 1 - 1 / pulls)
    return lambda successes, failures, pull: table[successes.astype(int), failures.astype(int)]


@lru_cache(maxsize=4)
def gittins_table(pulls: int, discount: float, grid: int = GRID) -> np.ndarray:
    """The Gittins index of an arm after so many successes and failures, [successes, failures], `pulls` at most.

    The index is the charge c for each pull at which an arm is just worth pulling (calibration, Gittins 1979). With
    p = (1 + successes) / (2 + successes + failures) the advantage of one pull over stopping is
        D(s, f) = p - c + discount (p W(s + 1, f) + (1 - p) W(s, f + 1)),   W = max(0, D),
    computed backwards from a depth at which p is taken as known, for a grid of charges at once; the index is where
    D crosses 0."""
    if not 0 <= discount < 1:
        raise ValueError(f"discount must lie in [0, 1), got {discount}")
    charges = np.linspace(0, 1, grid + 1)
    depth = pulls + int(1 / (1 - discount)) + 10
    chance = (1 + np.arange(depth + 1)) / (2 + depth)  # of s successes, s = 0 .. depth
    worth = np.maximum(0, (chance[:, None] - charges) / (1 - discount))  # (s, charges)
    table = np.full((pulls + 1, pulls + 1), np.nan)
    for count in range(depth - 1, -1, -1):
        chance = ((1 + np.arange(count + 1)) / (2 + count))[:, None]
        gain = chance - charges + discount * (chance * worth[1:] + (1 - chance) * worth[:-1])
        if count <= pulls:
            wins = np.arange(count + 1)
            table[wins, count - wins] = _crossings(gain, charges)
        worth = np.maximum(0, gain)
    return table


def _crossings(gain: np.ndarray, charges: np.ndarray) -> np.ndarray:
    """Where each row of falling values crosses 0, by linear interpolation."""
    rows, after = np.arange(len(gain)), (gain > 0).sum(1).clip(1, len(charges) - 1)
    high, low = gain[rows, after - 1], gain[rows, after]
    crossings: np.ndarray = charges[after - 1] + (charges[1] - charges[0]) * high / (high - low)
    return crossings


def players(pulls: int, seed: int = 0) -> Mapping[str, Index]:
    """The reference strategies that agents are compared with, by name."""
    return {"random": any_arm, "ucb1": ucb1, "thompson": thompson(seed), "gittins": gittins(pulls)}
