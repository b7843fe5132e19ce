"""Generated reviews: one sentence decides, and words alone do not."""

from __future__ import annotations

from collections import Counter

import pytest

from regard.data.made.reviews import ADJECTIVES, LABELS, reviews
from regard.data.text.sentences import split_sentences


def test_a_larger_count_begins_with_the_reviews_of_a_smaller_one() -> None:
    assert reviews("train", 50)[:20] == reviews("train", 20)
    assert [review.label for review in reviews("test", 4)] == [*LABELS, *LABELS]


def test_splits_do_not_overlap() -> None:
    texts = [{review.text for review in reviews(split, 500)} for split in ("train", "valid", "test")]
    assert not texts[0] & texts[1]
    assert not texts[0] & texts[2]
    assert not texts[1] & texts[2]


def test_the_deciding_sentence_is_the_only_one_of_the_writer() -> None:
    for review in reviews("train", 300):
        sentences = split_sentences(review.text, "rules")
        own = {"I", "We", "To", "For", "In"}
        telling = [
            place
            for place, sentence in enumerate(sentences)
            if sentence.split()[0] in own and {*ADJECTIVES["positive"], *ADJECTIVES["negative"]} & words(sentence)
        ]
        assert telling == [review.decides], review


def words(sentence: str) -> set[str]:
    return set(sentence.rstrip(".").split())


def test_counting_words_does_not_suffice() -> None:
    """More good words than bad ones say little about the label."""
    right: Counter[bool] = Counter()
    for review in reviews("train", 2000):
        told = [word in ADJECTIVES["positive"] for word in review.text.replace(".", "").split() if opinion(word)]
        balance = 2 * sum(told) - len(told)
        if balance:
            right[(balance > 0) == (review.label == "positive")] += 1
    assert 0.5 < right[True] / sum(right.values()) < 0.75


def opinion(word: str) -> bool:
    return any(word in known for known in ADJECTIVES.values())


def test_what_is_asked_wrongly() -> None:
    with pytest.raises(ValueError, match="split must be one of train, valid, test, got 'dev'"):
        reviews("dev", 3)
    with pytest.raises(ValueError, match="count must be a whole number of at least 1, got 0"):
        reviews("train", 0)
