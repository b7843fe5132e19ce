"""What a task gives: answers, pictures of where the model looked, metrics, and ticks on the way. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

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


class Shown(Answer):
    """An answer that shows itself in a notebook: its text, and below it where the model looked."""

    def _repr_html_(self) -> str:
        text = f'<pre style="white-space:pre-wrap">{escape(self.line())}</pre>\n'
        try:
            picture = self.picture()
        except NoAttention:
            return text
        return text + (picture._repr_html_() if picture is not None else "")


Scored = tuple[str, float]  # a text and its log p


def scored_data(answers: Sequence[Scored]) -> list[dict[str, object]]:
    """The next best answers as plain data."""
    return [{"text": text, "score": score} for text, score in answers]


def scored_lines(answers: Sequence[Scored], before: str = "") -> str:
    """One answer as its text, several as lines `score TAB text`; `before` begins every line."""
    if len(answers) == 1:
        return f"{before}{answers[0][0]}"
    return "\n".join(f"{before}{score:.4f}\t{text}" for text, score in answers)


@dataclass(frozen=True)
class Evaluation:
    """How good a run is on some data."""

    metrics: dict[str, float]  # by the names in Card.metrics
    counts: dict[str, int] = field(default_factory=dict)  # what was evaluated: {"pairs": 1000}
    details: dict[str, object] = field(default_factory=dict)  # further plain data for JSON
    rows: dict[str, float] = field(default_factory=dict)  # further numbers for the printed table
    notes: tuple[str, ...] = ()  # blocks of text printed below it
    compared: object = field(default=None, repr=False)  # what Desk.compare and Desk.plot need

    def to_dict(self) -> dict[str, object]:
        """All of it as plain data: what `regard evaluate --json` prints."""
        return {**self.counts, **self.metrics, **self.details}

    def __repr__(self) -> str:
        on = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"<Evaluation{f' on {on}' if on else ''}: {metrics}>"

    def _repr_html_(self) -> str:
        from regard.show.html_table import html_table

        rows = [[name, f"{count:,}"] for name, count in self.counts.items()]
        rows += [[name, f"{value:.4g}"] for name, value in {**self.metrics, **self.rows}.items()]
        return html_table(rows, title="Evaluation", notes="\n\n".join(self.notes))
