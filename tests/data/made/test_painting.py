"""Distances and covered pixels against numbers worked by hand."""

import numpy as np
import pytest

from regard.data.made.glyphs import glyphs
from regard.data.made.painting import (
    CLASSES,
    CORNERS,
    ROUND,
    Strokes,
    cover,
    distances,
    draw_strokes,
    paint_grounds,
    rounds,
)
from regard.data.made.scenes import scenes
from regard.data.made.shapes import shapes


def line_of(*corners):
    """(1, CORNERS, 2): the rest are sides of no length."""
    return np.array([[*corners, *[corners[0]] * (CORNERS - len(corners))]], np.float32)


def strokes_of(*, filled, lined):
    one = np.ones(1)
    return Strokes(np.zeros(1, int), line_of((0, 0)), np.array([filled]), np.array([lined]), one, one)


SQUARE = line_of((2, 2), (8, 2), (8, 8), (2, 8))


def test_distances_to_a_square():
    """Its corners lie between pixels, and the middles of pixels at halves."""
    away, inside = distances(SQUARE, 10)
    assert inside.sum() == 36
    assert inside[0, 2:8, 2:8].all()
    assert away[0, 5, 4] == pytest.approx(2.5)  # 4.5 from the left, 5.5 from above: 2.5 from the nearest side
    assert away[0, 5, 0] == pytest.approx(1.5)
    assert away[0, 0, 0] == pytest.approx(1.5 * 2**0.5)  # from a corner


def test_inside_is_where_lines_are_crossed_an_odd_number_of_times():
    """The middle of a star in one stroke is not."""
    angles = 2 * np.pi * np.array([0, 2, 4, 1, 3]) / 5 - np.pi / 2
    star = line_of(*(10 + 9 * np.stack((np.cos(angles), np.sin(angles)), 1)))
    _, inside = distances(star, 20)
    assert not inside[0, 10, 10]
    assert inside[0, 3, 10]  # a point of it


@pytest.mark.parametrize("thick", [0.25, 1.0, 2.0])
def test_a_line_covers_its_length_times_its_thickness(thick):
    """24 pixels long, less than a pixel wide or more, whatever the softness; a body covers its area."""
    for soft in (0.5, 1.5):
        thickness, width = np.array([thick]), np.array([soft])
        body, line, taken = cover(strokes_of(filled=True, lined=True), SQUARE + 1.3, thickness, width, 12)
        assert body.sum() == pytest.approx(36, rel=0.05)
        assert line.sum() == pytest.approx(24 * thick, rel=0.2)  # pixels are sampled at their middles
        assert taken.sum() >= 36
        body, line, taken = cover(strokes_of(filled=False, lined=False), SQUARE, thickness, width, 12)
        assert (body.sum(), line.sum(), taken.sum()) == (0, 0, 36)


def test_a_circle_that_is_not_filled_is_a_ring():
    generator = np.random.default_rng(0)
    labels = np.arange(600) % len(CLASSES)
    strokes = draw_strokes(labels, np.zeros(600), generator)
    assert strokes.filled[labels == CLASSES.index("circle")].all()
    assert not strokes.filled[labels == CLASSES.index("ring")].any()
    for name in ("square", "triangle", "cross", "star"):
        assert 0.5 < strokes.filled[labels == CLASSES.index(name)].mean() < 0.85
    assert strokes.lined[~strokes.filled].all()  # nothing is invisible


def test_a_colour_that_cannot_be_seen_is_not_picked():
    grounds = paint_grounds(32, np.random.default_rng(1))
    rows = np.arange(ROUND)
    ground = grounds.pixels[:, 4, 4]
    proposed = np.stack((ground, ground + 5, np.where(ground > 127, 0, 255)), 1)
    chosen, away = grounds.pick(rows, proposed)
    assert (chosen == 2).mean() > 0.95  # an uneven ground may hold both
    assert (away[chosen == 2] > 60).all()


def test_rounds_cover_all_images_once():
    seen = []
    rounds(2 * ROUND + 7, lambda first, number: seen.append((first, number)))
    assert sorted(seen) == [(0, ROUND), (ROUND, ROUND), (2 * ROUND, 7)]


def test_who_changes_a_set_changes_no_other():
    """Although what was drawn is kept."""
    for draw in (shapes, glyphs, lambda *asked: scenes(*asked).images):
        wanted = draw("test", 3).pixels.copy()
        draw("test", 3).pixels[:] = 0
        assert np.array_equal(draw("test", 3).pixels, wanted)
