"""Pieces of words back to words: weights of a word's pieces are added in columns and averaged in rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput


@checked
@dataclass(frozen=True)
class Words:
    """The words of a text, and for each piece the number of its word: the pieces un, able and ! are
    Words(["unable", "!"], [0, 0, 1])."""

    labels: Sequence[str]
    numbers: Sequence[int]

    def __post_init__(self) -> None:
        steps = np.diff(np.array(list(self.numbers), int), prepend=-1, append=len(self.labels))
        if len(self.numbers) < len(self.labels) or steps[0] != 1 or steps[-1] != 1 or not set(steps) <= {0, 1}:
            raise BadInput(
                f"numbers must count from 0 to {len(self.labels) - 1}, one for each piece and in order, "
                f"got {list(self.numbers)}"
            )

    def are(self, pieces: Sequence[str]) -> bool:
        """Whether every piece is a word, spelled as it is."""
        return list(self.labels) == list(pieces)

    @property
    def starts(self) -> np.ndarray:
        """The first piece of each word."""
        return np.flatnonzero(np.diff(np.array(self.numbers), prepend=-1))


def merge_weights(weights: np.ndarray, rows: Words, columns: Words) -> np.ndarray:
    """(.., pieces, pieces) -> (.., words, words): the sum over a word's columns, the mean over its rows."""
    looked = np.add.reduceat(weights, columns.starts, -1)
    return np.add.reduceat(looked, rows.starts, -2) / np.bincount(rows.numbers)[:, None]


def merge_mask(mask: np.ndarray | None, rows: Words, columns: Words) -> np.ndarray | None:
    """A word may look at another if one of its pieces may look at one of the other's."""
    if mask is None:
        return None
    return np.logical_or.reduceat(np.logical_or.reduceat(mask, columns.starts, -1), rows.starts, -2)
