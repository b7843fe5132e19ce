"""From questions to the batches of a reader that finds answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from regard.base.divided import in_parts
from regard.data.artifacts import Artifacts
from regard.data.text.question_windows import QuestionData, Window, encode_questions, tokens_of, windows
from regard.data.text.questions import Question
from regard.errors import DataError
from regard.models.protocols import Model
from regard.tasks.ask.run import QuestionReader
from regard.tasks.ask.settings import QuestionSettings
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import Job

PART = 1000  # questions encoded at once


def survey(job: Job[QuestionSettings], start: Artifacts | None) -> Artifacts:
    """The tokenizer, learned from questions and contexts unless it is given."""
    rows = job.data.rows("train")
    if not rows or not job.data.rows("valid"):
        raise DataError(f"{job.data.name} has too few contexts to hold some out for validation; set data.valid")
    if start:
        return replace(start, labels=(), max_length=job.data.length)
    texts = chain((row.text for row in rows), dict.fromkeys(row.context for row in rows))
    return Artifacts(job.tokens.learn(texts, job.numbering), max_length=job.data.length)


def prepare(
    job: Job[QuestionSettings], model: Model, artifacts: Artifacts, out: Path
) -> Prepared[QuestionReader, list[Question]]:
    settings, most = job.data, model.config.max_positions
    if settings.length > most:
        raise DataError(
            f"data.length is {settings.length} and the model takes {most} tokens (model.max_positions); "
            f"set data.length={most} or less"
        )
    if model.config.segments < 2:
        raise DataError("a question and its context are in two segments, and the model has one (model.segments)")
    reader = QuestionReader(
        model,
        artifacts.own_tokenizer,
        settings.length,
        stride=settings.stride,
        longest=settings.longest_answer,
    )
    rows = settings.rows("train")
    data = QuestionData(
        list(in_parts(rows, PART, partial(encoded, reader))),
        special=reader.tokenizer.special,
        batch_tokens=settings.batch_tokens,
        seed=job.train.seed,
    )
    more = f" in {len(data):,} windows" if len(data) > len(rows) else ""
    return Prepared(data, reader, settings.rows("valid"), f"{len(rows):,} questions{more}")


def encoded(reader: QuestionReader, rows: Sequence[Question]) -> Iterator[tuple[Window, tuple[int, int]]]:
    """The windows of each question, and where in the row its first answer stands."""
    texts = encode_questions(reader.tokenizer, [(row.text, row.context) for row in rows])
    for row, (ids, context, places) in zip(rows, texts, strict=True):
        right = row.answers[0] if row.answers else None
        span = tokens_of(places, right.start, right.start + len(right.text)) if right else None
        special = reader.tokenizer.special
        for window in windows(ids, context, special, length=reader.max_length, stride=reader.stride):
            yield window, window.at(span)
