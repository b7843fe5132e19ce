"""Where the panels of heads stand."""

import numpy as np
import pytest

from regard.show import Heads
from regard.show.heads.layout import SMALL, lay_out


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def square(layers, heads, count, **names):
    tokens = [f"t{at}" for at in range(count)]
    panels = {f"blocks.{layer}.attend": weights(heads, count, count, layer) for layer in range(layers)}
    return Heads(panels, tokens, tokens, **names)


def boxes(layout):
    """Left, top, right and bottom of every panel with its name."""
    for block in layout.blocks:
        width, height = block.size
        yield from ((one.x, one.y, one.x + width, one.y + height + SMALL) for one in block.panels)


@pytest.mark.parametrize(
    ("layers", "heads", "tokens"), [(4, 8, 15), (12, 12, 20), (12, 12, 60), (1, 1, 1), (2, 40, 3), (24, 16, 40)]
)
def test_panels_keep_apart_and_within_the_picture(layers, heads, tokens):
    layout = lay_out(square(layers, heads, tokens))
    places = list(boxes(layout))
    assert len(places) in (layers * heads, layers)  # or the mean of each site
    assert min(x for x, *_ in places) >= 0
    assert max(right for _, _, right, _ in places) <= layout.width
    assert max(bottom for *_, bottom in places) <= layout.key_top
    for at, (x, y, right, bottom) in enumerate(places):
        apart = [x > r or right < o or y > b or bottom < t for o, t, r, b in places[:at]]
        assert all(apart)
        assert max(right - x, bottom - y) > 20
    assert all(block.font >= 8.5 for block in layout.blocks)


@pytest.mark.parametrize(("layers", "heads", "tokens"), [(1, 12, 12), (6, 8, 10)])
def test_a_sheet_fits_a_screen(layers, heads, tokens):
    """Twelve heads were once a strip of 3542 x 348 pixels, and all sites a tower."""
    layout = lay_out(square(layers, heads, tokens))
    assert layout.width <= 1700
    assert layout.height <= 1100
    assert 1 <= layout.width / layout.height <= 2.4


@pytest.mark.parametrize(
    ("layers", "heads", "tokens", "drawn"), [(5, 6, 36, 30), (12, 12, 12, 144), (12, 12, 60, 12), (24, 16, 40, 24)]
)
def test_words_stay_legible_on_a_larger_sheet_or_by_means_of_heads(layers, heads, tokens, drawn):
    """The heads of a text of 36 words once had no words on either side."""
    layout = lay_out(square(layers, heads, tokens))
    assert len(list(boxes(layout))) == drawn
    assert (layout.width, layout.height) <= (4000, 2500)
    assert 1 <= layout.width / layout.height <= 2.4
    named = ", mean of 12 heads" if (heads, drawn) == (12, 12) else ""
    assert layout.blocks[0].site.startswith(f"blocks.0.attend{named}")
    assert bool(layout.note) == (drawn == layers)


def test_means_are_of_all_heads_of_a_site():
    heads = square(12, 12, 60)
    layout = lay_out(heads)
    mean = heads.panels["blocks.3.attend"].mean(0)
    np.testing.assert_allclose(layout.blocks[3].panels[0].levels * float(layout.scale.split()[0]), mean, atol=1e-6)
    assert layout.blocks[3].panels[0].name == ""


def test_names_of_sites_on_a_line_stand_at_one_height():
    panels = {"a": weights(2, 3, 3), "b": weights(2, 3, 3)}
    columns = {"a": ["a", "b", "c"], "b": ["a long one", "b", "c"]}
    first, second = lay_out(Heads(panels, "xyz", columns)).blocks
    if first.y == second.y:
        assert first.above == second.above
    assert first.above > 40


def test_each_head_may_have_its_own_scale():
    panels = {"a": np.array([np.eye(2), np.full((2, 2), 0.02)])}
    assert [panel.name for panel in lay_out(Heads(panels, "ab", "cd")).blocks[0].panels] == ["head 0", "head 1"]
    layout = lay_out(Heads(panels, "ab", "cd", scale="each"))
    assert [panel.name for panel in layout.blocks[0].panels] == ["head 0, to 1", "head 1, to 0.02"]
    assert layout.scale == "largest weight of each head"
    assert layout.blocks[0].panels[1].levels.max() == 1
