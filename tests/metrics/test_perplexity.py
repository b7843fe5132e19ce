import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.perplexity import Perplexity, count_words


def test_by_hand():
    # A coin for each of 8 tokens, 4 words, 16 characters: 8 bits.
    cost = Perplexity(8 * math.log(2), tokens=8, words=4, characters=16)
    assert cost.loss == pytest.approx(math.log(2))
    assert cost.per_token == pytest.approx(2)
    assert cost.per_word == pytest.approx(4)
    assert cost.bits_per_character == pytest.approx(0.5)


def test_overflow_is_infinite():
    cost = Perplexity(1e6, tokens=1000, words=10, characters=5000)
    assert (cost.per_token, cost.per_word) == (math.inf, math.inf)
    assert cost.bits_per_character == pytest.approx(200 / math.log(2))
    assert Perplexity(math.inf, 1, 1, 1).per_token == math.inf
    assert math.isnan(Perplexity(math.nan, 1, 1, 1).per_token)


@pytest.mark.parametrize("name", ["tokens", "words", "characters"])
def test_zero_counts_are_refused(name):
    counts = {"tokens": 3, "words": 2, "characters": 9} | {name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        Perplexity(1.0, **counts)


def test_words_and_line_breaks():
    assert count_words([" = Robert Boulter = \n", " \n", " Robert is an actor .\n"]) == 4 + 1 + 1 + 5 + 1
    assert count_words(["no", "w here"]) == count_words(["now here"]) == 2
    assert count_words(["a", "", "b", " ", "c"]) == 2
    assert count_words([]) == count_words([""]) == 0


@given(st.lists(st.text(alphabet="ab \n\t\u2003\x1c"), max_size=8))
def test_chunks_make_no_difference(chunks):
    text = "".join(chunks)
    assert count_words(chunks) == len(re.findall(r"\S+", text)) + text.count("\n")
