"""The tape as users hold it."""

from __future__ import annotations

from typing import Any

from regard.show.picture import Drawn, counted, titled
from regard.show.plain import LISTED, pack_numbers
from regard.show.tape.data import TapeData


class Tape(TapeData, Drawn):
    __doc__ = TapeData.__doc__
    package = __package__
    kind = "tape"

    def __repr__(self) -> str:
        names = ", ".join(self.panels)
        return f"<Tape: {counted(self.steps, 'step')} of {names}{titled(self.title)}>"

    def _fields(self) -> dict[str, Any]:
        """The memory, which is drawn and not told, has 64 levels if it is large."""
        found = super()._fields()
        if self.memory is not None and self.memory.size > LISTED:
            found["memory"] = pack_numbers(self.memory, 1)
        return found
