"""How a classifier reads texts: each text becomes a row of tokens in parts, and rows become a batch."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.base.ladder import enlarge, round_rows, round_up
from regard.data.batches.batch import Batch, pad
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

SHORTEST = 5  # tokens: [CLS] A [SEP] B [SEP]
NO_LIMIT = 1 << 20  # tokens; a recurrent model has no limit of its own
LENGTHS = 1.07  # ratio between the lengths that batches are rounded up to
PAIR_LENGTHS = 1.2  # of BERT's, whose graphs are large: 12 from 16 to 128 tokens

EncodedText = tuple[list[int], list[int]]  # ids, and for each the number of its part: of a pair, or of a sentence
Pair = tuple[str, str]  # a text, and the second one or ""


class TextEncoding(ABC):
    """How a classifier encodes texts: the `encoding` of its model."""

    most: int = NO_LIMIT  # tokens of a text that the model can take
    pairs: bool = False  # whether it takes two texts at once
    single: str = ""  # if not: the setting that is the reason, for error messages
    spelled: bool = False  # whether the parts of a row are its tokens, and the ids are their characters

    @abstractmethod
    def rows(
        self, texts: Sequence[Pair], tokenizer: Tokenizer, truncate: int
    ) -> Iterator[tuple[EncodedText, bool]]:
        """Each text in at most `truncate` tokens, and whether anything was cut off."""

    @abstractmethod
    def batch(self, rows: Sequence[EncodedText], special: Special) -> Any:
        """A batch as `class_logits` takes it, without labels."""

    def rounded(self, batch: Any, *, batch_tokens: int, most: int) -> Any:
        """The same batch in one of a few shapes, for CUDA graphs: with more padding, and with rows that are not
        `counted` after its own. It is one of batches of about `batch_tokens`, none longer than `most` tokens. Here:
        as it is, for models whose steps cannot be captured."""
        return batch

    def split_text(self, text: str) -> list[str]:
        """The parts of a text that are tokenised one by one: sentences, or all of it."""
        return [text]

    def pieces(self, text: str, tokenizer: Tokenizer) -> Iterator[str]:
        """The part of the text that each token of its row stands for, as it is written there."""
        for part in self.split_text(text):
            for token, piece in zip(tokenizer.encode(part), tokenizer.pieces(part), strict=True):
                if token not in tokenizer.white_space:
                    yield piece

    def sentences(self, text: str, row: EncodedText, tokenizer: Tokenizer) -> list[list[int]]:
        """The tokens of each sentence of a text, of which this row was made."""
        return sentences_of(row)

    def sentence_rows(self, batch: Any) -> list[int]:
        """For a batch of one text: the row of tokens of each sentence."""
        return [0]

    def length(self, row: EncodedText) -> int:
        """How many tokens a row has."""
        return len(row[0])

    def limits(self, truncate: int) -> str:
        """How much of a text is read, in words."""
        return f"{truncate} tokens"

    def counts(self, row: EncodedText) -> dict[str, int]:
        """How much a row holds, by the unit."""
        return {"tokens": self.length(row)}

    def whole(self, text: Pair, tokenizer: Tokenizer) -> EncodedText:
        """The row of a text of which nothing is cut off."""
        row, _ = next(self.rows([text], tokenizer, sys.maxsize))
        return row

    def unknown(self, text: Pair, row: EncodedText, tokenizer: Tokenizer) -> tuple[str, ...]:
        """The parts of a text, of which this row was made, that the model cannot tell from other unknown ones."""
        parts = (part for each in text for part in self.split_text(each))
        return tuple(dict.fromkeys(unknown for part in parts for unknown in tokenizer.unknown_in(part, row[0])))

    def shortens(self, text: str) -> bool:
        """Whether a word of this text may be longer than is read."""
        return False

    def positions(self, lengths: Sequence[Sequence[int]]) -> int:
        """How many positions a batch has, padding included, of rows whose parts have these lengths."""
        return len(lengths) * max(sum(parts) for parts in lengths)

    def real(self, lengths: Sequence[Sequence[int]]) -> int:
        """The same without padding."""
        return sum(map(sum, lengths))


def sentences_of(row: EncodedText) -> list[list[int]]:
    """The ids of each sentence, or of whatever else the parts are."""
    ids, parts = row
    if not parts:
        return []
    ends = np.bincount(parts).cumsum().tolist()
    return [ids[begin:end] for begin, end in pairwise([0, *ends])]


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Many texts in several threads, a single text without threads."""
    return tokenizer.encode_batch(texts) if len(texts) > 1 else [tokenizer.encode(text) for text in texts]


# ---- pairs, as BERT reads them


def encode_pair(first: Sequence[int], second: Sequence[int] | None, special: Special, truncate: int) -> EncodedText:
    """[CLS] first [SEP], or [CLS] first [SEP] second [SEP], and the segment, 0 or 1, of each token.

    Truncated to `truncate` tokens at the ends, the longer part first, as in `transformers`."""
    if truncate < SHORTEST:
        raise DataError(f"truncate must be at least {SHORTEST}, got {truncate}; so must model.max_positions")
    if second is None:
        ids = [special.start, *first[: truncate - 2], special.end]
        return ids, [0] * len(ids)
    room = truncate - 3
    if len(first) + len(second) > room:
        short = min(len(first), len(second), room // 2)
        keep = (short, room - short) if len(first) <= len(second) else (room - short, short)
        first, second = first[: keep[0]], second[: keep[1]]
    ids = [special.start, *first, special.end, *second, special.end]
    return ids, [0] * (len(first) + 2) + [1] * (len(second) + 1)


@dataclass(frozen=True, repr=False)
class LabelledBatch(Batch):
    """[CLS] A [SEP] or [CLS] A [SEP] B [SEP], and the class index of each row."""

    judged_by = ("labels", "counted")
    tokens: Tensor  # (B, T)
    segments: Tensor  # (B, T): 0 for the first part, 1 for the second
    mask: Tensor  # (B, T)
    labels: Tensor | None = None  # (B,)
    counted: Tensor | None = None  # (B,), False = no text, but a row that makes up the shape; None: all are texts


class PairEncoding(TextEncoding):
    """A text or a pair between BERT's special tokens."""

    def __init__(self, *, segments: int, max_positions: int) -> None:
        self.most, self.pairs = max_positions, segments > 1
        self.single = "" if self.pairs else "segments = 1"

    def rows(
        self, texts: Sequence[Pair], tokenizer: Tokenizer, truncate: int
    ) -> Iterator[tuple[EncodedText, bool]]:
        firsts = encode_texts(tokenizer, [first for first, _ in texts])
        seconds = encode_texts(tokenizer, [second for _, second in texts])
        for first, ids, (_, second) in zip(firsts, seconds, texts, strict=True):
            longer = len(first) + 2 + (len(ids) + 1 if second else 0) > truncate
            yield encode_pair(first, ids if second else None, tokenizer.special, truncate), longer

    def batch(self, rows: Sequence[EncodedText], special: Special) -> LabelledBatch:
        tokens, mask = pad([ids for ids, _ in rows], special.pad)
        segments, _ = pad([parts for _, parts in rows], 0)
        return LabelledBatch(tokens, segments, mask)

    def rounded(self, batch: LabelledBatch, *, batch_tokens: int, most: int) -> LabelledBatch:
        """Rows that make up the shape look at their first token, so that they look somewhere."""
        count, longest = batch.tokens.shape
        rows = round_rows(count, longest, PAIR_LENGTHS, batch_tokens)
        length = round_up(longest, PAIR_LENGTHS, most)
        tokens, segments, mask = (enlarge(x, rows, length) for x in (batch.tokens, batch.segments, batch.mask))
        mask[count:, 0] = True
        labels = None if batch.labels is None else enlarge(batch.labels, rows)
        return LabelledBatch(tokens, segments, mask, labels, torch.arange(rows) < count)


# ---- plain rows of tokens


@dataclass(frozen=True, repr=False)
class TokenBatch(Batch):
    """Texts without special tokens, and the class index of each."""

    judged_by = ("labels", "counted")
    tokens: Tensor  # (B, T)
    mask: Tensor  # (B, T)
    labels: Tensor | None = None  # (B,)
    counted: Tensor | None = None  # (B,), False = no text, but a row that makes up the shape; None: all are texts


class PlainEncoding(TextEncoding):
    """The tokens of a text, without those of white space alone. A text may be empty; a batch has one position at
    least."""

    def rows(
        self, texts: Sequence[Pair], tokenizer: Tokenizer, truncate: int
    ) -> Iterator[tuple[EncodedText, bool]]:
        for ids in encode_texts(tokenizer, [text for text, _ in texts]):
            tokens = [token for token in ids if token not in tokenizer.white_space]
            yield (tokens[:truncate], [0] * min(len(tokens), truncate)), len(tokens) > truncate

    def batch(self, rows: Sequence[EncodedText], special: Special) -> TokenBatch:
        return TokenBatch(*pad_some([ids for ids, _ in rows], special.pad))

    def rounded(self, batch: TokenBatch, *, batch_tokens: int, most: int) -> TokenBatch:
        count, longest = batch.tokens.shape
        rows = round_rows(count, longest, LENGTHS, batch_tokens)
        length = round_up(longest, LENGTHS, most)
        tokens, mask = (enlarge(x, rows, length) for x in (batch.tokens, batch.mask))
        labels = None if batch.labels is None else enlarge(batch.labels, rows)
        return TokenBatch(tokens, mask, labels, torch.arange(rows) < count)


def pad_some(rows: Sequence[Sequence[int]], value: int) -> tuple[Tensor, Tensor]:
    """As `pad`, but with one position and one row at least."""
    tokens, mask = pad(rows or [[]], value)
    if tokens.shape[1]:
        return tokens, mask
    return tokens.new_full((len(tokens), 1), value), torch.zeros(len(tokens), 1, dtype=torch.bool)
