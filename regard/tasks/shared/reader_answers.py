"""The answers of a text encoder: filled blanks and classes, each with where its tokens looked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.base.arguments import checked
from regard.base.short_repr import short_repr
from regard.errors import NoAttention
from regard.learn.progress import say
from regard.show import Document, Heads, Map, bars
from regard.show.scales import Scale
from regard.tasks.core.results import NOTHING_BEFORE, Cut, Shown

BARS = 10  # classes that are drawn as bars

Texts = str | tuple[str, str]  # a text, or a pair
LookAt = Callable[[Sequence[str]], Heads]  # the sites that are named -> where the tokens looked there


class Looked(Shown, ABC):
    """An answer that can say where its tokens looked."""

    _look: LookAt | None

    @property
    def told(self) -> str:
        """The answer in a few words, for the title of a picture."""
        return ""

    def heads(self, *sites: str, pieces: bool = False) -> Heads:
        """Every head of the named sites ("blocks.0.*"; none: all) in one picture, in words or in
        the model's own pieces of words."""
        if self._look is None:
            raise NoAttention(NOTHING_BEFORE)
        heads = self._look(sites)
        return heads.pieces if pieces else heads

    @cached_property
    def attention(self) -> Map:
        """Where the words in question looked: the mean of the last layer's heads."""
        heads = self.heads()
        return heads.map(list(heads.panels)[-1])

    @abstractmethod
    def bars(self) -> list[Sequence[tuple[str, float]]]:
        """How likely the answers are, for a terminal."""

    def picture(self, sites: Sequence[str] = ()) -> BarsAndLooks | None:
        """None where there is nothing to look at."""
        if self._look is None:
            say(NOTHING_BEFORE)
            return None
        return BarsAndLooks(self.heads(*sites) if sites else self.attention, self.bars(), self.told)


@dataclass(frozen=True)
class BarsAndLooks:
    """Where the model looked, with how likely the answers are: above it in a terminal, elsewhere in its title."""

    looks: Map | Heads | Document
    rows: list[Sequence[tuple[str, float]]]
    told: str = ""  # the answer, for a title

    @property
    def pieces(self) -> BarsAndLooks:
        return replace(self, looks=self.looks.pieces)

    @checked
    def scaled(self, scale: Scale) -> BarsAndLooks:
        return replace(self, looks=self.looks.scaled(scale))

    @checked
    def part(self, *, head: int | None = None, rows: range | None = None) -> BarsAndLooks:
        return replace(self, looks=self.looks.part(head=head, rows=rows))

    @property
    def titled(self) -> Map | Heads | Document:
        """Where the model looked, under a title that tells the answer."""
        return (
            self.looks.with_title(" · ".join(filter(None, (self.told, self.looks.title))))
            if self.told
            else self.looks
        )

    def overview(self, side: int) -> dict[str, Any]:
        return self.titled.overview(side)

    def data(self) -> dict[str, Any]:
        return self.titled.data()

    @checked
    def save(self, path: str | Path) -> None:
        self.titled.save(path)

    def _repr_html_(self) -> str:
        return self.titled._repr_html_()

    @checked
    def terminal(self, *, colour: bool = True) -> str:
        return "\n".join([*map(bars, self.rows), self.looks.terminal(colour=colour)])


@dataclass(frozen=True)
class Filled(Looked):
    """A text with its blanks filled, and where the blanks looked."""

    source: str
    text: str  # each blank with its likeliest token
    blanks: tuple[tuple[tuple[str, float], ...], ...]  # the likeliest tokens of each blank with their probabilities
    filled: tuple[tuple[str, ...], ...] = ()  # the text with each of those
    unknown: tuple[str, ...] = field(default=(), kw_only=True, compare=False)
    _look: LookAt | None = field(default=None, repr=False, compare=False)

    __repr__ = short_repr

    @property
    def input(self) -> str:
        return self.source

    def bars(self) -> list[Sequence[tuple[str, float]]]:
        return list(self.blanks)

    def to_dict(self) -> dict[str, object]:
        blanks = [[{"token": token, "probability": share} for token, share in blank] for blank in self.blanks]
        return {**self.of_input(), "source": self.source, "text": self.text, "blanks": blanks}

    def line(self) -> str:
        return "\n".join(
            f"{share:.4f}\t{token}\t{text}"
            for blank, texts in zip(self.blanks, self.filled, strict=True)
            for (token, share), text in zip(blank, texts, strict=True)
        )


@dataclass(frozen=True)
class Followed(Looked):
    """Whether a second text follows a first one, and where [CLS] looked to tell."""

    first: str
    second: str
    probability: float  # that it follows
    _look: LookAt | None = field(default=None, repr=False, compare=False)
    cut: Cut | None = field(default=None, kw_only=True, repr=False, compare=False)
    unknown: tuple[str, ...] = field(default=(), kw_only=True, repr=False, compare=False)

    __repr__ = short_repr

    @property
    def input(self) -> list[str]:
        return [self.first, self.second]

    @property
    def label(self) -> str:
        return next(iter(self.probabilities))

    @property
    def probabilities(self) -> dict[str, float]:
        """The likelier one first."""
        shares = {"follows": self.probability, "elsewhere": 1 - self.probability}
        return dict(sorted(shares.items(), key=lambda pair: -pair[1]))

    @property
    def told(self) -> str:
        return shares_in_words(self.probabilities)

    def bars(self) -> list[Sequence[tuple[str, float]]]:
        return [list(self.probabilities.items())]

    def to_dict(self) -> dict[str, object]:
        texts = {"first": self.first, "second": self.second}
        return {**self.of_input(), **texts, "label": self.label, "probabilities": self.probabilities}

    def line(self) -> str:
        return f"{self.label}\t{self.probabilities[self.label]:.4f}"


@dataclass(frozen=True)
class ClassifiedText(Shown):
    """The class of a text with the probabilities of all classes."""

    source: Texts
    label: str
    probabilities: dict[str, float]  # of every class, the likeliest first
    cut: Cut | None = field(default=None, kw_only=True, compare=False)
    unknown: tuple[str, ...] = field(default=(), kw_only=True, compare=False)

    __repr__ = short_repr

    @property
    def input(self) -> str | list[str]:
        return self.source if isinstance(self.source, str) else list(self.source)

    @property
    def told(self) -> str:
        """The likeliest classes with their probabilities, for the title of a picture."""
        return shares_in_words(self.probabilities)

    def bars(self) -> list[Sequence[tuple[str, float]]]:
        """The likeliest classes, for a terminal."""
        return [list(self.probabilities.items())[:BARS]]

    def to_dict(self) -> dict[str, object]:
        first, second = (self.source, None) if isinstance(self.source, str) else self.source
        texts = {"text": first} | ({} if second is None else {"second": second})
        return {**self.of_input(), **texts, "label": self.label, "probabilities": self.probabilities}

    def line(self) -> str:
        return f"{one_line(self.label)}\t{self.probabilities[self.label]:.4f}"


@dataclass(frozen=True)
class Classified(ClassifiedText, Looked):
    """The class of a text with the probabilities of all classes, and where [CLS] looked, or each word back."""

    _look: LookAt | None = field(default=None, repr=False, compare=False)

    __repr__ = short_repr


@dataclass(frozen=True)
class ClassifiedDocument(ClassifiedText):
    """The class of a text with the probabilities of all classes, and how words and sentences were weighed."""

    words: int = field(default=0, repr=False, compare=False)  # tokens that were read
    _look: Callable[[Sequence[str]], Document] | None = field(default=None, repr=False, compare=False)

    __repr__ = short_repr

    def document(self, *sites: str) -> Document:
        """The text, its words and sentences shaded by their weights: at the named sites (none: all)."""
        assert self._look is not None
        return self._look(sites)

    def picture(self, sites: Sequence[str] = ()) -> BarsAndLooks | None:
        """None where there is no word to show."""
        if not self.words:
            say("a text without words has nothing to show")
            return None
        return BarsAndLooks(self.document(*sites), self.bars(), self.told)


def shares_in_words(probabilities: Mapping[str, float]) -> str:
    """The three likeliest classes: "ring 99.1 %, circle 0.6 %, star 0.2 %"."""
    return ", ".join(f"{label} {100 * share:.1f} %" for label, share in list(probabilities.items())[:3])


def one_line(label: str) -> str:
    """A class may have any name, but a line and its columns stay whole."""
    return " ".join(label.split())
