"""The tokens of a corpus whose vectors are nearest to a given one."""

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


def find_token(found: TokenVectors, word: str) -> np.ndarray:
    """The vector of a token, by its name."""
    if word not in found.tokens:
        raise BadInput(f"{word!r} is no token of {found.text!r:.80}; there are {', '.join(found.tokens[:20])}")
    vector: np.ndarray = found.vectors[found.tokens.index(word)]
    return vector


def nearest_tokens(vector: np.ndarray, corpus: Iterable[TokenVectors], top: int) -> list[Neighbour]:
    """The `top` nearest, nearest first; all vectors have the length 1. Only the best so far are kept."""
    best: list[tuple[float, int, Neighbour]] = []
    for number, one in enumerate(corpus):
        similarities = one.vectors @ vector  # (T,)
        for place in np.argsort(-similarities)[:top]:
            similarity = float(similarities[place])
            if len(best) == top and similarity <= best[0][0]:
                break
            near = Neighbour(one.tokens[place], str(one.text), int(place), similarity)
            item = similarity, -number * (1 << 20) - int(place), near  # of equals the first of the corpus
            (heapq.heappushpop if len(best) == top else heapq.heappush)(best, item)
    return [near for *_, near in sorted(best, key=lambda item: item[:2], reverse=True)]
