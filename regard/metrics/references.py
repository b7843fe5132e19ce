"""References: one or more for each answer; their number may differ between answers."""

from __future__ import annotations

from collections.abc import Sequence


def check_references(answers: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if len(answers) != len(references) or not answers:
        raise ValueError(
            f"each answer needs its references, got {len(answers)} answers, references for {len(references)}"
        )
    for number, own in enumerate(references, 1):
        if isinstance(own, str):  # a string is a sequence of strings too, its characters
            raise ValueError(
                f"the references of answer {number} must be a list, got {own[:40]!r}; put it in a list"
            )
        if not own:
            raise ValueError(f"answer {number} has no reference; it needs at least one")
