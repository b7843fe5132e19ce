"""Questions as BERT reads them: [CLS] question [SEP] a part of the context [SEP].

A context that does not fit is read in windows, each `stride` tokens further on. In a window that does not hold all
of the answer there is none: [CLS] is to be chosen, as in the program of Devlin et al. 2019."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.batch import Batch, RowNumbers, Rows, check_batching, draw_batches
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import EncodedText, PairEncoding, encode_pair
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

QUESTION = 64  # tokens of a question that are read; beyond half of a row fewer
LEAST = 16  # tokens of a row


@dataclass(frozen=True, repr=False)
class QuestionBatch(Batch):
    """[CLS] question [SEP] context [SEP], and the tokens that the answers begin and end with; 0: there is none."""

    judged_by = ("begins", "ends")
    tokens: Tensor  # (B, T)
    segments: Tensor  # (B, T): 0 for the question, 1 for the context
    mask: Tensor  # (B, T)
    begins: Tensor | None = None  # (B,)
    ends: Tensor | None = None  # (B,)


@dataclass(frozen=True)
class Window:
    """A question with a part of its context."""

    row: EncodedText
    first: int  # the number of the first token of the context that is in it
    count: int  # how many of the context are
    place: int  # where that first one stands in the row

    def at(self, span: tuple[int, int] | None) -> tuple[int, int]:
        """Where a span of the context stands in the row; (0, 0): not all of it does."""
        if span is None or span[0] < self.first or span[1] >= self.first + self.count:
            return 0, 0
        shift = self.place - self.first
        return span[0] + shift, span[1] + shift


def windows(
    question: Sequence[int], context: Sequence[int], special: Special, *, length: int, stride: int
) -> list[Window]:
    """Rows of at most `length` tokens that hold all of the context, `stride` apart; a single one where it fits."""
    question = question[: min(QUESTION, length // 2)]
    room = length - len(question) - 3
    place = len(question) + 2
    found, first = [], 0
    while True:
        part = context[first : first + room]
        found.append(Window(encode_pair(question, part, special, length), first, len(part), place))
        if first + room >= len(context):
            return found
        first += min(stride, room)


def widest(windows: Sequence[Window], tokens: int) -> np.ndarray:
    """For each token of the context the window that shows most of what stands around it: the smaller of the two
    sides counts. (T,)"""
    best, chosen = np.full(tokens, -1.0), np.zeros(tokens, dtype=int)
    for number, window in enumerate(windows):
        own = np.arange(window.count)
        shown = np.minimum(own, own[::-1]) + 0.01 * window.count
        part = slice(window.first, window.first + window.count)
        better = shown > best[part]
        best[part] = np.where(better, shown, best[part])
        chosen[part] = np.where(better, number, chosen[part])
    return chosen


def tokens_of(places: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """The first and the last token of the characters `start` to `end`; None: they have no token."""
    within = [number for number, (first, last) in enumerate(places) if first < end and last > start]
    return (within[0], within[-1]) if within else None


class QuestionData(RowNumbers):
    """Windows with the places of their answers, batched by token count."""

    def __init__(
        self, rows: Sequence[tuple[Window, tuple[int, int]]], *, special: Special, batch_tokens: int, seed: int
    ) -> None:
        check_batching(batch_tokens=batch_tokens, seed=seed)
        if not rows:
            raise DataError("there must be at least one question, got none")
        self.batch_tokens, self.seed, self.special = batch_tokens, seed, special
        self.rows = Rows(window.row[0] for window, _ in rows)
        self.places = np.array([window.place for window, _ in rows])
        self.answers = np.array([answer for _, answer in rows])  # (N, 2)

    def __len__(self) -> int:
        return len(self.rows)

    def order(self, epoch: int) -> list[np.ndarray]:
        """The epoch's batches as row numbers, drawn anew each epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        return draw_batches(self.rows.lengths(), batch_tokens=self.batch_tokens, generator=generator)

    def batch(self, rows: np.ndarray) -> QuestionBatch:
        texts = [self._text(number) for number in rows]
        begins, ends = torch.from_numpy(self.answers[rows]).unbind(1)
        return question_batch(texts, self.special, begins, ends)

    def _text(self, number: int) -> EncodedText:
        ids = list(self.rows[number])
        place = int(self.places[number])
        return ids, [0] * place + [1] * (len(ids) - place)


def question_batch(
    rows: Sequence[EncodedText], special: Special, begins: Tensor | None = None, ends: Tensor | None = None
) -> QuestionBatch:
    longest = max(len(ids) for ids, _ in rows)
    texts = PairEncoding(segments=2, max_positions=longest).batch(rows, special)
    return QuestionBatch(texts.tokens, texts.segments, texts.mask, begins, ends)


def encode_questions(
    tokenizer: Tokenizer, texts: Sequence[tuple[str, str]]
) -> list[tuple[list[int], list[int], list[tuple[int, int]]]]:
    """Of each question and its context: the ids of both, and what characters each id of the context stands for."""
    questions = tokenizer.encode_batch([question for question, _ in texts])
    contexts = tokenizer.encode_places([context for _, context in texts])
    return [(ids, *context) for ids, context in zip(questions, contexts, strict=True)]
