"""Perplexity: between how many equally likely tokens a model is undecided on average."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Perplexity:
    """The total negative log-likelihood of a text, in nats, and the length of the text.

    Values per token are comparable only between models with the same tokenizer; those per word or character always
    are."""

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
        """exp(nats / words): the loss of all tokens, divided by the number of words."""
        return _exp(self.nats / self.words)

    @property
    def bits_per_character(self) -> float:
        """nats / (characters ln 2)"""
        return self.nats / self.characters / math.log(2)


def count_words(chunks: Iterable[str]) -> int:
    """Words split at white space, plus one for each line break: the convention of WikiText, where it is <eos>.

    The chunks are one text; a word may begin in one chunk and end in the next."""
    words, inside = 0, False
    for chunk in chunks:
        if chunk:
            begun = inside and not chunk[0].isspace()  # already counted in the chunk before
            words += len(chunk.split()) + chunk.count("\n") - begun
            inside = not chunk[-1].isspace()
    return words


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
