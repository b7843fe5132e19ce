"""Exact match."""

from __future__ import annotations

from collections.abc import Sequence

from regard.metrics.references import check_references


def exact_match(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The share of answers that are identical to one of their references, in percent."""
    check_references(answers, references)
    return 100 * sum(answer in own for answer, own in zip(answers, references, strict=True)) / len(answers)
