"""How a number went: lines over steps, told apart without colour too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.show.colour import LINES
from regard.show.files import suffix_of, write_whole
from regard.show.text import clean, trim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FEW = 40  # a line of more points carries no marks
INSIDE = 4  # more lines than these leave their names no room among them


@dataclass(frozen=True, eq=False)
class Curves:
    """Lines by name: {"train": (x, y)}. A gap in y (NaN, or None in a log) is a gap in the line.

    `spread` shades what lies round a line, as between the worst and the best seed: {"train": (low, high)}.
    `ticks` names places on the x axis in words: {5.5: "1–10"}. `from_zero` lets the y axis begin at 0."""

    series: Mapping[str, tuple[Any, Any]]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    _: KW_ONLY
    spread: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    ticks: Mapping[float, str] = field(default_factory=dict)
    from_zero: bool = False

    def __post_init__(self) -> None:
        if not self.series:
            raise ValueError("no series to draw: give at least one, as {name: (x, y)}")
        checked = {}
        for name, (x, y) in self.series.items():
            x, y = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
            if x.ndim != 1 or x.shape != y.shape:
                raise ValueError(
                    f"series {name!r}: x and y must be equally long lists, got {x.shape} and {y.shape}"
                )
            if not np.isfinite(x).all():
                raise ValueError(f"series {name!r}: x must be finite, got {x[~np.isfinite(x)][0]}")
            checked[name] = (x, y)
        object.__setattr__(self, "series", checked)
        object.__setattr__(self, "spread", {name: self._band(name, *band) for name, band in self.spread.items()})

    def _band(self, name: str, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
        if name not in self.series:
            raise ValueError(
                f"spread {name!r} has no line of that name; there are {', '.join(map(repr, self.series))}"
            )
        low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
        wanted = self.series[name][0].shape
        if not low.shape == high.shape == wanted:
            raise ValueError(
                f"spread {name!r}: low and high must be as long as the line {wanted}, got {low.shape}, {high.shape}"
            )
        if (low > high).any():
            at = np.argmax(low > high)
            raise ValueError(
                f"spread {name!r}: low must not pass high, got {low[at]:g} and {high[at]:g} at point {at}"
            )
        return low, high

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure."""
        from regard.show.fonts import for_drawing

        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.figure(figsize=(6.4, 4), layout="constrained").add_subplot()
        names = [trim(clean(name), 40) for name in self.series]
        titles = [trim(clean(text), 80) for text in (self.title, self.x_label, self.y_label)]
        ticks = [[trim(clean(part), 40) for part in text.split("\n")] for text in self.ticks.values()]
        families, prepare = for_drawing([*names, *titles, *(part for parts in ticks for part in parts)])
        plain: dict[str, Any] = {"family": families, "parse_math": False, "usetex": False}
        lines = [self._line(ax, at, name) for at, name in enumerate(self.series)]
        beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
        place = beside if len(lines) > INSIDE else {}
        legend = ax.legend(lines, [prepare(name) for name in names], frameon=False, **place)
        for text in legend.get_texts():
            text.set(**plain)
        title, x_label, y_label = (prepare(text) for text in titles)
        ax.set_title(title, **plain)
        ax.set_xlabel(x_label, **plain)
        ax.set_ylabel(y_label, **plain)
        if ticks:
            words = ["\n".join(prepare(part) for part in parts) for parts in ticks]
            ax.set_xticks(list(self.ticks), words, **plain)
        ax.grid(color="#e5e7eb", linewidth=0.8)
        if self.from_zero:
            ax.set_ylim(bottom=0)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _line(self, ax: Axes, at: int, name: str) -> Line2D:
        """One line with its shade, the `at`-th of the picture."""
        x, y = self.series[name]
        colour = LINES[at % len(LINES)]
        (line,) = ax.plot(x, y, color=colour, linestyle=DASHES[at % len(DASHES)], linewidth=1.6, markersize=4.5)
        if len(x) <= FEW:
            line.set_marker(MARKERS[at % len(MARKERS)])
        if name in self.spread:
            ax.fill_between(x, *self.spread[name], color=colour, alpha=0.15, linewidth=0)
        return line

    def save(self, path: str | Path) -> None:
        """Write the picture, as its suffix says: .png or .svg."""
        import matplotlib
        from matplotlib.figure import Figure

        suffix = suffix_of(path, (".png", ".svg"))
        figure = Figure(figsize=(6.4, 4), layout="constrained")
        self.plot(figure.add_subplot())
        # Real text in the SVG, and no date in it: the same curves give the same file.
        extra: dict[str, Any] = {"metadata": {"Date": None}} if suffix == ".svg" else {"dpi": 160}
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}):
            write_whole(path, lambda draft: figure.savefig(draft, format=suffix[1:], facecolor="white", **extra))


def loss_curve(log: Sequence[Mapping[str, Any]]) -> Curves:
    """The loss of a training log: rows with "loss" are training, rows with "valid_loss" validation."""
    series = {}
    for name, key in (("training", "loss"), ("validation", "valid_loss")):
        points = [(row["step"], row[key]) for row in log if "step" in row and key in row]
        if points:
            series[name] = ([step for step, _ in points], [value for _, value in points])
    if not series:
        raise ValueError(f'no row of the log ({len(log)} rows) has "step" and "loss" or "valid_loss"')
    return Curves(series, title="Loss", x_label="step", y_label="loss")


def length_curves(runs: Mapping[str, Sequence[tuple[float, float, int, float]]]) -> Curves:
    """BLEU by source length, a line for each run: {name: [(low, high, sentences, BLEU) of each bucket]}.

    Each point stands at its bucket's middle; a bucket without sentences is a gap. The last one may be open
    (high = inf): it is drawn as wide as the one before it."""
    if not runs:
        raise ValueError("no runs to draw: give at least one, as {name: [(low, high, sentences, BLEU), ...]}")
    first = next(iter(runs))
    ranges = [(low, high) for low, high, _, _ in runs[first]]
    if not ranges or any(low > high for low, high in ranges):
        raise ValueError(f"run {first!r} needs buckets (low, high, sentences, BLEU) with low <= high, got {ranges}")
    for name, buckets in runs.items():
        if [(low, high) for low, high, _, _ in buckets] != ranges:
            raise ValueError(f"runs {first!r} and {name!r} have different buckets: judge both by the same lengths")
    widths = [high - low for low, high in ranges if math.isfinite(high)]
    middles = [low + (high - low if math.isfinite(high) else (widths or [0])[-1]) / 2 for low, high in ranges]
    series = {
        name: (middles, [bleu if sentences else math.nan for _, _, sentences, bleu in buckets])
        for name, buckets in runs.items()
    }
    counts = {tuple(sentences for _, _, sentences, _ in buckets) for buckets in runs.values()}
    words = [
        f"{low:g}" if low == high else f"{low:g}–{high:g}" if math.isfinite(high) else f"{low:g}+"
        for low, high in ranges
    ]
    label = "words in the source"
    if len(counts) == 1:  # else the runs were judged on different texts, and no one number is true
        words = [f"{text}\n({count})" for text, count in zip(words, counts.pop(), strict=True)]
        label += " (sentences)"
    ticks = dict(zip(middles, words, strict=True))
    return Curves(series, title="BLEU by length", x_label=label, y_label="BLEU", ticks=ticks, from_zero=True)
