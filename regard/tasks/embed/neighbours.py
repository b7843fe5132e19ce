"""The tokens of a corpus whose vectors are nearest to a given vector."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from regard.base.short_repr import short_repr
from regard.errors import BadInput
from regard.tasks.embed.answers import TokenVectors


@dataclass(frozen=True)
class Neighbour:
    """A token of a corpus."""

    token: str
    text: str
    place: int  # of the token in its text
    similarity: float  # cosine

    __repr__ = short_repr

    def to_dict(self) -> dict[str, object]:
        """As plain data."""
        return dict(vars(self))


def find_token(text: TokenVectors, word: str) -> np.ndarray:
    """The vector of a token, by its name."""
    if word not in text.tokens:
        raise BadInput(f"{word!r} is no token of {text.text!r:.80}; there are {', '.join(text.tokens[:20])}")
    vector: np.ndarray = text.vectors[text.tokens.index(word)]
    return vector


def nearest_tokens(vector: np.ndarray, corpus: Iterable[TokenVectors], top: int) -> list[Neighbour]:
    """The `top` nearest, nearest first; all vectors have the length 1. Only the best so far are kept."""
    best: list[tuple[float, int, Neighbour]] = []
    for number, text in enumerate(corpus):
        similarities = text.vectors @ vector  # (T,)
        for place in np.argsort(-similarities)[:top]:
            similarity = float(similarities[place])
            if len(best) == top and similarity <= best[0][0]:
                break
            near = Neighbour(text.tokens[place], str(text.text), int(place), similarity)
            item = similarity, -number * (1 << 20) - int(place), near  # of equals the first of the corpus
            (heapq.heappushpop if len(best) == top else heapq.heappush)(best, item)
    return [near for *_, near in sorted(best, key=lambda item: item[:2], reverse=True)]
