"""Fonts for the letters of the world."""

import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib import ft2font
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from small_maps import draw, save_png, some_map

from regard.show.fonts import find_families

matplotlib.use("Agg")
NOWHERE = "\U0010fffd"  # the last private-use character: no font has it


def test_characters_without_a_font_warn_and_are_boxed(tmp_path):
    picture = some_map(["a" + NOWHERE], ["b"])
    with pytest.warns(UserWarning, match="no font installed here") as seen:
        picture.save(tmp_path / "map.png")
    assert len(seen) == 1  # and none of matplotlib's own
    assert "U+10FFFD" in str(seen[0].message)
    said = ("shows □ in its place", "HTML always keep it;", "a font that has it,")
    assert all(words in str(seen[0].message) for words in said)
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="no font"):
        assert draw(picture).get_yticklabels()[0].get_text() == "a□"
    assert NOWHERE in picture.svg()


def test_several_characters_without_a_font_are_told_in_the_plural(tmp_path):
    picture = some_map(["a" + NOWHERE], ["\U0010fffc"])
    with pytest.warns(UserWarning, match=r"□ in their place\. SVG and HTML always keep them; .* that has them,"):
        save_png(picture, tmp_path)


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


@pytest.mark.skipif(not hasattr(ft2font, "__libraqm_version__"), reason="matplotlib before 3.11 has no bidi layout")
@pytest.mark.parametrize(("text", "leftmost"), [("וש", "ש"), ("ש12", "1"), ("ab וש", "a"), ("الف", "ف")])
def test_right_to_left_labels_begin_on_the_right(text, leftmost):
    """The left edge of the text is the left edge of its last letter, of its number, or of what is left to right."""

    def ink(words):
        figure = Figure(figsize=(4, 1), dpi=200)
        figure.text(0.1, 0.4, words, fontsize=30, family=find_families(set(words))[0])
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        dark = np.asarray(canvas.buffer_rgba())[..., :3].mean(-1) < 128
        return dark[:, dark.any(0).argmax() :]

    alone = ink(leftmost)[:, : 1 + np.flatnonzero(ink(leftmost).any(0)).max() // 3]
    assert (ink(text)[:, : alone.shape[1]] == alone).mean() > 0.99


def test_a_font_is_found_beyond_the_usual_one():
    # matplotlib brings STIX along, which has the circled letters that its DejaVu Sans lacks.
    with matplotlib.rc_context({"font.family": ["DejaVu Sans"]}):
        families, missing = find_families(set("aⒶ" + NOWHERE))
        assert missing == {NOWHERE}
        assert families[0] == "DejaVu Sans"
        assert len(families) == 2
        assert find_families(set("abc"))[0] == ["DejaVu Sans"]
