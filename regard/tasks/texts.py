"""From documents to a language model's windows, and how well it foresees a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.data.pairs import DataError
from regard.data.stream import TextBatch, TextData, encode_documents, windows
from regard.learn.measure import total_loss
from regard.learn.progress import counted
from regard.metrics.perplexity import Perplexity, count_words
from regard.models import MODELS
from regard.tasks.generate import LanguageModel
from regard.tasks.known import Known
from regard.tasks.settings import BLOCKS, Job, Text

Settings = Text
BEST_BY = ("valid_loss",)
UNIT = "tokens"
WINDOW = 1024  # tokens, where neither recipe nor model says less
MEASURES = ("loss", "perplexity", "word_perplexity", "bits_per_character")


def survey(job: Job, start: Known | None) -> Known:
    """One, trained on the training files. A part held out of them is found only once there are tokens, so that the
    vocabulary knows it too, as nanoGPT's does."""
    if start:
        return start
    documents = counted(job.data.read(job.data.train), "documents read for the vocabulary")
    return Known(job.tokens.learn(chain.from_iterable(documents), MODELS[job.model].layout))


def prepare(
    job: Job, model: nn.Module, known: Known, out: Path
) -> tuple[TextData, Callable[[], dict[str, float]], str]:
    """The training data, how to validate, and how much there is to learn from, in words."""
    text: Text = job.data
    tokenizer = known.tokenizer
    length, stride = spans(text, model)

    def encoded(files: Iterable[str], folder: str) -> np.ndarray:
        documents = counted(text.read(files), "documents read")
        return encode_documents(documents, tokenizer, folder=out / folder, budget=text.memory << 20)

    ids = encoded(text.train, BLOCKS)
    if text.valid:
        held = encoded([text.valid], f"{BLOCKS}/valid")
    else:
        border = len(ids) - int(len(ids) * text.held_out)
        ids, held = ids[:border], ids[border:]
        if len(held) < 2:
            raise DataError(f"{text.name} has too little text to hold some out for validation; set data.valid")
    options: dict[str, Any] = {"batch_tokens": text.batch_tokens, "end": tokenizer.special.end, "apart": text.apart}
    data = TextData(ids, length=length, seed=job.train.seed, **options)

    def validate() -> dict[str, float]:
        nats, tokens = total_loss(model, windows(held, length=length, stride=stride, **options))
        return {"valid_loss": nats / tokens}

    return data, validate, f"{len(data):,} training tokens"


def spans(text: Text, model: Any) -> tuple[int, int]:
    """How long windows are and how far apart, checked against what the model takes."""
    length = text.length or min(model.config.longest, WINDOW)
    if length > model.config.longest:
        raise ValueError(
            f"data.length is {length} and the model takes {model.config.longest} tokens (model.longest); "
            f"set data.length={model.config.longest} or less"
        )
    stride = text.stride or length
    if stride > length:
        raise ValueError(f"stride must be at most the length of a window, {length}, got {stride}")
    return length, stride


def judge_text(
    model: LanguageModel,
    text: Text,
    files: Iterable[str],
    *,
    folder: Path,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """How well the model foresees the files: by the names in MEASURES, with what was counted, and how."""
    length, stride = spans(text, model.model)
    count = words = characters = 0

    def tell(chunks: Iterable[str]) -> Iterable[str]:
        """Counted as they pass: a pipe can be read once."""
        nonlocal count, words, characters
        last, count = "", count + 1
        for chunk in chunks:
            words += count_words([last, chunk]) - count_words([last])
            characters, last = characters + len(chunk), chunk[-1:] or last
            yield chunk

    ids = encode_documents(
        (tell(one) for one in text.read(files)), model.tokenizer, folder=folder, budget=text.memory << 20
    )
    if text.documents == "line":  # its end stands for the line break
        words, characters = words + count, characters + count

    def shown() -> Iterable[TextBatch]:
        options: dict[str, Any] = {"end": model.tokenizer.special.end, "apart": text.apart}
        for batch in windows(ids, length=length, stride=stride, batch_tokens=text.batch_tokens, **options):
            yield batch
            tick()

    nats, tokens = total_loss(model.model, shown())
    found = Perplexity(nats, tokens, words, characters)
    scores = (found.loss, found.per_token, found.per_word, found.bits_per_character)
    counts = {"tokens": tokens, "words": words, "characters": characters, "length": length, "stride": stride}
    return counts | dict(zip(MEASURES, scores, strict=True))
