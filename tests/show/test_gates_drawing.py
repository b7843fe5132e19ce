"""Where bars and lines stand, and what of many rows and channels is drawn."""

import numpy as np
import pytest
from drawn import apart, edges, marks

from regard.show import Gates
from regard.show.drawing import Box, Boxes, Stroke, Text
from regard.show.gates import MOST_CHANNELS, MOST_ROWS


def network(depths, channels, rows=1):
    rng = np.random.default_rng(0)
    return {
        f"stages.{stage}.{block}.excite": rng.random((rows, width))
        for stage, (depth, width) in enumerate(zip(depths, channels, strict=True))
        for block in range(depth)
    }


def plots(drawing):
    """The boxes that bars or lines are drawn in."""
    return [marks(panel, Box)[0] for panel in drawing.groups("panel")]


def lines(drawing, panel=0):
    """The lines of a panel, without those of its axis."""
    return marks(drawing.groups("panel")[panel], Stroke)[3:]


@pytest.mark.parametrize("rows", [1, 2, 10, 100])
@pytest.mark.parametrize(
    ("depths", "channels"),
    [((1, 1, 1), (16, 16, 16)), ((9, 9, 9), (16, 32, 64)), ((3, 4, 6, 3), (256, 512, 1024, 2048))],
)
def test_no_two_panels_overlap_and_all_are_inside(depths, channels, rows):
    image = np.zeros((8, 4, 3), np.uint8) if rows == 1 else None
    drawing = Gates(network(depths, channels, rows), image=image, title="T", caption="c\nd").drawing()
    boxes = [edges(plot) for plot in plots(drawing)]
    assert len(boxes) == sum(depths)
    for left, top, right, bottom in boxes:
        assert min(left, top) >= 0
        assert right <= drawing.width
        assert bottom <= drawing.height
    assert apart(boxes)
    starts = [(top, left) for left, top, _, _ in boxes]
    assert starts == sorted(starts)  # early blocks above late ones


def test_bars_stand_on_the_axis_with_one_scale():
    drawing = Gates({"a.0": [0.0, 0.5], "a.1": [1.0, 0.5]}).drawing()
    low, high = plots(drawing)
    low_bars, high_bars = (bars.places for bars in marks(drawing, Boxes))
    assert low_bars[:, 1].tolist() == [low.y + low.height, low.y + low.height / 2]
    assert high_bars[:, 1].tolist() == [high.y, high.y + high.height / 2]
    for plot, bars in ((low, low_bars), (high, high_bars)):
        np.testing.assert_allclose(bars[:, 1] + bars[:, 3], plot.y + plot.height)
        np.testing.assert_allclose(
            bars[:, 0] + bars[:, 2] / 2, [plot.x + plot.width / 4, plot.x + 3 * plot.width / 4]
        )


def test_of_many_channels_some_are_drawn_evenly_spaced():
    gates = np.random.default_rng(0).random((2, 2048))
    drawing = Gates({"a": gates}).drawing()
    (plot,), line = plots(drawing), lines(drawing)[0].points
    assert line.shape == (MOST_CHANNELS, 2)
    drawn = 1 - (line[:, 1] - plot.y) / plot.height
    channels = np.abs(gates[0] - drawn[:, None]).argmin(1)
    np.testing.assert_allclose(gates[0, channels], drawn)
    assert (channels[0], channels[-1]) == (0, 2047)
    assert set(np.diff(channels)) <= {32, 33}
    assert {"channel 0", "2047"} <= {text.text for text in marks(drawing, Text)}
    (bars,) = marks(Gates({"a": np.full(2048, 0.5)}).drawing(), Boxes)
    assert bars.places.shape == (2048, 4)


def test_of_many_rows_some_are_drawn_and_the_mean_of_all():
    gates = np.random.default_rng(0).random((40, 3))
    drawing = Gates({"a": gates}, rows=[f"class {at}" for at in range(40)]).drawing()
    texts = [text.text for text in marks(drawing, Text)]
    names = texts[:MOST_ROWS]
    assert (names[0], names[-2:]) == ("class 0", ["class 39", "mean of all"])
    (plot,) = plots(drawing)
    assert len(lines(drawing)) == MOST_ROWS
    np.testing.assert_allclose(1 - (lines(drawing)[-1].points[:, 1] - plot.y) / plot.height, gates.mean(0))
    assert "9 of 40 rows are drawn" in texts[-1]


def test_ten_lines_all_look_different():
    drawing = Gates({"a": np.ones((10, 3))}).drawing()
    assert len({(line.colour, line.dashes) for line in lines(drawing)}) == 10
    signs = [mark for mark in drawing.marks if isinstance(mark, Stroke)]
    assert [(sign.colour, sign.dashes) for sign in signs] == [(line.colour, line.dashes) for line in lines(drawing)]


def test_nine_blocks_of_a_stage_stand_three_by_three():
    drawing = Gates(network((9,), (8,), rows=2)).drawing()
    assert len({plot.x for plot in plots(drawing)}) == 3
