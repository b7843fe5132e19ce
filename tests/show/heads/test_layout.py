"""Where the panels of heads stand."""

import numpy as np
import pytest

from regard.show import Heads
from regard.show.heads.layout import lay_out


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def square(layers, heads, count, **names):
    tokens = [f"t{at}" for at in range(count)]
    panels = {f"blocks.{layer}.attend": weights(heads, count, count, layer) for layer in range(layers)}
    return Heads(panels, tokens, tokens, **names)


def test_a_site_without_a_number_names_its_heads_alone():
    assert lay_out(Heads({"attend": weights(2, 2, 2)}, "ab", "ab")).sites[0].names == ["0", "1"]


@pytest.mark.parametrize(
    ("layers", "heads", "tokens"), [(4, 8, 15), (12, 12, 20), (12, 12, 60), (1, 1, 1), (2, 40, 3)]
)
def test_panels_keep_apart_and_within_the_picture(layers, heads, tokens):
    layout = lay_out(square(layers, heads, tokens))
    bottom = 0
    for row in layout.sites:
        width, height = row.size
        assert row.top > bottom
        bottom = row.top + height
        assert width < layout.pitch
        assert max(width, height) > 20
        assert row.beside == (row.cell > 9)
    assert bottom < layout.height
    assert layout.left + (heads - 1) * layout.pitch + layout.sites[0].size[0] < layout.width
    assert layout.sites[0].beside == (tokens <= 20)


def test_more_panels_are_cut_shorter():
    tokens = "ab" * 60
    many = Heads({str(at): np.zeros((25, 120, 120)) for at in range(48)}, tokens, tokens)
    assert many.shown == 28
    assert lay_out(many).sites[0].weights.shape == (25, 28, 28)
