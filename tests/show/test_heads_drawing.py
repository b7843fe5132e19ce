"""Where the panels of heads stand."""

import numpy as np
import pytest
from drawn import apart, edges, marks

from regard.show import Heads
from regard.show.drawing import Cells, Text
from regard.show.heads import MEANS, SMALL


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def square(layers, heads, count, **names):
    tokens = [f"t{at}" for at in range(count)]
    panels = {f"blocks.{layer}.attend": weights(heads, count, count, layer) for layer in range(layers)}
    return Heads(panels, tokens, tokens, **names)


def boxes(drawing):
    """Left, top, right and bottom of every panel with its name."""
    panels = [edges(cells) for site in drawing.groups("site") for cells in marks(site, Cells)]
    return [(left, top, right, bottom + SMALL) for left, top, right, bottom in panels]


def key_top(drawing):
    """Where the colour scale begins."""
    return marks(drawing, Cells)[-1].y


def texts(drawing):
    return [text.text for text in marks(drawing, Text)]


@pytest.mark.parametrize(
    ("layers", "heads", "tokens"), [(4, 8, 15), (12, 12, 20), (12, 12, 60), (1, 1, 1), (2, 40, 3), (24, 16, 40)]
)
def test_panels_keep_apart_and_within_the_picture(layers, heads, tokens):
    drawing = square(layers, heads, tokens).drawing()
    places = boxes(drawing)
    assert len(places) in (layers * heads, layers)  # or the mean of each site
    assert min(x for x, *_ in places) >= 0
    assert max(right for _, _, right, _ in places) <= drawing.width
    assert max(bottom for *_, bottom in places) <= key_top(drawing)
    assert apart(places)
    assert all(max(right - x, bottom - y) > 20 for x, y, right, bottom in places)
    assert all(text.size >= 8.5 for text in marks(drawing, Text))


@pytest.mark.parametrize(("layers", "heads", "tokens"), [(1, 12, 12), (6, 8, 10)])
def test_a_sheet_fits_a_screen(layers, heads, tokens):
    """Twelve heads were once a strip of 3542 x 348 pixels, and all sites a tower."""
    drawing = square(layers, heads, tokens).drawing()
    assert drawing.width <= 1700
    assert drawing.height <= 1100
    assert 1 <= drawing.width / drawing.height <= 2.4


@pytest.mark.parametrize(
    ("layers", "heads", "tokens", "drawn"), [(5, 6, 36, 30), (12, 12, 12, 144), (12, 12, 60, 12), (24, 16, 40, 24)]
)
def test_words_stay_legible_on_a_larger_sheet_or_by_means_of_heads(layers, heads, tokens, drawn):
    """The heads of a text of 36 words once had no words on either side."""
    drawing = square(layers, heads, tokens).drawing()
    assert len(boxes(drawing)) == drawn
    assert (drawing.width, drawing.height) <= (4000, 2500)
    assert 1 <= drawing.width / drawing.height <= 2.4
    named = f", mean of {heads} heads" if drawn == layers else ""
    said = f"first layer, looking at its own input{named}"
    assert [text.text for text in marks(drawing.groups("site")[0], Text)[:2]] == [said, "blocks.0.attend"]
    assert (MEANS in texts(drawing)) == (drawn == layers)


def test_means_are_of_all_heads_of_a_site():
    heads = square(12, 12, 60)
    drawing = heads.drawing()
    (cells,) = marks(drawing.groups("site")[3], Cells)
    np.testing.assert_allclose(cells.weights, heads.panels["blocks.3.attend"].mean(0), atol=1e-6)
    assert f"{cells.top:g}  weight" in texts(drawing)
    assert not [text for text in texts(drawing) if text.startswith("head ")]


def test_names_of_sites_on_a_line_stand_at_one_height():
    panels = {"a": weights(2, 3, 3), "b": weights(2, 3, 3)}
    columns = {"a": ["a", "b", "c"], "b": ["a long one", "b", "c"]}
    sites = Heads(panels, "xyz", columns).drawing().groups("site")
    tops = [marks(site, Cells)[0].y for site in sites]
    names = [marks(site, Text)[0].y for site in sites]
    assert (tops[0] == tops[1]) == (names[0] == names[1])
    assert tops[0] - names[0] > 40


def test_each_head_may_have_its_own_scale():
    panels = {"a": np.array([np.eye(2), np.full((2, 2), 0.02)])}
    assert {"head 0", "head 1"} <= set(texts(Heads(panels, "ab", "cd").drawing()))
    drawing = Heads(panels, "ab", "cd", scale="each").drawing()
    assert {"head 0, to 1", "head 1, to 0.02", "largest weight of each head"} <= set(texts(drawing))
    assert marks(drawing.groups("site")[0], Cells)[1].levels.max() == 1
