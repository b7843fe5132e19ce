"""Players of bandits against published indices, brute force, and what can be said without a computer."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from regard.metrics.bandits import any_arm, gittins, gittins_table, mean_interval, play, players, thompson, ucb1


def environments(count: int, arms: int, pulls: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.random((count, arms)), random.random((count, pulls))


def test_the_gittins_index_is_the_published_one() -> None:
    """Gittins, Glazebrook & Weber 2011, Bernoulli arms with discount 0.9: rows failures, from Beta(1, 1) on."""
    published = np.array([[0.7029, 0.8001, 0.8452], [0.5001, 0.6346, 0.7072], [0.3796, 0.5163, 0.6010]])
    found = gittins_table(5, 0.9, grid=1024)[:3, :3].T
    np.testing.assert_allclose(found, published, atol=1e-4)


def test_without_a_future_the_index_is_the_mean() -> None:
    table = gittins_table(4, 0.0)
    for wins in range(5):
        for losses in range(5 - wins):
            assert table[wins, losses] == pytest.approx((1 + wins) / (2 + wins + losses), abs=1e-6)


def test_the_gittins_index_pulls_the_arm_that_brute_force_pulls() -> None:
    """Two arms, all futures of 24 pulls; the rest is worth less than 0.5^24."""
    discount, table = 0.5, gittins_table(6, 0.5)

    @cache
    def value(arms: tuple[tuple[int, int], tuple[int, int]], left: int) -> float:
        return max(pulled(arms, at, left) for at in (0, 1)) if left else 0.0

    def pulled(arms: tuple[tuple[int, int], tuple[int, int]], at: int, left: int) -> float:
        (wins, losses), other = arms[at], arms[1 - at]
        chance = (1 + wins) / (2 + wins + losses)
        won, lost = (tuple(sorted(((wins + one, losses + 1 - one), other))) for one in (1, 0))
        return chance * (1 + discount * value(won, left - 1)) + (1 - chance) * discount * value(lost, left - 1)

    seen = [(wins, losses) for wins in range(4) for losses in range(4 - wins)]
    for first in seen:
        for second in seen:
            better = pulled((first, second), 0, 12) - pulled((first, second), 1, 12)
            if abs(better) > 0.5**10:
                assert (better > 0) == (table[first] > table[second]), (first, second)


def test_random_earns_half_and_the_index_earns_most() -> None:
    probabilities, draws = environments(2000, 5, 30)
    earned = {name: play(probabilities, draws, index).mean() for name, index in players(30).items()}
    assert earned["random"] == pytest.approx(15, abs=0.3)
    assert earned["random"] < earned["ucb1"] < earned["thompson"] < earned["gittins"] < 30 * 5 / 6


def test_ucb1_pulls_every_arm_once_and_then_by_its_bound() -> None:
    empty = np.zeros((1, 3))
    assert np.isinf(ucb1(empty, empty, 0)).all()
    bounds = ucb1(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]]), 2)
    np.testing.assert_allclose(bounds[0, :2], [1 + np.sqrt(2 * np.log(2)), np.sqrt(2 * np.log(2))])
    assert np.isinf(bounds[0, 2])


def test_players_of_one_seed_do_the_same() -> None:
    given = environments(50, 3, 10)
    for index in (lambda: any_arm, lambda: thompson(3), lambda: gittins(10)):
        np.testing.assert_array_equal(play(*given, index(), seed=2), play(*given, index(), seed=2))


def test_an_interval_holds_the_mean() -> None:
    low, high = mean_interval(np.array([1.0, 2.0, 3.0, 4.0]))
    assert (low + high) / 2 == pytest.approx(2.5)
    assert (high - low) / 2 == pytest.approx(1.96 * np.sqrt(5 / 3) / 2, abs=1e-3)
    with pytest.raises(ValueError, match="at least 2 values"):
        mean_interval(np.array([1.0]))
