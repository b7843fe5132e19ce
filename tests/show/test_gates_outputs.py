"""Gates as SVG, PNG, HTML and text."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import marks
from PIL import Image
from rich.cells import cell_len

from regard.show import Gates
from regard.show.drawing import Box, Boxes, Stroke

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00\ud800$"


def gates(count=1, **options):
    rng = np.random.default_rng(0)
    return Gates(
        {"stages.0.0.excite": rng.random((count, 4)), "stages.1.0.excite": rng.random((count, 6))}, **options
    )


def image(high=6, wide=8):
    return np.random.default_rng(1).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def test_the_svg_of_one_row_has_a_bar_for_each_channel_and_the_image(open_image):
    made = Gates({"a.0": [0.25, 1.0], "a.1": [0.5]}, image=image(), title="T & t", caption="cat 90 %")
    root = ElementTree.fromstring(made.svg())
    paths = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("d").endswith("z")]
    assert [path.count("z") for path in paths] == [2, 1]
    panel = marks(made.drawing(), Box)[0]
    tops = [float(y) for y in re.findall(r"V([\d.]+)h", paths[0])]
    assert tops == pytest.approx([panel.y + 0.75 * panel.height, panel.y], abs=0.1)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {
        "T & t",
        "cat 90 %",
        "a.0",
        "2 channels: mean 0.62 ± 0.38",
        "most open: 1 (1.00)",
        "least open: 0 (0.25)",
    } <= set(texts)
    (drawn,) = root.iter(f"{SVG}image")
    np.testing.assert_array_equal(open_image(drawn.get("href")), image())


def test_the_svg_of_several_rows_has_a_line_for_each():
    made = gates(3, rows=["cat", "dog", "owl"])
    root = ElementTree.fromstring(made.svg())
    lines = [path for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "1.5"]
    assert len(lines) == 3 + 2 * 3  # of the legend and of each panel
    assert {"cat", "dog", "owl"} <= {text.text for text in root.iter(f"{SVG}text")}


@pytest.mark.parametrize("rows", [1, 3])
def test_the_png_is_as_large_as_the_drawing(tmp_path, rows):
    made = gates(rows, image=image(), title="T", caption="c")
    made.save(tmp_path / "gates.png")
    drawing = made.drawing()
    with Image.open(tmp_path / "gates.png") as drawn:
        assert drawn.size == pytest.approx((2 * drawing.width, 2 * drawing.height), abs=2)
        pixels = np.asarray(drawn.convert("RGB")).astype(int)
    panel = drawing.groups("panel")[0]
    if rows == 1:  # a bar below its top, or a line
        left, y, width, _ = marks(panel, Boxes)[0].places[0]
        x = left + width / 2
    else:
        x, y = marks(panel, Stroke)[3].points[0]
    there = pixels[int(2 * y) - 2 : int(2 * y) + 8, int(2 * x) - 2 : int(2 * x) + 3]
    assert (there.max(-1) - there.min(-1)).max() > 60  # coloured, and not grey


def test_hostile_names_stay_text(tmp_path):
    for count in (1, 2):
        made = Gates({HOSTILE: np.full((count, 3), 0.5)}, rows=[HOSTILE] * count, title=HOSTILE, caption=HOSTILE)
        plain = Gates({"a": np.full((count, 3), 0.5)}, rows=["b"] * count, title="t", caption="c")
        kinds = [{part.tag for part in ElementTree.fromstring(picture.svg()).iter()} for picture in (made, plain)]
        assert kinds[0] == kinds[1]
        assert "\x1b[31m\x00" not in made.terminal()
        for suffix in (".png", ".svg", ".html"):
            made.save(tmp_path / f"gates{suffix}")


def test_the_terminal():
    made = Gates({"a.0": [0.0, 0.5, 1.0]}, title="T", caption="cat 90 %")
    assert made.terminal(colour=False, width=60).splitlines() == [
        "T", "cat 90 %", "", "a.0, 3 channels: mean 0.50 ± 0.41", "most open: 2 (1.00)", "least open: 0 (0.00)",
        "▁▄█", "", "▁▂▃▄▅▆▇█: 0 to 1",
    ]  # fmt: skip
    several = Gates({"a.0": [[0.0, 1.0], [1.0, 0.0]]}, rows=["cat", "owl"]).terminal(colour=False, width=60)
    assert "cat ▁█\nowl █▁\n" in several


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 33, 80])
@pytest.mark.parametrize("rows", [1, 3])
def test_no_line_is_wider_than_asked(colour, width, rows):
    made = Gates({"猫" * 30: np.full((rows, 500), 0.5)}, rows=["long " * 9] * rows, title="long " * 40)
    text = made.terminal(colour=colour, width=width)
    assert max(cell_len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()) <= width
    assert ("\x1b[38;2;" in text) == colour


def test_plot_gives_a_figure():
    from matplotlib import pyplot

    figure = gates(2).plot()
    assert figure.number in pyplot.get_fignums()
    pyplot.close(figure)
