"""Where the panels of captions stand."""

import numpy as np
import pytest
from drawn import apart, edges, marks

from regard.show import Line, Looks
from regard.show.drawing import EDGE, NAME, Box, Cells, Image, Text
from regard.show.label_text import text_width
from regard.show.looks import WIDEST


def noise(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def line(count, word="dog", gated=True, name=""):
    weights = np.random.default_rng(1).random((count, 3, 4))
    return Line([word] * count, weights, np.linspace(0, 1, count) if gated else None, name)


def images(drawing):
    return [marks(panel, Image)[0] for panel in drawing.groups("panel")]


def captions(drawing):
    return [text for text in marks(drawing, Text) if text.kind == "caption"]


@pytest.mark.parametrize("counts", [(1,), (7,), (15,), (60,), (15, 11), (1, 30), (0, 2), (0,)])
@pytest.mark.parametrize(("high", "wide"), [(32, 32), (30, 300), (300, 30)])
def test_no_two_panels_touch_and_each_stands_below_its_caption(counts, high, wide):
    drawing = Looks(noise(high, wide), [line(count) for count in counts], "T").drawing()
    (scale,) = marks(drawing, Cells)
    assert drawing.width <= WIDEST + 2 * EDGE
    panels = images(drawing)
    assert len(panels) == 1 + sum(counts)
    assert len({(panel.width, panel.height) for panel in panels}) == 1
    ends = max(marks(panel, Text)[-1].y - marks(panel, Image)[0].y for panel in drawing.groups("panel"))
    boxes = [(left, top, right, top + ends) for left, top, right, _ in map(edges, panels)]
    for left, top, right, bottom in boxes:
        assert min(left, top) >= EDGE
        assert right <= drawing.width - EDGE
        assert bottom < scale.y
    assert apart(boxes)
    # The image alone stands behind the first caption, the words behind their own.
    lines: list[list[Text]] = []
    words: list[list[Image]] = []
    for mark in drawing.marks:
        if isinstance(mark, Text) and mark.kind == "caption":
            if not lines or words[-1] or mark.y - lines[-1][-1].y > 2 * NAME:
                lines.append([])
                words.append([])
            lines[-1].append(mark)
        elif lines and (image := marks(mark, Image) if hasattr(mark, "marks") else []):
            words[-1] += image if image[0].layer is not None else []
    assert [len(own) for own in words] == list(counts)
    for at, (heading, own) in enumerate(zip(lines, words, strict=True)):
        assert all(panel.y > heading[-1].y for panel in own)
        assert all(panel.y + ends < heading[0].y for before in words[:at] for panel in before)


@pytest.mark.parametrize(
    ("count", "rows", "side"), [(1, 1, 240), (5, 1, 238), (8, 1, 154), (15, 2, 150), (30, 3, 120)]
)
def test_few_words_are_large_and_many_fill_their_rows(count, rows, side):
    panels = images(Looks(noise(32, 32), [line(count)]).drawing())
    assert (len({panel.y for panel in panels[1:]}), panels[0].width) == (rows, side)


def test_soft_and_hard_stand_below_each_other_word_by_word():
    drawing = Looks(noise(32, 32), [line(5, name="soft"), line(4, name="hard")]).drawing()
    soft, hard = images(drawing)[1:6], images(drawing)[6:]
    assert [panel.x for panel in hard] == [panel.x for panel in soft[:4]]
    assert [text.text for text in captions(drawing)] == ["soft: dog dog dog dog dog", "hard: dog dog dog dog"]


def test_a_word_that_no_room_holds_is_cut_and_long_captions_are_wrapped():
    word = "Donaudampfschifffahrtsgesellschaft"
    drawing = Looks(noise(300, 30), [line(20, word)]).drawing()
    label = marks(drawing.groups("panel")[1], Text)[0]
    assert label.tip == word
    assert label.text.endswith("…")
    assert text_width(label.text) * NAME <= 84
    assert len(captions(drawing)) == 3
    assert all(text.x + text_width(text.text) * NAME <= drawing.width - EDGE for text in captions(drawing))


def test_a_chosen_place_is_outlined_where_its_cell_is():
    weights = np.zeros((1, 2, 4))
    weights[0, 1, 2] = 1
    _, panel = Looks(noise(50, 100), [Line(["a"], weights)]).drawing().groups("panel")
    (image,), (black, white) = marks(panel, Image), marks(panel, Box)
    across, down = image.width, image.height
    for outline in (black, white):
        place = (outline.x - image.x, outline.y - image.y, outline.width, outline.height)
        assert place == pytest.approx((across / 2, down / 2, across / 4, down / 2))
    assert [text.text for text in marks(panel, Text)] == ["a", "one place"]
