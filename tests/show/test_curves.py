"""Curves and the loss of a log."""

from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from regard.show import Curves, loss_curve

LOG = [
    {"step": 1, "loss": 4.0, "rate": 0.1},
    {"step": 2, "loss": 3.0},
    {"step": 2, "valid_loss": 3.5},
    {"step": 3, "loss": None},
    {"step": 4, "loss": 2.0, "valid_loss": 2.5},
    {"seconds": 3.0},
]


def test_the_loss_curve_reads_the_log():
    curves = loss_curve(LOG)
    assert list(curves.series) == ["training", "validation"]
    steps, losses = curves.series["training"]
    assert steps.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(losses, [4, 3, np.nan, 2])
    assert [part.tolist() for part in curves.series["validation"]] == [[2, 4], [3.5, 2.5]]
    assert list(loss_curve(LOG[:2]).series) == ["training"]


def test_a_log_without_loss_is_refused():
    with pytest.raises(ValueError, match=r"no row of the log \(1 rows\)"):
        loss_curve([{"step": 1}])


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ({}, "at least one"),
        ({"a": ([1, 2], [1])}, r"series 'a': .* got \(2,\) and \(1,\)"),
        ({"a": ([1, np.nan], [1, 2])}, "x must be finite, got nan"),
    ],
)
def test_wrong_series_are_refused(series, message):
    with pytest.raises(ValueError, match=message):
        Curves(series)


def test_lines_differ_without_colour():
    series = {f"line {at}": ([0, 1], [at, at]) for at in range(7)}
    ax = Curves(series, "title", "x", "y").plot(Figure().add_subplot())
    looks = {(line.get_linestyle(), line.get_marker()) for line in ax.lines}
    assert len(looks) == len({line.get_color() for line in ax.lines}) == 7
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(series)
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("title", "x", "y")


def test_many_points_carry_no_marks():
    ax = Curves({"a": (range(500), range(500))}).plot(Figure().add_subplot())
    assert ax.lines[0].get_marker() == "None"


def test_saved_pictures_open(tmp_path):
    curves = Curves({"_a": ([1, 2], [3, 4]), "": ([1, 2], [2, None]), "$c <b>": ([1, 3], [2, 2])}, "$t")
    curves.save(tmp_path / "c.png")
    with Image.open(tmp_path / "c.png") as image:
        assert np.asarray(image.convert("L")).std() > 5
    curves.save(tmp_path / "c.svg")
    words = " ".join(ElementTree.parse(tmp_path / "c.svg").getroot().itertext())
    assert "$c <b>" in words
    assert "_a" in words
    first = (tmp_path / "c.svg").read_bytes()
    curves.save(tmp_path / "c.svg")
    assert (tmp_path / "c.svg").read_bytes() == first
    with pytest.raises(ValueError, match=r"end the name in \.png or \.svg"):
        curves.save(tmp_path / "c.html")
