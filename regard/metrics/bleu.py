"""BLEU and chrF as sacrebleu computes them, with the signature that says how."""

from __future__ import annotations

from collections.abc import Sequence


def bleu(answers: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    return metric.corpus_score(list(answers), [list(references)]).score, str(metric.get_signature())


def chrf(answers: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    return metric.corpus_score(list(answers), [list(references)]).score, str(metric.get_signature())
