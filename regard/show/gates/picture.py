"""The gates as users hold them."""

from __future__ import annotations

from regard.show.gates.data import GatesData
from regard.show.picture import Drawn, counted, titled


class Gates(GatesData, Drawn):
    __doc__ = GatesData.__doc__
    package = __package__

    def __repr__(self) -> str:
        blocks, rows = counted(len(self.panels), "block"), counted(len(self.rows), "row")
        return f"<Gates: {blocks}, {rows}{titled(self.title)}>"
