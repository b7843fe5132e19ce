"""Players of tabular MDPs."""

from __future__ import annotations

import numpy as np
import pytest

from regard.metrics.mdps import PLANNERS, Seen, best_actions, play


def environments(count: int, steps: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(1)
    moves = random.dirichlet(np.ones(4), (count, 4, 3)).cumsum(-1)
    return (
        random.normal(1, 1, (count, 4, 3)),
        moves,
        random.normal(0, 1, (count, steps)),
        random.random((count, steps)),
    )


def test_the_best_action_may_pay_later() -> None:
    """From state 0, action 1 pays nothing and leads to state 1, where every action pays 5."""
    means = np.array([[[1.0, 0.0], [5.0, 5.0]]])
    moves = np.array([[[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]])
    chosen = best_actions(means, moves, 2)
    assert chosen.shape == (1, 2, 2)
    assert chosen[0, 0, 0] == 1
    assert chosen[0, 1, 0] == 0, "at the last step there is no later"


def test_posterior_sampling_learns_and_random_does_not() -> None:
    means, moves, luck, turns = environments(200, 60)
    earned = {name: play(means, moves, luck, turns, 5, plan).mean() for name, plan in PLANNERS.items()}
    assert earned["random"] == pytest.approx(60, abs=4)
    known = best_actions(means, np.diff(moves, axis=-1, prepend=0), 5)
    most = play(means, moves, luck, turns, 5, lambda seen, horizon: known).mean()
    assert earned["random"] + 20 < earned["psrl"] < most


def test_a_planner_sees_all_that_has_happened() -> None:
    means, moves, luck, turns = environments(3, 8)
    told: list[tuple[float, ...]] = []

    def plan(seen: Seen, horizon: int) -> np.ndarray:
        told.append((seen.times.sum(), seen.moves.sum(), seen.sums.sum()))
        return np.zeros((3, horizon, 4), dtype=int)

    total = play(means, moves, luck, turns, 4, plan)
    assert [one[:2] for one in told] == [(0, 0), (12, 9)], "an episode of 4 steps has 3 moves"
    assert 0 != told[1][2] != total.sum()
