"""The answers to questions about a text, each with where the question looked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.base.short_repr import short_repr
from regard.show import Document
from regard.tasks.core.results import Cut
from regard.tasks.shared.reader_answers import BarsAndLooks, LookAt, Looked, one_line

NO_ANSWER = "(no answer)"


class Candidate(NamedTuple):
    """A possible answer."""

    text: str  # as it stands in the context; "": there is none
    probability: float
    start: int = -1  # where it begins in the context, in characters; -1: nowhere


@dataclass(frozen=True)
class AskedText(Looked):
    """The likeliest answers to a question, spans of its context."""

    question: str
    context: str
    candidates: tuple[Candidate, ...]  # the likeliest first
    _look: LookAt | None = field(default=None, repr=False, compare=False)
    _document: Callable[[], Document] | None = field(default=None, repr=False, compare=False)
    cut: Cut | None = field(default=None, kw_only=True, repr=False, compare=False)
    unknown: tuple[str, ...] = field(default=(), kw_only=True, repr=False, compare=False)

    __repr__ = short_repr

    @property
    def input(self) -> str:
        return self.question

    @property
    def text(self) -> str:
        """The likeliest answer; "": the context seems to have none."""
        return self.candidates[0].text

    @property
    def probability(self) -> float:
        return self.candidates[0].probability

    @property
    def start(self) -> int:
        """Where it begins in the context, in characters; -1: nowhere."""
        return self.candidates[0].start

    @property
    def told(self) -> str:
        return f"{one_line(self.question)} {one_line(self.text) or NO_ANSWER} {100 * self.probability:.1f} %"

    def bars(self) -> list[Sequence[tuple[str, float]]]:
        return [[(one_line(each.text) or NO_ANSWER, each.probability) for each in self.candidates]]

    def document(self) -> Document:
        """The part of the context with the answer, its words shaded by how much the question looked at them."""
        assert self._document is not None
        return self._document()

    def picture(self, sites: Sequence[str] = ()) -> BarsAndLooks:
        return BarsAndLooks(self.heads(*sites) if sites else self.document(), self.bars(), self.told)

    def to_dict(self) -> dict[str, object]:
        return {
            **self.of_input(),
            "question": self.question,
            "text": self.text,
            "start": self.start,
            "probability": self.probability,
            "answers": [
                {"text": each.text, "start": each.start, "probability": each.probability}
                for each in self.candidates
            ],
        }

    def line(self) -> str:
        return "\n".join(f"{one_line(each.text)}\t{each.probability:.4f}" for each in self.candidates)
