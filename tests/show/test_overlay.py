"""A picture under its attention: what is drawn, and that nothing given can break it."""

import base64
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image

from regard.show import Overlay
from regard.show.colour import shade
from regard.show.sheet import HEAT, STRENGTH, blend, grey, lay_out_sheet, percent, resize, smooth
from regard.show.text import cells

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00\ud800$"
CORNER = np.array([[3.0, 1.0], [0.0, 0.0]])


def picture(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def overlay(count=1, high=32, wide=32, **names):
    maps = np.random.default_rng(1).random((count, 4, 6))
    return Overlay(picture(high, wide), {f"head {at}": table for at, table in enumerate(maps)}, **names)


def open_image(address):
    start, _, body = address.partition(",")
    assert start == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(body))) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def drawn(root):
    """For each panel its texts and its images."""
    groups = [group for group in root.iter(f"{SVG}g") if group.get("class") == "panel"]
    texts = [[text.text for text in group.iter(f"{SVG}text")] for group in groups]
    return texts, [[open_image(image.get("href")) for image in group.iter(f"{SVG}image")] for group in groups]


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


@pytest.mark.parametrize(
    ("image", "panels", "message"),
    [
        (np.zeros((4, 4, 3)), {"a": CORNER}, r"bytes \(height, width, 3\), got float64 \(4, 4, 3\)"),
        (np.zeros((3, 4, 4), np.uint8), {"a": CORNER}, r"got uint8 \(3, 4, 4\)"),
        (np.zeros((4, 4), np.uint8), {"a": CORNER}, r"got uint8 \(4, 4\): .* repeat a grey channel"),
        (np.zeros((0, 4, 3), np.uint8), {"a": CORNER}, r"got uint8 \(0, 4, 3\)"),
        (picture(4, 4), {}, "no map to draw"),
        (picture(4, 4), {"a": np.ones(4)}, r"a: a map must have shape \(rows, columns\), got \(4,\)"),
        (picture(4, 4), {"a": np.ones((0, 2))}, r"got \(0, 2\)"),
        (picture(4, 4), {"a": CORNER, "b": [[1, np.nan]]}, "b: a map must be finite, got nan in row 0, column 1"),
        (picture(4, 4), {"a": -CORNER}, "a: a map must not be negative, got -3: give weights, not scores"),
    ],
    ids=["floats", "channels", "grey", "empty", "none", "line", "no-rows", "nan", "negative"],
)
def test_what_cannot_be_drawn_is_refused(image, panels, message):
    with pytest.raises(ValueError, match=message):
        Overlay(image, panels)


def test_it_is_its_own_copy():
    image, table = picture(4, 4), CORNER.copy()
    made = Overlay(image, {"a": table})
    before = made.svg()
    image[:], table[:] = 0, 0
    assert made.svg() == before


def test_levels_are_of_the_largest_and_linear_in_between():
    """Two patches over eight dots, whose middles lie at 2 and 6: between them the level rises by 1/4 a dot."""
    levels = smooth(np.array([[0.0, 0.2]]), 8, 1)
    np.testing.assert_allclose(levels, [[0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1]], atol=1e-6)
    np.testing.assert_array_equal(smooth(np.zeros((2, 2)), 3, 3), np.zeros((3, 3)))
    np.testing.assert_allclose(smooth(np.full((2, 2), 5e-324), 3, 3), np.ones((3, 3)))  # the least there is


def test_the_layer_lies_over_the_picture_in_grey():
    """Red is 0.299 bright: 76."""
    red = np.zeros((1, 2, 3), np.uint8)
    red[..., 0] = 255
    assert grey(red).tolist() == [[[76] * 3, [76] * 3]]
    mixed = blend(grey(red), np.array([[0.0, 1.0]]))
    expected = (1 - STRENGTH) * 76 + STRENGTH * shade(np.array([[0.0, 1.0]]), HEAT)
    np.testing.assert_allclose(mixed, expected, atol=0.51)


def test_the_svg_has_the_picture_alone_and_a_layer_for_each_map():
    made = Overlay(picture(10, 20), {"rollout": CORNER, "even": np.ones((3, 5)), "none": np.zeros((2, 2))}, "T & t")
    root = ElementTree.fromstring(made.svg())
    texts, images = drawn(root)
    assert texts == [["picture", "20 × 10"], ["rollout", "at most 75.0 %"], ["even", "6.7 % each"],
                     ["none", "no weight"]]  # fmt: skip
    np.testing.assert_array_equal(images[0][0], made.image)  # smaller than the panel: as it came
    (under,) = root.find(f"{SVG}defs")
    np.testing.assert_array_equal(open_image(under.get("href")), grey(made.image))
    assert [use.get("href") for use in root.iter(f"{SVG}use")] == ["#" + under.get("id")] * 3
    # The map covers the panel, brightest at its corner, darkest in the lower half's depth.
    layer = images[1][0]
    assert layer.shape[:2] == (140, 280)
    ends = shade(np.array([0, 1]), HEAT).tolist()
    assert [layer[-1, 0].tolist(), layer[0, 0].tolist()] == ends
    assert (images[2][0] == ends[1]).all()
    assert (images[3][0] == ends[0]).all()
    assert "T & t" in [text.text for text in root.iter(f"{SVG}text")]


def test_two_pictures_on_one_page_do_not_share_a_name():
    first, second = overlay(high=16).svg(), overlay(high=17).svg()
    names = [re.findall(r'id="([^"]+)"', svg) for svg in (first, second)]
    assert [len(found) for found in names] == [1, 1]
    assert names[0] != names[1]
    assert overlay(high=16).svg() == first  # and the same picture is the same file
    assert overlay(high=16)._repr_html_() == f'<div style="overflow-x:auto">{first}</div>'


@pytest.mark.parametrize(("count", "columns"), [(1, 2), (3, 4), (4, 5), (13, 7), (64, 8), (144, 12)])
def test_panels_fill_their_rows_and_do_not_touch(count, columns):
    sheet = lay_out_sheet(overlay(count, title="t", caption="c\nd"))
    across, down = sheet.size
    assert len(sheet.panels) == count + 1
    assert len({panel.x for panel in sheet.panels}) == columns
    assert len({(panel.x, panel.y) for panel in sheet.panels}) == count + 1
    assert all(panel.x + across <= sheet.width and panel.y + down < sheet.key for panel in sheet.panels)
    rows = sorted({panel.y for panel in sheet.panels})
    assert all(later - before > down + 2 * sheet.font for before, later in pairwise(rows))
    if count >= 40:  # a table of heads, below the picture
        assert [panel.y for panel in sheet.panels].count(rows[0]) == 1


@pytest.mark.parametrize(("high", "wide"), [(1, 1), (32, 32), (1, 3000), (3000, 2), (1500, 4000)])
def test_any_size_of_picture_is_drawn(high, wide, tmp_path):
    made = overlay(2, high, wide, title="size")
    sheet = lay_out_sheet(made)
    assert max(sheet.size) == 280
    assert min(sheet.size) >= 1
    assert max(sheet.picture.shape) <= 560
    for suffix in (".png", ".svg", ".html"):
        made.save(tmp_path / f"o{suffix}")
        assert (tmp_path / f"o{suffix}").stat().st_size < 2_000_000
    assert cells(re.sub(r"\x1b\[[0-9;]*m", "", made.terminal(width=40)).splitlines()[3]) <= 40


def test_the_png_shows_picture_and_layer_where_the_layout_says(tmp_path):
    made = Overlay(np.full((20, 20, 3), (200, 40, 40), np.uint8), {"a": CORNER}, "T")
    made.save(tmp_path / "o.png")
    with Image.open(tmp_path / "o.png") as image:
        dots = np.asarray(image.convert("RGB")).astype(int)
    sheet = lay_out_sheet(made)
    assert dots.shape[:2] == (int(2 * sheet.height), int(2 * sheet.width))
    alone, layer = ((int(2 * panel.x) + 9, int(2 * panel.y) + 9) for panel in sheet.panels)
    np.testing.assert_allclose(dots[alone[1], alone[0]], (200, 40, 40), atol=1)
    expected = blend(grey(made.image), np.ones((20, 20)))[0, 0].astype(int)
    np.testing.assert_allclose(dots[layer[1], layer[0]], expected, atol=2)
    assert (dots[:20] == 255).all()
    figure = made.plot()
    assert {"T", "picture", "a", "at most 75.0 %"} <= {text.get_text() for text in figure.axes[0].texts}
    matplotlib.pyplot.close(figure)


def test_hostile_names_stay_text(tmp_path):
    made = Overlay(picture(8, 8), {HOSTILE: CORNER}, HOSTILE, HOSTILE + "\n" + HOSTILE)
    plain = overlay(title="t", caption="c\nd")
    root = ElementTree.fromstring(made.svg())
    kinds = {part.tag.removeprefix(SVG) for part in root.iter()}
    assert kinds == {part.tag.removeprefix(SVG) for part in ElementTree.fromstring(plain.svg()).iter()} | {"title"}
    page, usual = Page(made.html()), Page(plain.html())
    assert len(page.scripts) == 2
    assert page.scripts[1] == usual.scripts[1]
    assert "img" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", made.html())
    assert "\x1b[31m\x00" not in made.terminal()
    for suffix in (".png", ".svg", ".html"):
        made.save(tmp_path / f"o{suffix}")
    with pytest.raises(ValueError, match=r"end the name in \.png or \.svg or \.html"):
        made.save(tmp_path / "o.gif")


def test_long_names_are_cut_and_told_whole():
    name = "a very long name of a place in the model " * 2
    root = ElementTree.fromstring(Overlay(picture(300, 8), {name: CORNER}).svg())
    (title,) = root.iter(f"{SVG}title")
    assert title.text == name
    assert title.tail.endswith("…")


def test_the_page_holds_the_shares_and_loads_nothing():
    made = Overlay(picture(8, 8), {"a": CORNER, "none": np.zeros((1, 2))}, "T")
    page = Page(made.html())
    assert json.loads(page.scripts[0]) == [
        None,
        {"rows": 2, "columns": 2, "shares": [75000, 25000, 0, 0]},
        {"rows": 1, "columns": 2, "shares": [0, 0]},
    ]
    rest = made.html().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\burl\(|@import|\bfetch\b|<link", rest)
    assert ("title", {}) in page.tags


@pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium to run the page's script")
def test_pointing_at_a_patch_tells_its_share_in_every_panel(tmp_path):
    made = Overlay(picture(30, 20), {"a": CORNER, "b": [[1, 0, 999]]})
    script = """<script>
      const box = panels[0].image.getBoundingClientRect();
      const clientX = box.left + .9 * box.width, clientY = box.top + .1 * box.height;
      panels[0].image.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX, clientY}));
      strength.value = 80;
      strength.dispatchEvent(new Event("input"));
      </script></body>"""
    (tmp_path / "o.html").write_text(made.html().replace("</body>", script), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'home'}"]
    done = subprocess.run(
        [*command, "--dump-dom", str(tmp_path / "o.html")], capture_output=True, text=True, timeout=120
    )
    page = done.stdout
    assert re.findall(r'class="note"[^>]*>([^<]*)<', page) == ["20 × 30", "25.0 %", "99.9 %"]
    patches = re.findall(r'<rect class="patch" visibility="(\w+)"(?: x="([\d.]+)" y="([\d.]+)")?', page)
    assert patches[0] == ("hidden", "", "")
    assert [shown for shown, _, _ in patches[1:]] == ["visible", "visible"]
    across = lay_out_sheet(made).size[0]
    assert [float(x) for _, x, _ in patches[1:]] == pytest.approx([across / 2, across * 2 / 3])
    assert re.findall(r'class="layer"[^>]* opacity="([\d.]+)"', page) == ["0.8", "0.8"]


def test_the_terminal_without_colour_shows_the_maps():
    made = Overlay(picture(4, 4), {"a": np.array([[0.0, 1.0], [1.0, 0.0]]), "b": np.ones((1, 1))}, "T", "c\nd")
    lines = made.terminal(colour=False, width=80).splitlines()
    assert lines[:5] == ["T", "c", "d", "", "a" + " " * 33 + "b"]
    assert len(lines) == 5 + 16
    # The level rises from 0 at the eighth dot to 1 at the 24th: 0.1, 0.3, 0.5 and 0.75 are passed on the way.
    assert lines[5] == " " * 10 + "░░░▒▒▒▓▓▓▓" + "█" * 12 + "  " + "█" * 32
    assert lines[-1] == "█" * 12 + "▓▓▓▓▒▒▒░░░" + " " * 10 + "  " + "█" * 32


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 33, 80])
@pytest.mark.parametrize(("high", "wide"), [(32, 32), (10, 90), (90, 3)])
def test_no_line_is_wider_than_asked(colour, width, high, wide):
    text = overlay(5, high, wide, title="long " * 40, caption="猫" * 90).terminal(colour=colour, width=width)
    assert max(cells(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()) <= width
    assert text.count("head") == 5
    assert ("\x1b[38;2;" in text) == colour
    with pytest.raises(ValueError, match="at least 10 cells, got 9"):
        overlay().terminal(width=9)


def test_a_half_block_is_two_dots():
    image = np.repeat(np.repeat(np.array([[[9, 8, 7]], [[1, 2, 3]]], np.uint8), 16, 0), 32, 1)
    lines = Overlay(image, {"a": CORNER}).terminal(width=40).splitlines()
    assert lines[2].startswith("\x1b[38;2;9;8;7;48;2;9;8;7m▀")
    assert "38;2;1;2;3;48;2;1;2;3m▀" in lines[17]


def test_shares_are_told_with_the_digits_they_need():
    assert [percent(share) for share in (1, 0.5, 0.0123, 0.00995, 0.0099, 0.0004)] == [
        "100.0 %", "50.0 %", "1.2 %", "1.0 %", "0.99 %", "0.04 %",
    ]  # fmt: skip


def test_resizing_keeps_even_pictures_even():
    assert (resize(np.full((5, 9, 3), 77, np.uint8), 31, 17) == 77).all()
