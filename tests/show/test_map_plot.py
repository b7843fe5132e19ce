"""The map through matplotlib."""

from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from small_maps import draw, save_png, some_map

from regard.show import Map

matplotlib.use("Agg")


def test_the_png_shows_the_weights(tmp_path):
    dark = save_png(Map(np.eye(4), "abcd", "wxyz"), tmp_path)
    pale = save_png(Map(np.zeros((4, 4)), "abcd", "wxyz"), tmp_path)
    assert dark.shape == pale.shape
    # Four of sixteen cells turn from almost white to almost black: nothing else may change.
    changed = (dark != pale).any(-1)
    assert dark[changed].mean() < 80
    assert pale[changed].mean() > 230
    assert changed.sum() == pytest.approx(4 * (28 * 2) ** 2, rel=0.1)


@pytest.mark.parametrize("count", [1, 5, 120])  # from 115 tokens on the cells are as small as they get
def test_labels_do_not_overlap_and_stay_legible(count):
    tokens = [f"token{at}" for at in range(count)]
    ax = draw(some_map(tokens, tokens, title="t", row_label="r", column_label="c"))
    labels = ax.get_yticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))
    assert labels[0].get_fontsize() > 7
    assert [label.get_text() for label in labels] == tokens
    leaning = ax.get_xticklabels()[0]
    assert leaning.get_rotation() == 60
    # The distance between leaning lines is that of their cells times the sine of the lean.
    cell = ax.get_window_extent().width / count
    assert leaning.get_fontsize() / 72 * ax.figure.dpi < cell * np.sin(np.radians(60))


def test_single_characters_stand_upright_and_long_tokens_are_cut():
    ax = draw(some_map(["x" * 60, "b"], "3 "))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3", "␣"]
    assert ax.get_xticklabels()[0].get_rotation() == 0
    assert ax.get_yticklabels()[0].get_text() == "x" * 23 + "…"


def test_the_figure_holds_its_labels():
    ax = draw(some_map(["W" * 60] * 3, ["Mm" * 30] * 3, title="T" * 30, row_label="R" * 20))
    whole = ax.figure.bbox
    for text in [*ax.get_yticklabels(), *ax.get_xticklabels(), ax.yaxis.label, ax._left_title]:
        box = text.get_window_extent()
        assert box.x0 >= whole.x0
        assert box.x1 <= whole.x1
        assert box.y0 >= whole.y0
        assert box.y1 <= whole.y1


def test_plot_into_a_small_axes_shrinks_the_labels():
    tokens = [f"token{at}" for at in range(60)]
    figure = Figure(figsize=(3, 3), dpi=400)  # at fewer dots the boxes are rounded to more than the letters
    ax = figure.add_subplot()
    assert some_map(tokens, tokens).plot(ax) is ax
    FigureCanvasAgg(figure).draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))


def test_plot_without_axes_makes_a_figure():
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    ax = some_map("ab", "cd", title="name").plot()
    try:
        assert pyplot.get_fignums() == [*before, ax.figure.number]
        assert ax.get_title(loc="left") == "name"
    finally:
        pyplot.close(ax.figure)


def test_dollars_are_not_mathematics(tmp_path):
    ax = draw(some_map(["$x^2$", "\\frac"], ["$", "$\\nonsense$"], title="$5 and $\\"))
    assert ax.get_yticklabels()[0].get_text() == "$x^2$"
    save_png(some_map(["$x^2$"], ["$\\nonsense$"], title="$5 and $\\"), tmp_path)
