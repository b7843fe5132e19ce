"""Centres and windows of local attention over a map."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from PIL import Image
from rich.cells import cell_len

from regard.show import Map
from regard.show.colours import LIGHT, MARK
from regard.show.map.marks import Mark, find_marks
from regard.show.map.png import draw_axes, new_axes

SVG = "{http://www.w3.org/2000/svg}"


def some_map(centres, window, *, columns=6):
    weights = np.random.default_rng(0).dirichlet(np.full(columns, 0.3), len(centres))
    rows, names = [f"row{at}" for at in range(len(centres))], [f"c{at}" for at in range(columns)]
    return Map(weights, rows, names, "title", centres=centres, window=window)


def test_windows_are_those_that_attention_saw():
    """round(p) - window .. round(p) + window, halves to the even side as torch rounds, as far as the map goes."""
    assert find_marks(some_map([0.4, 2.5, 3.5, 2.6, np.nan, 5.9], 1)) == [
        Mark(0, 0.4, (0, 1)),
        Mark(1, 2.5, (1, 3)),
        Mark(2, 3.5, (3, 5)),
        Mark(3, 2.6, (2, 4)),
        Mark(5, 5.9, (5, 5)),
    ]


def test_centres_beside_the_map_are_not_drawn_but_their_windows_are():
    marks = find_marks(some_map([6.0, 6.6, 7.0, 30.0, -0.5, -1.0, -1e300], 1))
    assert marks == [Mark(0, 6.0, (5, 5)), Mark(4, -0.5, (0, 1)), Mark(5, None, (0, 0))]
    assert find_marks(some_map([7.0, 6.0, 2.0], 0)) == [Mark(1, 6.0, None), Mark(2, 2.0, None)]


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
    near = [
        (abs(pixels(one, tmp_path / "p.png") - colour).max(-1) < 30).sum() for one in (plain, some_map([1, 4], 2))
    ]
    assert near[0] == 0 < near[1]


def test_the_png_has_dots_and_outlines_in_their_places():
    picture = some_map([0.25, np.nan, 5.9], 1)
    figure = Figure()
    ax = draw_axes(picture, new_axes(picture, figure))
    FigureCanvasAgg(figure).draw()
    dots = [artist for artist in ax.get_children() if isinstance(artist, Circle)]
    assert [dot.center for dot in dots] == [(0.25, 0), (5.9, 2)]
    outlines = [a for a in ax.get_children() if isinstance(a, Rectangle) and a is not ax.patch]
    spans = [(box.get_x(), box.get_y(), box.get_width(), box.get_height()) for box in outlines]
    np.testing.assert_allclose(spans, [(-0.5, -0.5, 2, 1), (4.5, 1.5, 1, 1)], atol=0.2)
    assert (ax.get_xlim(), ax.get_ylim()) == ((-0.5, 5.5), (2.5, -0.5))  # the cells stay where they were
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["centre p_t", "window ± 1"]
    for part in (*dots, ax.get_legend()):
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
    marks = root.find(f"{SVG}g[@class='marks']")
    assert marks.get("pointer-events") == "none"  # the cells below still tell their weights
    rows = marks.findall(f"{SVG}g")
    assert [row.get("data-row") for row in rows] == ["0", "2"]
    places = [(float(row.find(f"{SVG}circle").get("cx")), row.get("transform")) for row in rows]
    assert places == [(0.75, "translate(0,0)"), (6.4, "translate(0,2)")]
    left, _, width = map(float, re.match(r"M(\S+) (\S+?)h([\d.]+)v", rows[0].find(f"{SVG}path").get("d")).groups())
    np.testing.assert_allclose([left, left + width], [0, 2], atol=0.15)
    words = [text.text for text in root.find(f"{SVG}g[@class='legend']").iter(f"{SVG}text")]
    assert words == ["centre p_t", "window ± 1"]
    assert not marks.findall(f".//{SVG}rect")  # the page's script takes rects for cells
    assert picture.data()["window"] == 1
    # The line below the map has room of its own.
    plain = ElementTree.fromstring(Map(picture.weights, picture.rows, picture.columns, "title").svg())
    assert float(root.get("height")) - float(plain.get("height")) > 20


def test_centres_alone_need_no_window():
    root = ElementTree.fromstring(some_map([1.5, 2.5], 0).svg())
    assert not root.findall(f"{SVG}g[@class='marks']//{SVG}path")
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
    both = [re.sub(r"\x1b\[[0-9;]*m", "", one.terminal(colour=colour, width=width)) for one in (picture, plain)]
    marked, bare = (text.splitlines() for text in both)
    assert max(cell_len(line) for line in marked) <= width
    note = [line for line in marked if line.startswith("● centre")]
    assert len(note) == 1
    marked.remove(note[0])
    assert [cell_len(line) for line in marked] == [cell_len(line) for line in bare]
