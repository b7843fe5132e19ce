"""Where the panels of an overlay stand."""

from itertools import pairwise

import numpy as np
import pytest
from drawn import marks

from regard.show import Overlay
from regard.show.drawing import Cells, Image, Text
from regard.show.label_text import text_width
from regard.show.overlay import percent


def noise(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def overlay(count=1, high=32, wide=32, **names):
    maps = np.random.default_rng(1).random((count, 4, 6))
    return Overlay(noise(high, wide), {f"head {at}": table for at, table in enumerate(maps)}, **names)


def images(drawing):
    return [marks(panel, Image)[0] for panel in drawing.groups("panel")]


def labels(drawing):
    """The lines of each panel's name, without its note; not of the image alone."""
    return [marks(panel, Text)[:-1] for panel in drawing.groups("panel")[1:]]


@pytest.mark.parametrize(("count", "columns"), [(1, 2), (3, 4), (4, 5), (13, 7), (64, 8), (144, 12)])
def test_panels_fill_their_rows_and_do_not_touch(count, columns):
    drawing = overlay(count, title="t", caption="c\nd").drawing()
    panels, (scale,) = images(drawing), marks(drawing, Cells)
    across, down, font = panels[0].width, panels[0].height, labels(drawing)[0][0].size
    assert len(panels) == count + 1
    assert len({panel.x for panel in panels}) == columns
    assert len({(panel.x, panel.y) for panel in panels}) == count + 1
    assert all(panel.x + across <= drawing.width and panel.y + down < scale.y for panel in panels)
    rows = sorted({panel.y for panel in panels})
    assert all(later - before > down + 2 * font for before, later in pairwise(rows))
    if count >= 40:  # a table of heads, below the image
        assert [panel.y for panel in panels].count(rows[0]) == 1


def test_shares_are_told_with_the_digits_they_need():
    assert [percent(share) for share in (1, 0.5, 0.0123, 0.00995, 0.0099, 0.0004)] == [
        "100.0 %", "50.0 %", "1.2 %", "1.0 %", "0.99 %", "0.04 %",
    ]  # fmt: skip


@pytest.mark.parametrize(("layers", "heads"), [(1, 4), (4, 4), (12, 12)])
@pytest.mark.parametrize("wide", [8, 32])
def test_names_of_heads_are_shown_whole(layers, heads, wide):
    names = [f"layer {layer}, head {head}" for layer in range(layers) for head in range(heads)]
    drawing = Overlay(noise(32, wide), {name: np.eye(4) for name in names}).drawing()
    assert [", ".join(text.text for text in lines) for lines in labels(drawing)] == names
    rights = {lines[0].x: max(text_width(text.text) * text.size for text in lines) for lines in labels(drawing)}
    assert all(x + rights[x] < later for x, later in pairwise(sorted(rights)))
    rows = sorted({panel.y for panel in images(drawing)})
    ends = max(marks(panel, Text)[-1].y - marks(panel, Image)[0].y for panel in drawing.groups("panel"))
    assert all(later - before > ends for before, later in pairwise(rows))


def test_layers_are_called_as_people_say_where_there_is_room():
    few = labels(Overlay(noise(32, 32), {"rollout": np.eye(4), "blocks.3.attend, head 1": np.eye(4)}).drawing())
    said = ["fourth layer, looking at its own", "input, head 1", "blocks.3.attend"]
    assert [[text.text for text in lines] for lines in few] == [["all layers together", "rollout"], said]
    many = {f"blocks.3.attend, head {head}": np.eye(4) for head in range(16)}
    assert labels(Overlay(noise(32, 32), many).drawing())[1][0].text == "blocks.3.attend"


def test_a_name_that_no_room_holds_is_cut():
    panels = {"x" * 300: np.eye(4)} | {str(at): np.eye(4) for at in range(40)}
    (label,) = labels(Overlay(noise(32, 32), panels).drawing())[0]
    assert label.text.endswith("…")
    assert text_width(label.text) * label.size <= 200
