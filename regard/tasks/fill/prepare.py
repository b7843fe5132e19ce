"""From plain text to what an encoder learns by: masked words to predict, and whether one part follows another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from regard.base.fields import file_names
from regard.data.artifacts import Artifacts
from regard.data.batches.batch import Rows
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
    documents = counted(job.data.read(job.data.files_of("train")), "documents read for the vocabulary")
    return Artifacts(job.tokens.learn(chain.from_iterable(documents), job.numbering), max_length=length)


def prepare(job: Job[MaskedSettings], model: Model, artifacts: Artifacts, out: Path) -> Prepared[Reader, TestText]:
    settings, tokenizer, most = job.data, artifacts.own_tokenizer, model.config.max_positions
    if settings.length > most:
        raise DataError(
            f"data.length is {settings.length} and the model takes {most} tokens (model.max_positions); "
            f"set data.length={most} or less"
        )
    documents = whole = encoded(settings, settings.files_of("train"), tokenizer)
    if settings.holds_out:
        documents, valid = hold_out(whole, settings.valid_fraction)
    else:
        valid = encoded(settings, settings.files_of("valid"), tokenizer)
    try:
        data = build_data(settings, documents, model, tokenizer, seed=job.train.seed)
    except DataError as error:
        build_data(settings, whole, model, tokenizer, seed=0)  # if the whole text is at fault, this error is raised
        raise DataError(
            f"too little of {settings.name} is left to learn from, as its end is held out for validation: "
            f"{error}; give more, or set data.valid to other text"
        ) from None
    try:
        fixed = build_data(settings, valid, model, tokenizer, seed=0)
    except ValueError as error:
        what = ", ".join(file_names(settings.valid)) or f"what is held out of {settings.name}"
        raise DataError(f"{what} cannot be validated on: {error}; or set data.valid to other text") from None
    amount = f"{len(documents):,} documents, {data.tokens:,} tokens"
    return Prepared(data, Reader(model, tokenizer, artifacts.max_length), TestText(fixed, len(valid)), amount)


def test_text(settings: MaskedSettings, run: Reader) -> TestText:
    documents = encoded(settings, settings.files_of("test"), run.tokenizer)
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


def encoded(settings: MaskedSettings, files: Iterable[str], tokenizer: Tokenizer) -> list[Rows]:
    return encode_sentences(counted(settings.read(files), "documents read"), tokenizer)


def build_data(
    settings: MaskedSettings, documents: Sequence[Rows], model: Model, tokenizer: Tokenizer, *, seed: int
) -> MaskedData:
    pairs = model.config.head == "pretrain"
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
