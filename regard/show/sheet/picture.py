"""The sheet of captions as users hold it."""

from __future__ import annotations

from regard.show.picture import Drawn, counted, titled
from regard.show.sheet.data import SheetData


class Sheet(SheetData, Drawn):
    __doc__ = SheetData.__doc__
    package = __package__

    def __repr__(self) -> str:
        grades = ", ".join(section.grade for section in self.sections)
        return f"<Sheet: {counted(len(self.entries), 'caption')}, {grades}{titled(self.title)}>"
