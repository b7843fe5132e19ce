"""From pairs of texts to a translator's batches."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.batch import Filter, PairData
from regard.data.blocks import BlockData, gather
from regard.data.pairs import DataError
from regard.data.text import Tokenizer
from regard.learn.measure import total_loss
from regard.learn.progress import counted
from regard.metrics.bleu import bleu
from regard.metrics.exact import exact_match
from regard.models import MODELS
from regard.tasks.known import Known
from regard.tasks.settings import BLOCKS, Data, Example, Job, Pair
from regard.tasks.translate import Translator

Settings = Data
BEST_BY = ("valid_loss", "bleu", "exact_match")
UNIT = "tokens"
PART = 1000  # pairs encoded at once


def prepare(
    job: Job, model: nn.Module, known: Known, out: Path
) -> tuple[PairData | BlockData, Callable[[], dict[str, float]], str]:
    """The training data, how to validate, and how much there is to learn from, in words."""
    translator = Translator(model, known.tokenizer, source_tokenizer=known.source_tokenizer)
    few = build_examples(job, translator)
    data, held = build_data(job, translator, few, out)
    few = few[: job.data.judged]
    return data, lambda: validate(translator, held, few), f"{len(data):,} training pairs"


def survey(job: Job, start: Known | None) -> Known:
    """The target's tokenizer and the source's, trained on the training pairs; no second one: one serves both."""
    if start:
        return start
    tokens = job.tokens
    # Two vocabularies have one place for each special token only where that does not hang on their size.
    layout = MODELS[job.model].layout if tokens.joint else "regard"

    def learn(texts: Iterable[str]) -> Tokenizer:
        return tokens.learn(texts, layout)

    if tokens.joint:
        return Known(learn(chain.from_iterable(counted(job.data.pairs("train"), "pairs read for the vocabulary"))))
    target, source = (
        learn(pair[side] for pair in counted(job.data.pairs("train"), f"pairs read for the {name} vocabulary"))
        for side, name in ((1, "target"), (0, "source"))
    )
    return Known(target, source)


def build_examples(job: Job, translator: Translator) -> list[Example]:
    """What to validate by. Pairs held out of the training files pass the same filter as those that stay."""
    examples = job.data.examples("valid")
    if job.data.made or job.data.valid:
        return examples
    chosen = Filter(longest=job.data.longest, ratio=job.data.ratio)
    lengths = ((len(source), len(target)) for source, target in encode(_first(examples), translator))
    kept = [one for one, pair in zip(examples, lengths, strict=True) if chosen.passes(*pair)]
    if not kept:
        raise DataError(f"{chosen.report()}; none is left to validate by: set data.valid to a file of pairs")
    return kept


def _first(examples: Iterable[Example]) -> Iterator[Pair]:
    return ((source, references[0]) for source, references in examples)


def build_data(
    job: Job, translator: Translator, examples: list[Example], out: Path
) -> tuple[PairData | BlockData, PairData]:
    """Training and validation pairs as ids; what the length filter drops is told."""
    chosen = Filter(longest=job.data.longest, ratio=job.data.ratio)
    pairs = chosen(encode(counted(job.data.pairs("train"), "pairs read"), translator))
    first = next(pairs, None)
    if first is None:
        raise DataError(f"{chosen.report()}; none is left to learn from: raise data.longest or data.ratio")
    data = gather(
        chain([first], pairs),
        folder=out / BLOCKS,
        budget=job.data.memory << 20,
        batch_tokens=job.data.batch_tokens,
        seed=job.train.seed,
        special=translator.tokenizer.special,
    )
    if dropped := chosen.report():
        print(dropped, file=sys.stderr)
    held = pair_data(_first(examples), translator, job.data.batch_tokens)
    longest: Any = translator.model.config.longest  # type: ignore[union-attr]
    if (most := max(data.longest_source, held.longest_source)) > longest:
        shutil.rmtree(out / BLOCKS, ignore_errors=True)
        with suppress(OSError):
            out.rmdir()  # if it was made for the blocks alone
        if data.longest_source > longest or not job.data.valid:
            raise ValueError(
                f"the longest source has {most} tokens and model.longest is {longest}; set model.longest={most}, "
                f"or data.longest={longest - 1} to drop longer training pairs"
            )
        raise ValueError(
            f"the longest source of {job.data.valid} has {most} tokens and model.longest is {longest}; "
            f"set model.longest={most}"
        )
    return data, held


def encode(pairs: Iterable[Pair], translator: Translator) -> Iterator[tuple[list[int], list[int]]]:
    pairs = iter(pairs)
    while part := list(islice(pairs, PART)):
        sources = translator.source_tokenizer.encode_batch([source for source, _ in part])
        targets = translator.tokenizer.encode_batch([target for _, target in part])
        yield from zip(sources, targets, strict=True)


def pair_data(pairs: Iterable[Pair], translator: Translator, batch_tokens: int) -> PairData:
    sources, targets = zip(*encode(pairs, translator), strict=True)
    special = translator.tokenizer.special
    return PairData(sources, targets, batch_tokens=batch_tokens, seed=0, special=special)


def mean_loss(model: nn.Module, data: PairData) -> float:
    """-log p per target token"""
    nats, tokens = total_loss(model, (data.batch(rows) for rows in data.order(0)))
    return nats / tokens


def validate(translator: Translator, held: PairData, few: list[Example]) -> dict[str, float]:
    answers = [answer.text for answer in translator.translate([source for source, _ in few])]
    references = [targets for _, targets in few]
    return {
        "valid_loss": mean_loss(translator.model, held),
        "exact_match": exact_match(answers, references),
        "bleu": bleu(answers, references)[0],
    }
