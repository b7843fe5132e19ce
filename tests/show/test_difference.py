"""Two maps on common rows and columns."""

from __future__ import annotations

import re

import numpy as np
import pytest

from regard.errors import BadInput
from regard.show import Difference, Document, Gates, Map, ShadedText
from regard.show.difference import as_map, matched
from regard.show.drawing import Cells

FIRST = Map([[0.7, 0.2, 0.1], [0.0, 0.1, 0.9]], ["die", "Katze"], ["the", "cat", "."])
SECOND = Map([[0.2, 0.1, 0.7], [0.0, 0.8, 0.2]], ["die", "Hunde"], ["the", "dogs", "."])


def test_what_the_second_has_more_where_both_have_the_place() -> None:
    found = Difference.between(FIRST, SECOND)
    assert (list(found.rows), list(found.columns)) == (["die", "Katze→Hunde"], ["the", "cat→dogs", "."])
    np.testing.assert_allclose(found.weights, [[-0.5, -0.1, 0.6], [0, 0.7, -0.7]], atol=1e-6)
    assert found.largest[0] == (1, 1)
    assert found.told == "most: Katze→Hunde ← cat→dogs: 0.10, then 0.80"
    assert found.moved == pytest.approx((0.6 + 0.7) / 2)


def test_words_that_one_of_the_two_lacks_are_hidden_and_differ_by_nothing() -> None:
    second = Map([[0.5, 0.4, 0.1, 0.0]], ["die"], ["the", "big", "grey", "."])
    found = Difference.between(FIRST, second)
    assert list(found.rows) == ["die", "−Katze"]
    assert list(found.columns) == ["the", "−cat", "+big", "+grey", "."]
    assert found.mask.tolist() == [[True, False, False, False, True], [False] * 5]
    assert not found.weights[~found.mask].any()
    assert found.column_places[3] == (None, 2)
    assert "in one of the two only" in found.svg()
    assert Difference.between(FIRST, Map([[1.0]], ["x"], ["y"])).told == "they have no place in common"


def test_colours_are_the_same_for_equal_differences_above_and_below_zero() -> None:
    found = Difference.between(FIRST, SECOND)
    cells = next(mark for mark in found.drawing() if isinstance(mark, Cells))
    assert cells.weights[1].tolist() == pytest.approx([0.5, 0.9375, 0.0625])  # of a scale to 0.8
    small = Difference.between(FIRST, Map(FIRST.weights * 0.99, FIRST.rows, FIRST.columns))
    assert small.top == 0.2, "small differences stay pale"


def test_a_terminal_names_the_largest_differences() -> None:
    lines = Difference.between(FIRST, SECOND, title="T").terminal(width=60).splitlines()
    assert lines[:2] == ["T", "Katze→Hunde ← cat→dogs: 0.10, then 0.80"]
    assert Difference.between(FIRST, FIRST).terminal() == "no difference\n"


def test_gates_are_no_shares() -> None:
    first, second = (Map(np.full((2, 3), gate), "ab", "xyz") for gate in (0.9, 0.4))
    assert Difference.between(first, second).moved is None


def test_texts_and_documents_are_maps_too() -> None:
    shaded = as_map(ShadedText([[0.4, 0.6]], ["a", "b"], ["q"]))
    assert shaded is not None
    assert (shaded.rows, shaded.columns) == (("q",), ("a", "b"))
    document = as_map(Document([["a", "b"], ["c"]], [[0.5, 0.5], [1.0]], [0.2, 0.8]))
    assert document is not None
    np.testing.assert_allclose(document.weights, [[0.1, 0.1, 0.8]], atol=1e-6)
    assert as_map(Gates({"a": [[0.5]]}, rows=["x"])) is None


def test_more_words_than_can_be_matched_are_refused() -> None:
    with pytest.raises(BadInput, match=re.escape("up to 4,000, and one has 4,001")):
        matched(["x"] * 4001, ["x"])
