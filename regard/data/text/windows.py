"""Documents become one long sequence of ids, cut into windows, in an order that is a function of (seed, epoch)."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from regard.base.divided import each
from regard.base.files import FULL, drafted, sync_folder
from regard.data.batches.batch import Batch, RowNumbers, check_batching
from regard.data.shards.reading import RunningText
from regard.data.text.tokenizer import PART, Tokenizer
from regard.errors import DataError

FILE = "text.ids"  # int32, in the machine's byte order, because the file is temporary
WRITE = 1 << 20  # ids that are buffered before they are written


@dataclass(frozen=True, repr=False)
class TextBatch(Batch):
    """tokens[:, :-1] is the input, tokens[:, 1:] is predicted; only `counted` places enter the loss."""

    tokens: Tensor  # (B, L + 1)
    counted: Tensor  # (B, L)
    since: Tensor | None  # (B, L): where the document of each input token begins; None: attention crosses documents


def encode_documents(
    documents: Iterable[Iterable[str]], tokenizer: Tokenizer, *, folder: Path, budget: int
) -> np.ndarray:
    """The ids of all documents, each followed by the end token: (N,) int32.

    In memory if they take at most `budget` bytes, else in a file in `folder`, where the file of an earlier call is
    removed. A document comes in chunks and is never in memory as a whole."""
    if budget < 1:
        raise ValueError(f"budget must be at least 1 byte, got {budget}")
    (folder / FILE).unlink(missing_ok=True)
    ids, parts = array("i"), _encoded(documents, tokenizer)
    for part in parts:
        ids.extend(part)
        if ids.itemsize * len(ids) > budget:
            return _spill(ids, parts, folder)
    if not ids:
        raise DataError("there must be at least one document, got none")
    return np.frombuffer(ids, np.int32)


def _encoded(documents: Iterable[Iterable[str]], tokenizer: Tokenizer) -> Iterator[list[int]]:
    def work(part: list[str | None], tick: object) -> Iterator[list[int]]:
        return ([tokenizer.special.end] if text is None else tokenizer.encode(text) for text in part)

    return each(_parts(documents, tokenizer), work)


def _parts(documents: Iterable[Iterable[str]], tokenizer: Tokenizer) -> Iterator[list[str | None]]:
    """About PART characters at a time; None: a document ends."""
    part: list[str | None] = []
    length = 0
    for document in documents:
        for text in chain(tokenizer.split_stream(document), [None]):
            part.append(text)
            length += len(text or " ")
            if length >= PART:
                yield part
                part, length = [], 0
    if part:
        yield part


def _spill(ids: array[int], parts: Iterator[list[int]], folder: Path) -> np.ndarray:
    written = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with drafted(folder / FILE) as file:
            for part in parts:
                if len(ids) >= WRITE:
                    file.write(ids)
                    written, ids = written + ids.itemsize * len(ids), array("i")
                ids.extend(part)
            file.write(ids)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in FULL:
            needs = f"the text takes 4 bytes per token there; {written:,} bytes were written"
            raise OSError(error.errno, f"{error.strerror}; {needs}", str(folder)) from None
        raise
    sync_folder(folder)
    return spilled(folder)


def spilled(folder: Path) -> np.ndarray:
    """The ids that `encode_documents` has written to a file."""
    return np.memmap(folder / FILE, np.int32, mode="r")


class TextData(RowNumbers):
    """Windows of one long text. A text shorter than a window is a single window.

    A window has length + 1 ids and overlaps the next by one id, which is a target in the first window and input in
    the next. `separate_documents`: attention does not cross the borders of documents."""

    def __init__(
        self,
        ids: np.ndarray | RunningText,
        *,
        length: int,
        batch_tokens: int,
        seed: int,
        end: int,
        separate_documents: bool = False,
    ) -> None:
        if length < 1:
            raise ValueError(f"length must be at least 1, got {length}")
        if len(ids) < 2:
            raise DataError(f"the text must have at least 2 tokens, an input and one to predict, got {len(ids)}")
        check_batching(batch_tokens=batch_tokens, seed=seed)
        self.ids, self.length = ids, min(length, len(ids) - 1)
        self.batch_tokens, self.seed = batch_tokens, seed
        self.separator = end if separate_documents else None

    @cached_property
    def windows(self) -> np.ndarray:
        """A view: nothing is copied."""
        return sliding_window_view(np.asarray(self.ids), self.length + 1)

    def __len__(self) -> int:
        return len(self.ids)

    def order(self, epoch: int) -> list[np.ndarray]:
        """The epoch's batches as the places where windows begin, drawn anew each epoch.

        The first window begins at a random offset, so that the borders differ between epochs. Less than a window at
        either end is left out of this epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        offset = int(generator.integers(min(self.length, len(self.windows))))
        starts = generator.permutation(np.arange(offset, len(self.windows), self.length))
        rows = max(1, self.batch_tokens // self.length)
        return [starts[row : row + rows] for row in range(0, len(starts), rows)]

    def batch(self, starts: np.ndarray) -> TextBatch:
        return self._whole(self.windows[starts].astype(np.int64))

    def _whole(self, tokens: np.ndarray) -> TextBatch:
        """Of whole windows, all places are counted."""
        return _batch(tokens, np.ones((len(tokens), self.length), bool), self.separator)


def windows(
    ids: np.ndarray | RunningText,
    *,
    length: int,
    stride: int,
    batch_tokens: int,
    end: int,
    separate_documents: bool = False,
) -> Windows:
    """The text for evaluation: every id is counted exactly once.

    An end token is put in front of the text, so that its first token is predicted too, as after any other document.
    Windows have `length` input tokens and begin `stride` apart. The first counts all its predictions, the others
    their last `stride`, each with at least length - stride tokens of context. The last window is as long as the
    others and counts what is left."""
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    if not 1 <= stride <= length:
        raise ValueError(f"stride must lie in 1 to {length}, the length of a window, got {stride}")
    if not len(ids):
        raise ValueError("the text must have at least one token, got none")
    check_batching(batch_tokens=batch_tokens, seed=0)
    ids = ids if isinstance(ids, RunningText) else np.asarray(ids)
    return Windows(ids, min(length, len(ids)), stride, batch_tokens, end, separate_documents)


@dataclass(frozen=True, repr=False)
class Windows:
    """As `windows` makes them. Of several processes each reads those of its own batches."""

    ids: np.ndarray | RunningText
    length: int
    stride: int
    batch_tokens: int
    end: int
    separate_documents: bool

    def order(self) -> Iterator[range]:
        """The numbers of the windows of each batch."""
        count = 1 - (self.length - len(self.ids)) // self.stride
        rows = max(1, self.batch_tokens // self.length)
        return (range(first, min(first + rows, count)) for first in range(0, count, rows))

    def batch(self, item: range) -> TextBatch:
        numbers, last = np.array(item)[:, None], len(self.ids) - self.length
        places = np.minimum(numbers * self.stride, last) + np.arange(
            self.length + 1
        )  # in the text with end in front
        tokens = np.where(places == 0, self.end, self.ids[np.maximum(places - 1, 0)]).astype(np.int64)
        done = np.where(
            numbers == 0, 0, (numbers - 1) * self.stride + self.length
        )  # ids that earlier windows counted
        return _batch(tokens, places[:, :-1] >= done, self.end if self.separate_documents else None)

    def __iter__(self) -> Iterator[TextBatch]:
        return map(self.batch, self.order())


def _batch(tokens: np.ndarray, counted: np.ndarray, end: int | None) -> TextBatch:
    """`end` separates documents: as a target it ends a document, as input it begins the next. None: not
    separated."""
    since = None
    if end is not None:
        places = np.arange(tokens.shape[1] - 1)
        begins = np.where(tokens[:, :-1] == end, places, 0)
        since = torch.from_numpy(np.maximum.accumulate(begins, axis=1))  # (B, L)
    return TextBatch(torch.from_numpy(tokens), torch.from_numpy(counted), since)
