"""BLEU and chrF as sacrebleu computes them, with sacrebleu's signature."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from regard.metrics.references import check_references

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

MEASURES = ("bleu", "tokenised_bleu", "chrf")
ORDER = 4  # tokens of the longest n-grams that BLEU counts
FEW = 0.1  # share of the answers


def bleu(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """BLEU of plain, detokenised text; sacrebleu tokenises it (13a)."""
    return _score("bleu", answers, references)


def tokenised_bleu(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """BLEU of tokenised text, split at spaces and lower-cased.

    Published figures on tokenised data report it (multi-bleu.perl -lc). It cannot be compared with `bleu`, because
    it depends on the tokenisation. The two programs differ only if no n-gram of some order matches in the whole
    corpus: multi-bleu.perl then gives 0, sacrebleu smooths."""
    return _score("tokenised_bleu", answers, references)


def chrf(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """F2 of character n-grams up to order six, without spaces; the best of several references counts."""
    return _score("chrf", answers, references)


def tells(name: str, references: Sequence[Sequence[str]]) -> bool:
    """Whether this measure says anything here. BLEU counts n-grams of up to four tokens: where hardly any reference
    has so many, it is about 0 however good the answers are."""
    if name == "chrf":
        return True
    tokens = measure(name)._preprocess_segment
    long = sum(any(len(tokens(text).split()) >= ORDER for text in own) for own in references)
    return long > 0 and long >= FEW * len(references)


def measure(name: str) -> Metric:
    """The sacrebleu object behind one of MEASURES."""
    from sacrebleu.metrics import BLEU, CHRF

    if name == "bleu":
        return BLEU(force=True)  # no warning about text that looks tokenised; there is `tokenised_bleu`
    if name == "tokenised_bleu":
        return BLEU(tokenize="none", lowercase=True, force=True)
    if name == "chrf":
        return CHRF()
    raise ValueError(f"metric must be one of {', '.join(MEASURES)}, got {name!r}")


def streams(answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """References as sacrebleu wants them: all the first ones, all the second ones, ...; None if one is missing."""
    check_references(answers, references)
    return list(zip_longest(*references))


def _score(name: str, answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    metric = measure(name)
    score = metric.corpus_score(list(answers), streams(answers, references))
    return score.score, str(metric.get_signature())
