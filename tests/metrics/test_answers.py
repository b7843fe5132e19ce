"""SQuAD's exact match and F1, worked by hand."""

from __future__ import annotations

import pytest

from regard.metrics.answers import f1, is_exact, normalised


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The  Cat,", "cat"),
        ("a dog & an ant", "dog ant"),
        ("Theatre", "theatre"),
        ("U.S.A.", "usa"),
        ("the", ""),
        ("it's \t on\nMonday", "its on monday"),
    ],
)
def test_case_punctuation_articles_and_spaces_do_not_count(text: str, wanted: str) -> None:
    assert normalised(text) == wanted


def test_exact_match_is_with_any_right_answer() -> None:
    assert is_exact("the red Book", ["a pen", "Red book."])
    assert not is_exact("the red", ["Red book."])
    assert is_exact("", [])
    assert not is_exact("book", [])
    assert not is_exact("", ["book"])


@pytest.mark.parametrize(
    ("answer", "right", "wanted"),
    [
        ("red book", ["the red book"], 1.0),
        ("big red book", ["red book"], 2 * (2 / 3) * 1 / (2 / 3 + 1)),  # precision 2/3, recall 1
        ("red red", ["red book"], 0.5),  # one of two words, and a word counts as often as it is there
        ("pen", ["red book"], 0.0),
        ("pen", ["red book", "a blue pen"], 2 / 3),  # the nearer one
        ("", [], 1.0),
        ("pen", [], 0.0),
        ("", ["pen"], 0.0),
        ("the", ["pen"], 0.0),
    ],
)
def test_f1_is_over_words(answer: str, right: list[str], wanted: float) -> None:
    assert f1(answer, right) == pytest.approx(wanted)
