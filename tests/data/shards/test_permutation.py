"""An order that is computed and not stored."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.shards.permutation import Permutation


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64, 65, 1000, 4097])
def test_every_number_comes_once(count: int) -> None:
    order = Permutation(count, [7, 0])(np.arange(count))
    assert sorted(order.tolist()) == list(range(count))


def test_it_is_a_function_of_the_seed_and_of_each_place_alone() -> None:
    first, again, other = Permutation(1000, [7, 0]), Permutation(1000, [7, 0]), Permutation(1000, [7, 1])
    places = np.arange(1000)
    assert np.array_equal(first(places), again(places))
    assert np.array_equal(first(places)[[3, 999, 0]], first(np.array([3, 999, 0])))
    assert (first(places) == other(places)).mean() < 0.01


def test_the_order_is_known_for_good() -> None:
    """A training that goes on needs the order it was begun with, whatever the version."""
    assert Permutation(1000, [0, 0])(np.arange(6)).tolist() == KNOWN


KNOWN = [0, 136, 123, 595, 967, 77]


def test_neighbours_are_far_apart_and_all_places_are_alike() -> None:
    count = 1 << 16
    order = Permutation(count, [1, 2])(np.arange(count))
    steps = np.abs(np.diff(order))
    assert abs(steps.mean() / (count / 3) - 1) < 0.02  # as of two random numbers
    assert abs(np.corrcoef(np.arange(count), order)[0, 1]) < 0.02


def test_a_billion_windows_take_no_memory() -> None:
    numbers = Permutation(10**12, [0, 0])(np.arange(10**12 - 1000, 10**12))
    assert len(set(numbers.tolist())) == 1000
    assert numbers.max() < 10**12
