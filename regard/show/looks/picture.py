"""A caption word by word as users hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from regard.show.looks.data import LooksData
from regard.show.picture import Drawn, counted, titled


class Looks(LooksData, Drawn):
    __doc__ = LooksData.__doc__
    package = __package__
    kind = "looks"

    def __repr__(self) -> str:
        height, width, _ = self.image.shape
        words = " + ".join(counted(len(line.words), "word") for line in self.lines)
        return f"<Looks: {words} over {height} x {width} pixels{titled(self.title)}>"

    @classmethod
    def together(cls, pictures: Mapping[str, Looks]) -> Looks:
        """Pictures of one image in one, such as {"soft": answer.attention, "hard": other.attention}; the names tell
        their captions apart."""
        if not pictures:
            raise ValueError("no picture to draw: give at least one, by its name")
        first = next(iter(pictures.values()))
        for name, one in pictures.items():
            if not np.array_equal(first.image, one.image):
                raise ValueError(f"all pictures must be over the same image; that of {name!r:.40} is another one")
        lines = [
            replace(line, name=f"{name}, {line.name}" if line.name else name)
            for name, one in pictures.items()
            for line in one.lines
        ]
        made = cls(first.image, lines, first.title, scale=first.scale)
        if all(one.pieces is one for one in pictures.values()):
            return made
        return made.over(cls.together({name: one.pieces for name, one in pictures.items()}))
