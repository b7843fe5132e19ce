"""An overlay as SVG."""

import re
from xml.etree import ElementTree

import numpy as np

from regard.show import Overlay
from regard.show.colours import VEIL
from regard.show.images import STRENGTH

SVG = "{http://www.w3.org/2000/svg}"
CORNER = np.array([[3.0, 1.0], [0.0, 0.0]])


def noise(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def overlay(count=1, high=32, wide=32, **names):
    maps = np.random.default_rng(1).random((count, 4, 6))
    return Overlay(noise(high, wide), {f"head {at}": table for at, table in enumerate(maps)}, **names)


def drawn(root, open_image):
    """For each panel its texts and its layers."""
    groups = [group for group in root.iter(f"{SVG}g") if group.get("class") == "panel"]
    texts = [[[*text.itertext()][-1] for text in group.iter(f"{SVG}text")] for group in groups]
    return texts, [
        [open_image(image.get("href"), alpha=True) for image in group.iter(f"{SVG}image")] for group in groups
    ]


def test_the_svg_has_the_image_alone_and_a_layer_for_each_map(open_image):
    made = Overlay(noise(10, 20), {"rollout": CORNER, "even": np.ones((3, 5)), "none": np.zeros((2, 2))}, "T & t")
    root = ElementTree.fromstring(made.svg())
    texts, layers = drawn(root, open_image)
    rolled = ["all layers together", "rollout", "at most 75.0 %"]
    assert texts == [["image", "20 × 10"], rolled, ["even", "6.7 % each"], ["none", "no weight"]]
    (image,) = root.find(f"{SVG}defs")
    np.testing.assert_array_equal(open_image(image.get("href")), made.image)  # smaller than the panel: as it came
    assert [use.get("href") for use in root.iter(f"{SVG}use")] == ["#" + image.get("id")] * 4
    # The veil covers the panel, open at the map's corner, closed in the lower half's depth.
    (corner,), (even,), (none,) = layers[1:]
    assert corner.shape[:2] == (140, 280)
    closed, veil = round(255 * STRENGTH), bytes.fromhex(VEIL[1:])
    assert [corner[-1, 0].tolist(), corner[0, 0].tolist()] == [[*veil, closed], [*veil, 0]]
    assert (even[..., 3] == 0).all()
    assert (none[..., 3] == closed).all()
    assert "T & t" in [text.text for text in root.iter(f"{SVG}text")]


def test_two_pictures_on_one_page_do_not_share_a_name():
    first, second = overlay(2, high=16).svg(), overlay(2, high=17).svg()
    names = [re.findall(r'id="([^"]+)"', svg) for svg in (first, second)]
    assert [len(ids) for ids in names] == [1, 1]
    assert names[0] != names[1]
    assert overlay(2, high=16).svg() == first  # and the same picture is the same file


def test_long_names_are_cut_and_told_whole():
    name = "a very long name of a place in the model " * 2
    root = ElementTree.fromstring(Overlay(noise(300, 8), {name: CORNER}).svg())
    (title,) = root.iter(f"{SVG}title")
    assert title.text == name
    assert title.tail.endswith("…")
