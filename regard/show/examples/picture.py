"""A query beside examples as users hold it."""

from __future__ import annotations

from regard.show.examples.data import ExamplesData
from regard.show.picture import Drawn, counted, titled


class Examples(ExamplesData, Drawn):
    __doc__ = ExamplesData.__doc__
    package = __package__

    def __repr__(self) -> str:
        looks = counted(len(self.looks), "look")
        return f"<Examples: {looks} at {counted(len(self.examples), 'example')}{titled(self.title)}>"
