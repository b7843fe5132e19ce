"""The answer of a translator, and where each of its words looked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from regard.base.short_repr import short_repr
from regard.errors import NoAttention
from regard.metrics.alignment import Links
from regard.show import Heads, Map
from regard.tasks.core.results import Scored, Shown, scored_data, scored_lines
from regard.tasks.shared.gate_maps import UNITS


@dataclass(frozen=True)
class Translation(Shown):
    """One answer of a translator: the text, its score, the next best translations, and where each word looked."""

    source: str
    text: str
    score: float  # log p(text | source)
    others: tuple[Scored, ...] = ()  # the next best translations with their scores
    ranks: tuple[float, ...] = field(
        default=(), kw_only=True, repr=False, compare=False
    )  # by which they are ordered: log p / length^penalty + coverage
    unknown: tuple[str, ...] = field(default=(), kw_only=True, compare=False)
    written: tuple[int, ...] = field(default=(), kw_only=True, repr=False, compare=False)
    _look: Callable[[], Map] | None = field(default=None, repr=False, compare=False)
    _links: Callable[[Map], Links] | None = field(default=None, repr=False, compare=False)
    _heads: Callable[[Sequence[str]], Heads] | None = field(default=None, repr=False, compare=False)
    _gates: Callable[[Sequence[str], int], Heads] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def attention(self) -> Map:
        """Which source words each word of the answer looked at, from one pass over the finished answer. The weights
        of the model's own pieces of words are in `attention.pieces`."""
        if self._look is None:
            raise ValueError("the empty text was not translated, so nothing was looked at")
        return self._look()

    def heads(self, *sites: str, pieces: bool = False) -> Heads:
        """Every head of the named sites ("encoder.*", "decoder.*.cross"; none: all) in one picture, in words or in
        the model's own pieces of words."""
        if self._heads is None:
            raise ValueError("the empty text was not translated, so nothing was looked at")
        heads = self._heads(sites)
        return heads.pieces if pieces else heads

    def gates(self, *sites: str, units: int = UNITS, pieces: bool = False) -> Heads:
        """The gates of the recurrent layers ("encoder.l0"; none: all) over the words that each read: the mean of
        all units, and so many of them from the most open to the most closed."""
        if self._gates is None:
            raise ValueError("the empty text was not translated, so no gate was asked")
        gates = self._gates(sites, units)
        return gates.pieces if pieces else gates

    @cached_property
    def alignment(self) -> Links:
        """(source word, target word) for each word of the answer; words are what spaces part."""
        return frozenset() if self._links is None else self._links(self.attention.pieces)

    __repr__ = short_repr

    @property
    def input(self) -> str:
        return self.source

    def to_dict(self) -> dict[str, object]:
        others = scored_data(self.others)
        own = {"source": self.source, "text": self.text, "score": self.score, "others": others}
        return {**self.of_input(), **own}

    def line(self) -> str:
        """The text, or of several answers lines `score TAB text` in the order of these scores, `ranks`."""
        return scored_lines([(self.text, self.score), *self.others], ranks=self.ranks)

    def picture(self, sites: Sequence[str] = ()) -> Map | Heads | None:
        """Attention where the model has some or the sites are such, else gates."""
        if self._look is None:
            return None
        try:
            return self.heads(*sites) if sites else self.attention
        except NoAttention:
            if self._gates is None:
                raise
            return self.gates(*sites)
