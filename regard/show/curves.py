"""How a number went: lines over steps, told apart without colour too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.show.colour import LINES
from regard.show.files import suffix_of, write_whole
from regard.show.text import clean, trim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FEW = 40  # a line of more points carries no marks


@dataclass(frozen=True, eq=False)
class Curves:
    """Lines by name: {"train": (x, y)}. A gap in y (NaN, or None in a log) is a gap in the line."""

    series: Mapping[str, tuple[Any, Any]]
    title: str = ""
    x_label: str = ""
    y_label: str = ""

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

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure."""
        from regard.show.fonts import for_drawing

        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.figure(figsize=(6.4, 4), layout="constrained").add_subplot()
        names = {name: trim(clean(name), 40) for name in self.series}
        titles = [trim(clean(text), 80) for text in (self.title, self.x_label, self.y_label)]
        families, prepare = for_drawing([*names.values(), *titles])
        plain: dict[str, Any] = {"family": families, "parse_math": False, "usetex": False}
        for at, (x, y) in enumerate(self.series.values()):
            (line,) = ax.plot(x, y, color=LINES[at % len(LINES)], linestyle=DASHES[at % len(DASHES)])
            line.set(linewidth=1.6, markersize=4.5)
            if len(x) <= FEW:
                line.set_marker(MARKERS[at % len(MARKERS)])
        legend = ax.legend(ax.lines[-len(names) :], [prepare(text) for text in names.values()], frameon=False)
        for text in legend.get_texts():
            text.set(**plain)
        title, x_label, y_label = (prepare(text) for text in titles)
        ax.set_title(title, **plain)
        ax.set_xlabel(x_label, **plain)
        ax.set_ylabel(y_label, **plain)
        ax.grid(color="#e5e7eb", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

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
