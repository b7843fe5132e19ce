"""From plain text to the sentences that a bidirectional language model learns from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from regard.data.artifacts import Artifacts
from regard.data.batches.batch import Rows
from regard.data.shards.reading import ShardRows
from regard.data.shards.sharded_data import ShardedRows
from regard.data.text.documents import read_sentences
from regard.data.text.sentence_data import SentenceData, encode_words
from regard.data.text.special_tokens import SPECIAL
from regard.errors import DataError, RecipeError
from regard.learn.progress import counted
from regard.models.protocols import BidirectionalLanguageModel, Model, need
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import Job
from regard.tasks.embed.run import Embedder
from regard.tasks.embed.settings import SentenceSettings

WORDS = ("word", "space")  # kinds of tokens


def survey(job: Job[SentenceSettings], start: Artifacts | None) -> Artifacts:
    """The words to predict, from the training files. Those held out of them count too."""
    if start:  # it may have been a classifier, which this head is not
        if len(start.own_tokenizer) == len(SPECIAL):
            raise RecipeError(
                f"the run to start from has no words to predict, as its softmax was not published; it can be asked "
                f"for vectors, and a classifier can read them: `regard train {job.model}-labelled --from RUN`"
            )
        return replace(start, labels=(), max_length=0)
    if job.tokens.kind not in WORDS:
        raise RecipeError(
            f"a {job.model} reads and predicts whole words: tokens.kind must be {' or '.join(WORDS)}, got "
            f"{job.tokens.kind!r}"
        )
    documents = counted(job.data.read(job.data.files_of("train")), "documents read for the vocabulary")
    return Artifacts(job.tokens.learn(chain.from_iterable(read_sentences(documents)), job.numbering))


def prepare(
    job: Job[SentenceSettings], model: Model, artifacts: Artifacts, out: Path
) -> Prepared[Embedder, SentenceData]:
    settings = job.data
    run = Embedder(model, artifacts.own_tokenizer)
    if settings.keeps_tokens:
        return kept(job, run)
    data = build_data(settings, settings.files_of("train"), run, seed=job.train.seed)
    if settings.holds_out:
        data, valid = hold_out(data, settings)
    else:
        valid = build_data(settings, settings.files_of("valid"), run, seed=0)
    return Prepared(data, run, valid, f"{len(data):,} sentences, {data.words:,} words")


def kept(job: Job[SentenceSettings], run: Embedder) -> Prepared[Embedder, SentenceData]:
    """Training text whose tokens are kept."""
    settings = job.data
    shards = settings.kept("words", {"documents": settings.documents, "column": settings.column}, run.tokenizer)
    batches = batching(
        settings, run
    )  # now: blocks are made while the model trains, and `need` puts it in eval mode

    def make(columns: dict[str, Rows], seed: int) -> SentenceData:
        ids, spelled = columns["ids"], columns["spelled"]
        words = (bytes(list(spelled[row])).decode().split("\0") for row in range(len(spelled)))
        return batches(zip((list(ids[row]) for row in range(len(ids))), words, strict=True), seed=seed)

    data = ShardedRows(ShardRows(shards), make, batch_tokens=settings.batch_tokens, seed=job.train.seed)
    valid = build_data(settings, settings.files_of("valid"), run, seed=0)
    words = sum(shard.counts["ids"] for shard in shards)
    return Prepared(data, run, valid, f"{len(data):,} sentences, {words:,} words")


def test_text(settings: SentenceSettings, run: Embedder) -> SentenceData:
    data = build_data(settings, settings.files_of("test"), run, seed=0)
    return hold_out(data, settings)[1] if settings.is_part("test") else data


def hold_out(data: SentenceData, settings: SentenceSettings) -> tuple[SentenceData, SentenceData]:
    try:
        return data.hold_out(settings.valid_fraction)
    except DataError as error:
        raise DataError(f"{settings.name}: {error} for validation; set data.valid") from None


def build_data(settings: SentenceSettings, files: Iterable[str], run: Embedder, *, seed: int) -> SentenceData:
    documents = counted(settings.read(files), "documents read")
    return batching(settings, run)(encode_words(documents, run.tokenizer), seed=seed)


def batching(settings: SentenceSettings, run: Embedder) -> Callable[..., SentenceData]:
    """SentenceData with all that the settings and the model say."""
    encoding = need(run.model, BidirectionalLanguageModel).encoding
    return partial(
        SentenceData,
        special=run.tokenizer.special,
        length=settings.length,
        batch_tokens=settings.batch_tokens,
        widest=encoding.widest,
        most=encoding.most_characters,
    )
