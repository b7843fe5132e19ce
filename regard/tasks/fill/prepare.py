"""From plain text to what an encoder learns by: masked words to predict, and whether one part follows another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from regard.base.fields import file_names
from regard.data.artifacts import Artifacts
from regard.data.batches.batch import Rows
from regard.data.shards.reading import ShardRows
from regard.data.shards.sharded_data import ShardedRows
from regard.data.text.masking import MaskedData, encode_sentences
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError
from regard.learn.progress import counted
from regard.models.protocols import Model
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import Job
from regard.tasks.fill.settings import MaskedSettings
from regard.tasks.shared.reader import Reader


@dataclass(frozen=True)
class TestText:
    """Text to evaluate on."""

    data: MaskedData
    documents: int


def survey(job: Job[MaskedSettings], start: Artifacts | None) -> Artifacts:
    """A tokenizer trained on the training files."""
    length = job.data.length
    if start:  # it may have been a classifier, which this head is not, and may have read longer texts
        return replace(start, labels=(), max_length=start.max_length and max(start.max_length, length))
    documents = counted(job.data.documents_of("train"), "documents read for the vocabulary")
    return Artifacts(job.tokens.learn(chain.from_iterable(documents), job.numbering), max_length=length)


def prepare(job: Job[MaskedSettings], model: Model, artifacts: Artifacts, out: Path) -> Prepared[Reader, TestText]:
    settings, tokenizer, most = job.data, artifacts.own_tokenizer, model.config.max_positions
    if settings.length > most:
        raise DataError(
            f"data.length is {settings.length} and the model takes {most} tokens (model.max_positions); "
            f"set data.length={most} or less"
        )
    if settings.keeps_tokens:
        return kept(job, model, artifacts)
    documents = whole = encoded(settings, "train", tokenizer)
    if settings.holds_out:
        documents, valid = hold_out(whole, settings.valid_fraction)
    else:
        valid = encoded(settings, "valid", tokenizer)
    try:
        data = build_data(settings, documents, model, tokenizer, seed=job.train.seed)
    except DataError as error:
        build_data(settings, whole, model, tokenizer, seed=0)  # if the whole text is at fault, this error is raised
        raise DataError(
            f"too little of {settings.name} is left to learn from, as its end is held out for validation: "
            f"{error}; give more, or set data.valid to other text"
        ) from None
    amount = f"{len(documents):,} documents, {data.tokens:,} tokens"
    return Prepared(
        data, Reader(model, tokenizer, artifacts.max_length), fixed(job, valid, model, tokenizer), amount
    )


def fixed(job: Job[MaskedSettings], valid: list[Rows], model: Model, tokenizer: Tokenizer) -> TestText:
    """The validation data, on the same masks each time."""
    settings = job.data
    try:
        return TestText(build_data(settings, valid, model, tokenizer, seed=0), len(valid))
    except ValueError as error:
        what = ", ".join(file_names(settings.valid)) or f"what is held out of {settings.name}"
        raise DataError(f"{what} cannot be validated on: {error}; or set data.valid to other text") from None


def kept(job: Job[MaskedSettings], model: Model, artifacts: Artifacts) -> Prepared[Reader, TestText]:
    """Training text whose tokens are kept. In a block, documents are those of its chunks."""
    settings, tokenizer = job.data, artifacts.own_tokenizer
    shards = settings.kept("sentences", {"documents": settings.documents, "column": settings.column}, tokenizer)
    rows = ShardRows(shards)

    def make(columns: dict[str, Rows], seed: int) -> MaskedData:
        return build_data(settings, list(documents_of(columns)), model, tokenizer, seed=seed)

    data = ShardedRows(rows, make, batch_tokens=settings.batch_tokens, seed=job.train.seed)
    data.block(0, 0)  # an error in the text is told now
    valid = encoded(settings, "valid", tokenizer)
    tokens = sum(shard.counts["ids"] for shard in shards)
    amount = f"{rows.total('documents'):,} documents, {tokens:,} tokens"
    return Prepared(
        data, Reader(model, tokenizer, artifacts.max_length), fixed(job, valid, model, tokenizer), amount
    )


def documents_of(columns: dict[str, Rows]) -> Iterator[Rows]:
    """The sentences of each document."""
    sentences = columns["ids"]
    begins = np.flatnonzero(np.asarray(columns["begins"].ids)).tolist()
    for begin, end in pairwise([*begins, len(sentences)]):
        yield Rows(sentences[row] for row in range(begin, end))


def test_text(settings: MaskedSettings, run: Reader) -> TestText:
    documents = encoded(settings, "test", run.tokenizer)
    if settings.is_part("test"):
        _, documents = hold_out(documents, settings.valid_fraction)
    return TestText(build_data(settings, documents, run.model, run.tokenizer, seed=0), len(documents))


def hold_out(documents: list[Rows], share: float) -> tuple[list[Rows], list[Rows]]:
    """Split off the last documents, or the last sentences of a single document."""
    if len(documents) != 1:
        border = len(documents) - max(1, int(len(documents) * share))
        return documents[:border], documents[border:]
    (only,) = documents
    border = len(only) - max(1, int(len(only) * share))
    parts = (range(border), range(border, len(only)))
    first, last = (Rows(only[row] for row in part) for part in parts)
    return [first], [last]


def encoded(settings: MaskedSettings, split: str, tokenizer: Tokenizer) -> list[Rows]:
    return encode_sentences(counted(settings.documents_of(split), "documents read"), tokenizer)


def build_data(
    settings: MaskedSettings, documents: Sequence[Rows], model: Model, tokenizer: Tokenizer, *, seed: int
) -> MaskedData:
    pairs = model.config.predicts_next
    if pairs and model.config.segments < 2:
        raise DataError("next sentences need two segments and the model has one; set model.head=masked")
    return MaskedData(
        documents,
        tokenizer=tokenizer,
        length=min(settings.length, model.config.max_positions),
        batch_tokens=settings.batch_tokens,
        seed=seed,
        pairs=pairs,
        whole_words=settings.whole_words,
        mask_probability=settings.mask_probability,
    )
