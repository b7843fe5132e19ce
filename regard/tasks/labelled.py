"""From labelled texts to a classifier's batches, and how often it is right."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.labelled import LabelledBatch, LabelledData, classes, read_labelled
from regard.data.pairs import DataError
from regard.data.text import Tokenizer
from regard.learn.progress import counted
from regard.models import MODELS
from regard.tasks.classes import class_logits, validation
from regard.tasks.known import Known
from regard.tasks.settings import Job, file_names

BEST_BY = ("valid_loss", "accuracy")
UNIT = "texts"
PART = 1000  # texts encoded at once

Row = tuple[str, str, str]  # a text, the second one of a pair or "", and the label


@dataclass(frozen=True)
class Settings:
    """Where labelled texts come from (`data.labelled` tells the forms of files)."""

    train: str | tuple[str, ...] = ""  # one file or several, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, one text in twenty is held out of train
    test: str = ""  # without one, the validation texts are taken
    text: str = ""  # the column: its name in CSV, JSONL and TSV with a header, its number in other TSV
    second: str = ""  # that of the second text, where pairs are labelled
    label: str = ""
    longest: int = 128  # tokens, the special ones included; what is longer is cut
    batch_tokens: int = 2048  # rows x longest of a batch

    def __post_init__(self) -> None:
        object.__setattr__(self, "train", file_names(self.train))
        if not self.train:
            raise ValueError("set data.train to a file of labelled texts: text, tab, label")
        if self.longest < 8:
            raise ValueError(f"longest must be at least 8, got {self.longest}")
        if self.batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {self.batch_tokens}")

    @property
    def name(self) -> str:
        return ", ".join(file.rpartition("/")[2] for file in self.train)

    def read(self, files: Iterable[str]) -> Iterator[Row]:
        for file in files:
            yield from read_labelled(file, text=self.text, second=self.second, label=self.label)

    def rows(self, split: str) -> list[Row]:
        """Those of train, valid or test. Without a file of its own, one in twenty is held out by its text, so that
        another order of the file chooses the same."""
        named = {"test": self.test or self.valid, "valid": self.valid}.get(split, "")
        if named:
            return list(self.read([named]))
        if self.valid:
            return self.all
        return [row for row in self.all if (zlib.crc32(row[0].encode()) % 20 == 0) == (split != "train")]

    @cached_property
    def all(self) -> list[Row]:
        """Every row of train, read once."""
        return list(counted(self.read(self.train), "texts read"))


def survey(job: Job, start: Known | None) -> Known:
    """The tokenizer, learned from the training texts unless there is one, and the classes' names."""
    rows = job.data.rows("train")
    if not rows:
        raise DataError(f"{job.data.name} has too few texts to hold some out for validation; set data.valid")
    # Those held out count too: the only text of a rare class may be among them.
    labels = classes(label for *_, label in job.data.all)
    if start:
        same = set(start.labels) == set(labels)  # then in the order of the head that is there
        return replace(start, labels=start.labels if same else labels, longest=job.data.longest)
    texts = chain.from_iterable((text, second) if second else (text,) for text, second, _ in rows)
    return Known(job.tokens.learn(texts, MODELS[job.model].layout), labels=labels, longest=job.data.longest)


def prepare(
    job: Job, model: Any, known: Known, out: Path
) -> tuple[LabelledData, Callable[[], dict[str, float]], str]:
    """The training data, how to validate, and how much there is to learn from, in words."""
    settings: Settings = job.data
    held = settings.rows("valid")
    if not held:
        raise DataError(f"{settings.name} has too few texts to hold some out for validation; set data.valid")
    data, fixed = (
        build_data(settings, rows, model, known, seed=seed)
        for rows, seed in ((settings.rows("train"), job.train.seed), (held, 0))
    )
    if data.cut:
        ours, longest = settings.longest, model.config.longest
        told = f"{ours} tokens (data.longest)" if ours < longest else f"the {longest} tokens this model takes"
        print(f"{data.cut:,} of {len(data):,} texts were cut to {told}", file=sys.stderr)

    def validate() -> dict[str, float]:
        return validation(*judge_labelled(model, fixed))

    return data, validate, f"{len(data):,} labelled texts, {len(known.labels)} classes"


def build_data(
    settings: Settings, rows: Sequence[Row], model: Any, known: Known, *, seed: int, longest: int = 0
) -> LabelledData:
    """longest: of each text, in tokens; 0: data.longest."""
    numbers = {label: number for number, label in enumerate(known.labels)}
    for text, second, label in rows:
        if second and model.config.segments < 2:
            raise DataError(
                f"{text[:40]!r} has a second text, and this model takes single ones (model.segments = 1)"
            )
        if label not in numbers:
            raise DataError(
                f"{text[:40]!r} is labelled {label[:40]!r}, which is no class of this model; "
                f"there are {', '.join(known.labels)[:200]}"
            )
    return LabelledData(
        (
            (first, second, numbers[label])
            for (first, second), (*_, label) in zip(encode(rows, known.tokenizer), rows, strict=True)
        ),
        tokenizer=known.tokenizer,
        longest=min(longest or settings.longest, model.config.longest),
        batch_tokens=settings.batch_tokens,
        seed=seed,
    )


def encode(rows: Iterable[Row], tokenizer: Tokenizer) -> Iterator[tuple[list[int], list[int] | None]]:
    left = iter(rows)
    while part := list(islice(left, PART)):
        firsts = tokenizer.encode_batch([text for text, *_ in part])
        seconds = tokenizer.encode_batch([second for _, second, _ in part])
        for first, second, (_, text, _) in zip(firsts, seconds, part, strict=True):
            yield first, second if text else None


def judge_labelled(
    model: Any, data: LabelledData, *, tick: Callable[[], None] = lambda: None
) -> tuple[Tensor, Tensor]:
    """The logits (N, classes) of every text and their true classes (N,), in one order."""

    def ask(batch: LabelledBatch) -> Tensor:
        return model.class_logits(model.states(batch.tokens, batch.segments, batch.mask))

    batches = [data.batch(item) for item in data.order(0)]
    return class_logits(model, batches, ask, tick=tick), torch.cat([batch.labels for batch in batches])
