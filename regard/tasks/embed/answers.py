"""The vectors of texts and of tokens, as answers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.base.short_repr import short_repr
from regard.errors import NoAttention
from regard.show import Heads, Vectors
from regard.tasks.core.results import Answered, Cut
from regard.tasks.shared.reader_answers import LookAt, Texts


@dataclass(frozen=True)
class Embedded(Answered, ABC):
    """What the answers of `embed` share: JSON lines, and a picture of where the tokens looked."""

    text: Texts
    cut: Cut | None = field(default=None, compare=False, kw_only=True)
    unknown: tuple[str, ...] = field(default=(), compare=False, kw_only=True)
    _look: LookAt | None = field(default=None, repr=False, compare=False, kw_only=True)

    __repr__ = short_repr

    @property
    def input(self) -> str | list[str]:
        return self.text if isinstance(self.text, str) else list(self.text)

    def to_dict(self) -> dict[str, object]:
        """The answer as plain data."""
        return {**self.of_input(), "text": self.text}

    def line(self) -> str:
        """The same in JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @abstractmethod
    def rows(self) -> tuple[list[str], np.ndarray]:
        """Its vectors (N, D), by their names."""

    def picture(self, sites: Sequence[str] = ()) -> Heads | Vectors:
        """Where each token looked, in every head of the named sites (none: all); of a model that has no attention,
        the vectors."""
        if self._look is not None:
            return self._look(sites)
        if sites:
            raise NoAttention("this model gives vectors and has no attention to show")
        return Vectors(*self.rows())


@dataclass(frozen=True)
class Vector(Embedded):
    """The vector of a text."""

    vector: np.ndarray  # (D,)

    __repr__ = short_repr

    def rows(self) -> tuple[list[str], np.ndarray]:
        return [self.text if isinstance(self.text, str) else " ".join(self.text)], self.vector[None]

    def to_dict(self) -> dict[str, object]:
        return {**super().to_dict(), "vector": self.vector.tolist()}


@dataclass(frozen=True)
class TokenVectors(Embedded):
    """A vector for each token of a text."""

    tokens: tuple[str, ...]
    vectors: np.ndarray  # (T, D)

    __repr__ = short_repr

    def rows(self) -> tuple[list[str], np.ndarray]:
        return list(self.tokens), self.vectors

    def to_dict(self) -> dict[str, object]:
        return {**super().to_dict(), "tokens": list(self.tokens), "vectors": self.vectors.tolist()}
