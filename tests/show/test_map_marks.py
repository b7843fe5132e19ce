"""Centres and windows of local attention over a map."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import marks
from matplotlib.patches import Circle, Rectangle
from PIL import Image
from rich.cells import cell_len
from small_maps import draw

from regard.show import Map
from regard.show.colours import LIGHT, MARK
from regard.show.drawing import Box, Cells, Disc
from regard.show.map_data import Focus

SVG = "{http://www.w3.org/2000/svg}"


def some_map(centres, window, *, columns=6):
    weights = np.random.default_rng(0).dirichlet(np.full(columns, 0.3), len(centres))
    rows, names = [f"row{at}" for at in range(len(centres))], [f"c{at}" for at in range(columns)]
    return Map(weights, rows, names, "title", centres=centres, window=window)


def test_windows_are_those_that_attention_saw():
    """round(p) - window .. round(p) + window, halves to the even side as torch rounds, as far as the map goes."""
    assert some_map([0.4, 2.5, 3.5, 2.6, np.nan, 5.9], 1).focuses == [
        Focus(0, 0.4, (0, 1)),
        Focus(1, 2.5, (1, 3)),
        Focus(2, 3.5, (3, 5)),
        Focus(3, 2.6, (2, 4)),
        Focus(5, 5.9, (5, 5)),
    ]


def test_centres_beside_the_map_are_not_drawn_but_their_windows_are():
    marked = some_map([6.0, 6.6, 7.0, 30.0, -0.5, -1.0, -1e300], 1)
    assert marked.focuses == [Focus(0, 6.0, (5, 5)), Focus(4, -0.5, (0, 1)), Focus(5, None, (0, 0))]
    assert some_map([7.0, 6.0, 2.0], 0).focuses == [Focus(1, 6.0, None), Focus(2, 2.0, None)]


def pixels(picture, path):
    picture.save(path)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def test_a_map_without_centres_is_drawn_as_ever(tmp_path):
    """No byte may change: neither marks nor room for them where no row has a centre."""
    none = some_map([np.nan, np.nan], 2)
    plain = Map(none.weights, none.rows, none.columns, none.title)
    for name in ("png", "svg"):
        none.save(tmp_path / f"none.{name}")
        plain.save(tmp_path / f"plain.{name}")
        assert (tmp_path / f"none.{name}").read_bytes() == (tmp_path / f"plain.{name}").read_bytes()
    for colour in (True, False):
        assert none.terminal(colour=colour, width=60) == plain.terminal(colour=colour, width=60)
    assert MARK not in plain.svg()
    assert 'class="marks"' not in plain.svg()
    colour = [int(MARK[at : at + 2], 16) for at in (1, 3, 5)]
    both = (plain, some_map([1, 4], 2))
    near = [(abs(pixels(picture, tmp_path / "p.png") - colour).max(-1) < 30).sum() for picture in both]
    assert near[0] == 0 < near[1]


def in_cells(ax, artist, points):
    """Points of an artist in the coordinates of the axes: the middle of a cell is its column and its row."""
    return ax.transData.inverted().transform(artist.get_data_transform().transform(points))


def test_the_png_has_dots_and_outlines_in_their_places():
    ax = draw(some_map([0.25, np.nan, 5.9], 1))
    figure = ax.figure
    dots = [artist for artist in ax.get_children() if isinstance(artist, Circle)]
    assert len(dots) == 3  # and that of the legend
    middles = [in_cells(ax, dot, [dot.center])[0] for dot in dots[:2]]
    np.testing.assert_allclose(middles, [(0.25, 0), (5.9, 2)], atol=1e-6)
    # Each outline is drawn twice, with a white edge below; the last ones are of the legend.
    outlines = [a for a in ax.get_children() if isinstance(a, Rectangle) and a is not ax.patch][1:4:2]
    corners = [in_cells(ax, box, [box.get_xy(), (box.get_x() + box.get_width(), box.get_y() + box.get_height())])
               for box in outlines]  # fmt: skip
    np.testing.assert_allclose(corners, [[(-0.5, -0.5), (1.5, 0.5)], [(4.5, 1.5), (5.5, 2.5)]], atol=0.2)
    assert (ax.get_xlim(), ax.get_ylim()) == ((-0.5, 5.5), (2.5, -0.5))  # the cells stay where they were
    legend = [text for text in ax.texts if text.get_text() in ("centre p_t", "window ± 1")]
    assert len(legend) == 2
    for part in (*dots, *legend):
        box = part.get_window_extent()
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0


def test_marks_are_seen_on_light_and_on_dark_cells(tmp_path):
    """In their own colour, with a white edge that parts them from the dark ones."""
    for weight in (0.0, 1.0):
        image = pixels(Map(np.full((1, 3), weight), "a", "xyz", centres=[1], window=1), tmp_path / "p.png")
        orange = abs(image - [int(MARK[at : at + 2], 16) for at in (1, 3, 5)]).max(-1) < 30
        dark = abs(image - [int(LIGHT[-1][at : at + 2], 16) for at in (1, 3, 5)]).max(-1) < 30
        assert orange.sum() > 400
        for shift, axis in ((2, 0), (-2, 0), (2, 1), (-2, 1)):
            assert not (orange & np.roll(dark, shift, axis)).any()


def test_the_svg_has_them_too_under_the_pointer_and_within_the_page():
    picture = some_map([0.25, np.nan, 5.9], 1)
    root = ElementTree.fromstring(picture.svg())
    (cells, _) = marks(picture.drawing(), Cells)  # and the colour scale
    side = cells.width / 6
    group = root.find(f"{SVG}g[@class='marks']")
    rows = group.findall(f"{SVG}g")
    assert [row.get("data-row") for row in rows] == ["0", "2"]
    assert all(
        mark.get("pointer-events") == "none" for row in rows for mark in row
    )  # cells still tell their weights
    dots = [row.find(f"{SVG}circle") for row in rows]
    places = [
        [(float(dot.get(at)) - start) / side for at, start in (("cx", cells.x), ("cy", cells.y))] for dot in dots
    ]
    np.testing.assert_allclose(places, [(0.75, 0.5), (6.4, 2.5)], atol=0.01)
    outline = rows[0].find(f"{SVG}rect")
    left, width = (float(outline.get("x")) - cells.x) / side, float(outline.get("width")) / side
    np.testing.assert_allclose([left, left + width], [0, 2], atol=0.15)
    words = [text.text for text in root.find(f"{SVG}g[@class='legend']").iter(f"{SVG}text")]
    assert words == ["centre p_t", "window ± 1"]
    assert picture.data()["window"] == 1
    # The line below the map has room of its own.
    plain = ElementTree.fromstring(Map(picture.weights, picture.rows, picture.columns, "title").svg())
    assert float(root.get("height")) - float(plain.get("height")) > 20


def test_centres_alone_need_no_window():
    (group,) = some_map([1.5, 2.5], 0).drawing().groups("marks")
    assert not marks(group, Box)
    assert len(marks(group, Disc)) == 2
    root = ElementTree.fromstring(some_map([1.5, 2.5], 0).svg())
    assert len(root.findall(f"{SVG}g[@class='marks']//{SVG}circle")) == 2
    assert [text.text for text in root.find(f"{SVG}g[@class='legend']").iter(f"{SVG}text")] == ["centre p_t"]
    assert some_map([1.5, 2.5], 0).terminal(colour=False, width=60).splitlines()[-2] == "● centre p_t"


def test_the_terminal_keeps_its_columns():
    weights = np.array([[0.6, 0, 0, 0], [0, 0.3, 0.7, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, 0, 1]])
    picture = Map(weights, "abcd", "wxyz", centres=[0.3, 1.9, np.nan, 4], window=1)
    assert picture.terminal(colour=False, width=40).splitlines() == [
        "  w x y z ",
        "a ▓●··    ",
        "b   ▒▒●▓··",
        "c ▒▒▒▒▒▒▒▒",
        "d       █●",
        "● centre p_t  · window ± 1",
        "weight: 0 ░▒▓█ 1",
    ]


def test_in_colour_the_signs_stand_out_from_their_cells():
    text = Map(np.array([[0.0, 1.0, 0.0]]), "a", "xyz", centres=[0.2], window=1).terminal(width=40)
    dark, light = "\x1b[48;2;20;30;69m", "\x1b[48;2;255;217;83m"
    white, black = "\x1b[38;2;255;255;255m", "\x1b[38;2;0;0;0m"
    assert text.splitlines()[1] == f"a {dark}{white}·●{light}{black}··{dark}  \x1b[0m"


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 30, 80])
def test_no_line_is_wider_than_asked_with_marks(colour, width):
    picture = some_map(np.arange(60.0), 3, columns=60)
    plain = Map(picture.weights, picture.rows, picture.columns, picture.title)
    both = [re.sub(r"\x1b\[[0-9;]*m", "", drawn.terminal(colour=colour, width=width)) for drawn in (picture, plain)]
    marked, bare = (text.splitlines() for text in both)
    assert max(cell_len(line) for line in marked) <= width
    note = [line for line in marked if line.startswith("● centre")]
    assert len(note) == 1
    marked.remove(note[0])
    assert [cell_len(line) for line in marked] == [cell_len(line) for line in bare]
