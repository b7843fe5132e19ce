"""The gates as users hold them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.show.gates.data import GatesData
from regard.show.gates.layout import MOST_ROWS, shown_rows
from regard.show.picture import Drawn, counted, titled


class Gates(GatesData, Drawn):
    __doc__ = GatesData.__doc__
    package = __package__
    kind = "gates"

    def __repr__(self) -> str:
        blocks, rows = counted(len(self.panels), "block"), counted(len(self.rows), "row")
        return f"<Gates: {blocks}, {rows}{titled(self.title)}>"

    def _kept(self) -> tuple[Gates, str]:
        """Of many rows some, and the mean of all."""
        if len(self.rows) <= MOST_ROWS:
            return self, ""
        shown = shown_rows(self)
        panels = {name: np.stack([gates[rows].mean(0) for _, rows in shown]) for name, gates in self.panels.items()}
        note = f"{len(shown) - 1} of {len(self.rows):,} rows are drawn, and the mean of all"
        return replace(self, panels=panels, rows=[name for name, _ in shown]), note
