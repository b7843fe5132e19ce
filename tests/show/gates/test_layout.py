"""Where bars and lines stand, and what of many rows and channels is drawn."""

import numpy as np
import pytest

from regard.show import Gates
from regard.show.gates.layout import MOST_CHANNELS, MOST_ROWS, lay_out


def network(depths, channels, rows=1):
    rng = np.random.default_rng(0)
    return {
        f"stages.{stage}.{block}.excite": rng.random((rows, width))
        for stage, (depth, width) in enumerate(zip(depths, channels, strict=True))
        for block in range(depth)
    }


@pytest.mark.parametrize("rows", [1, 2, 10, 100])
@pytest.mark.parametrize(
    ("depths", "channels"),
    [((1, 1, 1), (16, 16, 16)), ((9, 9, 9), (16, 32, 64)), ((3, 4, 6, 3), (256, 512, 1024, 2048))],
)
def test_no_two_panels_overlap_and_all_are_inside(depths, channels, rows):
    image = np.zeros((8, 4, 3), np.uint8) if rows == 1 else None
    layout = lay_out(Gates(network(depths, channels, rows), image=image, title="T", caption="c\nd"))
    boxes = [(one.x, one.y, one.x + one.width, one.y + one.height) for one in layout.panels]
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert min(left, top) >= 0
        assert right <= layout.width
        assert bottom <= layout.height
        for x0, y0, x1, y1 in boxes[at + 1 :]:
            assert right <= x0 or x1 <= left or bottom <= y0 or y1 <= top
    starts = [(one.y, one.x) for one in layout.panels]
    assert starts == sorted(starts)  # early blocks above late ones


def test_bars_stand_on_the_axis_with_one_scale():
    low, high = lay_out(Gates({"a.0": [0.0, 0.5], "a.1": [1.0, 0.5]})).panels
    assert low.heights[0].tolist() == [low.y + low.height, low.y + low.height / 2]
    assert high.heights[0].tolist() == [high.y, high.y + high.height / 2]
    assert low.centres.tolist() == [low.x + low.width / 4, low.x + 3 * low.width / 4]


def test_of_many_channels_some_are_drawn_evenly_spaced():
    (panel,) = lay_out(Gates({"a": np.random.default_rng(0).random((2, 2048))})).panels
    assert len(panel.channels) == MOST_CHANNELS
    assert (panel.channels[0], panel.channels[-1]) == (0, 2047)
    assert set(np.diff(panel.channels)) <= {32, 33}
    (bars,) = lay_out(Gates({"a": np.full(2048, 0.5)})).panels
    assert bars.gates.shape == (1, 2048)


def test_of_many_rows_some_are_drawn_and_the_mean_of_all():
    gates = np.random.default_rng(0).random((40, 3))
    layout = lay_out(Gates({"a": gates}, rows=[f"class {at}" for at in range(40)]))
    names = [name for name, _, _ in layout.lines]
    assert (len(names), names[0], names[-2:]) == (MOST_ROWS, "class 0", ["class 39", "mean of all"])
    np.testing.assert_allclose(layout.panels[0].gates[-1], gates.mean(0))
    assert "9 of 40 rows are drawn" in layout.note


def test_ten_lines_all_look_different():
    layout = lay_out(Gates({"a": np.ones((10, 3))}))
    assert len({(colour, dashes) for _, colour, dashes in layout.lines}) == 10


def test_nine_blocks_of_a_stage_stand_three_by_three():
    layout = lay_out(Gates(network((9,), (8,), rows=2)))
    assert len({one.x for one in layout.panels}) == 3
