"""Perplexity: into how many equally likely choices a model is, on average, still undecided."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Perplexity:
    """What a text cost a model, in all `nats`, and how long the text is.

    Numbers per token compare only models of one tokenizer; those per word and per character compare any."""

    nats: float
    tokens: int
    words: int
    characters: int

    def __post_init__(self) -> None:
        for name in ("tokens", "words", "characters"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}; is the text empty?")

    @property
    def loss(self) -> float:
        """nats / tokens"""
        return self.nats / self.tokens

    @property
    def per_token(self) -> float:
        """exp(nats / tokens)"""
        return _exp(self.nats / self.tokens)

    @property
    def per_word(self) -> float:
        """exp(nats / words): all tokens are paid for, and the words share the cost."""
        return _exp(self.nats / self.words)

    @property
    def bits_per_character(self) -> float:
        """nats / (characters ln 2)"""
        return self.nats / self.characters / math.log(2)


def count_words(chunks: Iterable[str]) -> int:
    """What white space parts, and every line break as one more: the convention of WikiText, which says <eos> there.

    The chunks are one text; a word may begin in one and end in the next."""
    words, inside = 0, False
    for chunk in chunks:
        if chunk:
            begun = inside and not chunk[0].isspace()  # counted with the chunk before
            words += len(chunk.split()) + chunk.count("\n") - begun
            inside = not chunk[-1].isspace()
    return words


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
