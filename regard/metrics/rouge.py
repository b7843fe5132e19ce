"""ROUGE (Lin 2004): how much of a reference summary an answer has, and how much of the answer is in the reference.

    rouge-n  recall = common n-grams / those of the reference, precision = common / those of the answer
    rouge-L  the same with the length of the longest common subsequence of words
    F1 = 2 recall precision / (recall + precision)

A word is a run of letters, digits or underscores, in lower case and not stemmed; of several references the best
counts. The numbers are the F1 of single answers, whose mean is the metric, in percent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from regard.metrics.references import check_references

ROUGE = ("rouge1", "rouge2", "rougeL")
WORD = re.compile(r"\w+")
Words = list[str]


def rouge(name: str, answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean over the answers, in percent."""
    scores = rouge_scores(name, answers, references)
    return sum(scores) / len(scores)


def rouge_scores(name: str, answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """Of each answer, in percent."""
    if name not in ROUGE:
        raise ValueError(f"metric must be one of {', '.join(ROUGE)}, got {name!r}")
    check_references(answers, references)
    compare = COMPARE[name]
    return [
        100 * max(compare(_words(answer), _words(reference)) for reference in own)
        for answer, own in zip(answers, references, strict=True)
    ]


def _words(text: str) -> Words:
    return WORD.findall(text.lower())


def _common_ngrams(size: int, answer: Words, reference: Words) -> float:
    """F1 of the n-grams, each counted as often as it occurs in both."""
    mine, theirs = (
        Counter(tuple(words[begin : begin + size]) for begin in range(len(words) - size + 1))
        for words in (answer, reference)
    )
    return _f1((mine & theirs).total(), mine.total(), theirs.total())


def _common_sequence(answer: Words, reference: Words) -> float:
    """F1 of the longest common subsequence."""
    before = [0] * (len(reference) + 1)  # lengths for the answer up to here and each beginning of the reference
    for word in answer:
        row = [0]
        for place, other in enumerate(reference):
            row.append(before[place] + 1 if word == other else max(before[place + 1], row[place]))
        before = row
    return _f1(before[-1], len(answer), len(reference))


def _f1(common: int, mine: int, theirs: int) -> float:
    return 2 * common / (mine + theirs) if common else 0.0


COMPARE: dict[str, Callable[[Words, Words], float]] = {
    "rouge1": lambda answer, reference: _common_ngrams(1, answer, reference),
    "rouge2": lambda answer, reference: _common_ngrams(2, answer, reference),
    "rougeL": _common_sequence,
}
