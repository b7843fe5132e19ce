"""From plain text to what an encoder learns by: words hidden and foretold, and whether one part follows another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from regard.data.batch import Rows
from regard.data.documents import READERS, Document, read_documents
from regard.data.masked import MaskedBatch, MaskedData, encode_sentences
from regard.data.pairs import DataError
from regard.data.text import Tokenizer
from regard.layers.products import plain_products
from regard.learn.progress import counted
from regard.models import MODELS
from regard.tasks.known import Known
from regard.tasks.settings import Job, file_names

BEST_BY = ("valid_loss",)
UNIT = "hidden tokens"
MEASURES = ("loss", "perplexity", "masked_accuracy", "next_accuracy")


@dataclass(frozen=True)
class Settings:
    """Where the text comes from (`data.documents` tells the forms of files), and how it is hidden."""

    train: str | tuple[str, ...] = ""  # one file or several, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, the end of train is held out
    test: str = ""  # without one, the validation text is taken
    documents: str = "blank"  # what is one document: the file, a line, what blank lines part, or a heading begins
    column: str = "text"  # of CSV and JSONL, where each row is a document
    held_out: float = 0.05  # the share of train's documents, or of the only one's sentences, from their end
    length: int = 128  # tokens in a row, the special ones included
    chosen: float = 0.15  # the share of tokens to be foretold
    whole_words: bool = False  # hide all pieces of a word together
    batch_tokens: int = 8192

    def __post_init__(self) -> None:
        object.__setattr__(self, "train", file_names(self.train))
        if not self.train:
            raise ValueError("set data.train to a file of text")
        if self.documents not in READERS:
            raise ValueError(f"documents must be one of {', '.join(READERS)}, got {self.documents!r}")
        if self.length < 8:
            raise ValueError(f"length must be at least 8, got {self.length}")
        if self.batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {self.batch_tokens}")
        for name in ("held_out", "chosen"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in (0, 1), got {getattr(self, name)}")

    @property
    def name(self) -> str:
        return ", ".join(file.rpartition("/")[2] for file in self.train)

    def read(self, files: Iterable[str]) -> Iterable[Document]:
        for file in files:
            yield from read_documents(file, documents=self.documents, column=self.column)


def survey(job: Job, start: Known | None) -> Known:
    """One tokenizer, trained on the training files."""
    length = job.data.length
    if start:  # it may have told classes apart, which this head does not, and read longer texts
        return replace(start, labels=(), longest=start.longest and max(start.longest, length))
    documents = counted(job.data.read(job.data.train), "documents read for the vocabulary")
    return Known(job.tokens.learn(chain.from_iterable(documents), MODELS[job.model].layout), longest=length)


def prepare(
    job: Job, model: Any, known: Known, out: Path
) -> tuple[MaskedData, Callable[[], dict[str, float]], str]:
    """The training data, how to validate, and how much there is to learn from, in words."""
    settings: Settings = job.data
    if settings.length > model.config.longest:
        raise DataError(
            f"data.length is {settings.length} and the model takes {model.config.longest} tokens (model.longest); "
            f"set data.length={model.config.longest} or less"
        )
    documents = whole = encoded(settings, settings.train, known.tokenizer)
    if settings.valid:
        held = encoded(settings, [settings.valid], known.tokenizer)
    else:
        documents, held = hold_out(documents, settings.held_out)
    try:
        data = build_data(settings, documents, model, known.tokenizer, seed=job.train.seed)
    except DataError as error:
        build_data(settings, whole, model, known.tokenizer, seed=0)  # if all of it is at fault, that is said
        raise DataError(
            f"too little of {settings.name} is left to learn from, as its end is held out for validation: "
            f"{error}; give more, or set data.valid to other text"
        ) from None
    try:
        fixed = build_data(settings, held, model, known.tokenizer, seed=0)
    except ValueError as error:
        what = settings.valid or f"what is held out of {settings.name}"
        raise DataError(f"nothing can be validated by {what}: {error}; or set data.valid to other text") from None

    def validate() -> dict[str, float]:
        found = judge_masked(model, fixed)
        return {"valid_loss": found["loss"], **{key: found[key] for key in MEASURES[2:] if key in found}}

    return data, validate, f"{len(documents):,} documents, {data.tokens:,} tokens"


def hold_out(documents: list[Rows], share: float) -> tuple[list[Rows], list[Rows]]:
    """All but the last documents, and those; of a single one, all but its last sentences, and those."""
    if len(documents) != 1:
        border = len(documents) - max(1, int(len(documents) * share))
        return documents[:border], documents[border:]
    (only,) = documents
    border = len(only) - max(1, int(len(only) * share))
    parts = (range(border), range(border, len(only)))
    first, last = (Rows(only[row] for row in part) for part in parts)
    return [first], [last]


def encoded(settings: Settings, files: Iterable[str], tokenizer: Tokenizer) -> Any:
    return encode_sentences(counted(settings.read(files), "documents read"), tokenizer)


def build_data(settings: Settings, documents: Any, model: Any, tokenizer: Tokenizer, *, seed: int) -> MaskedData:
    pairs = model.config.head == "pretrain"
    if pairs and model.config.segments < 2:
        raise DataError("next sentences need two segments and the model has one; set model.head=masked")
    return MaskedData(
        documents,
        tokenizer=tokenizer,
        length=min(settings.length, model.config.longest),
        batch_tokens=settings.batch_tokens,
        seed=seed,
        pairs=pairs,
        whole_words=settings.whole_words,
        chosen=settings.chosen,
    )


@torch.no_grad()
def judge_masked(model: Any, data: MaskedData, *, tick: Callable[[], None] = lambda: None) -> dict[str, float]:
    """How well hidden words are foretold, and whether one part follows another: by the names in MEASURES. The text
    is parted and hidden as in epoch 0, so that two models are asked the same."""
    device = next(model.parameters()).device
    nats, places, right, rows, following = 0.0, 0, 0, 0, 0
    with plain_products(model):
        for item in data.order(0):
            batch: MaskedBatch = data.batch(item).to(device)
            states = model.states(batch.tokens, batch.segments, batch.mask)
            logits = model.masked_logits(states[batch.chosen]).float()
            wanted = batch.targets[batch.chosen]
            nats += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
            right, places = right + int((logits.argmax(-1) == wanted).sum()), places + len(wanted)
            if batch.follows is not None:
                following += int((model.next_logits(states).argmax(-1) == batch.follows).sum())
                rows += len(batch.follows)
            tick()
    loss = nats / places
    found = {"loss": loss, "perplexity": float(torch.tensor(loss).exp()), "masked_accuracy": 100 * right / places}
    return found | ({"next_accuracy": 100 * following / rows} if rows else {})
