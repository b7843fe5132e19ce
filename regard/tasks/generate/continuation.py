"""What a language model wrote, and where each token looked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan

from regard.base.short_repr import short_repr
from regard.errors import NoAttention
from regard.show import Heads, Map
from regard.tasks.core.results import Scored, Shown, scored_data, scored_lines
from regard.tasks.shared.gate_maps import UNITS


@dataclass(frozen=True)
class Continuation(Shown):
    """What a language model wrote after a prompt: the text, its score, the next best texts, and where it looked."""

    prompt: str
    text: str  # what was written after the prompt
    score: float  # log p(text | prompt); NaN where the work was stopped before the text was complete
    finished: bool  # the model itself ended the text
    others: tuple[Scored, ...] = ()  # the next best texts with their scores
    between: str = field(default="", kw_only=True, repr=False)  # of prompt and text, a line break before a response
    ranks: tuple[float, ...] = field(default=(), kw_only=True, repr=False, compare=False)  # log p / length^penalty
    unknown: tuple[str, ...] = field(default=(), kw_only=True, compare=False)
    written: tuple[int, ...] = field(default=(), kw_only=True, repr=False, compare=False)
    _look: Callable[[Sequence[str]], Heads] | None = field(default=None, repr=False, compare=False)
    _gates: Callable[[Sequence[str], int], Heads] | None = field(default=None, repr=False, compare=False)
    # the last layer's site
    _alignment: tuple[str, ...] = field(default=(), kw_only=True, repr=False, compare=False)

    @cached_property
    def attention(self) -> Map:
        """Which words before it each written word looked at: the mean of the last layer's heads."""
        heads = self.heads(*self._alignment)
        return heads.map(list(heads.panels)[-1])

    def heads(self, *sites: str, pieces: bool = False) -> Heads:
        """Every head of the named sites ("blocks.0.*"; none: all) in one picture, in words or in
        the model's own pieces of words."""
        if self._look is None:
            raise ValueError("nothing was written, so nothing was looked at")
        heads = self._look(sites)
        return heads.pieces if pieces else heads

    def gates(self, *sites: str, units: int = UNITS, pieces: bool = False) -> Heads:
        """The gates of the recurrent layers ("stack.l0"; none: all) over the words that were read: the mean of all
        units, and so many of them from the most open to the most closed."""
        if self._gates is None:
            raise ValueError("nothing was written, so no gate was asked")
        gates = self._gates(sites, units)
        return gates.pieces if pieces else gates

    __repr__ = short_repr

    @property
    def input(self) -> str:
        return self.prompt

    def to_dict(self) -> dict[str, object]:
        return {
            **self.of_input(),
            "prompt": self.prompt + self.between,
            "text": self.text,
            "score": None if isnan(self.score) else self.score,
            "finished": self.finished,
            "others": scored_data(self.others),
        }

    def line(self) -> str:
        """The whole text, or of several answers lines `score TAB text` in the order of these scores, `ranks`."""
        before = self.prompt + self.between
        answers = [(before + text, score) for text, score in ((self.text, self.score), *self.others)]
        return scored_lines(answers, ranks=self.ranks)

    def picture(self, sites: Sequence[str] = ()) -> Map | Heads | None:
        """Attention where the model has some or the sites are such, else gates."""
        if self._look is None:  # nothing was written
            return None
        try:
            return self.heads(*sites) if sites else self.attention
        except NoAttention:
            if self._gates is None:
                raise
            return self.gates(*sites)
