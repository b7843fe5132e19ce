"""Accuracy and what belongs to it, against numbers worked by hand."""

import numpy as np
import pytest

from regard.metrics.accuracy import accuracy, interval, report

TRUTHS = ["cat", "cat", "cat", "cat", "dog", "dog", "owl", "owl"]
ANSWERS = ["cat", "cat", "cat", "dog", "dog", "cat", "dog", "dog"]


def test_accuracy_is_the_share_that_is_right():
    assert accuracy(ANSWERS, TRUTHS) == 50
    assert accuracy([1, 2, 3], [1, 2, 0]) == pytest.approx(200 / 3)
    assert accuracy(np.array([1, 1]), np.array([1, 1])) == 100
    assert accuracy(["1"], [1]) == 0


@pytest.mark.parametrize("measure", [accuracy, report])
@pytest.mark.parametrize(("answers", "truths"), [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_each_answer_needs_its_truth(measure, answers, truths):
    message = f"each answer needs a true label, got {len(answers)} answers and {len(truths)} labels"
    with pytest.raises(ValueError, match=message):
        measure(answers, truths)


def test_the_report_tells_each_class():
    found = report(ANSWERS, TRUTHS)
    assert found.labels == ("cat", "dog", "owl")
    assert found.confusion.tolist() == [[3, 1, 0], [1, 1, 0], [0, 2, 0]]
    assert (found.right, found.count, found.accuracy) == (4, 8, 50)
    cat, dog, owl = found.classes
    # cat: 3 of 4 answers are right, and 3 of 4 cats found. dog: 1 of 4 answers, 1 of 2 dogs; 2PR/(P+R) = 1/3.
    assert (cat.precision, cat.recall, cat.f1, cat.count, cat.answered) == (75, 75, 75, 4, 4)
    assert (dog.precision, dog.recall, dog.count, dog.answered) == (25, 50, 2, 4)
    assert dog.f1 == pytest.approx(100 / 3)
    # owl: never answered, so there is no precision; it counts in the mean.
    assert (owl.precision, owl.recall, owl.f1, owl.count, owl.answered) == (0, 0, 0, 2, 0)
    assert found.macro_f1 == pytest.approx((75 + 100 / 3) / 3)
    assert found.interval == interval(4, 8)


def test_labels_give_the_order_and_one_that_never_occurs_is_not_in_the_mean():
    found = report(ANSWERS, TRUTHS, ["yak", "owl", "dog", "cat"])
    assert found.confusion.tolist() == [[0, 0, 0, 0], [0, 0, 2, 0], [0, 0, 1, 1], [0, 0, 1, 3]]
    yak = found.classes[0]
    assert (yak.label, yak.count, yak.answered, yak.precision, yak.recall, yak.f1) == ("yak", 0, 0, 0, 0, 0)
    assert found.macro_f1 == pytest.approx(report(ANSWERS, TRUTHS).macro_f1)
    # A label that is never true but answered counts: (F1 of a = 2/3, of b = 0) / 2.
    assert report(["a", "b"], ["a", "a"]).macro_f1 == pytest.approx(100 / 3)


def test_labels_that_are_unknown_or_doubled_are_refused():
    with pytest.raises(ValueError, match="'owl' is not one of the labels 'cat', 'dog'"):
        report(ANSWERS, TRUTHS, ["cat", "dog"])
    with pytest.raises(ValueError, match="'dog' is not one of the labels 'cat'"):
        report(["dog"], ["cat"], ["cat"])
    with pytest.raises(ValueError, match="labels must differ, got 'cat' twice"):
        report(ANSWERS, TRUTHS, ["cat", "cat", "dog", "owl"])


def test_wilsons_interval():
    """8 of 10: (0.8 + z²/20 ± z sqrt(0.016 + z²/400)) / (1 + z²/10), with z² = 3.8415."""
    assert interval(8, 10) == pytest.approx((49.0162, 94.3318), abs=1e-3)
    low, high = interval(5, 10)
    assert (low + high) / 2 == pytest.approx(50)
    # At the ends: z² / (n + z²) away from them.
    assert interval(0, 10) == (0, pytest.approx(100 * 3.841459 / 13.841459, abs=1e-4))
    assert interval(10, 10) == (pytest.approx(100 * 10 / 13.841459, abs=1e-4), 100)
    # Of many, it is the usual one: 90 +- 1.96 sqrt(0.09 / 10000).
    assert interval(9000, 10_000) == pytest.approx((89.4, 90.6), abs=0.05)


@pytest.mark.parametrize(("right", "count"), [(0, 0), (3, 2), (-1, 5)])
def test_an_interval_needs_answers(right, count):
    with pytest.raises(ValueError, match=f"got {right} of {count}"):
        interval(right, count)


def test_the_matthews_correlation_of_two_classes():
    # Three of four right and one of four right: (3 x 1 - 3 x 1) / ... = 0, though half of the answers are right.
    half = report([*"aaab", *"aaab"], [*"aaaa", *"bbbb"])
    assert (half.accuracy, half.matthews) == (50, 0)
    # tp 1, tn 3, fp 1, fn 0: (1 x 3 - 1 x 0) / sqrt(2 x 1 x 4 x 3) = 3 / sqrt(24).
    assert report([*"aaabb"], [*"aaaab"]).matthews == pytest.approx(3 / 24**0.5)
    # The example in scikit-learn's documentation.
    assert report([1, -1, 1, 1], [1, 1, 1, -1]).matthews == pytest.approx(-1 / 3)
    assert report([*"aabb"], [*"aabb"]).matthews == 1
    assert report([*"bbaa"], [*"aabb"]).matthews == -1


def test_it_is_the_correlation_of_two_columns_of_zeros_and_ones():
    dice = np.random.default_rng(0)
    truths = dice.integers(2, size=200)
    answers = np.where(dice.random(200) < 0.7, truths, dice.integers(2, size=200))
    assert report(answers.tolist(), truths.tolist()).matthews == pytest.approx(np.corrcoef(answers, truths)[0, 1])
    many = report([0, 1] * 2**17, [0, 0, 1, 1] * 2**16)  # the product of the four sums is 2^68
    assert many.matthews == 0


@pytest.mark.parametrize(("answers", "truths"), [("aaaa", "aabb"), ("abab", "aaaa"), ("bbbb", "bbbb")])
def test_it_is_zero_where_a_class_never_occurs(answers, truths):
    assert report([*answers], [*truths], ["a", "b"]).matthews == 0


def test_it_is_not_given_for_more_classes():
    with pytest.raises(ValueError, match="of two classes, got 3"):
        report(ANSWERS, TRUTHS).matthews  # noqa: B018
