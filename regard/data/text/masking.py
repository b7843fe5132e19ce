"""Batches for BERT's two pretraining tasks: masked words, and whether sentence B follows sentence A.

As in Devlin et al. 2019 and its published program, with two differences. Masking is dynamic: each epoch splits the
text into other rows, and each batch masks other words. Only tokens that stand for text take part: [UNK] is never
predicted (nothing can be learned from it), and a random replacement is never a special token; the program allows
both."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.base.divided import in_parts
from regard.data.batches.batch import Batch, Ids, Rows, TakenRows, check_batching, draw_batches
from regard.data.text.documents import Document, read_sentences
from regard.data.text.text_encoding import SHORTEST
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

MASKED, REPLACED = 0.8, 0.1  # shares of the predicted tokens: [MASK], a random token; the rest stays as it is
SHORT = 0.1  # the share of rows with a random shorter length, so that the model sees short rows too
TOGETHER = 1000  # sentences that are encoded at a time

Span = tuple[int, int, int, int, int]  # begin and end of A among the ids, those of B, 1 if B does not follow A
MaskedItem = tuple[int, int, np.ndarray]  # epoch, index of the batch, its rows as spans (B, 5)


def encode_sentences(documents: Iterable[Document], tokenizer: Tokenizer) -> list[Rows]:
    """The ids of each document's sentences; sentences and documents without tokens are left out."""

    def work(part: list[tuple[int, str]]) -> Iterable[tuple[int, list[int]]]:
        numbers, sentences = zip(*part, strict=True)
        return zip(numbers, tokenizer.encode_batch(sentences), strict=True)

    numbered = ((number, each) for number, document in enumerate(read_sentences(documents)) for each in document)
    encoded: dict[int, Rows] = {}
    for number, ids in in_parts(numbered, TOGETHER, work):
        if ids:
            encoded.setdefault(number, Rows()).append(ids)
    return list(encoded.values())


@dataclass(frozen=True, repr=False)
class MaskedBatch(Batch):
    """[CLS] A [SEP] B [SEP] with some tokens masked; the targets at the predicted places are to be found."""

    tokens: Tensor  # (B, T)
    segments: Tensor  # (B, T): 0 for the first part, 1 for the second
    mask: Tensor  # (B, T)
    predicted: Tensor  # (B, T) bool: the places to predict
    targets: Tensor  # (B, T): the true tokens, at all places
    follows: Tensor | None  # (B,): 0 = B follows A, 1 = it does not, the order of BERT's head; None: no pairs


class MaskedData(TakenRows):
    """Documents of encoded sentences. A sentence too long for a row, or with pairs for half a row, is split.

    With pairs a document of one sentence is left out: nothing follows it, so it would give the answer away. Rows
    and batches are a function of (seed, epoch), masks of (seed, epoch, index of the batch). For validation on the
    same masks each time, use order(0) of an instance with its own seed. `mask_probability` is the share of tokens
    to predict."""

    def __init__(
        self,
        documents: Iterable[Ids],
        *,
        tokenizer: Tokenizer,
        length: int = 128,
        batch_tokens: int,
        seed: int,
        pairs: bool = True,
        whole_words: bool = False,
        mask_probability: float = 0.15,
    ) -> None:
        if length < SHORTEST:
            raise ValueError(f"length must be at least {SHORTEST}, got {length}")
        if not 0 < mask_probability < 1:
            raise ValueError(f"mask_probability must lie in (0, 1), got {mask_probability}")
        if tokenizer.special.mask < 0:
            raise ValueError("the tokenizer has no mask token; wordpiece tokenizers have one, [MASK]")
        check_batching(batch_tokens=batch_tokens, seed=seed)
        self.room = length - (3 if pairs else 2)
        self.length, self.batch_tokens, self.seed, self.pairs = length, batch_tokens, seed, pairs
        self.special, self.whole_words = tokenizer.special, whole_words
        self.mask_probability = mask_probability
        self.sentences, self.begins = Rows(), array("q", [0])  # document i is sentences begins[i] to begins[i + 1]
        self.ordinary = ordinary_ids(tokenizer)
        self.is_ordinary = np.isin(np.arange(len(tokenizer)), self.ordinary)
        for document in documents:
            self._append(document)
        self._check()
        self.begins_word = np.array(tokenizer.begins(range(len(tokenizer))))

    def _append(self, document: Ids) -> None:
        most = self.room // 2 if self.pairs else self.room
        rows = document if isinstance(document, Rows) else Rows(document)
        whole = (rows[number] for number in range(len(rows)))
        sentences = [ids[begin : begin + most] for ids in whole for begin in range(0, len(ids), most)]
        if len(sentences) > self.pairs:
            for ids in sentences:
                self.sentences.append(ids)
            self.begins.append(len(self.sentences))

    def _check(self) -> None:
        if not len(self):
            needed = "with two sentences; choose longer documents" if self.pairs else "with tokens in it"
            raise DataError(f"there must be at least one document {needed}")
        if self.pairs and len(self) == 1 and len(self.sentences) < 4:
            raise DataError(
                f"pairs need a sentence from another place, but there is one document, of {len(self.sentences)} "
                "sentences; there must be two documents, or one of at least four sentences"
            )
        if not self.is_ordinary[np.asarray(self.sentences.ids)].any():
            raise DataError("no word of the text is in the vocabulary; is its language the model's?")

    @property
    def tokens(self) -> int:
        return len(self.sentences.ids)

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.begins) - 1

    def order(self, epoch: int) -> list[MaskedItem]:
        """The epoch's batches, drawn anew each epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        split = self._pairs if self.pairs else self._texts
        spans = np.array([span for document in range(len(self)) for span in split(document, generator)])
        lengths = spans[:, 1] - spans[:, 0] + spans[:, 3] - spans[:, 2] + self.length - self.room
        batches = draw_batches(lengths, batch_tokens=self.batch_tokens, generator=generator)
        return [(epoch, number, spans[rows]) for number, rows in enumerate(batches)]

    def _texts(self, document: int, generator: np.random.Generator) -> Iterator[Span]:
        """As many whole sentences as fit in a row. The first row has a random length, so that the borders of rows
        differ between epochs."""
        ends, (begin, last) = self.sentences.ends, self.begins[document : document + 2]
        room = 1 + int(generator.random() * self.room)
        while begin < last:
            # The last sentence that ends within the row, but at least one.
            end = max(begin + 1, bisect_left(ends, ends[begin] + room + 1, begin + 1, last + 1) - 1)
            yield ends[begin], ends[end], 0, 0, 0
            begin, room = end, self.room

    def _pairs(self, document: int, generator: np.random.Generator) -> Iterator[Span]:
        """Sentences for about one row: A is some of them; B is the others or, every second time, sentences from
        another place, and then the others are used again.

        If the last sentence is left alone, it follows the sentence before it, which is used twice."""
        ends, (begin, last) = self.sentences.ends, self.begins[document : document + 2]
        while begin < last:
            short = generator.random() < SHORT
            room = 2 + int(generator.random() * (self.room - 1)) if short else self.room
            end = min(last, bisect_left(ends, ends[begin] + room, begin + 2, max(last, begin + 2)))
            middle = begin + 1 + int(generator.random() * (end - begin - 1))
            if generator.random() < 0.5:
                if other := self._other_place(document, begin, middle, room, generator):
                    yield *_truncate(ends[begin], ends[middle], *other, room, generator), 1
                begin = middle
                continue
            if end - begin == 1:
                begin, middle = begin - 1, begin
            yield *_truncate(ends[begin], ends[middle], ends[middle], ends[end], room, generator), 0
            begin = end

    def _other_place(
        self, document: int, begin: int, end: int, room: int, generator: np.random.Generator
    ) -> tuple[int, int] | None:
        """Begin and end, among the ids, of a B that does not follow the sentences A: in another document.

        With only one document, in the same document, about a quarter of it away, without A and the sentence after
        A. None: there is no such place."""
        ends, total = self.sentences.ends, len(self.sentences)
        if len(self) > 1:
            first, last = self.begins[document : document + 2]
            start = (last + int(generator.random() * (total - (last - first)))) % total
            stop = self.begins[bisect_right(self.begins, start)]
        else:
            count = total - (end - begin) - 1
            near = (count - 1) // 4
            if count < 1:
                return None
            start = (end + 1 + near + int(generator.random() * (count - 2 * near))) % total
            stop = begin if start < begin else total
        wanted = max(1, room - (ends[end] - ends[begin]))
        return ends[start], ends[bisect_left(ends, ends[start] + wanted, start + 1, stop)]

    def batch(self, item: MaskedItem) -> MaskedBatch:
        epoch, number, spans = item
        targets, segments, mask = self._rows(spans)
        # number + 1, because numpy ignores a trailing 0 in a seed.
        generator = np.random.default_rng([self.seed, epoch, number + 1])
        predicted = self._choose(targets, generator)
        tokens = self._mask(targets, predicted, generator)
        return MaskedBatch(
            tokens=torch.from_numpy(tokens),
            segments=torch.from_numpy(segments),
            mask=torch.from_numpy(mask),
            predicted=torch.from_numpy(predicted),
            targets=torch.from_numpy(targets),
            follows=torch.from_numpy(spans[:, 4].copy()) if self.pairs else None,
        )

    def _rows(self, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens, segments and mask, as encode_pair and pad make them, but for all rows at once."""
        begin, end, other, last = (spans[:, [column]] for column in range(4))  # (B, 1)
        middle = end - begin + 1  # the index of the first [SEP]
        final = middle + last - other + 1 if self.pairs else middle
        places = np.arange(final.max() + 1)
        source = np.where(places < middle, begin + places - 1, other + places - middle - 1)
        ids = np.asarray(self.sentences.ids)
        tokens = ids[source.clip(0, len(ids) - 1)].astype(np.int64)  # (B, T)
        tokens[:, 0] = self.special.start
        tokens[(places == middle) | (places == final)] = self.special.end
        tokens[places > final] = self.special.pad
        return tokens, ((places > middle) & (places <= final)).astype(np.int64), places <= final

    def _choose(self, targets: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """`mask_probability` of each row's ordinary tokens, at least one; or whole words up to this number."""
        ordinary = self.is_ordinary[targets]  # (B, T)
        counts = np.maximum(1, np.rint(self.mask_probability * ordinary.sum(1, keepdims=True)))  # (B, 1)
        places = np.broadcast_to(np.arange(targets.shape[1]), targets.shape)
        words = places
        if self.whole_words:
            starts = self.begins_word[targets] | ~ordinary
            starts[:, 1:] |= ~ordinary[:, :-1]
            words = np.cumsum(starts, axis=1) - 1
        # All pieces of a word share one random key, so they are together when sorted; the first piece decides.
        keys = np.take_along_axis(generator.random(targets.shape), words, axis=1)
        order = np.argsort(np.where(ordinary, keys, 2), axis=1, kind="stable")
        ordered = np.take_along_axis(words, order, axis=1)
        first = np.where(np.diff(ordered, axis=1, prepend=-1) != 0, places, 0)
        predicted = np.empty(targets.shape, bool)
        np.put_along_axis(predicted, order, np.maximum.accumulate(first, axis=1) < counts, axis=1)
        return predicted & ordinary

    def _mask(self, targets: np.ndarray, predicted: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        fate = np.where(predicted, generator.random(targets.shape), 1)
        others = self.ordinary[generator.integers(len(self.ordinary), size=targets.shape)]
        replaced = np.where(fate < MASKED + REPLACED, others, targets)
        return np.where(fate < MASKED, self.special.mask, replaced)


def _truncate(
    begin: int, end: int, other: int, last: int, room: int, generator: np.random.Generator
) -> tuple[int, int, int, int]:
    """Truncates to `room` tokens: token by token from the longer part, at a random end."""
    first, second = end - begin, last - other
    much = max(0, first + second - room)
    alike = max(0, much - abs(first - second)) // 2  # taken from both once they are equally long
    less = alike + min(much, max(0, first - second))
    front, back = (int(generator.binomial(count, 0.5)) for count in (less, much - less))
    return begin + front, end - (less - front), other + back, last - (much - less - back)


def ordinary_ids(tokenizer: Tokenizer) -> np.ndarray:
    """Ids that stand for text: neither special nor unknown."""
    silent = tokenizer.silent | {tokenizer.special.unknown}
    return np.array([i for i in range(len(tokenizer)) if i not in silent and tokenizer.inner.id_to_token(i)])
