"""The map itself, and its PNG."""

import subprocess
import sys
import warnings
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from regard.show import Map
from regard.show.fonts import find_families
from regard.show.raster import draw_axes, new_axes

matplotlib.use("Agg")
NOWHERE = "\U0010fffd"  # the last private character: no font has it


def some_map(rows, columns, **names):
    weights = np.random.default_rng(0).dirichlet(np.full(len(columns), 0.3), len(rows))
    return Map(weights, rows, columns, **names)


def save_png(picture, folder):
    picture.save(folder / "map.png")
    with Image.open(folder / "map.png") as image:
        return np.asarray(image.convert("RGB"))


def draw(picture):
    figure = Figure()
    ax = draw_axes(picture, new_axes(picture, figure))
    FigureCanvasAgg(figure).draw()
    return ax


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((3, 2)) / 2, r"shape \(rows, columns\) = \(2, 3\), got \(3, 2\)"),
        (np.ones((4, 2, 3)) / 2, "one head at a time"),
        (np.full((2, 3), np.nan), "finite, got nan in row 0, column 0"),
        (np.array([[0, 0, 0], [0, np.inf, 0]]), "finite, got inf in row 1, column 1"),
        (np.array([[0, 0, 0], [0, 7.5, -2]]), "got -2 to 7.5: give weights"),
    ],
)
def test_wrong_weights_are_refused_with_the_reason(weights, message):
    with pytest.raises(ValueError, match=message):
        Map(weights, ["a", "b"], ["x", "y", "z"])


def test_wrong_labels_are_refused():
    with pytest.raises(ValueError, match="columns must be strings, got 7"):
        Map(np.ones((1, 1)), ["a"], [7])
    with pytest.raises(ValueError, match="at least one row and one column"):
        Map(np.ones((0, 2)), [], ["a", "b"])


def test_a_map_keeps_its_own_weights_within_bounds():
    weights = np.array([[1.0004, -0.0004]], dtype=np.float32)
    picture = Map(weights, "a", "xy")
    weights[:] = 9
    assert picture.weights.tolist() == [[1.0, 0.0]]
    assert picture.columns == ("x", "y")


@pytest.mark.parametrize("name", ["map.jpg", "map", "map.svg.gz"])
def test_other_suffixes_are_refused_by_name(tmp_path, name):
    with pytest.raises(ValueError, match=r"\.png or \.svg or \.html"):
        some_map("ab", "cd").save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_saving_in_no_folder_says_so(tmp_path):
    with pytest.raises(OSError, match="there is no folder"):
        some_map("ab", "cd").save(tmp_path / "missing" / "map.svg")


@pytest.mark.parametrize("name", ["map.png", "map.svg", "map.html"])
def test_a_failed_save_leaves_nothing_behind(tmp_path, name):
    (tmp_path / name).mkdir()  # a folder in the way: the last step, the replacing, fails
    with pytest.raises(OSError, match=f"cannot write .*{name}"):
        some_map("ab", "cd").save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_saved_files_are_whole_and_readable_by_others(tmp_path):
    picture = some_map("ab", "cd")
    for suffix in ("png", "SVG", "html"):
        picture.save(tmp_path / f"map.{suffix}")
    assert (tmp_path / "map.SVG").read_text(encoding="utf-8") == picture.svg()
    assert (tmp_path / "map.html").read_text(encoding="utf-8") == picture.html()
    (tmp_path / "plain").touch()
    assert (tmp_path / "map.png").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert len(list(tmp_path.iterdir())) == 4


def test_the_png_shows_the_weights(tmp_path):
    dark = save_png(Map(np.eye(4), "abcd", "wxyz"), tmp_path)
    pale = save_png(Map(np.zeros((4, 4)), "abcd", "wxyz"), tmp_path)
    assert dark.shape == pale.shape
    # Four of sixteen cells turn from almost white to almost black: nothing else may change.
    changed = (dark != pale).any(-1)
    assert dark[changed].mean() < 80
    assert pale[changed].mean() > 230
    assert changed.sum() == pytest.approx(4 * (28 * 2) ** 2, rel=0.1)


@pytest.mark.parametrize("count", [1, 5, 200])
def test_labels_do_not_overlap_and_stay_legible(count):
    tokens = [f"token{at}" for at in range(count)]
    ax = draw(some_map(tokens, tokens, title="t", row_label="r", column_label="c"))
    labels = ax.get_yticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))
    assert labels[0].get_fontsize() > 7
    assert [label.get_text() for label in labels] == tokens
    leaning = ax.get_xticklabels()[0]
    assert leaning.get_rotation() == 60
    # The distance between leaning lines is that of their cells times the sine of the lean.
    cell = ax.get_window_extent().width / count
    assert leaning.get_fontsize() / 72 * ax.figure.dpi < cell * np.sin(np.radians(60))


def test_single_characters_stand_upright_and_long_tokens_are_cut():
    ax = draw(some_map(["x" * 60, "b"], "3 "))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3", "␣"]
    assert ax.get_xticklabels()[0].get_rotation() == 0
    assert ax.get_yticklabels()[0].get_text() == "x" * 23 + "…"


def test_the_figure_holds_its_labels():
    ax = draw(some_map(["W" * 60] * 3, ["Mm" * 30] * 3, title="T" * 30, row_label="R" * 20))
    whole = ax.figure.bbox
    for text in [*ax.get_yticklabels(), *ax.get_xticklabels(), ax.yaxis.label, ax._left_title]:
        box = text.get_window_extent()
        assert box.x0 >= whole.x0
        assert box.x1 <= whole.x1
        assert box.y0 >= whole.y0
        assert box.y1 <= whole.y1


def test_plot_into_a_small_axes_shrinks_the_labels():
    tokens = [f"token{at}" for at in range(60)]
    figure = Figure(figsize=(3, 3), dpi=400)  # at fewer dots the boxes are rounded to more than the letters
    ax = figure.add_subplot()
    assert some_map(tokens, tokens).plot(ax) is ax
    FigureCanvasAgg(figure).draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))


def test_plot_without_axes_makes_a_figure():
    from matplotlib import pyplot

    ax = some_map("ab", "cd", title="name").plot()
    try:
        assert pyplot.get_fignums() == [ax.figure.number]
        assert ax.get_title(loc="left") == "name"
    finally:
        pyplot.close(ax.figure)


def test_dollars_are_not_mathematics(tmp_path):
    ax = draw(some_map(["$x^2$", "\\frac"], ["$", "$\\nonsense$"], title="$5 and $\\"))
    assert ax.get_yticklabels()[0].get_text() == "$x^2$"
    save_png(some_map(["$x^2$"], ["$\\nonsense$"], title="$5 and $\\"), tmp_path)


def test_characters_without_a_font_warn_and_are_boxed(tmp_path):
    picture = some_map(["a" + NOWHERE], ["b"])
    with pytest.warns(UserWarning, match="no font installed here") as seen:
        save_png(picture, tmp_path)
    assert len(seen) == 1  # and none of matplotlib's own
    assert "U+10FFFD" in str(seen[0].message)
    assert "SVG and HTML always keep them" in str(seen[0].message)
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="no font"):
        assert draw(picture).get_yticklabels()[0].get_text() == "a□"
    assert NOWHERE in picture.svg()


@pytest.mark.parametrize("words", ["שלום עולם", "مرحبا بالعالم", "你好 世界", "こんにちは 世界"])
def test_the_worlds_letters_are_drawn_or_named(tmp_path, words):
    picture = some_map(words.split(), words.split(), title=words)
    missing = find_families(set(words))[1]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        image = save_png(picture, tmp_path)
    assert bool(seen) == bool(missing)
    for warning in seen:
        assert f"U+{ord(min(missing)):04X}" in str(warning.message)
    assert image.min() < 100


def test_a_font_is_found_beyond_the_usual_one():
    # matplotlib brings STIX along, which has the circled letters that its DejaVu Sans lacks.
    with matplotlib.rc_context({"font.family": ["DejaVu Sans"]}):
        families, missing = find_families(set("aⒶ" + NOWHERE))
        assert missing == {NOWHERE}
        assert families[0] == "DejaVu Sans"
        assert len(families) == 2
        assert find_families(set("abc"))[0] == ["DejaVu Sans"]


def test_importing_show_is_cheap():
    heavy = "matplotlib", "torch", "rich", "PIL"
    code = f"import sys, regard.show; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
