"""From labelled texts to a classifier's batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from regard.base.divided import in_parts
from regard.data.artifacts import Artifacts
from regard.data.batches.batch import Rows
from regard.data.shards.reading import ShardRows
from regard.data.shards.sharded_data import ShardedRows
from regard.data.shards.tokenise import described_encoding
from regard.data.text.labelled_texts import EncodedRows, LabelledData, classes
from regard.data.text.text_encoding import EncodedText
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.word_vectors import read_vectors
from regard.errors import DataError, RecipeError
from regard.learn.auto import captures
from regard.learn.progress import say
from regard.models import name_of
from regard.models.protocols import Model, WordReader
from regard.tasks.classify.settings import LabelledSettings, LabelledText
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import Job
from regard.tasks.shared.text_reader import TextReader

PART = 1000  # texts encoded at once


def survey(job: Job[LabelledSettings], start: Artifacts | None) -> Artifacts:
    """The tokenizer, learned from the training texts unless it is given, and the classes' names."""
    keeps = job.data.keeps_tokens
    if not keeps and not job.data.rows("train"):
        raise DataError(f"{job.data.name} has too few texts to hold some out for validation; set data.valid")
    # Texts held out count too: the only text of a rare class may be among them.
    labels = classes(label for *_, label in job.data.stream())
    if start:
        same = set(start.labels) == set(labels)  # then in the order of the head that is there
        return replace(start, labels=start.labels if same else labels, max_length=job.data.truncate)
    rows = job.data.stream() if keeps else job.data.rows("train")
    texts = chain.from_iterable((text, second) if second else (text,) for text, second, _ in rows)
    return Artifacts(job.tokens.learn(texts, job.numbering), labels=labels, max_length=job.data.truncate)


def prepare(
    job: Job[LabelledSettings], model: Model, artifacts: Artifacts, out: Path
) -> Prepared[TextReader, LabelledData]:
    settings = job.data
    valid = settings.rows("valid", artifacts.labels)
    if not valid:
        raise DataError(f"{settings.name} has too few texts to hold some out for validation; set data.valid")
    reader = TextReader(model, artifacts.own_tokenizer, artifacts.max_length or settings.truncate)
    captured = captures(job.train)
    if settings.keeps_tokens:
        data: ShardedRows | LabelledData = kept_data(settings, reader, seed=job.train.seed, few_shapes=captured)
    else:
        data = build_data(settings, settings.rows("train"), reader, seed=job.train.seed, few_shapes=captured)
    fixed = build_data(settings, valid, reader, seed=0)
    if data.truncated:
        limits, most = reader.encoding.limits(reader.max_length), reader.encoding.most
        allowed = f"{limits} (data.truncate)" if settings.truncate < most else f"the {limits} this model takes"
        say(f"{data.truncated:,} of {len(data):,} texts were truncated to {allowed}")
    return Prepared(data, reader, fixed, f"{len(data):,} labelled texts, {len(artifacts.labels)} classes")


def take_vectors(name: str, model: Model, tokenizer: Tokenizer) -> None:
    """Begin with these word vectors; words that the file lacks keep their random vectors."""
    if not isinstance(model, WordReader):
        raise RecipeError(
            f"data.vectors is for models of words, such as pooling and han; {name_of(model)} does not take them"
        )
    words = {word: place for place, word in enumerate(tokenizer.tokens(range(len(tokenizer))))}
    table = model.word_table.weight
    vectors = list(read_vectors(name, words, table.shape[1]))
    if not vectors:
        raise DataError(f"{name} has none of the {len(words):,} words of this model; is it of another language?")
    with torch.no_grad():
        places = torch.tensor([words[word] for word, _ in vectors], device=table.device)
        table[places] = torch.from_numpy(np.stack([vector for _, vector in vectors])).to(table)
    say(f"{len(places.unique()):,} of {len(words):,} words begin with their vectors of {name}")


def build_data(
    settings: LabelledSettings,
    rows: Sequence[LabelledText],
    reader: TextReader,
    *,
    seed: int,
    few_shapes: bool = False,
) -> LabelledData:
    """Every text is truncated to as much as the reader reads when it is asked."""
    labels, encoding = reader.model.config.labels, reader.encoding
    numbers = {label: number for number, label in enumerate(labels)}
    for text, second, label in rows:
        if second and not encoding.pairs:
            why = f" (model.{encoding.single})" if encoding.single else ""
            raise DataError(f"{text[:40]!r} has a second text, and this model takes single ones{why}")
        if label not in numbers:
            raise DataError(
                f"{text[:40]!r} is labelled {label[:40]!r}, which is no class of this model; "
                f"there are {', '.join(labels)[:200]}"
            )
    return LabelledData(
        ((*encoded, numbers[label]) for encoded, (*_, label) in zip(encode(rows, reader), rows, strict=True)),
        encoding=encoding,
        special=reader.tokenizer.special,
        batch_tokens=settings.batch_tokens,
        seed=seed,
        few_shapes=few_shapes,
    )


def kept_data(settings: LabelledSettings, reader: TextReader, *, seed: int, few_shapes: bool) -> ShardedRows:
    """Training texts whose tokens are kept."""
    labels, encoding = list(reader.model.config.labels), reader.encoding
    how = {"encoding": described_encoding(encoding), "labels": labels, "truncate": reader.max_length}
    shards = settings.kept("labelled", {**how, "columns": settings.columns}, reader.tokenizer)
    longest = max(1, *(int(shard.about["longest"]) for shard in shards))

    def make(columns: dict[str, Rows], seed: int) -> LabelledData:
        data = LabelledData(
            EncodedRows(columns["ids"], columns["parts"], columns["label"].ids),
            encoding=encoding,
            special=reader.tokenizer.special,
            batch_tokens=settings.batch_tokens,
            seed=seed,
            few_shapes=few_shapes,
        )
        data.longest = longest  # of all blocks, so that these have the same few shapes
        return data

    return ShardedRows(ShardRows(shards), make, batch_tokens=settings.batch_tokens, seed=seed)


def encode(rows: Iterable[LabelledText], reader: TextReader) -> Iterator[tuple[EncodedText, bool]]:
    """Each text as the model reads it, and whether it was truncated."""

    def work(part: list[LabelledText]) -> Iterable[tuple[EncodedText, bool]]:
        texts = [(text, second) for text, second, _ in part]
        return reader.encoding.rows(texts, reader.tokenizer, reader.max_length)

    return in_parts(rows, PART, work)
