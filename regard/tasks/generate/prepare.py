"""From documents to a language model's windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypedDict

import numpy as np

from regard.base.processes import of_first
from regard.data.artifacts import Artifacts
from regard.data.shards.reading import RunningText
from regard.data.shards.sharded_data import ShardedText
from regard.data.text.prompted import PromptedData
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.windows import TextData, Windows, encode_documents, spilled, windows
from regard.errors import BadInput, DataError
from regard.learn.auto import captures
from regard.learn.progress import counted
from regard.metrics.perplexity import count_words
from regard.models import protocols
from regard.models.protocols import Model, need
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import BLOCKS, Job
from regard.tasks.generate import pairs
from regard.tasks.generate.run import LanguageModel
from regard.tasks.generate.settings import TextSettings

PART = 1 << 16  # tokens decoded at once
WINDOW = 1024  # tokens, where neither recipe nor model says less
Ids = np.ndarray | RunningText


@dataclass(frozen=True)
class TestText:
    """Text to evaluate on: its windows, and how many words and characters it has (0: not counted)."""

    windows: Windows | PromptedData
    length: int
    stride: int
    words: int = 0
    characters: int = 0


class Batching(TypedDict):
    batch_tokens: int
    end: int
    separate_documents: bool


def survey(job: Job[TextSettings], start: Artifacts | None) -> Artifacts:
    """A tokenizer trained on all of the training files. The part held out of them is found only once there are
    tokens, so that the vocabulary knows it too, as in nanoGPT."""
    if start:
        return start
    if job.data.in_pairs:
        return pairs.survey(job)
    documents = counted(job.data.read(job.data.files_of("train")), "documents read for the vocabulary")
    return Artifacts(job.tokens.learn(chain.from_iterable(documents), job.numbering))


def prepare(
    job: Job[TextSettings], model: Model, artifacts: Artifacts, out: Path
) -> Prepared[LanguageModel, TestText]:
    text, tokenizer = job.data, artifacts.own_tokenizer
    if text.in_pairs:
        return prepare_pairs(job, need(model, protocols.LanguageModel), tokenizer)
    length, stride = spans(text, model)

    def encoded(files: Iterable[str], folder: str) -> Ids:
        def read() -> np.ndarray | None:
            documents = counted(text.read(files), "documents read")
            ids = encode_documents(documents, tokenizer, folder=out / folder, budget=text.memory_mib << 20)
            return None if isinstance(ids, np.memmap) else ids

        ids = of_first(read)  # under torchrun all processes map the same file
        return spilled(out / folder) if ids is None else ids

    keeps = text.keeps_tokens
    ids = kept_text(text, tokenizer) if keeps else encoded(text.files_of("train"), BLOCKS)
    if text.holds_out:
        ids, valid = hold_out(ids, text)
    else:
        valid = encoded(text.files_of("valid"), f"{BLOCKS}/valid")
    options = batching(text, tokenizer.special.end)
    data = (ShardedText if keeps else TextData)(ids, length=length, seed=job.train.seed, **options)
    test = TestText(windows(valid, length=length, stride=stride, **options), length, stride)
    return Prepared(data, LanguageModel(model, tokenizer), test, f"{len(data):,} training tokens")


def prepare_pairs(
    job: Job[TextSettings], model: protocols.LanguageModel, tokenizer: Tokenizer
) -> Prepared[LanguageModel, TestText]:
    """Each row is a prompt and its response."""
    train, valid = pairs.split(job.data)
    data = pairs.data(train, job.data, tokenizer, model, seed=job.train.seed, few_shapes=captures(job.train))
    run = LanguageModel(model, tokenizer, responds=True)
    return Prepared(data, run, pairs_to_test(valid, job.data, run), f"{len(data):,} pairs of prompt and response")


def pairs_to_test(rows: list[pairs.Pair], text: TextSettings, run: LanguageModel) -> TestText:
    data = pairs.data(rows, text, run.tokenizer, run.model, seed=0)
    return TestText(data, data.longest, data.longest, *pairs.amounts(rows))


def kept_text(text: TextSettings, tokenizer: Tokenizer) -> RunningText:
    """The tokens of train, which are kept."""
    return RunningText(text.kept("text", {"documents": text.documents, "column": text.column}, tokenizer))


def decoded(ids: np.ndarray, tokenizer: Tokenizer) -> Iterator[Iterator[str]]:
    """The text of each document, in parts."""
    for document in np.split(ids, np.flatnonzero(ids == tokenizer.special.end) + 1):
        parts = (document[begin : begin + PART] for begin in range(0, len(document), PART))
        yield (tokenizer.decode(part.tolist()) for part in parts)


def batching(text: TextSettings, end: int) -> Batching:
    return {"batch_tokens": text.batch_tokens, "end": end, "separate_documents": text.separate_documents}


def spans(text: TextSettings, model: Model) -> tuple[int, int]:
    """The length of windows and the distance between them, checked against the model's positions."""
    most = model.config.max_positions
    length = text.length or min(most, WINDOW)
    if length > need(model, protocols.LanguageModel).max_target_positions:
        raise BadInput(
            f"data.length is {length} and the model takes {most} tokens (model.max_positions); "
            f"set data.length={most} or less"
        )
    stride = text.stride or length
    if stride > length:
        raise BadInput(f"stride must be at most the length of a window, {length}, got {stride}")
    return length, stride


def hold_out(ids: Ids, text: TextSettings) -> tuple[Ids, Ids]:
    """All but the end of the training text, and its end, to validate on."""
    border = len(ids) - int(len(ids) * text.valid_fraction)
    if len(ids) - border < 2:
        raise DataError(f"{text.name} has too little text to hold some out for validation; set data.valid")
    return ids[:border], ids[border:]


def test_text(text: TextSettings, run: LanguageModel, folder: Path) -> TestText:
    """`folder`: where a text that does not fit in memory is kept meanwhile. Without a test or validation file it is
    what training held out, whose words and characters are counted in the decoded tokens."""
    if text.in_pairs:
        return pairs_to_test(pairs.tested(text), text, run)
    length, stride = spans(text, run.model)
    count = words = characters = 0

    def counting(chunks: Iterable[str]) -> Iterable[str]:
        """Counted as they pass: a pipe can be read once."""
        nonlocal count, words, characters
        last, count = "", count + 1
        for chunk in chunks:
            words += count_words([last, chunk]) - count_words([last])
            characters, last = characters + len(chunk), chunk[-1:] or last
            yield chunk

    end, part = run.tokenizer.special.end, text.is_part("test")
    if part and text.keeps_tokens:
        ids: Ids = kept_text(text, run.tokenizer)
    else:
        documents = (document if part else counting(document) for document in text.read(text.files_of("test")))
        ids = encode_documents(documents, run.tokenizer, folder=folder, budget=text.memory_mib << 20)
    if part:
        ids = np.asarray(hold_out(ids, text)[1])
        for document in decoded(ids, run.tokenizer):
            for _ in counting(document):
                pass
        count = int((ids == end).sum())
    if text.documents == "line":  # the end token stands for the line break
        words, characters = words + count, characters + count
    options = batching(text, end)
    return TestText(windows(ids, length=length, stride=stride, **options), length, stride, words, characters)
