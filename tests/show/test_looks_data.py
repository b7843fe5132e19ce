"""What captions over an image accept and refuse, and what is told of each word."""

import numpy as np
import pytest

from regard.show import Line, Looks

WORDS = ("a", "red", "circle")
EVEN = np.full((3, 2, 2), 0.25)


def noise(high=8, wide=8):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("words", "weights", "gates", "message"),
    [
        ("abc", EVEN, None, "words must be a sequence, got one text: 'abc'; split it"),
        (WORDS, EVEN[:2], None, r"weights of 3 words must be \(3, rows, columns\), got \(2, 2, 2\)"),
        (WORDS, EVEN.reshape(3, 4), None, r"got \(3, 4\): one map for each word, reshaped to the grid"),
        (WORDS, EVEN[:, :0], None, r"word 0 \('a'\): a map must have shape"),
        (WORDS, EVEN - np.array([0, 1, 0])[:, None, None], None, r"word 1 \('red'\): a map must not be negative"),
        (WORDS, EVEN / np.array([1, 1, np.nan])[:, None, None], None, r"word 2 \('circle'\): a map must be finite"),
        (WORDS, EVEN, [0.5, 0.5], r"gates must have shape \(3,\), one for each word, got \(2,\)"),
        (
            WORDS,
            EVEN,
            [0.5, 0.5, 1.5],
            r"gates must lie in \[0, 1\], got 1.5 at word 2: give them after the sigmoid",
        ),
        (WORDS, EVEN, [np.nan, 0.5, 0.5], "got nan at word 0"),
    ],
    ids=["text", "count", "flat", "no-rows", "negative", "nan", "gates", "scores", "nan-gate"],
)
def test_what_cannot_be_drawn_is_refused(words, weights, gates, message):
    with pytest.raises(ValueError, match=message):
        Line(words, weights, gates)


def test_an_image_and_a_line_are_needed():
    with pytest.raises(ValueError, match=r"no caption to draw: give at least one line, as Line\(words, weights\)"):
        Looks(noise(), ())
    with pytest.raises(ValueError, match="image must be bytes"):
        Looks(np.zeros((8, 8, 3)), (Line(WORDS, EVEN),))
    with pytest.raises(ValueError, match="scale must be a number above 0"):
        Looks(noise(), (Line(WORDS, EVEN),), scale=-1)


def test_it_is_its_own_copy():
    image, weights, gates = noise(), EVEN.copy(), np.full(3, 0.5)
    made = Looks(image, [Line(WORDS, weights, gates)])
    before = made.svg()
    image[:], weights[:], gates[:] = 0, 0, 0
    assert made.svg() == before
    assert repr(made) == "<Looks: 3 words over 8 x 8 pixels>"


def test_a_single_place_is_told_from_a_spread_look():
    hard, most, grid_of_one = np.zeros((1, 2, 3)), np.array([[[0.9, 0.05, 0.05]]]), np.ones((1, 1, 1))
    hard[0, 1, 2] = 1
    assert Line(["a"], hard).chosen(0) == (1, 2)
    assert Line(["a"], hard + 1e-7).chosen(0) == (1, 2)  # an exponential seldom gives a clean 0
    assert [Line(["a"], weights).chosen(0) for weights in (most, grid_of_one, np.zeros((1, 2, 2)))] == [None] * 3


@pytest.mark.parametrize(
    ("scale", "tops"), [(None, (1, 1)), ("each", (1, 1)), ("shared", (0.5, 1)), (0.25, (1, 1)), (2, (0.25, 0.5))]
)
def test_the_scale_covers_all_lines(scale, tops):
    """Largest shares of 1/2 and of 1; each panel has its own scale unless another is asked for."""
    soft, hard = Line(["a"], [[[0.5, 0.5]]]), Line(["a"], [[[0.0, 1.0]]])
    made = Looks(noise(), (soft, hard)).scaled(scale)
    assert tuple(made.levels(line, 0).max() for line in (0, 1)) == tops


def test_a_chosen_place_has_sharp_edges_and_a_spread_look_is_smooth():
    made = Looks(noise(), [Line(["hard", "soft"], [[[0, 1, 0]], [[0, 0.8, 0.2]]])])
    assert made.dots(0, 0, 6, 2).tolist() == [[0, 0, 1, 1, 0, 0]] * 2
    np.testing.assert_allclose(made.dots(0, 1, 6, 1), [[0, 0.25, 0.75, 0.8125, 0.4375, 0.25]])


def test_pictures_of_one_image_are_drawn_together():
    soft, hard = (
        Looks(noise(), [Line(WORDS, EVEN)], "T").over(Looks(noise(), [Line(list("redcircle"), np.ones((9, 2, 2)))]))
        for _ in "ab"
    )
    both = Looks.together({"soft": soft, "hard": hard})
    assert [(line.name, line.words) for line in both.lines] == [("soft", WORDS), ("hard", WORDS)]
    assert both.title == "T"
    assert [len(line.words) for line in both.pieces.lines] == [9, 9]
    assert [line.name for line in Looks.together({"run": both}).lines] == ["run, soft", "run, hard"]
    with pytest.raises(ValueError, match="must be over the same image; that of 'hard' is another one"):
        Looks.together({"soft": soft, "hard": Looks(noise(4, 4), [Line(WORDS, EVEN)])})
    with pytest.raises(ValueError, match="no picture to draw"):
        Looks.together({})
