"""Line plots, such as the loss over the steps. Lines differ in dashes and markers too, not in colour alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.base.arguments import check_argument, checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.colours import line_look
from regard.show.label_text import clean, trim
from regard.show.plot import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FEW = 40  # points of a line that get markers; a line of more points is drawn without
INSIDE = 4  # lines whose legend fits inside the axes; for more lines the legend stands beside the axes


@checked
@dataclass(frozen=True, eq=False)
class Curves(Plot):
    """Lines by name: {"train": (x, y)}. NaN or None in y leaves a gap in the line.

    `spread` shades a band around a line, such as from the worst to the best seed: {"train": (low, high)}.
    `ticks` labels places on the x axis: {5.5: "1–10"}. `from_zero` starts the y axis at 0.
    `legend_beside` puts the legend beside the axes, for lines that fill them; many lines have it there anyway."""

    series: Mapping[str, tuple[Any, Any]]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    _: KW_ONLY
    spread: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    ticks: Mapping[float, str] = field(default_factory=dict)
    from_zero: bool = False
    legend_beside: bool = False

    def __repr__(self) -> str:
        return f"<Curves: {', '.join(map(repr, self.series))}{f', {self.title!r}' if self.title else ''}>"

    def __post_init__(self) -> None:
        if not self.series:
            raise BadInput("no series to draw: give at least one, as {name: (x, y)}")
        checked = {}
        for name, points in {**self.series, **self.spread}.items():
            check_argument(f"each of series and spread, as {name!r},", points, tuple[Any, Any])
        for name, (x, y) in self.series.items():
            x, y = to_array(x, f"series {name!r}: x"), to_array(y, f"series {name!r}: y")
            if x.ndim != 1 or x.shape != y.shape:
                raise BadInput(
                    f"series {name!r}: x and y must be lists of the same length, got shapes {x.shape} and {y.shape}"
                )
            if not np.isfinite(x).all():
                raise BadInput(f"series {name!r}: x must be finite, got {x[~np.isfinite(x)][0]}")
            checked[name] = (x, y)
        object.__setattr__(self, "series", checked)
        object.__setattr__(self, "spread", {name: self._band(name, *band) for name, band in self.spread.items()})

    def _band(self, name: str, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
        if name not in self.series:
            raise BadInput(
                f"spread {name!r} has no line of that name; there are {', '.join(map(repr, self.series))}"
            )
        low, high = to_array(low, f"spread {name!r}"), to_array(high, f"spread {name!r}")
        wanted = self.series[name][0].shape
        if not low.shape == high.shape == wanted:
            raise BadInput(
                f"spread {name!r}: low and high must have the shape of their line {wanted}, "
                f"got {low.shape} and {high.shape}"
            )
        if (low > high).any():
            at = np.argmax(low > high)
            raise BadInput(
                f"spread {name!r}: low must not exceed high, got {low[at]:g} and {high[at]:g} at point {at}"
            )
        return low, high

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None, height: int = 12) -> str:
        """The curves as text, `width` cells wide (default: the terminal's width) and `height` high."""
        from regard.show.curves_terminal import curves_lines

        if height < 2:
            raise BadInput(f"height must be at least 2 cells, got {height}")
        return "\n".join(curves_lines(self.series, self.title, width=width, height=height, colour=colour))

    @checked
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure."""
        from regard.show.figure import axes_or_new
        from regard.show.fonts import text_style

        ax = axes_or_new(ax)
        names = [trim(clean(name), 40) for name in self.series]
        titles = [trim(clean(text), 80) for text in (self.title, self.x_label, self.y_label)]
        ticks = [[trim(clean(line), 40) for line in text.split("\n")] for text in self.ticks.values()]
        style, drawable = text_style([*names, *titles, *(line for lines in ticks for line in lines)])
        lines = [self._line(ax, at, name) for at, name in enumerate(self.series)]
        beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
        place = beside if self.legend_beside or len(lines) > INSIDE else {}
        legend = ax.legend(lines, [drawable(name) for name in names], frameon=False, **place)
        for text in legend.get_texts():
            text.set(**style)
        title, x_label, y_label = (drawable(text) for text in titles)
        ax.set_title(title, **style)
        ax.set_xlabel(x_label, **style)
        ax.set_ylabel(y_label, **style)
        if ticks:
            words = ["\n".join(drawable(line) for line in lines) for lines in ticks]
            ax.set_xticks(list(self.ticks), words, **style)
        ax.grid(color="#e5e7eb", linewidth=0.8)
        if self.from_zero:
            ax.set_ylim(bottom=0)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _line(self, ax: Axes, at: int, name: str) -> Line2D:
        """Line number `at` with its band."""
        x, y = self.series[name]
        colour, dashes = line_look(at)
        (line,) = ax.plot(x, y, color=colour, linestyle=dashes, linewidth=1.6, markersize=4.5)
        if len(x) <= FEW:
            line.set_marker(MARKERS[at % len(MARKERS)])
        if name in self.spread:
            ax.fill_between(x, *self.spread[name], color=colour, alpha=0.15, linewidth=0)
        return line


@checked
def loss_curve(log: Sequence[Mapping[str, Any]]) -> Curves:
    """Training and validation loss of a run's log: rows with "step" and "loss" or "valid_loss"."""
    series = {}
    for name, key in (("training", "loss"), ("validation", "valid_loss")):
        points = [(row["step"], row[key]) for row in log if "step" in row and key in row]
        if points:
            series[name] = ([step for step, _ in points], [value for _, value in points])
    if not series:
        raise BadInput(
            f'no row of the log ({len(log)} rows) has "step" and "loss" or "valid_loss": '
            "give the rows of a run's log.jsonl"
        )
    return Curves(series, title="Loss", x_label="step", y_label="loss")


@checked
def length_curves(runs: Mapping[str, Sequence[tuple[float, float, int, float]]]) -> Curves:
    """BLEU by source length, one line per run: {name: [(low, high, sentences, BLEU) of each bucket]}.

    Each point is drawn at the middle of its bucket; a bucket without sentences leaves a gap. The last bucket may be
    open (high = inf) and is then drawn as wide as the bucket before it."""
    if not runs:
        raise BadInput("no runs to draw: give at least one, as {name: [(low, high, sentences, BLEU), ...]}")
    for name, buckets in runs.items():
        check_argument(f"run {name!r}", buckets, Sequence[tuple[float, float, int, float]])
    first = next(iter(runs))
    ranges = [(low, high) for low, high, _, _ in runs[first]]
    if not ranges or any(low > high for low, high in ranges):
        raise BadInput(f"run {first!r} needs buckets (low, high, sentences, BLEU) with low <= high, got {ranges}")
    for name, buckets in runs.items():
        if [(low, high) for low, high, _, _ in buckets] != ranges:
            raise BadInput(
                f"runs {first!r} and {name!r} have different buckets: evaluate both with the same lengths"
            )
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
    if len(counts) == 1:  # else the runs were evaluated on different texts, and one count cannot hold for all
        words = [f"{text}\n({count})" for text, count in zip(words, counts.pop(), strict=True)]
        label += " (sentences)"
    ticks = dict(zip(middles, words, strict=True))
    return Curves(series, title="BLEU by length", x_label=label, y_label="BLEU", ticks=ticks, from_zero=True)
