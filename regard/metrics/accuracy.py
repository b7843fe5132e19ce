"""Accuracy of a classifier: overall, and precision, recall and F1 of each class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Z = 1.959963984540054  # 95 % of a normal distribution lie within this many standard deviations


def accuracy(answers: Sequence[object], truths: Sequence[object]) -> float:
    """The share of correct answers, in percent."""
    _check(answers, truths)
    return 100 * sum(bool(answer == truth) for answer, truth in zip(answers, truths, strict=True)) / len(truths)


def interval(right: int, count: int) -> tuple[float, float]:
    """95 % confidence interval of the accuracy, in percent, if `right` of `count` are correct   (Wilson 1927).

    It stays within [0, 100] and is meaningful even if none or all are correct."""
    if not 0 <= right <= count or count < 1:
        raise ValueError(f"right must lie in 0 to count, and count must be at least 1, got {right} of {count}")
    share, spread = right / count, Z**2 / count
    middle = share + spread / 2
    reach = Z * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    low, high = (middle - reach) / (1 + spread), (middle + reach) / (1 + spread)
    # At the ends the formula gives 0 and 1 up to rounding.
    return 100 * low if right else 0.0, 100 * high if right < count else 100.0


@dataclass(frozen=True)
class ClassScores:
    """One class, in percent: precision, recall and F1 = 2PR / (P + R); 0 instead of a division by zero. `count` is
    how often the class is true, `answered` how often it is the answer."""

    label: str
    count: int
    answered: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, eq=False)
class Report:
    """confusion (C, C): a row for each true label, a column for each answer."""

    labels: tuple[str, ...]
    confusion: np.ndarray

    def __repr__(self) -> str:
        return f"<Report: {self.count:,} answers in {len(self.labels):,} classes, accuracy {self.accuracy:.2f} %>"

    @property
    def count(self) -> int:
        """How many answers there are."""
        return int(self.confusion.sum())

    @property
    def right(self) -> int:
        """How many are right."""
        return int(self.confusion.trace())

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100 * self.right / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the accuracy, in percent."""
        return interval(self.right, self.count)

    @property
    def classes(self) -> tuple[ClassScores, ...]:
        """The scores of each label, including those that never occur."""
        rows = zip(
            self.labels,
            self.confusion.diagonal().tolist(),
            self.confusion.sum(1).tolist(),
            self.confusion.sum(0).tolist(),
            strict=True,
        )
        return tuple(
            ClassScores(
                label,
                count,
                answered,
                precision=100 * right / answered if answered else 0.0,
                recall=100 * right / count if count else 0.0,
                f1=200 * right / (count + answered) if count + answered else 0.0,
            )
            for label, right, count, answered in rows
        )

    @property
    def matthews(self) -> float:
        """Matthews correlation of two classes, -1 to 1   (Matthews 1975)

        (tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn)); 0 where a class never occurs or is never
        answered. Unlike accuracy it is 0 for a classifier that always answers the more frequent class."""
        if len(self.labels) != 2:
            raise ValueError(f"the Matthews correlation is of two classes, got {len(self.labels)}")
        (tn, fp), (fn, tp) = self.confusion.tolist()
        product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
        return (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0

    @property
    def macro_f1(self) -> float:
        """The unweighted mean F1 of the classes; labels that are neither true nor answered are left out."""
        scores = [row.f1 for row in self.classes if row.count or row.answered]
        return sum(scores) / len(scores)


def report(answers: Sequence[str], truths: Sequence[str], labels: Sequence[str] | None = None) -> Report:
    """`labels` are the classes in order; without it all labels that occur, sorted."""
    _check(answers, truths)
    labels = sorted({*answers, *truths}) if labels is None else labels
    place = {label: at for at, label in enumerate(labels)}
    if len(place) < len(labels):
        twice = next(label for at, label in enumerate(labels) if place[label] != at)
        raise ValueError(f"labels must differ, got {twice!r} twice")
    unknown = next((label for label in (*truths, *answers) if label not in place), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} is not one of the labels {', '.join(map(repr, list(labels)[:10]))}")
    confusion = np.zeros((len(place), len(place)), dtype=np.int64)
    for answer, truth in zip(answers, truths, strict=True):
        confusion[place[truth], place[answer]] += 1
    return Report(tuple(place), confusion)


def _check(answers: Sequence[object], truths: Sequence[object]) -> None:
    if len(answers) != len(truths) or len(truths) == 0:
        raise ValueError(f"each answer needs a true label, got {len(answers)} answers and {len(truths)} labels")
