"""How good a translator is, and whether another one is better."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from regard.decode.settings import Decoding
from regard.metrics.bleu import bleu, chrf, tokenised_bleu
from regard.metrics.bleu_by_length import Bucket, bleu_by_length
from regard.metrics.bootstrap import Comparison, paired_bootstrap
from regard.metrics.exact_match import exact_match
from regard.show import Curves, length_curves
from regard.tasks.core.inputs import read_all
from regard.tasks.core.results import Evaluation
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.shared.measuring import total_loss
from regard.tasks.translate.prepare import TestPairs
from regard.tasks.translate.run import Translator

SCORED = {"bleu": bleu, "tokenised_bleu": tokenised_bleu, "chrf": chrf}


@dataclass(frozen=True)
class Translated:
    """What two translators are compared by."""

    answers: list[str]
    references: list[tuple[str, ...]]
    by_length: list[Bucket]  # BLEU of short and long sources


def evaluate(
    translator: Translator,
    data: TestPairs,
    only: Collection[str] = (),
    decoding: Decoding | None = None,
    tick: Tick = no_tick,
) -> Evaluation:
    """BLEU and chrF of the answers, how many are exactly right, BLEU by source length, and the loss of the (first)
    references. Loss and perplexity are per token, so that they compare runs with one tokenizer only."""
    sources, references = [source for source, _ in data.examples], [targets for _, targets in data.examples]
    read = read_all(sources, translator.read, "texts")
    answers = [answer.text for answer in translator.answers(read, decoding, tick=tick)]
    nats, tokens = total_loss(translator.model, (data.ids.batch(rows) for rows in data.ids.order(0)))
    loss = nats / tokens
    metrics, signatures = {"exact_match": exact_match(answers, references)}, {}
    for name, score in SCORED.items():
        if not only or name in only:
            metrics[name], signatures[name] = score(answers, references)
    metrics |= {"perplexity": math.exp(min(700.0, loss)), "loss": loss}
    if only:
        return Evaluation({name: metrics[name] for name in only})
    buckets = bleu_by_length(sources, answers, references)
    return Evaluation(
        metrics,
        {"pairs": len(answers)},
        {
            **{f"{name}_signature": text for name, text in signatures.items()},
            "bleu_by_length": [asdict(one) for one in buckets],
        },
        {_words(one): one.bleu for one in buckets},
        ("\n".join(f"{name}: {text}" for name, text in signatures.items()),),
        Translated(answers, references, buckets),
    )


def _words(bucket: Bucket) -> str:
    words = f"{bucket.low} to {bucket.high}" if bucket.low < bucket.high else str(bucket.low)
    return f"bleu, {words} words ({bucket.sentences} pairs)"


def compare(first: Evaluation, second: Evaluation) -> list[Comparison]:
    """Paired bootstrap by each metric of whole texts."""
    one, other = _translated(first), _translated(second)
    if one.references != other.references:
        raise ValueError("the runs were evaluated on different pairs; name the pairs for all: --data FILE")
    return [paired_bootstrap(one.answers, other.answers, one.references, metric=name) for name in SCORED]


def plot(evaluations: Mapping[str, Evaluation]) -> Curves:
    """BLEU by source length."""
    return length_curves(
        {
            name: [(one.low, one.high, one.sentences, one.bleu) for one in _translated(found).by_length]
            for name, found in evaluations.items()
        }
    )


def _translated(found: Evaluation) -> Translated:
    assert isinstance(found.compared, Translated)
    return found.compared
