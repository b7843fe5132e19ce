"""From pairs of texts to a translator's batches."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regard.base.divided import in_parts
from regard.base.fields import file_names
from regard.data.artifacts import Artifacts
from regard.data.batches.batch import Filter, PairData, Rows
from regard.data.batches.blocks import BlockData, gather
from regard.data.batches.few_shapes import FewShapes
from regard.data.shards.reading import ShardRows, taken
from regard.data.shards.sharded_data import ShardedRows
from regard.data.text.special_tokens import TAG, Special
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.errors import BadInput, DataError, RecipeError
from regard.learn.auto import captures
from regard.learn.progress import counted, say
from regard.metrics.bleu import MEASURES, tells
from regard.metrics.rouge import ROUGE
from regard.models.protocols import Model
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import BLOCKS, Job
from regard.tasks.translate.run import Translator
from regard.tasks.translate.settings import Example, Pair, PairSettings

PART = 1000  # pairs encoded at once
BATCH_TOKENS = 4096  # of test pairs


@dataclass(frozen=True)
class TestPairs:
    """Pairs to evaluate on: as ids for the loss, and as texts to translate."""

    ids: PairData
    examples: list[Example]
    tags: Sequence[str] = ()  # of the examples' targets; (): the run has none
    measures: tuple[str, ...] = MEASURES  # that answers are judged by

    @classmethod
    def of(
        cls, ids: PairData, examples: list[Example], translator: Translator, settings: PairSettings
    ) -> TestPairs:
        """Where the run has tags, each reference begins with one."""
        measures = ROUGE if settings.metrics == "rouge" else MEASURES
        if not translator.tags:
            return cls(ids, examples, (), measures)
        tags = [without_tag(references[0])[0] for _, references in examples]
        plain = [
            (source, tuple(without_tag(reference)[1] for reference in references))
            for source, references in examples
        ]
        return cls(ids, plain, tags, measures)

    def tells(self, metric: str) -> bool:
        """Whether a metric is asked for and says anything here: BLEU of targets of one word does not."""
        if metric in (*MEASURES, *ROUGE) and metric not in self.measures:
            return False
        return self._tells.get(metric, True)

    @cached_property
    def _tells(self) -> dict[str, bool]:
        return {name: tells(name, [references for _, references in self.examples]) for name in MEASURES}


def survey(job: Job[PairSettings], start: Artifacts | None) -> Artifacts:
    """The target's tokenizer and the source's, trained on the training pairs; a joint tokenizer serves both."""
    if start:
        return start
    tokens = job.tokens
    # Two vocabularies have one place for each special token only where that does not depend on their size.
    numbering = job.numbering if tokens.joint else "regard"

    tagged = bool(job.data.target_tag)
    tags = sorted({without_tag(target)[0] for _, target in job.data.pairs("train")}) if tagged else []

    def learn(texts: Iterable[str], tags: Sequence[str] = ()) -> Tokenizer:
        return tokens.learn(texts, numbering, tags)

    def pairs(name: str) -> Iterator[Pair]:
        read = counted(job.data.pairs("train"), f"pairs read for the {name}vocabulary")
        return ((source, without_tag(target)[1]) for source, target in read) if tagged else read

    if tokens.joint:
        return Artifacts(learn(chain.from_iterable(pairs("")), tags))
    target = learn((target for _, target in pairs("target ")), tags)
    return Artifacts(target, learn(source for source, _ in pairs("source ")))


def without_tag(target: str) -> tuple[str, str]:
    """The tag that a target of the settings begins with ("": none), and the text."""
    found = TAG.match(target)
    return (found[1], target[found.end() :]) if found else ("", target)


def prepare(
    job: Job[PairSettings], model: Model, artifacts: Artifacts, out: Path
) -> Prepared[Translator, TestPairs]:
    decode = Decoding(max_length=job.decode.max_length)  # validated greedily, which takes the least time
    translator = Translator(model, artifacts.text, decode, source_tokenizer=artifacts.source_tokenizer)
    examples = valid_examples(job.data, translator)
    data: Any
    data, valid = build_data(job, translator, examples, out)
    if captures(job.train):
        most = translator.model.max_source_positions, translator.model.max_target_positions
        data = FewShapes(data, job.data.batch_tokens, translator.tokenizer.special, *most)
    test = TestPairs.of(valid, examples[: job.data.eval_pairs], translator, job.data)
    if job.train.best_by in (*MEASURES, *ROUGE) and job.train.best_by not in test.measures:
        raise RecipeError(
            f"[train]: best_by is {job.train.best_by}, and answers are judged by {', '.join(test.measures)} "
            f"(data.metrics = {job.data.metrics!r}); set one of them"
        )
    if not test.tells(job.train.best_by):
        raise RecipeError(
            f"[train]: best_by is {job.train.best_by}, which is about 0 whatever the answers, as hardly any target "
            "has four tokens; set train.best_by=exact_match or valid_loss"
        )
    return Prepared(data, translator, test, f"{len(data):,} training pairs")


def test_pairs(settings: PairSettings, translator: Translator) -> TestPairs:
    examples = settings.examples("test")
    if not examples:
        raise DataError("there must be at least one pair to evaluate on, got none")
    ids = pair_data(_first(examples), translator, BATCH_TOKENS)
    for place in np.flatnonzero(ids.source_lengths > translator.max_source).tolist():
        try:
            translator.read(examples[place][0])
        except BadInput as error:
            raise DataError(
                f"{', '.join(settings.test_files) or 'the test pairs'}, pair {place + 1}: {error}"
            ) from None
    return TestPairs.of(ids, examples, translator, settings)


def valid_examples(settings: PairSettings, translator: Translator) -> list[Example]:
    """Pairs held out of the training files pass the same filter as those that stay."""
    examples = settings.examples("valid")
    if not settings.holds_out:
        return examples
    chosen = Filter(drop_longer=settings.drop_longer, max_ratio=settings.max_ratio)
    lengths = ((len(source), len(target)) for source, target in encode(_first(examples), translator))
    passed = [example for example, pair in zip(examples, lengths, strict=True) if chosen.passes(*pair)]
    if not passed:
        raise DataError(f"{chosen.report()}; none is left to validate on: set data.valid to a file of pairs")
    return passed


def _first(examples: Iterable[Example]) -> Iterator[Pair]:
    return ((source, references[0]) for source, references in examples)


def build_data(
    job: Job[PairSettings], translator: Translator, examples: list[Example], out: Path
) -> tuple[PairData | BlockData | ShardedRows, PairData]:
    """Training and validation pairs as ids; what the length filter drops is reported."""
    settings = job.data
    valid = pair_data(_first(examples), translator, settings.batch_tokens)
    if settings.keeps_tokens:
        data: PairData | BlockData | ShardedRows = kept_pairs(job, translator)
    else:
        data = read_data(job, translator, out)
    check_lengths(settings, data.longest_source, valid.longest_source, translator.max_source, out)
    return data, valid


def read_data(job: Job[PairSettings], translator: Translator, out: Path) -> PairData | BlockData:
    """In memory, or in blocks on disk."""
    settings = job.data
    chosen = Filter(drop_longer=settings.drop_longer, max_ratio=settings.max_ratio)
    pairs = chosen(encode(counted(settings.pairs("train"), "pairs read"), translator))
    first = next(pairs, None)
    if first is None:
        raise DataError(f"{chosen.report()}; none is left to learn from: raise data.drop_longer or data.max_ratio")
    data = gather(
        chain([first], pairs),
        folder=out / BLOCKS,
        budget=settings.memory_mib << 20,
        batch_tokens=settings.batch_tokens,
        seed=job.train.seed,
        special=special_of(translator),
    )
    if dropped := chosen.report():
        say(dropped)
    return data


def kept_pairs(job: Job[PairSettings], translator: Translator) -> ShardedRows:
    """Training pairs whose tokens are kept, all of them: the filter is applied as they are read."""
    settings, source, target = job.data, translator.source_tokenizer, translator.tokenizer
    assert isinstance(source, Tokenizer)  # no others are trained with
    assert isinstance(target, Tokenizer)
    rows = ShardRows(settings.kept("pairs", {"source": settings.source, "target": settings.target}, source, target))

    def new_filter() -> Filter:
        return Filter(drop_longer=settings.drop_longer, max_ratio=settings.max_ratio)

    def make(columns: dict[str, Rows], seed: int) -> PairData | None:
        sides = columns["source"], columns["target"]
        keep = new_filter().keeps(sides[0].lengths(), sides[1].lengths())
        if not keep.any():
            return None
        sources, targets = (taken(side, keep) for side in sides)
        return PairData(sources, targets, batch_tokens=settings.batch_tokens, seed=seed, special=target.special)

    chosen, longest = new_filter(), 0
    for lengths in rows.lengths("source", "target"):
        longest = max(longest, int((chosen.keeps(*lengths) * (lengths[0] + 1)).max(initial=0)))  # with </s>
    left = chosen.seen - chosen.dropped.total()
    if not left:
        raise DataError(f"{chosen.report()}; none is left to learn from: raise data.drop_longer or data.max_ratio")
    if dropped := chosen.report():
        say(dropped)
    data = ShardedRows(rows, make, batch_tokens=settings.batch_tokens, seed=job.train.seed, count=left)
    data.longest_source = longest
    return data


def check_lengths(settings: PairSettings, train: int, valid: int, most: int, out: Path) -> None:
    """DataError where a source has more tokens than the model has positions."""
    longest = max(train, valid)
    if longest <= most:
        return
    shutil.rmtree(out / BLOCKS, ignore_errors=True)
    with suppress(OSError):
        out.rmdir()  # if it was made for the blocks alone
    if train > most or not settings.valid:
        drop = f", or data.drop_longer={most - 1} to drop longer training pairs" if most > 1 else ""
        raise DataError(
            f"the longest source has {longest} tokens and model.max_positions is {most}; set "
            f"model.max_positions={longest}{drop}"
        )
    raise DataError(
        f"the longest source of {', '.join(file_names(settings.valid))} has {longest} tokens and "
        f"model.max_positions is {most}; set model.max_positions={longest}"
    )


def encode(pairs: Iterable[Pair], translator: Translator) -> Iterator[tuple[list[int], list[int]]]:
    def work(part: list[Pair]) -> Iterable[tuple[list[int], list[int]]]:
        sources = translator.source_tokenizer.encode_batch([source for source, _ in part])
        if not translator.tags:
            return zip(sources, translator.tokenizer.encode_batch([target for _, target in part]), strict=True)
        tags, texts = zip(*(without_tag(target) for _, target in part), strict=True)
        starts = [translator.tag(tag) for tag in tags]
        targets = translator.tokenizer.encode_batch(list(texts))
        return ((source, [start, *ids]) for source, start, ids in zip(sources, starts, targets, strict=True))

    return in_parts(pairs, PART, work)


def pair_data(pairs: Iterable[Pair], translator: Translator, batch_tokens: int) -> PairData:
    sources, targets = zip(*encode(pairs, translator), strict=True)
    special = special_of(translator)
    return PairData(sources, targets, batch_tokens=batch_tokens, seed=0, special=special)


def special_of(translator: Translator) -> Special:
    """Where the run has tags, each target brings the token that it begins with."""
    special = translator.tokenizer.special
    return replace(special, start=-1) if translator.tags else special
