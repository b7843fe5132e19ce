"""How good a translator is, and whether another one is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.metrics.bleu import bleu, chrf, tokenised_bleu
from regard.metrics.bootstrap import Comparison, paired_bootstrap
from regard.metrics.exact import exact_match
from regard.metrics.lengths import Bucket, bleu_by_length
from regard.tasks.pairs import mean_loss, pair_data
from regard.tasks.settings import Decoding, Example
from regard.tasks.translate import Translator

SCORED = {"bleu": bleu, "tokenised_bleu": tokenised_bleu, "chrf": chrf}
MEASURES = (*SCORED, "exact_match", "perplexity")


@dataclass(frozen=True)
class Verdict:
    answers: list[str]
    scores: dict[str, float]  # by the names in MEASURES
    signatures: dict[str, str]  # how sacrebleu computed them
    by_length: list[Bucket]  # BLEU of short and long sources

    def table(self) -> dict[str, Any]:
        """All but the answers, for JSON."""
        signed = {f"{name}_signature": text for name, text in self.signatures.items()}
        return {
            "pairs": len(self.answers),
            **self.scores,
            **signed,
            "bleu_by_length": [asdict(one) for one in self.by_length],
        }


def judge(
    translator: Translator,
    examples: Sequence[Example],
    decode: Decoding | None = None,
    *,
    tick: Callable[[], None] = lambda: None,
) -> Verdict:
    """BLEU and chrF of the answers, how many are right to the letter, BLEU by source length, and the perplexity
    of the (first) references. Perplexity is per token, so that it compares runs with one tokenizer only."""
    if not examples:
        raise ValueError("there must be at least one pair to judge by, got none")
    sources, references = [source for source, _ in examples], [targets for _, targets in examples]
    answers = [answer.text for answer in translator.answers(sources, decode, tick=tick)]
    found = {name: score(answers, references) for name, score in SCORED.items()}
    held = pair_data([(source, targets[0]) for source, targets in examples], translator, 4096)
    scores = {name: value for name, (value, _) in found.items()}
    scores["exact_match"] = exact_match(answers, references)
    scores["perplexity"] = math.exp(min(700.0, mean_loss(translator.model, held)))
    signatures = {name: signature for name, (_, signature) in found.items()}
    return Verdict(answers, scores, signatures, bleu_by_length(sources, answers, references))


def compare(first: Verdict, second: Verdict, examples: Sequence[Example]) -> list[Comparison]:
    """Is the second better than the first, by each measure, or could it be luck? (paired bootstrap)"""
    references = [targets for _, targets in examples]
    return [paired_bootstrap(first.answers, second.answers, references, metric=name) for name in SCORED]
