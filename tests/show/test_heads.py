"""The grid of heads: what it holds, and what its pictures show."""

import base64
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image

from regard.show import Heads
from regard.show.colour import LIGHT
from regard.show.grid import image_of, lay_out_grid
from regard.show.text import cells

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "\"'&amp;<b>",
    "]]><!--",
    "\x1b[31m\x00",
    "\ud800",
    "${x}`",
    "$",
]
SOURCE, TARGET = ["the", "black", "cat", "."], ["die", "Katze", "."]


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def translator(**names):
    panels = {"encoder.0.attend": weights(2, 4, 4), "decoder.1.cross": weights(3, 3, 4, seed=1)}
    rows = {"encoder.0.attend": SOURCE, "decoder.1.cross": TARGET}
    return Heads(panels, rows, SOURCE, **names)


def square(layers, heads, count, **names):
    tokens = [f"t{at}" for at in range(count)]
    panels = {f"blocks.{layer}.attend": weights(heads, count, count, layer) for layer in range(layers)}
    return Heads(panels, tokens, tokens, **names)


def open_image(address):
    start, _, body = address.partition(",")
    assert start == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(body))) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def words_of(root):
    return [text.text for text in root.iter(f"{SVG}text")]


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag):
        self.inside = None

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize(
    ("panels", "rows", "message"),
    [
        ({}, "ab", "at least one site"),
        ({"x.0": np.eye(2)}, "ab", r"x\.0: weights must have shape \(heads, rows, columns\), got \(2, 2\)"),
        ({"x.0": np.ones((0, 2, 2))}, "ab", r"got \(0, 2, 2\)"),
        ({"x.0": np.ones((1, 3, 2)) / 2}, "ab", r"x\.0: weights must have shape .* = \(2, 2\), got \(3, 2\)"),
        ({"x.0": np.full((1, 2, 2), np.nan)}, "ab", r"x\.0: weights must be finite"),
        ({"x.0": np.full((1, 2, 2), 3.0)}, "ab", r"x\.0: weights must lie in \[0, 1\]"),
        ({"x.0": np.ones((1, 2, 2))}, {"x.1": "ab"}, r"rows has no tokens for 'x\.0'; it has them for 'x\.1'"),
    ],
)
def test_wrong_heads_are_refused_with_the_site(panels, rows, message):
    with pytest.raises(ValueError, match=message):
        Heads(panels, rows, "ab")


def test_the_heads_are_their_own_copy():
    given = weights(2, 2, 2)
    heads = Heads({"a": given}, "ab", "cd")
    before = given.copy()
    given[:] = 9
    np.testing.assert_allclose(heads.map("a", 1).weights, before[1], rtol=1e-6)


def test_a_head_and_the_mean_of_heads_are_maps():
    heads = translator()
    one = heads.map("decoder.1.cross", 2)
    np.testing.assert_allclose(one.weights, weights(3, 3, 4, seed=1)[2], rtol=1e-6)
    assert (one.rows, one.columns, one.title) == (tuple(TARGET), tuple(SOURCE), "decoder.1.cross, head 2")
    mean = heads.map("decoder.1.cross")
    np.testing.assert_allclose(mean.weights, weights(3, 3, 4, seed=1).mean(0), rtol=1e-6)
    assert mean.title == "decoder.1.cross, mean of 3 heads"
    with pytest.raises(ValueError, match=r"no site 'cross'; there are 'encoder\.0\.attend', 'decoder\.1\.cross'"):
        heads.map("cross")
    with pytest.raises(ValueError, match=r"encoder\.0\.attend has heads 0 to 1, got 2"):
        heads.map("encoder.0.attend", 2)


def test_a_panels_image_has_a_dot_for_each_weight_in_its_colour():
    image = open_image(image_of(np.array([[0, 1.0, 0], [0.5, 0, 0]])))
    ends = [[int(LIGHT[end][at : at + 2], 16) for at in (1, 3, 5)] for end in (0, -1)]
    assert image.shape == (2, 3, 3)
    assert image[0].tolist() == [ends[0], ends[1], ends[0]]
    assert ends[1][1] < image[1, 0, 1] < ends[0][1]


def test_the_svg_has_a_row_a_site_and_a_column_a_head():
    heads = translator(title="T & t")
    root = ElementTree.fromstring(heads.svg())
    images = list(root.iter(f"{SVG}image"))
    assert [image.find(f"{SVG}title").text for image in images] == [
        "encoder.0.attend, head 0", "encoder.0.attend, head 1",
        "decoder.1.cross, head 0", "decoder.1.cross, head 1", "decoder.1.cross, head 2",
    ]  # fmt: skip
    np.testing.assert_array_equal(
        open_image(images[4].get("href")), open_image(image_of(heads.map("decoder.1.cross", 2).weights))
    )
    lefts, tops = ([float(image.get(name)) for image in images] for name in ("x", "y"))
    assert lefts[:2] == lefts[2:4]
    assert len(set(tops)) == 2
    for image, (rows, columns) in zip(images, [(4, 4)] * 2 + [(3, 4)] * 3, strict=True):
        assert float(image.get("width")) / columns == float(image.get("height")) / rows  # cells are squares
    words = words_of(root)
    assert {"T & t", "encoder.0.attend", "decoder.1.cross", "0.0", "0.1", "1.0", "1.1", "1.2"} <= set(words)
    # Tokens once a site; the columns of self-attention are its rows.
    assert [words.count(token) for token in ("black", "Katze")] == [2, 1]


def test_a_site_without_a_number_names_its_heads_alone():
    assert lay_out_grid(Heads({"attend": weights(2, 2, 2)}, "ab", "ab")).strips[0].names == ["0", "1"]


@pytest.mark.parametrize(
    ("layers", "heads", "tokens"), [(4, 8, 15), (12, 12, 20), (12, 12, 60), (1, 1, 1), (2, 40, 3)]
)
def test_panels_keep_apart_and_within_the_picture(layers, heads, tokens):
    grid = lay_out_grid(square(layers, heads, tokens))
    bottom = 0
    for strip in grid.strips:
        width, height = strip.size
        assert strip.top > bottom
        bottom = strip.top + height
        assert width < grid.pitch
        assert max(width, height) > 20
        assert strip.beside == (strip.cell > 9)
    assert bottom < grid.height
    assert grid.left + (heads - 1) * grid.pitch + grid.strips[0].size[0] < grid.width
    assert grid.strips[0].beside == (tokens <= 20)


def test_long_texts_are_cut_and_the_picture_says_so(tmp_path):
    tokens = [f"t{at}" for at in range(500)]
    heads = Heads({f"blocks.{at}.attend": np.eye(500)[None].repeat(12, 0) for at in range(3)}, tokens, tokens)
    assert heads.shown == 128
    assert heads.map("blocks.0.attend", 0).weights.shape == (500, 500)
    note = "only the first 128 of up to 500 tokens are drawn"
    assert note in heads.svg()
    assert note in heads.html()
    assert len(heads.html()) < 3_000_000
    assert "the first 128 of 500 rows and" in heads.terminal(width=200)
    assert any(text.get_text() == note for text in plot(heads).axes[0].texts)
    assert "only the first" not in translator().svg()


def test_more_panels_are_cut_shorter():
    tokens = "ab" * 60
    many = Heads({str(at): np.zeros((25, 120, 120)) for at in range(48)}, tokens, tokens)
    assert many.shown == 28
    assert open_image(image_of(lay_out_grid(many).strips[0].weights[0])).shape == (28, 28, 3)


def plot(heads):
    from matplotlib import pyplot

    figure = heads.plot()
    pyplot.close(figure)
    return figure


def test_the_figure_shows_each_panel():
    heads = translator(title="$5")
    (ax,) = plot(heads).axes
    images = ax.get_images()
    assert len(images) == 5 + 1  # and the colour scale
    np.testing.assert_array_equal(images[4].get_array(), heads.panels["decoder.1.cross"][2])
    words = [text.get_text() for text in ax.texts]
    assert {"$5", "encoder.0.attend", "1.2", "Katze", "black"} <= set(words)
    grid = lay_out_grid(heads)
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, grid.width), (grid.height, 0))


def test_saved_pictures_open(tmp_path):
    heads = translator()
    for suffix in ("png", "svg", "html"):
        heads.save(tmp_path / f"h.{suffix}")
    with Image.open(tmp_path / "h.png") as image:
        assert np.asarray(image.convert("L")).std() > 10
    assert (tmp_path / "h.svg").read_text(encoding="utf-8") == heads.svg()
    assert (tmp_path / "h.html").read_text(encoding="utf-8") == heads.html()
    with pytest.raises(ValueError, match=r"\.png or \.svg or \.html"):
        heads.save(tmp_path / "h.pdf")
    assert heads.svg() in heads._repr_html_()


def test_hostile_tokens_and_names_stay_text(tmp_path):
    count = len(HOSTILE)
    heads = Heads({HOSTILE[0]: weights(2, count, count), HOSTILE[1]: weights(1, count, count)}, HOSTILE, HOSTILE,
                  HOSTILE[0])  # fmt: skip
    root = ElementTree.fromstring(heads.svg())
    assert {part.tag.removeprefix(SVG) for part in root.iter()} == {"svg", "g", "rect", "text", "title", "image"}
    page = Page(heads.html())
    assert len(page.all("script")) == 2
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in Page(translator().html()).tags}
    assert len(page.all("img")) == 3
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.scripts[1] == Page(translator().html()).scripts[1]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", heads.html())
    assert "\x1b[31m\x00" not in heads.terminal()
    heads.save(tmp_path / "h.png")
    heads.save(tmp_path / "h.html")


def test_the_page_holds_the_weights_in_thousandths_and_loads_nothing():
    heads = translator(title="t")
    page = Page(heads.html())
    data = json.loads(page.scripts[0])
    assert [site["rows"] for site in data] == [SOURCE, TARGET]
    assert [len(site["heads"]) for site in data] == [2, 3]
    np.testing.assert_allclose(
        np.reshape(data[1]["heads"][2], (3, 4)) / 1000, heads.map("decoder.1.cross", 2).weights, atol=5.1e-4
    )
    buttons = page.all("button")
    assert [(button["data-site"], button["data-head"]) for button in buttons] == [
        ("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"), ("1", "2"),
    ]  # fmt: skip
    # Seen without the script: the panels are images that the page itself holds.
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    rest = heads.html().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\burl\(|@import|\bfetch\b|<link", rest)
    assert 'id="chosen" hidden' in rest


@pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium to run the page's script")
def test_a_chosen_panel_is_shown_large_and_its_rows_say_what_they_look_at(tmp_path):
    table = np.array([[[0.9, 0.1], [0.0, 1.0]], [[0.25, 0.75], [0.6, 0.4]]])
    heads = Heads({"a.0": table}, ["<i>", "b"], ["x", "y"])
    keys = 'for (const key of ["ArrowDown", "ArrowDown"]) map.dispatchEvent(new KeyboardEvent("keydown", {key}));'
    script = f"<script>buttons[1].click(); {keys}</script></body>"
    (tmp_path / "h.html").write_text(heads.html().replace("</body>", script), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'home'}"]
    done = subprocess.run(
        [*command, "--dump-dom", str(tmp_path / "h.html")], capture_output=True, text=True, timeout=120
    )
    page = done.stdout
    assert '<h2 id="name">a.0, head 1</h2>' in page
    assert "<bdi>b</bdi> looks at <bdi>x</bdi> 0.60, <bdi>y</bdi> 0.40</p>" in page
    assert re.findall(r'stroke-opacity="([\d.]+)"', page) == ["0.25", "0.75", "0.6", "0.4"]
    assert page.count("&lt;i&gt;</text>") == 2
    assert re.findall(r'aria-pressed="(\w+)"', page) == ["false", "true"]


def test_the_terminal_sets_heads_side_by_side():
    heads = Heads({"a.0": np.array([np.eye(2), 1 - np.eye(2)])}, ["le", "chat"], "xy", "T")
    assert heads.terminal(colour=False, width=40).splitlines() == [
        "T", "", "a.0", "     0    1   ", "  le ██     ██", "chat   ██ ██  ",
    ]  # fmt: skip
    assert "ch…" in heads.terminal(colour=False, width=12)  # names shrink in a narrow one
    assert "\x1b[48;2;" in heads.terminal(width=40)


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 40, 100])
@pytest.mark.parametrize("count", [1, 3, 20, 150])
def test_no_line_is_wider_than_asked(colour, width, count):
    text = square(1, 5, count, title="long " * 40).terminal(colour=colour, width=width)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(cells(line) for line in lines) <= width
    assert any(line.startswith("… ") for line in lines) == (count > min(width, 128) - 5)
    with pytest.raises(ValueError, match="at least 10 cells, got 9"):
        square(1, 1, 2).terminal(width=9)
