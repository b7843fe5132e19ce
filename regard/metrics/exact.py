"""Exact match."""

from collections.abc import Sequence


def exact_match(answers: Sequence[str], references: Sequence[str]) -> float:
    """The share of answers that equal their reference to the letter, in percent."""
    if len(answers) != len(references) or not answers:
        raise ValueError(f"each answer needs a reference, got {len(answers)} answers, {len(references)} references")
    return 100 * sum(a == r for a, r in zip(answers, references, strict=True)) / len(answers)
