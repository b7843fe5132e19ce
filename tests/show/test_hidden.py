"""What may not be looked at differs from a weight of 0, in every kind of picture."""

import re

import matplotlib
import numpy as np
import pytest
from PIL import Image

from regard.show import Heads, Map
from regard.show.colours import HATCH, HIDDEN, LIGHT
from regard.show.terminal import HIDDEN_COLOURS

matplotlib.use("Agg")
WEIGHTS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
CAUSAL = np.tril(np.ones((3, 3), bool))
GREY, ZERO = ([int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (HIDDEN, LIGHT[0]))


def count(path, colour):
    with Image.open(path) as image:
        return (np.asarray(image.convert("RGB")).astype(int) == colour).all(-1).sum()


def test_a_map_hatches_it(tmp_path):
    plain, causal = (Map(WEIGHTS, "abc", "xyz", mask=mask) for mask in (None, CAUSAL))
    assert HIDDEN not in plain.svg()
    assert "may not be looked at" not in plain.svg()
    svg = causal.svg()
    assert re.findall(r'<path d="(M[^"]*)" fill="' + HIDDEN, svg) == ["M1 0h2v1h-2zM2 1h1v1h-1z"]
    assert re.findall(r'd="(M[^"]*)" stroke="' + HATCH, svg) == [
        "M1 1l1-1m0 1l1-1m0 1M2 2l1-1m0 1", "M0 1l1-1m0 1",  # a line across each, and across the legend's sign
    ]  # fmt: skip
    assert "may not be looked at" in svg
    for picture, name in ((plain, "plain"), (causal, "causal")):
        picture.save(tmp_path / f"{name}.png")
    assert count(tmp_path / "plain.png", GREY) == 0
    # Three cells of 56 x 56 dots, less the lines across and between them.
    assert 0.7 * 3 * 56**2 < count(tmp_path / "causal.png", GREY) < 3.2 * 56**2


def test_a_mask_that_hides_nothing_changes_nothing():
    assert Map(WEIGHTS, "abc", "xyz", mask=np.ones((3, 3), bool)).svg() == Map(WEIGHTS, "abc", "xyz").svg()


def test_the_terminal_shows_it():
    causal = Map(WEIGHTS, "abc", "xyz", mask=CAUSAL)
    assert causal.terminal(colour=False, width=40).splitlines() == [
        "  x y z ",
        "a ██╱╱╱╱",
        "b   ██╱╱",
        "c ▓▓  ▓▓",
        "╱ may not be looked at",
        "weight: 0 ░▒▓█ 1",
    ]
    assert causal.terminal(width=40).splitlines()[1].endswith(f"  {HIDDEN_COLOURS}╱╱╱╱\x1b[0m")


def test_heads_show_it(tmp_path, open_image):
    heads = Heads({"a": WEIGHTS[None], "b": WEIGHTS[None]}, "abc", "xyz", mask={"a": CAUSAL})
    svg = heads.svg()
    first, second, _ = (open_image(url) for url in re.findall(r'href="(data:[^"]*)"', svg))
    assert first[0].tolist()[1:] == [GREY, GREY]
    assert second[0].tolist()[1:] == [ZERO, ZERO]
    assert "may not be looked at" in svg
    assert heads.data()["mask"] == {"a": CAUSAL.tolist()}
    text = heads.terminal(colour=False, width=40)
    assert text.count("╱") == 3 * 2 + 1
    heads.save(tmp_path / "h.png")
    assert count(tmp_path / "h.png", GREY) > 1000
    assert heads.map("a").mask.tolist() == CAUSAL.tolist()


def test_the_sign_of_the_legend_is_that_of_the_panels():
    """Small panels were once plain grey, and the legend hatched."""
    mask = np.tril(np.ones((60, 60), bool))
    weights = mask / mask.sum(-1, keepdims=True)
    many = Heads({str(at): weights[None].repeat(12, 0) for at in range(12)}, ["w"] * 60, ["w"] * 60, mask=mask)
    lines = re.findall(r'd="(M[^"]*)" stroke="' + HATCH, many.svg())
    # Those of the means of 12 sites, a line across each of 60 * 59 / 2 cells, and that of the legend.
    assert [line.count("l1-1") for line in lines] == [60 * 59 // 2] * 12 + [1]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (CAUSAL.astype(int), r"mask must be boolean, True = may look, .* got int64 \(3, 3\)"),
        (CAUSAL[:2], r"mask must be boolean.* got bool \(2, 3\)"),
        (~CAUSAL, "row 0 gives 1 to column 0, which the mask hides: True means"),
    ],
)
def test_a_wrong_mask_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        Map(WEIGHTS, "abc", "xyz", mask=mask)
    with pytest.raises(ValueError, match="a: " + message):
        Heads({"a": WEIGHTS[None]}, "abc", "xyz", mask=mask)
