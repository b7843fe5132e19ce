"""The sheet of captions as users hold it."""

from __future__ import annotations

from typing import Any

from regard.show.picture import Drawn, counted, titled
from regard.show.plain import plain_table
from regard.show.sheet.data import SheetData

SIDE = 320  # pixels of an image in data


class Sheet(SheetData, Drawn):
    __doc__ = SheetData.__doc__
    package = __package__
    kind = "sheet"

    def __repr__(self) -> str:
        grades = ", ".join(section.grade for section in self.sections)
        return f"<Sheet: {counted(len(self.entries), 'caption')}, {grades}{titled(self.title)}>"

    def _fields(self) -> dict[str, Any]:
        """The captions that are drawn, under their grades."""
        sections = [
            {
                "grade": section.grade,
                "note": section.note,
                "entries": [
                    {
                        "image": plain_table(entry.image, SIDE),
                        "caption": entry.caption,
                        "references": list(entry.references),
                        "score": entry.told,
                    }
                    for entry in section.entries
                ],
            }
            for section in self.sections
        ]
        return {"title": self.title, "caption": self.caption, "sections": sections}
