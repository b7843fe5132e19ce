"""BLEU and chrF as sacrebleu computes them, with the signature that says how."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from regard.metrics.references import check_references

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

MEASURES = ("bleu", "tokenised_bleu", "chrf")


def bleu(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """BLEU of plain, detokenised text; sacrebleu splits it into words itself (13a)."""
    return _score("bleu", answers, references)


def tokenised_bleu(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """BLEU of the text as it stands, split at spaces and lower-cased.

    It is what published figures on pre-tokenised data report (multi-bleu.perl -lc), and no figure to set beside
    `bleu`: it depends on who split the words. The two programs part where no n-gram of some order is found in
    the whole corpus: multi-bleu.perl then says 0, sacrebleu smooths."""
    return _score("tokenised_bleu", answers, references)


def chrf(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """The F2 of character n-grams up to six, spaces left out; of several references the best counts."""
    return _score("chrf", answers, references)


def measure(name: str) -> Metric:
    """The sacrebleu object behind one of MEASURES."""
    from sacrebleu.metrics import BLEU, CHRF

    if name == "bleu":
        return BLEU(force=True)  # no word about text that looks tokenised: `tokenised_bleu` stands beside it
    if name == "tokenised_bleu":
        return BLEU(tokenize="none", lowercase=True, force=True)
    if name == "chrf":
        return CHRF()
    raise ValueError(f"metric must be one of {', '.join(MEASURES)}, got {name!r}")


def streams(answers: Sequence[str], references: Sequence[Sequence[str]]) -> Any:
    """References as sacrebleu wants them: all the first ones, all the second ones, ...; None where one lacks."""
    check_references(answers, references)
    return list(zip_longest(*references))


def _score(name: str, answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    metric = measure(name)
    score = metric.corpus_score(list(answers), streams(answers, references))
    return score.score, str(metric.get_signature())
