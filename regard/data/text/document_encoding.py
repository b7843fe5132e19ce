"""Documents of sentences of words, ragged in both: what a hierarchical classifier reads.

The sentences of all documents of a batch are rows of one table, the longest first, so that a model can compute rows
of similar length together (`cut_rows`); a second table says which row each sentence of a document is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from regard.base.ladder import enlarge, round_rows, round_up
from regard.data.batches.batch import Batch
from regard.data.text.sentences import split_sentences
from regard.data.text.special_tokens import Special
from regard.data.text.text_encoding import EncodedText, Pair, TextEncoding, encode_texts, pad_some, sentences_of
from regard.data.text.tokenizer import Tokenizer

PADDING = 512  # positions of padding that cost less than computing one more group of rows, on a CPU
# How far apart the sizes are that batches are rounded up to, see `ladder`: rows cost most, documents and their
# sentences little.
DOCUMENTS, SENTENCES, ROWS, WORDS = 2.0, 1.5, 1.1, 1.5


@dataclass(frozen=True, repr=False)
class DocumentBatch(Batch):
    """R sentences of W words, of B documents of S sentences. A document may have no sentence."""

    judged_by = ("labels", "counted")
    tokens: Tensor  # (R, W), the longest sentence first
    mask: Tensor  # (R, W)
    sentences: Tensor  # (B, S): the row of each sentence; 0 in padding
    document_mask: Tensor  # (B, S), True = a real sentence
    labels: Tensor | None = None  # (B,)
    counted: Tensor | None = None  # (B,), False = no document, but a row that makes up the shape; None: all are


class DocumentEncoding(TextEncoding):
    """At most `max_sentences` sentences of a text; a sentence of more than `max_words` tokens becomes several.
    `split`: see `split_sentences`."""

    def __init__(self, *, split: str = "rules", max_sentences: int, max_words: int) -> None:
        self.split, self.max_sentences, self.max_words = split, max_sentences, max_words

    def rows(
        self, texts: Sequence[Pair], tokenizer: Tokenizer, truncate: int
    ) -> Iterator[tuple[EncodedText, bool]]:
        split = [self.split_text(text) for text, _ in texts]
        encoded = iter(encode_texts(tokenizer, list(chain.from_iterable(split))))
        for sentences in split:
            ids = [next(encoded) for _ in sentences]
            yield self.row(
                [[token for token in row if token not in tokenizer.white_space] for row in ids], truncate
            )

    def row(self, sentences: Sequence[list[int]], truncate: int) -> tuple[EncodedText, bool]:
        """From the tokens of each sentence."""
        ids: list[int] = []
        parts: list[int] = []
        count = 0
        for sentence in sentences:
            for begin in range(0, len(sentence), self.max_words):
                piece = sentence[begin : begin + self.max_words][: truncate - len(ids)]
                if count == self.max_sentences or not piece:
                    return (ids, parts), True
                ids += piece
                parts += [count] * len(piece)
                count += 1
        return (ids, parts), len(ids) < sum(map(len, sentences))

    def batch(self, rows: Sequence[EncodedText], special: Special) -> DocumentBatch:
        split = [sentences_of(row) for row in rows]
        every = list(chain.from_iterable(split))
        order = sorted(range(len(every)), key=lambda place: -len(every[place]))
        tokens, mask = pad_some([every[place] for place in order], special.pad)
        row_of = torch.empty(len(every), dtype=torch.long)
        row_of[torch.tensor(order, dtype=torch.long)] = torch.arange(len(every))
        _, document_mask = pad_some([range(len(sentences)) for sentences in split], 0)
        sentences = torch.zeros(document_mask.shape, dtype=torch.long)
        sentences[document_mask] = row_of
        return DocumentBatch(tokens, mask, sentences, document_mask)

    def rounded(self, batch: DocumentBatch, *, batch_tokens: int, most: int) -> DocumentBatch:
        """`most` is not needed: sentences and words have their own limits."""
        count, longest = batch.sentences.shape
        words = (batch.mask.sum(1)[batch.sentences] * batch.document_mask).sum(1)  # (B,)
        documents = round_rows(count, max(1, int(words.max())), DOCUMENTS, batch_tokens)
        inner = round_up(len(batch.tokens), ROWS), round_up(batch.tokens.shape[1], WORDS, self.max_words)
        outer = documents, round_up(longest, SENTENCES, self.max_sentences)
        return DocumentBatch(
            enlarge(batch.tokens, *inner),
            enlarge(batch.mask, *inner),
            enlarge(batch.sentences, *outer),
            enlarge(batch.document_mask, *outer),
            None if batch.labels is None else enlarge(batch.labels, documents),
            torch.arange(documents) < count,
        )

    def split_text(self, text: str) -> list[str]:
        return split_sentences(text, self.split)

    def sentence_rows(self, batch: DocumentBatch) -> list[int]:
        rows: list[int] = batch.sentences[0][batch.document_mask[0]].tolist()
        return rows

    def limits(self, truncate: int) -> str:
        return f"{truncate} tokens and {self.max_sentences} sentences"

    def counts(self, row: EncodedText) -> dict[str, int]:
        return {"sentences": len(sentences_of(row)), **super().counts(row)}

    def whole(self, text: Pair, tokenizer: Tokenizer) -> EncodedText:
        every = DocumentEncoding(split=self.split, max_sentences=sys.maxsize, max_words=self.max_words)
        row, _ = next(every.rows([text], tokenizer, sys.maxsize))
        return row

    def positions(self, lengths: Sequence[Sequence[int]]) -> int:
        """Positions that are computed: of words, in groups of rows as on a CPU, and of sentences."""
        words = sorted(chain.from_iterable(lengths), reverse=True)
        inner = sum((last - first) * words[first] for first, last in cut_rows(words))
        return inner + len(lengths) * max(map(len, lengths))

    def real(self, lengths: Sequence[Sequence[int]]) -> int:
        return super().real(lengths) + sum(map(len, lengths))


def cut_rows(lengths: Sequence[int], padding: int = PADDING) -> list[tuple[int, int]]:
    """Groups of rows, the longest first: a new group where padding to the longest would be more than `padding`."""
    cuts, wasted = [0], 0
    for row, length in enumerate(lengths):
        wasted += lengths[cuts[-1]] - length
        if wasted > padding:
            cuts.append(row)
            wasted = 0
    return list(zip(cuts, [*cuts[1:], len(lengths)], strict=True)) if lengths else []
