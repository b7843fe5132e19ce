"""A query beside examples as users hold it."""

from __future__ import annotations

from typing import Any

from regard.show.examples.data import ExamplesData
from regard.show.picture import Drawn, counted, titled
from regard.show.plain import plain_table

SIDE = 160  # pixels of an example in data


class Examples(ExamplesData, Drawn):
    __doc__ = ExamplesData.__doc__
    package = __package__
    kind = "examples"

    def __repr__(self) -> str:
        looks = counted(len(self.looks), "look")
        return f"<Examples: {looks} at {counted(len(self.examples), 'example')}{titled(self.title)}>"

    def _fields(self) -> dict[str, Any]:
        examples = [
            {"image": plain_table(one.image, SIDE), "label": one.label, "name": one.name} for one in self.examples
        ]
        return super()._fields() | {"examples": examples}
