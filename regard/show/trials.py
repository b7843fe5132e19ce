"""What a sweep found: how good each trial was over each setting that was varied."""

from __future__ import annotations

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
WIDE = 100.0  # times the least, from which on numbers stand on an axis by their logarithm


@checked
@dataclass(frozen=True, eq=False)
class Trials(Plot):
    """`settings`: {"train.learning_rate": the value of each trial, as text}; `values`: how good each was; `done`:
    whether it took all its steps."""

    settings: Mapping[str, Sequence[str]]
    values: Sequence[float]
    done: Sequence[bool]
    by: str
    title: str = ""

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
        elif (places > 0).all() and places.max() > WIDE * places.min():
            panel.set_xscale("log")
        for part, face, label in ((done, LINES[0], "done"), (~done, "none", "ended early")):
            if part.any():
                panel.scatter(places[part], values[part], s=22, facecolors=face, edgecolors=LINES[0], label=label)
        panel.set_xlabel(trim(clean(name), 40))
        panel.grid(color="#e5e7eb", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)


def as_numbers(texts: Sequence[str]) -> np.ndarray | None:
    """None: some are words."""
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return None
