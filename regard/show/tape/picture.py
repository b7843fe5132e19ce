"""The tape as users hold it."""

from __future__ import annotations

from regard.show.picture import Drawn, counted, titled
from regard.show.tape.data import TapeData


class Tape(TapeData, Drawn):
    __doc__ = TapeData.__doc__
    package = __package__

    def __repr__(self) -> str:
        names = ", ".join(self.panels)
        return f"<Tape: {counted(self.steps, 'step')} of {names}{titled(self.title)}>"
