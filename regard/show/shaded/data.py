"""A text with a weight for every word, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from regard.show.map.data import check_mask, check_weights
from regard.show.scales import Scale, check_scale, top_of

OUTLIERS, FAR = 0.02, 2  # one word in fifty may receive more than the scale has, if it is more than twice as much


class Shades(Protocol):
    """How the words of a text are shaded, each by its number."""

    @property
    def received(self) -> np.ndarray: ...  # (N,) weights

    @property
    def levels(self) -> np.ndarray: ...  # (N,) as shares of the scale

    @property
    def hidden(self) -> np.ndarray: ...  # (N,) may not be looked at

    @property
    def top(self) -> float: ...  # the weight of the darkest colour


def usual_top(weights: np.ndarray, scale: Scale) -> float:
    """The weight of the darkest colour: of the largest weight (N,), but for a few that are far larger."""
    most, usual = float(weights.max()), float(np.quantile(weights, 1 - OUTLIERS))
    return top_of(usual if most > FAR * usual > 0 else most, scale)


@dataclass(frozen=True, eq=False)
class ShadedData:
    """A text and how much each query looks at each of its words: weights (Q, N) for `words` (N,), `queries` (Q,).

    The words are shaded by the weights of query number `query`; without one, by the mean over the queries that may
    look at them. Colours run from 0 to `scale`; without one, to the largest weight shown, rounded up. A few words
    that receive far more than all others, such as [CLS] or the first of a text, do not count in that: they have the
    darkest colour, and the scale ends with ≥. `mask` (Q, N) is True where a query may look. Shows itself in a
    notebook."""

    weights: Any
    words: Sequence[str]
    queries: Sequence[str]
    title: str = ""
    _: KW_ONLY
    query: int | None = None
    scale: Scale = None
    mask: Any = None

    def __post_init__(self) -> None:
        check_scale(self.scale)
        weights = check_weights(self.weights, (len(self.queries), len(self.words)), self.scale)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "mask", check_mask(self.mask, weights))
        if self.query is not None and not 0 <= self.query < len(self.queries):
            raise ValueError(f"there are queries 0 to {len(self.queries) - 1}, got {self.query}")

    @cached_property
    def received(self) -> np.ndarray:
        """The weight that each word is shaded by (N,)."""
        if self.query is not None:
            return self.weights[self.query]
        if self.mask is None:
            return self.weights.mean(0)
        return self.weights.sum(0) / self.mask.sum(0).clip(1)

    @property
    def hidden(self) -> np.ndarray:
        """Words that the query, or every query, may not look at (N,)."""
        if self.mask is None:
            return np.zeros(len(self.words), dtype=bool)
        return ~(self.mask.any(0) if self.query is None else self.mask[self.query])

    @cached_property
    def top(self) -> float:
        """The weight of the darkest colour."""
        return self.top_for(self.received)

    def top_for(self, weights: np.ndarray) -> float:
        """The same for other weights (N,)."""
        return usual_top(weights, self.scale)

    @property
    def levels(self) -> np.ndarray:
        """What is received as shares of the scale, in [0, 1]."""
        return (self.received / self.top).clip(0, 1)

    @property
    def note(self) -> str:
        """Whose weights are drawn."""
        if self.query is None and len(self.queries) > 1:
            return f"mean of {len(self.queries):,} queries"
        return f"where {self.queries[self.query or 0]!r} looks"
