"""Where the panels of captions stand."""

import numpy as np
import pytest

from regard.show import Line, Looks
from regard.show.label_text import text_width
from regard.show.looks.layout import WIDEST, lay_out
from regard.show.sizes import EDGE, NAME


def noise(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def line(count, word="dog", gated=True, name=""):
    weights = np.random.default_rng(1).random((count, 3, 4))
    return Line([word] * count, weights, np.linspace(0, 1, count) if gated else None, name)


@pytest.mark.parametrize("counts", [(1,), (7,), (15,), (60,), (15, 11), (1, 30), (0, 2), (0,)])
@pytest.mark.parametrize(("high", "wide"), [(32, 32), (30, 300), (300, 30)])
def test_no_two_panels_touch_and_each_stands_below_its_caption(counts, high, wide):
    layout = lay_out(Looks(noise(high, wide), [line(count) for count in counts], "T"))
    across = layout.size[0]
    assert layout.width <= WIDEST + 2 * EDGE
    assert len(layout.panels) == 1 + sum(counts)
    ends = max(layout.note_places(panel)[-1] for panel in layout.panels)
    boxes = [(panel.x, panel.y, panel.x + across, panel.y + ends) for panel in layout.panels]
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert min(left, top) >= EDGE
        assert right <= layout.width - EDGE
        assert bottom < layout.key_top
        for x0, y0, x1, y1 in boxes[at + 1 :]:
            assert right < x0 or x1 < left or bottom < y0 or y1 < top
    first = 1
    for heading, count in zip(layout.headings, counts, strict=True):
        own = layout.panels[first : first + count]
        assert all(panel.y > heading.lines()[-1][0] for panel in own)
        assert all(panel.y + ends < heading.y for panel in layout.panels[1:first])
        first += count


@pytest.mark.parametrize(
    ("count", "rows", "side"), [(1, 1, 240), (5, 1, 238), (8, 1, 154), (15, 2, 150), (30, 3, 120)]
)
def test_few_words_are_large_and_many_fill_their_rows(count, rows, side):
    layout = lay_out(Looks(noise(32, 32), [line(count)]))
    assert (len({panel.y for panel in layout.panels[1:]}), layout.size[0]) == (rows, side)


def test_soft_and_hard_stand_below_each_other_word_by_word():
    layout = lay_out(Looks(noise(32, 32), [line(5, name="soft"), line(4, name="hard")]))
    soft, hard = layout.panels[1:6], layout.panels[6:]
    assert [panel.x for panel in hard] == [panel.x for panel in soft[:4]]
    assert [heading.text[0] for heading in layout.headings] == [
        "soft: dog dog dog dog dog",
        "hard: dog dog dog dog",
    ]


def test_a_word_that_no_room_holds_is_cut_and_long_captions_are_wrapped():
    word = "Donaudampfschifffahrtsgesellschaft"
    layout = lay_out(Looks(noise(300, 30), [line(20, word)]))
    panel = layout.panels[1]
    assert panel.word == word
    assert panel.label.endswith("…")
    assert text_width(panel.label) * NAME <= 84
    (heading,) = layout.headings
    assert len(heading.text) == 3
    assert all(heading.x + text_width(text) * NAME <= layout.width - EDGE for text in heading.text)


def test_a_chosen_place_is_outlined_where_its_cell_is():
    weights = np.zeros((1, 2, 4))
    weights[0, 1, 2] = 1
    layout = lay_out(Looks(noise(50, 100), [Line(["a"], weights)]))
    across, down = layout.size
    assert layout.panels[1].chosen == (across / 2, down / 2, across / 4, down / 2)
    assert layout.panels[1].notes == ["one place"]
