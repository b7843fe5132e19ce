"""Sentences of words with a weight for every word and, where there is one, for every sentence; checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.show.map.data import check_weights
from regard.show.scales import Scale, check_scale, top_of
from regard.show.shaded.data import usual_top


@dataclass(frozen=True, eq=False)
class DocumentData:
    """A text in sentences: `weights[i]` (N_i,) are those of the words of sentence i, and `sentence_weights` (S,)
    those of the sentences, None if there are none.

    A word is shaded by sqrt(p_s) p_w, so that words of important sentences stand out and those of others can still
    be seen (Yang 2016, figure 5); without weights of sentences by p_w. Colours run from 0 to `scale`; without one,
    to the largest weight shown, rounded up, but for a few that are far larger than all others. Shows itself in a
    notebook."""

    sentences: Sequence[Sequence[str]]
    weights: Sequence[Any]
    sentence_weights: Any = None
    title: str = ""
    _: KW_ONLY
    scale: Scale = None

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if not self.sentences or len(self.sentences) != len(self.weights):
            raise ValueError(
                f"a document needs weights for each of its sentences, at least one; got {len(self.sentences)} "
                f"sentences, weights of {len(self.weights)}"
            )
        words = [
            check_weights(np.asarray(own)[None], (1, len(sentence)), self.scale)[0]
            for sentence, own in zip(self.sentences, self.weights, strict=True)
        ]
        object.__setattr__(self, "weights", words)
        if self.sentence_weights is not None:
            own = check_weights(np.asarray(self.sentence_weights)[None], (1, len(self.sentences)), self.scale)[0]
            object.__setattr__(self, "sentence_weights", own)

    @cached_property
    def received(self) -> np.ndarray:
        """The weight that each word of the document is shaded by (N,)."""
        if self.sentence_weights is None:
            return np.concatenate(self.weights)
        both = zip(self.sentence_weights, self.weights, strict=True)
        return np.concatenate([np.sqrt(sentence) * words for sentence, words in both])

    @property
    def hidden(self) -> np.ndarray:
        """Every word may be looked at (N,)."""
        return np.zeros(len(self.received), dtype=bool)

    @cached_property
    def top(self) -> float:
        """The weight of the darkest colour."""
        return usual_top(self.received, self.scale)

    @property
    def levels(self) -> np.ndarray:
        """What is received as shares of the scale, in [0, 1]."""
        return (self.received / self.top).clip(0, 1)

    @cached_property
    def sentence_top(self) -> float:
        """The weight of the darkest bar."""
        return top_of(float(self.sentence_weights.max())) if self.sentence_weights is not None else 1.0

    @property
    def sentence_levels(self) -> np.ndarray:
        """The weights of sentences as shares of their scale, in [0, 1]; 0 where there are none (S,)."""
        if self.sentence_weights is None:
            return np.zeros(len(self.sentences))
        return (self.sentence_weights / self.sentence_top).clip(0, 1)

    @property
    def note(self) -> str:
        """What the shades mean."""
        if self.sentence_weights is None:
            return "of words"
        return "of words x √ sentence; at the left: of sentences"
