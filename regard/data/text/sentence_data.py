"""Sentences for a bidirectional language model: their words in characters, and the ids of the words to predict."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from copy import copy

import numpy as np
import torch

from regard.base.divided import in_parts
from regard.data.batches.batch import RowNumbers, Rows, check_batching, draw_batches
from regard.data.text.characters import (
    END_SPELLING,
    FILL,
    MOST_CHARACTERS,
    START_SPELLING,
    CharacterBatch,
    spell,
)
from regard.data.text.documents import Document, read_sentences
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

TOGETHER = 1000  # sentences that are encoded at a time
Sentence = tuple[list[int], list[str]]  # the ids of its words, and the words as they are written


def encode_words(documents: Iterable[Document], tokenizer: Tokenizer) -> Iterator[Sentence]:
    """The sentences of documents (`read_sentences`) in words, without white space; those without words are left
    out."""
    sentences = (sentence for document in read_sentences(documents) for sentence in document)
    for ids, pieces in in_parts(sentences, TOGETHER, tokenizer.encode_pieces):
        places = [place for place, piece in enumerate(pieces) if piece]
        if places:
            yield [ids[place] for place in places], [pieces[place] for place in places]


class SentenceData(RowNumbers):
    """Sentences in batches by their number of words. The rest of a sentence of more than `length` words counts as
    another sentence. A distinct word is spelled once: a text takes 4 bytes for each word, and each distinct word
    takes 2 bytes for each of its `most` characters."""

    def __init__(
        self,
        sentences: Iterable[Sentence],
        *,
        special: Special,
        length: int,
        batch_tokens: int,
        seed: int,
        widest: int,
        most: int = MOST_CHARACTERS,
    ) -> None:
        """`widest` and `most`: as in `character_batch`."""
        check_batching(batch_tokens=batch_tokens, seed=seed)
        self.batch_tokens, self.seed, self.widest, self.most = batch_tokens, seed, widest, most
        places: dict[str, int] = {}
        spellings = Rows([START_SPELLING, END_SPELLING])  # of <s> and </s>, which come first
        ids = array("i", [special.start, special.end])
        self.rows = Rows()
        for targets, words in sentences:
            for target, word in zip(targets, words, strict=True):
                if word not in places:
                    places[word] = len(spellings)
                    spellings.append(spell(word, most))
                    ids.append(target)
            row = [places[word] for word in words]
            for begin in range(0, len(row), length):
                self.rows.append(row[begin : begin + length])
        if not len(self):
            raise DataError("there must be at least one sentence with words, got none")
        self.ids, self.lengths, self.spelled = np.asarray(ids), spellings.lengths(), fill_up(spellings, most)

    def __len__(self) -> int:
        return len(self.rows)

    def hold_out(self, share: float) -> tuple[SentenceData, SentenceData]:
        """All but the last sentences, and those. DataError where there would be none left."""
        border = len(self) - max(1, int(len(self) * share))
        if border < 1:
            raise DataError(f"{len(self)} sentences are too few to hold some out")
        parts = copy(self), copy(self)
        for part, places in zip(parts, (range(border), range(border, len(self))), strict=True):
            part.rows = Rows(self.rows[place] for place in places)
        return parts

    @property
    def words(self) -> int:
        """How many words there are, <s> and </s> not counted."""
        return len(self.rows.ids)

    def order(self, epoch: int) -> list[np.ndarray]:
        """The epoch's batches as row indices, drawn anew each epoch."""
        generator = np.random.default_rng([self.seed, epoch])
        return draw_batches(self.rows.lengths() + 2, batch_tokens=self.batch_tokens, generator=generator)

    def batch(self, rows: np.ndarray) -> CharacterBatch:
        """<s> w_1 .. w_n </s> in characters and in ids."""
        lengths = self.rows.lengths()[rows] + 2
        mask = np.arange(lengths.max()) < lengths[:, None]  # (B, T)
        words = np.zeros(mask.shape, np.int64)  # in the table of distinct words: 0 is <s>
        words[mask] = np.concatenate([[0, *self.rows[row], 1] for row in rows])
        distinct, places = np.unique(words, return_inverse=True)
        columns = min(self.most, int(self.lengths[distinct].max()) + self.widest)
        characters = self.spelled[distinct, :columns].astype(np.int64)
        parts = characters, places.reshape(words.shape), mask, self.ids[words].astype(np.int64)
        return CharacterBatch(*map(torch.from_numpy, parts))


def fill_up(spellings: Rows, most: int) -> np.ndarray:
    """(words, most)"""
    table = np.full((len(spellings), most), FILL, np.int16)
    table[np.arange(most) < spellings.lengths()[:, None]] = np.asarray(spellings.ids)
    return table
