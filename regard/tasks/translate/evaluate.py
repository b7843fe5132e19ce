"""How good a translator is, and whether another is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from regard.base.divided import each
from regard.errors import DataError
from regard.metrics.bleu import MEASURES, bleu, chrf, tokenised_bleu
from regard.metrics.bleu_by_length import Bucket, bleu_by_length
from regard.metrics.bootstrap import Comparison, bootstrap_means, paired_bootstrap
from regard.metrics.exact_match import exact_match, exact_matches
from regard.metrics.rouge import ROUGE, rouge, rouge_scores
from regard.show import Curves, length_curves
from regard.tasks.core.card import Options
from regard.tasks.core.inputs import read_all
from regard.tasks.core.options import change_decoding
from regard.tasks.core.results import Evaluation, Tick, no_tick
from regard.tasks.shared.measuring import total_loss
from regard.tasks.translate.prepare import TestPairs
from regard.tasks.translate.run import Translator

Score = Callable[[Sequence[str], Sequence[Sequence[str]]], tuple[float, str]]
SCORED: dict[str, Score] = {"bleu": bleu, "tokenised_bleu": tokenised_bleu, "chrf": chrf}


def _rouge(name: str, answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    return rouge(name, answers, references), "F1|words in lower case|no stemming|best reference"


SCORED |= {name: partial(_rouge, name) for name in ROUGE}


@dataclass(frozen=True)
class Translated:
    """What two translators are compared by."""

    answers: list[str]
    references: list[tuple[str, ...]]
    by_length: list[Bucket]  # BLEU of short and long sources


def evaluate(
    run: Translator,
    data: TestPairs,
    *,
    only: Sequence[str] = (),
    options: Options | None = None,
    tick: Tick = no_tick,
) -> Evaluation:
    """BLEU and chrF of the answers, or ROUGE, how many are exactly right, BLEU by source length, the loss of the
    (first) references. Loss and perplexity are per token, so that they compare runs with one tokenizer only."""
    sources, references = [source for source, _ in data.examples], [targets for _, targets in data.examples]
    decoding, tags = change_decoding(run.decode, options or {}), data.tags or [""] * len(sources)

    def translate(first: int, tick: Tick) -> Iterator[str]:
        read = list(read_all(sources[first : first + run.at_once], run.read, "texts", first))
        answers = [""] * len(read)
        for tag, places in grouped(tags[first : first + run.at_once]).items():
            part = run.towards(tag).answers([read[place] for place in places], decoding, tick=tick)
            for place, answer in zip(places, part, strict=True):
                answers[place] = answer.text
        return iter(answers)

    answers = list(each(range(0, len(sources), run.at_once), translate, tick=tick, at_once=1, own_pace=True))
    nats, tokens = total_loss(run.model, data.ids.order(0), data.ids.batch)
    loss = nats / tokens
    metrics, signatures = {"exact_match": exact_match(answers, references)}, {}
    wanted = [name for name in data.measures if not only or name in only]
    for name in filter(data.tells, wanted):
        metrics[name], signatures[name] = SCORED[name](answers, references)
    metrics |= {"perplexity": math.exp(min(700.0, loss)), "loss": loss}
    if only:
        return Evaluation({name: metrics[name] for name in only if name in metrics})
    by_tag = {tag: _judged(data, answers, references, places) for tag, places in grouped(tags).items() if tag}
    buckets = bleu_by_length(sources, answers, references) if data.tells("bleu") else []
    silent = ", ".join(name for name in data.measures if name not in metrics)
    return Evaluation(
        metrics,
        {"pairs": len(answers)},
        {
            **{f"{name}_signature": text for name, text in signatures.items()},
            "bleu_by_length": [asdict(bucket) for bucket in buckets],
            **({"by_target_tag": by_tag} if by_tag else {}),
        },
        {
            **{
                f"{name}, to {tag} ({judged['pairs']} pairs)": judged[name]
                for tag, judged in by_tag.items()
                for name in judged
                if name != "pairs"
            },
            **{_words(bucket): bucket.bleu for bucket in buckets},
        },
        (
            "\n".join(f"{name}: {text}" for name, text in signatures.items()),
            *([f"{silent}: cannot tell, as hardly any target has four tokens; see exact_match"] if silent else []),
        ),
        Translated(answers, references, buckets),
    )


def grouped(tags: Sequence[str]) -> dict[str, list[int]]:
    """The places of each tag, in the order in which they first occur."""
    places: dict[str, list[int]] = {}
    for place, tag in enumerate(tags):
        places.setdefault(tag, []).append(place)
    return places


def _judged(
    data: TestPairs, answers: Sequence[str], references: Sequence[tuple[str, ...]], places: list[int]
) -> dict[str, float]:
    """How good the answers with one tag are."""
    mine, theirs = [answers[place] for place in places], [references[place] for place in places]
    told = {name: SCORED[name](mine, theirs)[0] for name in data.measures if data.tells(name)}
    return {"pairs": len(places), "exact_match": exact_match(mine, theirs), **told}


def _words(bucket: Bucket) -> str:
    words = f"{bucket.low} to {bucket.high}" if bucket.low < bucket.high else str(bucket.low)
    return f"bleu, {words} words ({bucket.sentences} pairs)"


def compare(first: Evaluation, second: Evaluation) -> list[Comparison]:
    """Paired bootstrap by each metric of whole texts; by exact match where BLEU cannot tell."""
    before, after = _translated(first), _translated(second)
    if before.references != after.references:
        raise ValueError("the runs were evaluated on different pairs; name the pairs for all: --data FILE")
    references = before.references
    tests = [
        paired_bootstrap(before.answers, after.answers, references, metric=name)
        for name in MEASURES
        if name in first.metrics
    ]
    for name in (name for name in ROUGE if name in first.metrics):
        scores = [rouge_scores(name, part.answers, references) for part in (before, after)]
        tests.append(bootstrap_means(*scores, metric=name))
    if "bleu" in first.metrics:
        return tests
    exact = [exact_matches(part.answers, references) for part in (before, after)]
    return [bootstrap_means(*exact, metric="exact_match"), *tests]


def plot(evaluations: Mapping[str, Evaluation]) -> Curves:
    """BLEU by source length."""
    if not all("bleu" in evaluation.metrics for evaluation in evaluations.values()):
        raise DataError("BLEU cannot tell where hardly any target has four tokens: there is no curve of it to draw")
    return length_curves(
        {
            name: [(part.low, part.high, part.sentences, part.bleu) for part in _translated(evaluation).by_length]
            for name, evaluation in evaluations.items()
        }
    )


def _translated(evaluation: Evaluation) -> Translated:
    assert isinstance(evaluation.compared, Translated)
    return evaluation.compared
