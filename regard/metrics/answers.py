"""Answers to questions, compared with the right ones as by SQuAD (Rajpurkar et al. 2016): exact match and F1.

Before that a text is lower-cased, and punctuation, the articles a, an, the, and superfluous spaces are left out. Of
several right answers the nearest counts. Without an answer "" is right, and nothing else is."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def is_exact(answer: str, right: Sequence[str]) -> bool:
    """Whether an answer is one of the right ones; (): there is none."""
    return normalised(answer) in {normalised(each) for each in right or [""]}


def f1(answer: str, right: Sequence[str]) -> float:
    """2 P R / (P + R) over the words of the answer and those of the nearest right one, in [0, 1]."""
    return max(_overlap(normalised(answer).split(), normalised(each).split()) for each in right or [""])


def _overlap(words: list[str], right: list[str]) -> float:
    if not words or not right:
        return float(words == right)
    common = (Counter(words) & Counter(right)).total()
    return 2 * common / (len(words) + len(right))
