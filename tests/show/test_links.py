"""A map as links: the drawing of what the view shows."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import BadInput
from regard.show import Map
from regard.show.drawing import Stroke, Text

WEIGHTS = [[0.9, 0.1, 0.0], [0.01, 0.29, 0.7]]


def lines(way: str, row: int | None = None) -> list[Stroke]:
    drawing = Map(WEIGHTS, ["a", "b"], ["x", "y", "z"]).shown_as(way, row)
    return [mark for mark in drawing if isinstance(mark, Stroke)]


def test_each_weight_that_can_be_seen_is_a_line_and_strong_ones_lie_over_weak_ones() -> None:
    found = lines("links")
    assert [line.width for line in found] == sorted(line.width for line in found)
    assert len(found) == 4
    assert len(lines("links", 0)) == 2
    drawing = Map(WEIGHTS, ["a", "b"], ["x", "y", "z"]).shown_as("links")
    places = {mark.text: mark.y for mark in drawing if isinstance(mark, Text)}
    strongest = found[-1].points
    assert strongest[0, 1] == places["a"]
    assert strongest[-1, 1] == places["x"]


def test_the_other_ways_are_the_map_and_the_text() -> None:
    seen = Map(WEIGHTS, ["a", "b"], ["x", "y", "z"])
    assert {mark.text for mark in seen.shown_as("text", 1) if isinstance(mark, Text)} >= {"x", "y", "z"}
    assert len(seen.shown_as("map").groups("cells")) == 1


def test_too_many_words_and_a_row_that_is_not_there_are_refused() -> None:
    with pytest.raises(BadInput, match="at most 200 words"):
        Map(np.full((1, 201), 1 / 201), ["a"], ["x"] * 201).shown_as("links")
    with pytest.raises(BadInput, match="rows 0 to 1, got 2"):
        lines("links", 2)
