"""An overlay as one HTML file, and that no name breaks out of its text in any output."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.show import Overlay
from regard.show.overlay.layout import lay_out

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00\ud800$"
CORNER = np.array([[3.0, 1.0], [0.0, 0.0]])


def noise(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def overlay(count=1, high=32, wide=32, **names):
    maps = np.random.default_rng(1).random((count, 4, 6))
    return Overlay(noise(high, wide), {f"head {at}": table for at, table in enumerate(maps)}, **names)


def test_hostile_names_stay_text(tmp_path, read_page):
    made = Overlay(noise(8, 8), {HOSTILE: CORNER}, HOSTILE, HOSTILE + "\n" + HOSTILE)
    plain = overlay(title="t", caption="c\nd")
    root = ElementTree.fromstring(made.svg())
    kinds = {part.tag.removeprefix(SVG) for part in root.iter()}
    assert kinds == {part.tag.removeprefix(SVG) for part in ElementTree.fromstring(plain.svg()).iter()} | {"title"}
    page, usual = read_page(made.html()), read_page(plain.html())
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


def test_the_page_holds_the_shares_and_loads_nothing(read_page):
    made = Overlay(noise(8, 8), {"a": CORNER, "none": np.zeros((1, 2))}, "T")
    page = read_page(made.html())
    assert json.loads(page.scripts[0]) == [
        None,
        {"rows": 2, "columns": 2, "shares": [75000, 25000, 0, 0]},
        {"rows": 1, "columns": 2, "shares": [0, 0]},
    ]
    rest = made.html().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\burl\(|@import|\bfetch\b|<link", rest)
    assert ("title", {}) in page.tags


def test_pointing_at_a_patch_tells_its_share_in_every_panel(run_page):
    made = Overlay(noise(30, 20), {"a": CORNER, "b": [[1, 0, 999]]})
    script = """
      const image = document.querySelector(".panel image"), box = image.getBoundingClientRect();
      const clientX = box.left + .9 * box.width, clientY = box.top + .1 * box.height;
      image.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX, clientY}));
      const slider = document.querySelector("input");
      slider.title = slider.value;
      slider.value = 80;
      slider.dispatchEvent(new Event("input"));
    """
    page = run_page(made.html(), script)
    assert re.findall(r'class="note"[^>]*>([^<]*)<', page) == ["20 × 30", "25.0 %", "99.9 %"]
    patches = re.findall(r'<rect class="patch" visibility="(\w+)"(?: x="([\d.]+)" y="([\d.]+)")?', page)
    assert patches[0] == ("hidden", "", "")
    assert [shown for shown, _, _ in patches[1:]] == ["visible", "visible"]
    across = lay_out(made).size[0]
    assert [float(x) for _, x, _ in patches[1:]] == pytest.approx([across / 2, across * 2 / 3])
    assert re.findall(r'<input[^>]* title="(\d+)"', page) == [
        "50"
    ]  # the slider begins at the picture's own strength
    assert re.findall(r'class="layer"[^>]* opacity="([\d.]+)"', page) == ["0.8", "0.8"]
