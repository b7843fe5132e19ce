"""What a sweep found: how good each trial was over each setting that was varied."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.colours import LINES
from regard.show.label_text import clean, trim
from regard.show.plot import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 0.06  # between two panels, as a share of the whole
FEW = 12  # values of words on an axis
NUMBERS = 6  # on the axes of all panels together
WIDE = 100.0  # times the least, from which on numbers stand on an axis by their logarithm


@checked
@dataclass(frozen=True, eq=False)
class Trials(Plot):
    """`settings`: {"train.learning_rate": the value of each trial, as text}; `values`: how good each was; `done`:
    whether it took all its steps. `log`: the settings whose numbers stand by their logarithm, beside those whose
    largest is a hundred times the least."""

    settings: Mapping[str, Sequence[str]]
    values: Sequence[float]
    done: Sequence[bool]
    by: str
    title: str = ""
    log: Sequence[str] = ()

    def __post_init__(self) -> None:
        counts = {len(self.values), len(self.done), *map(len, self.settings.values())}
        if not self.settings or len(counts) != 1 or counts == {0}:
            raise BadInput("trials need a setting, and a value of it, of the metric and of done for each of them")

    @checked
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure: a panel for each setting."""
        from regard.show.figure import axes_or_new

        ax = axes_or_new(ax)
        ax.set_axis_off()
        ax.set_title(trim(clean(self.title), 80))
        width = (1 - GAP * (len(self.settings) - 1)) / len(self.settings)
        for number, (name, texts) in enumerate(self.settings.items()):
            panel = ax.inset_axes((number * (width + GAP), 0, width, 1))
            self._panel(panel, name, texts)
            if number == 0 and not all(self.done):
                panel.legend(frameon=False, fontsize="small")
            if number:
                panel.set_yticklabels([])
            else:
                panel.set_ylabel(trim(clean(self.by), 40))
        return ax

    def _panel(self, panel: Axes, name: str, texts: Sequence[str]) -> None:
        values, done = np.array(self.values, dtype=float), np.array(self.done, dtype=bool)
        places = as_numbers(texts)
        if places is None:
            words = list(dict.fromkeys(texts))
            places = np.array([float(words.index(text)) for text in texts])
            panel.set_xticks(range(len(words))[:FEW], [trim(clean(word), 14) for word in words[:FEW]])
        else:
            self._number(panel, places, by_logarithm=name in self.log)
        for part, face, label in ((done, LINES[0], "done"), (~done, "none", "ended early")):
            if part.any():
                panel.scatter(places[part], values[part], s=22, facecolors=face, edgecolors=LINES[0], label=label)
        panel.set_xlabel(trim(clean(name), 40))
        panel.grid(color="#e5e7eb", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)

    def _number(self, panel: Axes, places: np.ndarray, *, by_logarithm: bool) -> None:
        """Few numbers on the axis of a setting, so that they do not run into each other."""
        from matplotlib.ticker import MaxNLocator, NullLocator

        most = max(2, NUMBERS // len(self.settings))
        low, high = float(places.min()), float(places.max())
        if low > 0 and (by_logarithm or high > WIDE * low):
            panel.set_xscale("log")
            ticks = log_ticks(low, high, most)
            panel.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
            panel.xaxis.set_minor_locator(NullLocator())
        else:
            panel.xaxis.set_major_locator(MaxNLocator(most))


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, at most so many, evenly by their logarithm as far as there are some; else the
    two ends."""
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)[::-1]
    sparser = [((1, 2, 5), 1), ((1, 3), 1), *(((1,), step) for step in range(1, len(decades) + 1))]
    for firsts, step in sparser:  # a decade has the firsts, and every so many-th decade some
        numbers = sorted(float(f"{first}e{power}") for power in decades[::step] for first in firsts)
        inside = [number for number in numbers if low <= number <= high]
        if 2 <= len(inside) <= most:
            return inside
    return [low, high] if low < high else [low]


def as_numbers(texts: Sequence[str]) -> np.ndarray | None:
    """None: some are words."""
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return None
