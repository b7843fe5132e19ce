"""Words as characters, numbered as in the published ELMo (Peters et al. 2018).

A word is its UTF-8 bytes between two signs of its own, at most 50 with them; it is filled up to 50 characters, and
the sentence begins and ends with a word of one further sign:

    0 a position without a word   1 to 256 the bytes 0 to 255   257, 258 <s>, </s>   259, 260 begin, end of a word
    261 fills up a word

The filling has an embedding and is seen by the convolutions; 0 is not. Behind the longest word of a batch all
windows see filling alone, so that a single such window is enough: `character_batch` fills up so far and no
further."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import pad as pad_columns

from regard.data.batches.batch import Batch, pad
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import EncodedText, Pair, TextEncoding, sentences_of
from regard.data.text.tokenizer import Tokenizer

NO_WORD, FIRST_BYTE, START, END, BEGIN_WORD, END_WORD, FILL = 0, 1, 257, 258, 259, 260, 261
CHARACTERS = 262  # the size of the table
MOST_CHARACTERS = 50  # of a word

Spelling = list[int]  # the characters of a word, without filling
START_SPELLING, END_SPELLING = [BEGIN_WORD, START, END_WORD], [BEGIN_WORD, END, END_WORD]


def spell(word: str, most: int = MOST_CHARACTERS) -> Spelling:
    """The characters of a word, cut after `most`, the signs of beginning and end counted."""
    inside = word.encode("utf-8", "ignore")[: most - 2]
    return [BEGIN_WORD, *(FIRST_BYTE + byte for byte in inside), END_WORD]


@dataclass(frozen=True, repr=False)
class CharacterBatch(Batch):
    """Sentences <s> w_1 .. w_n </s>, in characters; T counts <s> and </s>. A word that occurs several times is
    spelled once: a model reads its characters once too."""

    characters: Tensor  # (U, C): the distinct words
    places: Tensor  # (B, T): which of them each is; 0 in padding
    mask: Tensor  # (B, T), True = a word, <s> or </s>
    words: Tensor | None = None  # (B, T): the ids of the words, <s> and </s>
    labels: Tensor | None = None  # (B,): the class of each sentence
    counted: ClassVar[None] = None  # every row is a sentence


def character_batch(
    sentences: Sequence[Sequence[Spelling]], *, widest: int, most: int = MOST_CHARACTERS
) -> CharacterBatch:
    """Sentences of spelled words; <s> and </s> are added here. `widest`: the widest convolution that will see them.
    A batch has one place for a word at least."""
    distinct: dict[tuple[int, ...], int] = {}
    rows = [
        [distinct.setdefault(tuple(word), len(distinct)) for word in (START_SPELLING, *sentence, END_SPELLING)]
        for sentence in sentences
    ]
    places, mask = pad(rows, 0)
    missing = (0, max(0, 3 - mask.shape[1]))
    return CharacterBatch(
        fill_up(list(distinct), widest=widest, most=most), pad_columns(places, missing), pad_columns(mask, missing)
    )


def fill_up(words: Sequence[Sequence[int]], *, widest: int, most: int) -> Tensor:
    """Spelled words (U, C) of the same length, as far as the docstring above says."""
    spelled, _ = pad(words, FILL)
    columns = min(most, spelled.shape[1] + widest)
    return pad_columns(spelled, (0, columns - spelled.shape[1]), value=FILL)


class CharacterEncoding(TextEncoding):
    """The words of a text, spelled. In a row the parts are the words: of each, its id in the vocabulary +
    CHARACTERS and then its characters."""

    spelled = True

    def __init__(self, *, widest: int, most_characters: int = MOST_CHARACTERS) -> None:
        self.widest, self.most_characters = widest, most_characters

    def rows(
        self, texts: Sequence[Pair], tokenizer: Tokenizer, truncate: int
    ) -> Iterator[tuple[EncodedText, bool]]:
        for ids, pieces in tokenizer.encode_pieces([text for text, _ in texts]):
            words = [(word_id, piece) for word_id, piece in zip(ids, pieces, strict=True) if piece]
            spelled = [
                [CHARACTERS + word_id, *spell(word, self.most_characters)] for word_id, word in words[:truncate]
            ]
            places = [place for place, numbers in enumerate(spelled) for _ in numbers]
            yield (list(chain.from_iterable(spelled)), places), len(words) > truncate

    def pieces(self, text: str, tokenizer: Tokenizer) -> Iterator[str]:
        """The words as they are written; white space is none."""
        return filter(None, super().pieces(text, tokenizer))

    def sentences(self, text: str, row: EncodedText, tokenizer: Tokenizer) -> list[list[int]]:
        """One sentence; its words by the vocabulary, most of which may be unknown."""
        ((ids, pieces),) = tokenizer.encode_pieces([text])
        return [[word_id for word_id, piece in zip(ids, pieces, strict=True) if piece][: self.length(row)]]

    def batch(self, rows: Sequence[EncodedText], special: Special) -> CharacterBatch:
        sentences = [sentences_of(row) for row in rows]
        spelled = [[numbers[1:] for numbers in sentence] for sentence in sentences]
        batch = character_batch(spelled, widest=self.widest, most=self.most_characters)
        ids = [[numbers[0] - CHARACTERS for numbers in sentence] for sentence in sentences]
        words, _ = pad([[special.start, *row, special.end] for row in ids], special.pad)
        return replace(batch, words=pad_columns(words, (0, batch.mask.shape[1] - words.shape[1])))

    def limits(self, truncate: int) -> str:
        return f"{super().limits(truncate)} of {self.most_characters - 2} bytes"

    def counts(self, row: EncodedText) -> dict[str, int]:
        """The bytes of all words too: a long word is cut off."""
        tokens = self.length(row)
        return {"tokens": tokens, "bytes": len(row[0]) - 3 * tokens}

    def whole(self, text: Pair, tokenizer: Tokenizer) -> EncodedText:
        every = CharacterEncoding(widest=self.widest, most_characters=sys.maxsize)
        row, _ = next(every.rows([text], tokenizer, sys.maxsize))
        return row

    def unknown(self, text: Pair, row: EncodedText, tokenizer: Tokenizer) -> tuple[str, ...]:
        """None: a word that is not in the vocabulary is read by its characters."""
        return ()

    def shortens(self, text: str) -> bool:
        return any(len(word.encode("utf-8", "ignore")) > self.most_characters - 2 for word in text.split())

    def length(self, row: EncodedText) -> int:
        return row[1][-1] + 1 if row[1] else 0

    def positions(self, lengths: Sequence[Sequence[int]]) -> int:
        return len(lengths) * max(map(len, lengths))

    def real(self, lengths: Sequence[Sequence[int]]) -> int:
        return sum(map(len, lengths))
