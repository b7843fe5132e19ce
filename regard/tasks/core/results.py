"""What a task gives: answers, pictures of where the model looked, metrics, and ticks on the way. No torch here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from regard.base.arguments import checking
from regard.errors import NoAttention

if TYPE_CHECKING:
    from regard.show.scales import Scale

Tick = Callable[[], None]  # called once for each unit of work, to move a progress bar


def no_tick() -> None:
    """For work whose progress nobody watches."""


@dataclass(frozen=True)
class Metric:
    """A number that says how good a run is."""

    better: Literal["min", "max"]
    digits: int = 2
    perfect: float | None = None  # the value that cannot be improved


CLASS_METRICS = {
    "accuracy": Metric("max", perfect=100),
    "loss": Metric("min", 4),
    "macro_f1": Metric("max"),
    "matthews": Metric("max", 4),  # of two classes only
}
SHOWN = 40  # characters of an input that are shown
NAMED = 12  # unknown characters or words that are named
NOTHING_BEFORE = "fewer than two words were read, so no word has another one to look back at"


class Picture(Protocol):
    """What can be drawn: a Map, Heads, an Overlay, Gates."""

    @property
    def pieces(self) -> Picture:
        """The same over the model's own pieces of words."""
        ...

    def scaled(self, scale: Scale) -> Picture: ...

    def part(self, *, head: int | None = None, rows: range | None = None) -> Picture: ...

    def data(self) -> dict[str, Any]: ...

    def overview(self, side: int) -> dict[str, Any]: ...

    def save(self, path: str | Path) -> None: ...

    def terminal(self, *, colour: bool = True) -> str: ...

    def _repr_html_(self) -> str: ...


class Answer(Protocol):
    """One answer of a run, whatever the task."""

    def to_dict(self) -> dict[str, object]:
        """The answer as plain data: what `--json` prints and a server sends."""
        ...

    def line(self) -> str:
        """The answer as the command prints it: one line or several."""
        ...

    def picture(self, sites: Sequence[str] = ()) -> Picture | None:
        """Where the model looked: the usual picture, or every head of the named sites. None: nothing was asked."""
        ...


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True)
class Cut:
    """How much was read of an input that is larger than what the model takes. It prints as "16 of 40 sentences"."""

    parts: Mapping[str, tuple[int, int]]  # by their unit: how many were read, and how many there are
    limits: str  # what the model takes: "400 tokens and 16 sentences"

    def __str__(self) -> str:
        return ", ".join(f"{read:,} of {of:,} {unit}" for unit, (read, of) in self.parts.items())

    def __repr__(self) -> str:
        return f"Cut({self})"

    def to_dict(self) -> dict[str, object]:
        """{"sentences": {"read": 16, "of": 40}}"""
        return {unit: {"read": read, "of": of} for unit, (read, of) in self.parts.items()}


class Answered(Answer):
    """What every answer knows of its input."""

    cut: Cut | None = None  # where not all of it was read
    unknown: tuple[str, ...] = ()  # its characters or words that the model does not know
    written: tuple[int, ...] = ()  # its tokens, without start and end token, where it is a text

    @property
    @abstractmethod
    def input(self) -> str | int | list[str]:
        """What was asked: a text or the list of a pair, the name of an image, a number."""

    def of_input(self) -> dict[str, object]:
        """What the plain data of every answer begins with: its `input`, and where not all of it was read `cut` and
        `unknown`."""
        data: dict[str, object] = {"input": self.input}
        if self.cut is not None:
            data["cut"] = self.cut.to_dict()
        if self.unknown:
            data["unknown"] = list(self.unknown)
        return data


class Shown(Answered):
    """An answer that shows itself in a notebook: its text, and below it where the model looked."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "picture" in vars(cls):
            cls.picture = checking(cls.picture)  # type: ignore[method-assign]

    def _repr_html_(self) -> str:
        text = f'<pre style="white-space:pre-wrap">{escape(self.line())}</pre>\n'
        if self.cut is not None:
            text += f"<p>Only a part of the input was read: {escape(str(self.cut))}.</p>\n"
        if self.unknown:
            kind = unknown_kind(self.unknown).capitalize()
            text += f"<p>{kind} that the model does not know: {escape(' '.join(self.unknown))}</p>\n"
        try:
            picture = self.picture()
        except NoAttention:
            return text
        return text + (picture._repr_html_() if picture is not None else "")


@dataclass(frozen=True)
class NotWhole:
    """What `Unread` says of an answer whose input was not read whole."""

    input: str | int | list[str]
    cut: Cut | None
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, answer: Answer) -> NotWhole | None:
        """None: all of the input was read."""
        if not isinstance(answer, Answered) or (answer.cut is None and not answer.unknown):
            return None
        return cls(answer.input, answer.cut, answer.unknown)


@dataclass
class Unread:
    """Counts the answers whose inputs were not read whole, to say so once at the end."""

    what: str  # the inputs, in the plural
    cut: list[NotWhole] = field(default_factory=list)  # the first of them
    cut_count: int = 0
    unknown: dict[str, None] = field(default_factory=dict)  # characters or words, each once
    unknown_count: int = 0

    def add(self, answer: NotWhole | None) -> None:
        if answer is None:
            return
        if answer.cut is not None:
            self.cut, self.cut_count = self.cut or [answer], self.cut_count + 1
        self.add_unknown(answer.unknown)

    def add_unknown(self, unknown: Sequence[str]) -> None:
        """What the model does not know of one input."""
        if unknown:
            self.unknown |= dict.fromkeys(unknown if len(self.unknown) <= NAMED else ())
            self.unknown_count += 1

    def lines(self) -> list[str]:
        return [
            *(self._cut(answer, answer.cut) for answer in self.cut if answer.cut is not None),
            *([self._unknown()] if self.unknown else []),
        ]

    def _counted(self, count: int, verb: str, verbs: str) -> str:
        return f"{count:,} {self.what.removesuffix('s')} {verb}" if count == 1 else f"{count:,} {self.what} {verbs}"

    def _cut(self, answer: NotWhole, cut: Cut) -> str:
        given = answer.input[0] if isinstance(answer.input, list) else str(answer.input)
        shown = f"the one that begins with {given[:SHOWN]!r}" if len(given) > SHOWN else repr(given)
        first = " first" if self.cut_count > 1 else ""
        were = self._counted(self.cut_count, "was", "were")
        return f"{were} truncated to the {cut.limits} this model takes: {shown}{first} ({cut})"

    def _unknown(self) -> str:
        some = list(self.unknown)[:NAMED]
        more = ", ..." if len(self.unknown) > NAMED else ""
        have = self._counted(self.unknown_count, "has", "have")
        kind = unknown_kind(self.unknown)
        return f"{have} {kind} that this model does not know and cannot read: {', '.join(map(repr, some))}{more}"


def unknown_kind(unknown: Iterable[str]) -> str:
    """What parts of a text are called that a model does not know."""
    return "characters" if all(len(part) == 1 for part in unknown) else "words"


# ---- work that is stopped


def keep_unfinished(error: BaseException, answers: Sequence[Answer]) -> None:
    """Let the error that ends the work carry what had been written of the answers in progress."""
    if answers:
        error.__dict__["unfinished"] = answers
        count = f"{len(answers):,} answers" if len(answers) > 1 else "answer"
        error.add_note(f"the last {count} may not be complete")


def in_order(count: int, groups: Iterable[Mapping[int, A]]) -> Iterator[A]:
    """Answers in the order of their places, which come in groups of any order. An error that ends the work carries
    those that were done."""
    answers: dict[int, A] = {}
    try:
        for group in groups:
            answers |= group
    except BaseException as error:
        _keep_done(error, answers)
        raise
    for place in range(count):
        yield answers[place]


def _keep_done(error: BaseException, answers: Mapping[int, Answer]) -> None:
    """As `keep_unfinished`, of complete answers by their places; None stands for those between that were not
    done."""
    if answers:
        kept = [answers.get(place) for place in range(max(answers) + 1)]
        error.__dict__["unfinished"] = kept
        if missing := kept.count(None):
            error.add_note(
                f"{missing:,} of the last {len(kept):,} inputs were not answered: an empty line, in JSON an error, "
                "stands for each"
            )


def unfinished(error: BaseException) -> Sequence[Answer | None]:
    """The answers in progress, as far as they were written; None: an input before others that has none yet."""
    answers: Sequence[Answer | None] = error.__dict__.get("unfinished", ())
    return answers


# ---- several answers


Scored = tuple[str, float]  # a text and its log p


def scored_data(answers: Sequence[Scored]) -> list[dict[str, object]]:
    """The next best answers as plain data."""
    return [{"text": text, "score": score} for text, score in answers]


def scored_lines(answers: Sequence[Scored], before: str = "", ranks: Sequence[float] = ()) -> str:
    """One answer as its text, several as lines `score TAB text`; `before` begins every line. `ranks`: the scores
    by which they are ordered, printed instead of log p."""
    if len(answers) == 1:
        return f"{before}{answers[0][0]}"
    scores = ranks or [score for _, score in answers]
    lines = zip(scores, answers, strict=True)
    return "\n".join(f"{before}{score:z.4f}\t{text}" for score, (text, _) in lines)


@dataclass(frozen=True)
class Evaluation:
    """How good a run is on some data."""

    metrics: dict[str, float]  # by the names in Card.metrics
    counts: dict[str, int] = field(default_factory=dict)  # what was evaluated, first: {"pairs": 1000}
    details: dict[str, object] = field(default_factory=dict)  # further plain data for JSON
    rows: dict[str, float] = field(default_factory=dict)  # further numbers for the printed table
    notes: tuple[str, ...] = ()  # blocks of text printed below it
    compared: object = field(default=None, repr=False)  # what Desk.compare and Desk.plot need

    def to_dict(self) -> dict[str, object]:
        """All of it as plain data: what `regard evaluate --json` prints."""
        return {**self.counts, **self.metrics, **self.details}

    def __repr__(self) -> str:
        said = list(self.counts.items())[:1]
        said += [("truncated", count)] if (count := self.counts.get("truncated")) else []
        on = ", ".join(f"{count:,} {name.removesuffix('s') if count == 1 else name}" for name, count in said)
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"<Evaluation{f' on {on}' if on else ''}: {metrics}>"

    def _repr_html_(self) -> str:
        from regard.show.html_table import html_table

        rows = [[name, f"{count:,}"] for name, count in self.counts.items()]
        rows += [[name, f"{value:.4g}"] for name, value in {**self.metrics, **self.rows}.items()]
        return html_table(rows, title="Evaluation", notes="\n\n".join(self.notes))
