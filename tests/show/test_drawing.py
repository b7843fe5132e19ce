"""Every kind of picture is one drawing: SVG and matplotlib show the same things in the same places and colours, in
files that are no larger than they were."""

from __future__ import annotations

import math
import re
from functools import cache
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from drawn import marks
from every_picture import HOSTILE, PICTURES, TITLE
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from regard.show import Difference, Heads, Map
from regard.show.drawing import Box, Boxes, Cells, Drawing, Group, Image, Stroke, Text, flat
from regard.show.figure import POINTS, draw_figure
from regard.show.map import draw_map
from regard.show.map_plot import draw_axes, new_axes
from regard.show.svg import FAINTEST, render_svg

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["the", "quick", "brown", "fox", "jumps", "over"]
CAUSAL = np.tril(np.ones((6, 6), bool))
# Bytes of the pictures of WORDS as SVG and as PNG.
SIZES = {
    "map": (5_800, 42_100),
    "heads": (7_300, 53_400),
    "difference": (7_100, 49_600),
    "shaded": (2_600, 24_100),
    "document": (3_300, 36_200),
    "looks": (45_200, 1_402_000),
    "overlay": (39_200, 926_500),
    "gates": (8_000, 97_300),
    "tape": (7_200, 54_000),
    "vectors": (4_300, 34_000),
    "examples": (17_200, 73_300),
    "sheet": (18_200, 78_100),
}


def every_picture():
    for kind, make in PICTURES.items():
        yield pytest.param(make(WORDS, "A title of words"), id=kind)
        yield pytest.param(make(HOSTILE, TITLE), id=f"{kind} of hostile words")
    weights = CAUSAL / CAUSAL.sum(-1, keepdims=True)
    yield pytest.param(Map(weights, WORDS, WORDS, mask=CAUSAL), id="map with a mask")
    local = Map(weights, WORDS, WORDS, "t", "r", "c", centres=[0, 1.4, np.nan, 2, 5.9, 9], window=1)
    yield pytest.param(local, id="map with windows")
    yield pytest.param(Map(weights[:3, :3], "abc", "xyz"), id="map of letters")
    yield pytest.param(Heads({"a": weights[None].repeat(3, 0)}, WORDS, WORDS, mask=CAUSAL), id="heads with a mask")


EVERY = list(every_picture())


def test_every_kind_is_here():
    assert set(SIZES) == set(PICTURES)


# --- what an SVG says


def elements(root, transform=None, style=None):
    """Every element with its way to the picture (3, 3) and the attributes that it has or inherits."""
    transform = np.eye(3) if transform is None else transform
    for name, inside in re.findall(r"(\w+)\(([^)]*)\)", root.get("transform", "")):
        numbers = [float(number) for number in inside.split(",")]
        step = np.eye(3)
        if name == "translate":
            step[:2, 2] = numbers
        elif name == "scale":
            step[0, 0], step[1, 1] = numbers[0], numbers[-1]
        else:
            turn = math.radians(numbers[0])
            step[:2, :2] = [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]
        transform = transform @ step
    style = {**(style or {"font-weight": "400", "text-anchor": "start"}), **root.attrib}
    yield root, transform, style
    for child in root:
        own = {"font-family", "font-size", "fill", "font-weight", "text-anchor"}
        yield from elements(child, transform, {name: value for name, value in style.items() if name in own})


def place(element, transform):
    """Left, top, width and height."""
    x, y, width, height = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
    left, top, _ = transform @ (x, y, 1)
    return left, top, width * transform[0, 0], height * transform[1, 1]


def texts_of(svg):
    texts = []
    for element, transform, style in elements(ElementTree.fromstring(svg)):
        if element.tag == f"{SVG}text":
            children = list(element)
            shown = (children[-1].tail if children else element.text) or ""
            x, y, _ = transform @ (float(element.get("x", 0)), float(element.get("y", 0)), 1)
            look = float(style["font-size"]), style["fill"], style["font-weight"] == "600", style["text-anchor"]
            turn = round(math.degrees(math.atan2(-transform[1, 0], transform[0, 0])))
            mono = style["font-family"].startswith("ui-mono")
            texts.append((shown, x, y, *look, turn, mono, "dy" in element.attrib))
    return texts


@pytest.mark.parametrize("picture", EVERY)
def test_the_svg_says_every_text_of_the_drawing_in_its_place(picture):
    drawing = picture.drawing()
    said = texts_of(picture.svg())
    wanted = marks(drawing, Text)
    assert len(said) == len(wanted) > 0
    for (shown, x, y, size, *look), text in zip(said, wanted, strict=True):
        assert shown == text.text
        assert (x, y) == pytest.approx((text.x, text.y), abs=0.06)
        assert size == pytest.approx(text.size, abs=0.06)
        assert look == [text.colour, text.bold, text.anchor, round(text.turn), text.mono, text.centred]
    root = ElementTree.fromstring(picture.svg())
    assert [float(root.get(side)) for side in ("width", "height")] == pytest.approx(
        (drawing.width, drawing.height), abs=0.51
    )


# --- what matplotlib says


@cache
def plotted(picture):
    """The axes of a picture, drawn, 96 dots per inch: a dot is a pixel of the drawing."""
    figure, drawing = Figure(), picture.drawing()
    if isinstance(picture, Map | Difference):
        draw_axes(drawing, new_axes(drawing, figure))
    else:
        draw_figure(drawing, figure)
    figure.draw_without_rendering()
    return figure.axes[0], drawing


def on_paper(artist, points, transform=None):
    """Points of an artist in pixels from the top left."""
    points = (transform or artist.get_transform()).transform(points)
    return np.array([0, artist.figure.bbox.height]) + points * np.array([1, -1])


def labels_of_map(ax, drawing):
    """Tick labels and the texts of the drawing that they are."""
    for kind, labels in (("rows", ax.get_yticklabels()), ("columns", ax.get_xticklabels())):
        yield from zip(labels, marks(drawing.groups(kind)[0], Text), strict=True)


def same_text(said, text):
    """matplotlib writes □ for a character that no font has."""
    return len(said) == len(text) and all(a in (b, "□") for a, b in zip(said, text, strict=True))


@pytest.mark.parametrize("picture", EVERY)
@pytest.mark.filterwarnings("ignore:no font installed here")
def test_matplotlib_says_every_text_of_the_drawing_in_its_place(picture):
    ax, drawing = plotted(picture)
    labels = list(labels_of_map(ax, drawing)) if isinstance(picture, Map | Difference) else []
    names = {"title": ax.get_title(loc="left"), "row-label": ax.get_ylabel(), "column-label": ax.get_xlabel()}
    ticks = {id(text) for _, text in labels}
    texts = [text for text in marks(drawing, Text) if id(text) not in ticks]
    for kind, said in names.items():
        assert same_text(said, "\n".join(text.text for text in texts if text.kind == kind))
    others = list(zip(ax.texts, [text for text in texts if text.kind not in names], strict=True))
    for said, text in [*labels, *others]:
        assert same_text(said.get_text(), text.text)
        np.testing.assert_allclose(on_paper(said, said.get_position()), (text.x, text.y), atol=0.01)
        assert said.get_fontsize() == pytest.approx(text.size * POINTS)
        assert said.get_rotation() == pytest.approx(text.turn)
        assert said.get_ha() == {"start": "left", "middle": "center", "end": "right"}[text.anchor]
    for said, text in others:
        assert (to_hex(said.get_color()), said.get_weight() == "bold") == (text.colour, text.bold)


# --- colours and places of both


@pytest.mark.parametrize("picture", EVERY)
@pytest.mark.filterwarnings("ignore:no font installed here")
def test_cells_have_the_same_colours_in_the_same_places(picture, open_image):
    ax, drawing = plotted(picture)
    tables = [mark for mark in flat(drawing.marks) if isinstance(mark, Cells | Image)]
    root = ElementTree.fromstring(picture.svg())
    shared = {element.get("id"): element for element in root.iter(f"{SVG}image") if element.get("id")}
    images = [(e, t) for e, t, _ in elements(root) if e.tag in (f"{SVG}image", f"{SVG}use")]
    shown = iter([(e, t) for e, t in images if e.get("class") != "layer" and not e.get("id")])
    assert len(ax.get_images()) == len(tables)
    for mark, drawn in zip(tables, ax.get_images(), strict=True):
        left, right, bottom, top = drawn.get_extent()
        corners = on_paper(drawn, [(left, top), (right, bottom)])
        wanted = (mark.x, mark.y, mark.width, mark.height)
        np.testing.assert_allclose((*corners[0], *(corners[1] - corners[0])), wanted, atol=0.01)
        if isinstance(mark, Cells):
            colours = drawn.to_rgba(drawn.get_array(), bytes=True)[..., :3].astype(int)
        if isinstance(mark, Cells) and callable(mark.tip):
            check_told_cells(root, mark, colours)
            continue
        element, transform = next(shown)
        source = shared[element.get("href")[1:]] if element.tag == f"{SVG}use" else element
        x, y, _, _ = place(element, transform)
        size = [float(source.get(side)) for side in ("width", "height")]
        np.testing.assert_allclose((x, y, *size), wanted, atol=0.06)
        pixels = open_image(source.get("href"))
        if isinstance(mark, Image):
            np.testing.assert_array_equal(pixels, mark.pixels)
        else:
            assert abs(pixels - colours).max() <= 8  # a file has 64 levels
    assert next(shown, None) is None


def check_told_cells(root, mark, colours):
    """Every cell that is seen is a rectangle with its colour; the others have that of 0 or of hidden ones."""
    rows, columns = mark.weights.shape
    side = mark.width / columns
    seen = np.zeros((rows, columns), bool)
    for element, transform, style in elements(root.find(f"{SVG}g[@class='cells']")):
        if element.tag != f"{SVG}rect" or not len(element):
            continue
        x, y, width, height = place(element, transform)
        np.testing.assert_allclose((width, height), side, atol=0.01)
        row, column = round((y - mark.y) / side), round((x - mark.x) / side)
        np.testing.assert_allclose((x, y), (mark.x + column * side, mark.y + row * side), atol=0.06)
        seen[row, column] = True
        fill = [int(style["fill"][at : at + 2], 16) for at in (1, 3, 5)]
        assert abs(colours[row, column] - fill).max() <= 3  # matplotlib has 256 levels
        assert element.find(f"{SVG}title").text == mark.tip(row, column)
    np.testing.assert_array_equal(seen, mark.seen(FAINTEST))


@pytest.mark.parametrize("picture", EVERY)
@pytest.mark.filterwarnings("ignore:no font installed here")
def test_boxes_and_lines_are_the_same(picture):
    ax, drawing = plotted(picture)
    boxes, strokes, many = (marks(drawing, kind) for kind in (Box, Stroke, Boxes))
    drawn = [patch for patch in ax.artists + ax.patches if isinstance(patch, matplotlib.patches.Rectangle)]
    for patch, box in zip(drawn, boxes, strict=True):
        ends = (box.x, box.y), (box.x + box.width, box.y + box.height)
        said = patch.get_xy(), (patch.get_x() + patch.get_width(), patch.get_y() + patch.get_height())
        np.testing.assert_allclose(on_paper(patch, said, patch.get_data_transform()), ends, atol=0.01)
        assert to_hex(patch.get_facecolor(), keep_alpha=True)[:7] == (box.fill or "#000000")
    assert len(ax.get_lines()) == len(strokes)
    for line, stroke in zip(ax.get_lines(), strokes, strict=True):
        np.testing.assert_allclose(on_paper(line, line.get_xydata()), stroke.points, atol=0.01)
        assert line.get_color() == stroke.colour
    filled = [mark for mark in flat(drawing.marks) if isinstance(mark, Box) or getattr(mark, "tips", ())]
    wanted = [box for mark in filled for box in boxes_of(mark)]
    said = rectangles(picture.svg())
    assert [fill for _, fill in said] == [fill for _, fill in wanted]
    np.testing.assert_allclose([at for at, _ in said], [at for at, _ in wanted], atol=0.06)
    assert len(many) == sum(isinstance(a, matplotlib.collections.PolyCollection) for a in ax.collections)


def boxes_of(mark):
    if isinstance(mark, Box):
        return [((mark.x, mark.y, mark.width, mark.height), mark.fill or "none")]
    return [(tuple(at), fill) for at, fill in zip(mark.places.tolist(), mark.fill, strict=True)]


def rectangles(svg):
    """All but the background and the cells of a map."""
    root = ElementTree.fromstring(svg)
    cells = root.find(f"{SVG}g[@class='cells']")
    left_out = {root.find(f"{SVG}rect"), *(cells.iter() if cells is not None else ())}
    every = [(e, t, s) for e, t, s in elements(root) if e.tag == f"{SVG}rect" and e not in left_out]
    return [(place(element, transform), style["fill"]) for element, transform, style in every]


@pytest.mark.parametrize("kind", PICTURES)
def test_files_are_no_larger_than_they_were(kind, tmp_path):
    """PNGs differ with the fonts that are installed."""
    picture = PICTURES[kind](WORDS, "A title of words")
    svg, png = SIZES[kind]
    picture.save(tmp_path / "a.svg")
    picture.save(tmp_path / "a.png")
    assert 0.5 * svg < (tmp_path / "a.svg").stat().st_size <= 1.02 * svg
    assert (tmp_path / "a.png").stat().st_size <= 1.15 * png


# --- the renderers alone


def test_what_texts_of_a_group_share_is_said_once():
    texts = [Text(at, 0, "a", 9, "#123456", bold=True, anchor="end") for at in range(4)]
    svg = render_svg(Drawing("d", 9, 9, [Group([*texts, Text(5, 0, "b")], "k", "<tip>", {"row": "<1>"})]))
    group = ElementTree.fromstring(svg).find(f"{SVG}g")
    shared = {"font-size": "9", "fill": "#123456", "font-weight": "600", "text-anchor": "end"}
    assert group.attrib == {"class": "k", "data-row": "<1>", **shared}
    assert group.find(f"{SVG}title").text == "<tip>"
    assert next(group.iter(f"{SVG}text")).attrib == {"x": "0", "y": "0"}
    looks = [text[3:7] for text in texts_of(svg)]
    assert looks == [(9, "#123456", True, "end")] * 4 + [(13, "#111827", False, "start")]


def test_an_image_that_occurs_twice_is_in_the_file_once(open_image):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    twice = [Image(0, 0, 8, 8, pixels), Image(9, 0, 8, 8, pixels)]
    root = ElementTree.fromstring(render_svg(Drawing("d", 20, 9, [*twice, Image(0, 9, 4, 4, pixels)])))
    (definition,) = root.find(f"{SVG}defs")
    np.testing.assert_array_equal(open_image(definition.get("href")), pixels)
    uses = [(use.get("href"), use.get("x"), use.get("y")) for use in root.iter(f"{SVG}use")]
    assert uses == [(f"#{definition.get('id')}", "0", "0"), (f"#{definition.get('id')}", "9", "0")]
    assert len(list(root.iter(f"{SVG}image"))) == 2  # that of another size for itself


def test_later_marks_are_painted_over_earlier_ones():
    figure = draw_figure(
        Drawing("d", 10, 10, [
            Box(0, 0, 10, 10, "#ff0000"), Cells(0, 0, 8, 8, np.zeros((1, 1)), ("#00ff00", "#00ff00")),
            Stroke(np.array([(0.0, 2.0), (10.0, 2.0)]), "#0000ff", 2), Box(0, 0, 4, 4, "#000000"),
        ]), Figure(),
    )  # fmt: skip
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    dots = np.asarray(canvas.buffer_rgba())[..., :3]
    colours = [dots[y, x].tolist() for x, y in ((1, 2), (6, 2), (6, 6), (9, 9))]
    assert colours == [[0, 0, 0], [0, 0, 255], [0, 255, 0], [255, 0, 0]]


@pytest.mark.parametrize("size", [(3, 3), (8, 3), (3, 8)])
def test_in_axes_of_any_size_what_stands_beside_a_map_keeps_its_distance(size):
    figure = Figure(figsize=size, dpi=96)
    ax = figure.add_subplot()
    picture = Map(np.eye(6), WORDS, WORDS, mask=np.eye(6, dtype=bool), title="T")
    drawing = draw_map(picture)
    draw_axes(drawing, ax)
    FigureCanvasAgg(figure).draw()
    cells, scale = marks(drawing, Cells)
    own, other = ax.get_images()
    box = ax.get_window_extent()
    assert own.get_window_extent().bounds == pytest.approx(box.bounds, abs=0.5)  # the cells fill the axes
    assert other.get_window_extent().x0 - box.x1 == pytest.approx(scale.x - cells.x - cells.width)
    assert other.get_window_extent().height == pytest.approx(scale.height)
    assert other.get_window_extent().y1 == pytest.approx(box.y1)
