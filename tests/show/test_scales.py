"""The colour scale: rounded up, or fixed."""

import numpy as np
import pytest

from regard.show import Heads, Map, Overlay
from regard.show.scales import check_scale, digits, top_of, top_words


@pytest.mark.parametrize(
    ("most", "top"),
    [(1, 1), (0.93, 1), (0.8, 0.8), (0.61, 0.8), (0.2, 0.2), (0.20000000298, 0.2), (0.13, 0.15), (0.0031, 0.004),
     (0, 1), (3.2, 4)],
)  # fmt: skip
def test_the_largest_weight_is_rounded_up(most, top):
    assert top_of(most) == top_of(most, "shared") == top
    assert top_of(most, 0.5) == 0.5


def test_larger_weights_than_the_scale_are_told():
    assert [top_words(0.2, most) for most in (0.1, 0.2, 0.3)] == ["0.2", "0.2", "≥ 0.2"]


def test_weights_get_the_digits_that_tell_them_apart():
    assert [digits(top) for top in (1, 0.2, 0.1, 0.05, 0.004, 300)] == [2, 2, 3, 3, 4, 0]


@pytest.mark.parametrize("wrong", [0, -1, np.nan, np.inf, True, "own", [1]])
def test_a_wrong_scale_is_refused(wrong):
    with pytest.raises(ValueError, match='scale must be a number above 0, "shared" or "each", got'):
        check_scale(wrong)
    with pytest.raises(ValueError, match="scale must be"):
        Map(np.eye(2), "ab", "cd", scale=wrong)
    with pytest.raises(ValueError, match="scale must be"):
        Heads({"a": np.eye(2)[None]}, "ab", "cd", scale=wrong)
    with pytest.raises(ValueError, match="scale must be"):
        Overlay(np.zeros((2, 2, 3), np.uint8), {"a": np.eye(2)}, scale=wrong)


def test_spread_weights_are_seen():
    """On a scale of 0 to 1 all of them would be almost white."""
    weights = np.full((2, 40), 1 / 40)
    weights[0, 3] = 0.049
    picture = Map(weights, "ab", ["x"] * 40)
    assert picture.top == 0.05
    assert picture.levels.max() == pytest.approx(0.98)
    words = picture.svg()
    assert ">0.05<" in words
    assert "a ← x: 0.049" in words
    assert picture.terminal(colour=False, width=100).splitlines()[-1] == "weight: 0 ░▒▓█ 0.05"
    fixed = picture.scaled(1)
    assert fixed.top == 1
    assert ">0.05<" not in fixed.svg()
    assert "weight: 0 ░▒▓█ ≥ 0.02" in picture.scaled(0.02).terminal(colour=False, width=100)


def test_weights_above_one_need_a_scale():
    assert Map([[3.0, 1.0]], "a", "xy", scale=4).levels.tolist() == [[0.75, 0.25]]
    with pytest.raises(ValueError, match="or say by scale= how large they are"):
        Map([[3.0, 1.0]], "a", "xy")


def test_heads_share_a_scale():
    heads = Heads({"a": np.array([[[0.3, 0.1]], [[0.02, 0.01]]])}, "a", "xy")
    assert [heads.top("a", head) for head in (0, 1)] == [0.3, 0.3]
    assert [heads.scaled("each").top("a", head) for head in (0, 1)] == [0.3, 0.02]
    assert heads.map("a", 1).top == 0.02
    assert heads.scaled(0.5).map("a", 1).top == 0.5


def test_overlays_say_their_scale_and_can_share_one():
    """The shares of the first map are 3/4 and 1/4, of the second 0.3, 0.3 and 0.4."""
    maps = {"a": [[3.0, 1.0]], "b": [[3.0, 3.0, 4.0]]}
    made = Overlay(np.zeros((4, 4, 3), np.uint8), maps)
    assert [made.levels(name).max() for name in maps] == [1, 1]
    assert "maximum of each panel" in made.svg()
    shared = made.scaled("shared")
    assert shared.top == 0.8
    assert shared.levels("b").tolist() == [pytest.approx([0.375, 0.375, 0.5])]
    assert "80 % in all panels" in shared.svg()
    assert "not faded: 80 % in all panels" in shared.terminal(width=60)
    fixed = made.scaled(0.5)
    assert fixed.levels("a").tolist() == [[1, 0.5]]
    assert "≥ 50 % in all panels" in fixed.svg()
