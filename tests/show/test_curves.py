"""Curves and the loss of a log."""

from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from regard.show import Curves, length_curves, loss_curve

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
        ({"a": ([1, 2], [1])}, r"series 'a': .* got shapes \(2,\) and \(1,\)"),
        ({"a": ([1, np.nan], [1, 2])}, "x must be finite, got nan"),
    ],
)
def test_wrong_series_are_refused(series, message):
    with pytest.raises(ValueError, match=message):
        Curves(series)


def test_lines_differ_without_colour():
    series = {f"line {at}": ([0, 1], [at, at]) for at in range(8)}
    ax = Curves(series, "title", "x", "y").plot(Figure().add_subplot())
    looks = {(line.get_linestyle(), line.get_marker()) for line in ax.lines}
    assert len(looks) == len({line.get_color() for line in ax.lines}) == 8
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
        curves.save(tmp_path / "c.gif")


@pytest.mark.parametrize(
    ("spread", "message"),
    [
        ({"b": ([1], [2])}, r"spread 'b' has no line of that name; there are 'a'"),
        ({"a": ([1], [2])}, r"spread 'a': .* the shape of their line \(2,\), got \(1,\) and \(1,\)"),
        ({"a": ([1, 5], [2, 4])}, "low must not exceed high, got 5 and 4 at point 1"),
    ],
)
def test_wrong_spread_is_refused(spread, message):
    with pytest.raises(ValueError, match=message):
        Curves({"a": ([1, 2], [1, 2])}, spread=spread)


def test_the_spread_is_shaded_in_its_lines_colour():
    series = {"a": ([0, 1], [1, 2]), "b": ([0, 1, 2], [5, 6, 7])}
    ax = Curves(series, spread={"b": ([4, np.nan, 6], [5, 7, 9])}).plot(Figure().add_subplot())
    (shade,) = ax.collections
    assert to_hex(shade.get_facecolor()[0]) == to_hex(ax.lines[1].get_color())
    assert shade.get_alpha() < 0.5
    whole = Curves(series, spread={"b": ([4, 5, 6], [5, 7, 9])}).plot(Figure().add_subplot()).collections[0]
    corners = {tuple(point) for path in whole.get_paths() for point in path.vertices}
    assert {(0, 4), (1, 5), (2, 6), (0, 5), (1, 7), (2, 9)} <= corners


def buckets(*scores):
    ranges = [(1, 10, 40), (11, 20, 30), (21, 40, 12), (41, np.inf, 3)]
    return [(*place, score) for place, score in zip(ranges, scores, strict=False)]


def test_length_curves_stand_at_the_middle_of_their_buckets():
    curves = length_curves({"seq2seq": buckets(30, 20, 10, 5), "luong": buckets(31, 30, 29, 28)})
    x, y = curves.series["seq2seq"]
    assert x.tolist() == [5.5, 15.5, 30.5, 50.5]  # the open bucket is taken as wide as the one before
    assert y.tolist() == [30, 20, 10, 5]
    assert list(curves.series) == ["seq2seq", "luong"]
    ax = curves.plot(Figure().add_subplot())
    assert ax.get_xticks().tolist() == [5.5, 15.5, 30.5, 50.5]
    words = [label.get_text() for label in ax.get_xticklabels()]
    assert words == ["1–10\n(40)", "11–20\n(30)", "21–40\n(12)", "41+\n(3)"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("words in the source (sentences)", "BLEU")


def test_other_counts_are_not_shown_and_empty_buckets_are_gaps():
    other = [(1, 10, 7, 30.0), (11, 20, 0, 0.0)]
    curves = length_curves({"a": buckets(30, 20), "b": other})
    np.testing.assert_array_equal(curves.series["b"][1], [30, np.nan])
    assert list(curves.ticks.values()) == ["1–10", "11–20"]
    assert curves.x_label == "words in the source"


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({}, "at least one"),
        ({"a": []}, "run 'a' needs buckets"),
        ({"a": [(5, 1, 3, 20.0)]}, r"low <= high, got \[\(5, 1\)\]"),
        ({"a": buckets(1, 2), "b": buckets(1, 2, 3)}, "runs 'a' and 'b' have different buckets"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(runs, message):
    with pytest.raises(ValueError, match=message):
        length_curves(runs)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_the_names_of_many_runs_hide_no_line(count, tmp_path):
    runs = {f"run {at}": buckets(30 - at, 25 - at, 22 - at, 20 - at) for at in range(count)}
    curves = length_curves(runs)
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    ax = curves.plot(figure.add_subplot())
    FigureCanvasAgg(figure).draw()
    names = ax.get_legend().get_window_extent()
    for line in ax.lines:
        assert not any(names.contains(*point) for point in ax.transData.transform(line.get_xydata()))
    assert figure.bbox.x1 >= names.x1
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    curves.save(tmp_path / "c.svg")
    words = "".join(ElementTree.parse(tmp_path / "c.svg").getroot().itertext())
    assert "41+" in words
    assert f"run {count - 1}" in words
