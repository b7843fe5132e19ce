"""Exact match."""

import pytest

from regard.metrics.exact_match import exact_match


def test_exact_match_is_to_the_letter():
    assert exact_match(["a", "b", "c ", "D"], [["a"], ["x"], ["c"], ["d"]]) == 25
    assert exact_match(["", "b"], [[""], ["b"]]) == 100
    assert exact_match(["a"], [["b"]]) == 0


def test_exact_match_takes_any_reference():
    assert exact_match(["a", "b", "c"], [["x", "a"], ["b", "y", "z"], ["x"]]) == pytest.approx(200 / 3)
