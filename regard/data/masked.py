"""Text to learn BERT's two tasks from: words hidden and foretold, and whether one part follows another.

As in Devlin et al. 2019 and the program that came with it, but nothing is drawn beforehand: each epoch parts the
text anew, and each batch hides other words."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Batch, Ids, Rows, check_batching, draw_batches
from regard.data.documents import Document
from regard.data.labelled import SHORTEST
from regard.data.pairs import DataError
from regard.data.text import Tokenizer

HIDDEN, SWAPPED = 0.8, 0.1  # shares of the chosen tokens: behind [MASK], another in their place; the rest stays
SHORT = 0.1  # the share of rows that are to be of a drawn length, so that short ones are known too
TOGETHER = 1000  # sentences that are encoded at a time
# Where a sentence ends in a line of several: before a capital or a quote, or at a full stop that stands alone.
END = re.compile(r"[.!?][\"'”’)\]]*\s+")
QUOTES = "\"'“‘«"
ALONE = re.compile(r"(?<=\s[.!?])\s+")

Span = tuple[int, int, int, int, int]  # where A begins and ends among the ids, where B, and whether that follows
Item = tuple[int, int, np.ndarray]  # the epoch, the batch's number in it, its rows as spans (B, 5)


def read_sentences(documents: Iterable[Document]) -> Iterator[Iterator[str]]:
    """The sentences of each document, to be read before the next document is asked for.

    A line is one, if the document has several; but a full stop with spaces on both sides ends one too, since lines
    of WikiText are paragraphs. In a document of one line also . ! or ? before a space and a capital or quote do."""
    for document in documents:
        lines = (line for line in map(str.strip, _lines(document)) if line)
        first = list(islice(lines, 2))
        if len(first) == 1:
            yield (part for sentence in ALONE.split(first[0]) for part in _parts(sentence))
        else:
            yield (sentence for line in chain(first, lines) for sentence in ALONE.split(line))


def _lines(chunks: Document) -> Iterator[str]:
    held: list[str] = []
    for chunk in chunks:
        begun, *others = chunk.split("\n")
        held.append(begun)
        for line in others:
            yield "".join(held)
            held = [line]
    yield "".join(held)


def _parts(text: str) -> Iterator[str]:
    begin = 0
    for found in END.finditer(text):
        after = text[found.end() : found.end() + 1]
        if after.isupper() or (after and after in QUOTES):
            yield text[begin : found.end()].rstrip()
            begin = found.end()
    yield text[begin:]


def encode_sentences(documents: Iterable[Document], tokenizer: Tokenizer) -> list[Rows]:
    """Each document as its sentences' ids; what has no tokens is left out."""
    found = []
    for sentences in read_sentences(documents):
        rows = Rows()
        while some := list(islice(sentences, TOGETHER)):
            for ids in filter(None, tokenizer.encode_batch(some)):
                rows.append(ids)
        if len(rows):
            found.append(rows)
    return found


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """[CLS] A [SEP] B [SEP], some of it hidden; a model must say the targets at the chosen places."""

    tokens: Tensor  # (B, T)
    segments: Tensor  # (B, T): 0 for the first part, 1 for the second
    mask: Tensor  # (B, T)
    chosen: Tensor  # (B, T) bool: the places to be foretold
    targets: Tensor  # (B, T): what truly stands there, at all places
    follows: Tensor | None  # (B,): 0 = B follows A, 1 = it is from elsewhere, as BERT's head has it; None: no pairs


class MaskedData:
    """Documents of encoded sentences; those too long for a row, or with pairs for half of one, are cut.

    With pairs a document of one sentence is left out: nothing follows there, so it would tell the two sorts apart.
    Rows and batches follow from (seed, epoch), and what is hidden from (seed, epoch, number of the batch). To
    validate by the same questions each time, ask an instance with a seed of its own for order(0)."""

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
        chosen: float = 0.15,
    ) -> None:
        if length < SHORTEST:
            raise ValueError(f"length must be at least {SHORTEST}, got {length}")
        if not 0 < chosen < 1:
            raise ValueError(f"chosen must lie in (0, 1), got {chosen}")
        if tokenizer.special.mask < 0:
            raise ValueError("the tokenizer has no token that hides another; wordpiece tokens have one, [MASK]")
        check_batching(batch_tokens=batch_tokens, seed=seed)
        self.room = length - (3 if pairs else 2)
        self.length, self.batch_tokens, self.seed, self.pairs = length, batch_tokens, seed, pairs
        self.special, self.whole_words, self.chosen = tokenizer.special, whole_words, chosen
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
            needed = "with two sentences; let more of the text be a document" if self.pairs else "with tokens in it"
            raise DataError(f"there must be at least one document {needed}")
        if self.pairs and len(self) == 1 and len(self.sentences) < 4:
            raise DataError(
                f"a sentence from elsewhere is needed, but there is one document, of {len(self.sentences)} "
                f"sentences; there must be two documents, or one of four sentences or more"
            )
        if not self.is_ordinary[np.asarray(self.sentences.ids)].any():
            raise DataError("the vocabulary knows no word of the text; is it of another language than the model?")

    @property
    def tokens(self) -> int:
        return len(self.sentences.ids)

    def __len__(self) -> int:
        """Documents."""
        return len(self.begins) - 1

    def order(self, epoch: int) -> list[Item]:
        """The epoch's batches, drawn anew each epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        part = self._pairs if self.pairs else self._texts
        spans = np.array([span for document in range(len(self)) for span in part(document, generator)])
        lengths = spans[:, 1] - spans[:, 0] + spans[:, 3] - spans[:, 2] + self.length - self.room
        batches = draw_batches(lengths, batch_tokens=self.batch_tokens, generator=generator)
        return [(epoch, number, spans[rows]) for number, rows in enumerate(batches)]

    def _texts(self, document: int, generator: np.random.Generator) -> Iterator[Span]:
        """As many whole sentences as there is room for. The first row has room for a drawn part, so that the
        others fall elsewhere each time."""
        ends, (begin, last) = self.sentences.ends, self.begins[document : document + 2]
        room = 1 + int(generator.random() * self.room)
        while begin < last:
            # The last place that ends in time, or after one sentence.
            end = max(begin + 1, bisect_left(ends, ends[begin] + room + 1, begin + 1, last + 1) - 1)
            yield ends[begin], ends[end], 0, 0, 0
            begin, room = end, self.room

    def _pairs(self, document: int, generator: np.random.Generator) -> Iterator[Span]:
        """Sentences for about a row: A is some of them, B the others or, every second time, something from
        elsewhere, and then the others go back.

        A last sentence left alone follows the one before it, taken once more."""
        ends, (begin, last) = self.sentences.ends, self.begins[document : document + 2]
        while begin < last:
            short = generator.random() < SHORT
            room = 2 + int(generator.random() * (self.room - 1)) if short else self.room
            end = min(last, bisect_left(ends, ends[begin] + room, begin + 2, max(last, begin + 2)))
            middle = begin + 1 + int(generator.random() * (end - begin - 1))
            if generator.random() < 0.5:
                if found := self._elsewhere(document, begin, middle, room, generator):
                    yield *_cut(ends[begin], ends[middle], *found, room, generator), 1
                begin = middle
                continue
            if end - begin == 1:
                begin, middle = begin - 1, begin
            yield *_cut(ends[begin], ends[middle], ends[middle], ends[end], room, generator), 0
            begin = end

    def _elsewhere(
        self, document: int, begin: int, end: int, room: int, generator: np.random.Generator
    ) -> tuple[int, int] | None:
        """Where, among the ids, a B begins and ends that does not follow the sentences A: in another document.

        If there is none, then in the same, nearly a quarter of it away; neither A is reached nor the sentence
        after. None: there is no such place."""
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

    def batch(self, item: Item) -> MaskedBatch:
        epoch, number, spans = item
        targets, segments, mask = self._rows(spans)
        # Counted from 1, since to numpy a last 0 is no other seed than none.
        generator = np.random.default_rng([self.seed, epoch, number + 1])
        chosen = self._choose(targets, generator)
        tokens = self._hide(targets, chosen, generator)
        return MaskedBatch(
            tokens=torch.from_numpy(tokens),
            segments=torch.from_numpy(segments),
            mask=torch.from_numpy(mask),
            chosen=torch.from_numpy(chosen),
            targets=torch.from_numpy(targets),
            follows=torch.from_numpy(spans[:, 4].copy()) if self.pairs else None,
        )

    def _rows(self, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens, segments and mask, as encode_pair and pad make them, but of all rows at once."""
        begin, end, other, last = (spans[:, [column]] for column in range(4))  # (B, 1)
        middle = end - begin + 1  # the place of the first [SEP]
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
        """Of each row's ordinary tokens the share to be foretold, one at least; or words until they are as many."""
        ordinary = self.is_ordinary[targets]  # (B, T)
        counts = np.maximum(1, np.rint(self.chosen * ordinary.sum(1, keepdims=True)))  # (B, 1)
        places = np.broadcast_to(np.arange(targets.shape[1]), targets.shape)
        words = places
        if self.whole_words:
            starts = self.begins_word[targets] | ~ordinary
            starts[:, 1:] |= ~ordinary[:, :-1]
            words = np.cumsum(starts, axis=1) - 1
        # The pieces of a word have one key and so stand together when sorted; a word is taken by its first piece.
        keys = np.take_along_axis(generator.random(targets.shape), words, axis=1)
        order = np.argsort(np.where(ordinary, keys, 2), axis=1, kind="stable")
        ordered = np.take_along_axis(words, order, axis=1)
        first = np.where(np.diff(ordered, axis=1, prepend=-1) != 0, places, 0)
        chosen = np.empty(targets.shape, bool)
        np.put_along_axis(chosen, order, np.maximum.accumulate(first, axis=1) < counts, axis=1)
        return chosen & ordinary

    def _hide(self, targets: np.ndarray, chosen: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        fate = np.where(chosen, generator.random(targets.shape), 1)
        others = self.ordinary[generator.integers(len(self.ordinary), size=targets.shape)]
        swapped = np.where(fate < HIDDEN + SWAPPED, others, targets)
        return np.where(fate < HIDDEN, self.special.mask, swapped)


def _cut(
    begin: int, end: int, other: int, last: int, room: int, generator: np.random.Generator
) -> tuple[int, int, int, int]:
    """What is too much for the room goes from the longer part, token by token, at either end by chance."""
    first, second = end - begin, last - other
    much = max(0, first + second - room)
    alike = max(0, much - abs(first - second)) // 2  # taken from both once they are as long
    less = alike + min(much, max(0, first - second))
    front, back = (int(generator.binomial(count, 0.5)) for count in (less, much - less))
    return begin + front, end - (less - front), other + back, last - (much - less - back)


def ordinary_ids(tokenizer: Tokenizer) -> np.ndarray:
    """Those that stand for text."""
    silent = tokenizer.silent | {tokenizer.special.unknown}
    return np.array([i for i in range(len(tokenizer)) if i not in silent and tokenizer.inner.id_to_token(i)])
