"""Pieces merged into words, against sums worked out by hand."""

import numpy as np
import pytest

from regard.show import Heads, Map, Words

WEIGHTS = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.3, 0.2, 0.2], [0.0, 0.0, 1.0, 0.0]])
ROWS, COLUMNS = Words(["unable", "!"], [0, 0, 1]), Words(["a", "bcd", "e"], [0, 1, 1, 2])


def test_columns_are_added_and_rows_averaged():
    pieces = Map(WEIGHTS, ["un", "able", "!"], ["a", "b", "cd", "e"], "T")
    words = pieces.in_words(ROWS, COLUMNS)
    np.testing.assert_allclose(words.weights, [[0.2, 0.5, 0.3], [0, 1, 0]])
    assert (words.rows, words.columns, words.title) == (("unable", "!"), ("a", "bcd", "e"), "T")
    assert words.pieces is pieces
    assert pieces.pieces is pieces
    assert words.scaled(0.5).pieces.scale == 0.5


def test_a_word_may_look_where_one_of_its_pieces_may():
    mask = np.tril(np.ones((3, 4), bool))
    words = Map(np.zeros((3, 4)), "abc", "abcd", mask=mask).in_words(ROWS, COLUMNS)
    assert words.mask.tolist() == [[True, True, False], [True, True, False]]


def test_heads_are_merged_by_site():
    heads = Heads({"x.0": np.stack([WEIGHTS, WEIGHTS])}, "abc", "abcd")
    words = heads.in_words({"x.0": ROWS}, {"x.0": COLUMNS})
    np.testing.assert_allclose(words.panels["x.0"][1], [[0.2, 0.5, 0.3], [0, 1, 0]], rtol=1e-6)
    assert words.pieces is heads
    head = words.map("x.0", 1)
    assert head.columns == ("a", "bcd", "e")
    assert head.pieces.columns == ("a", "b", "c", "d")
    assert words.scaled("each").pieces.scale == "each"


def test_pieces_that_are_words_are_no_second_picture():
    same = Words(["a", "b", "c"], [0, 1, 2]), Words(["a", "b", "c", "d"], [0, 1, 2, 3])
    assert "pieces" not in Map(WEIGHTS, "abc", "abcd").in_words(*same).data()
    heads = Heads({"x.0": WEIGHTS[None]}, "abc", "abcd")
    assert heads.in_words({"x.0": same[0]}, {"x.0": same[1]}) is heads
    spelled = Words(["A", "b", "c"], [0, 1, 2])
    assert "pieces" in Map(WEIGHTS, "abc", "abcd").in_words(spelled, same[1]).data()


def test_centres_are_counted_in_pieces():
    local = Map(WEIGHTS, "abc", "abcd", centres=[0, 1, 2], window=1)
    assert local.in_words(ROWS, COLUMNS) is local


@pytest.mark.parametrize("numbers", [[0, 0], [0, 2], [1, 1], [0, 1, 0], [0, 1, 2], [0]])
def test_words_are_counted_in_order(numbers):
    with pytest.raises(ValueError, match="numbers must count from 0 to 1"):
        Words(["a", "b"], numbers)
