"""Exact match."""

from __future__ import annotations

from collections.abc import Sequence

from regard.metrics.references import check_references


def exact_match(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The share of answers that are identical to one of their references, in percent."""
    matches = exact_matches(answers, references)
    return sum(matches) / len(matches)


def exact_matches(answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """100 for each answer that is identical to one of its references, else 0."""
    check_references(answers, references)
    return [100.0 * (answer in own) for answer, own in zip(answers, references, strict=True)]
