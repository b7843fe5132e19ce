"""An image beside labelled examples, and how much it looked at each: the query at the left, beside it for each
look the examples in rows, each with a bar for its weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.bars import bars
from regard.show.colours import HIDDEN, LIGHT, MARK
from regard.show.drawing import (
    EDGE,
    NAME,
    NOTE,
    SMALL,
    Box,
    Drawing,
    Group,
    Image,
    Mark,
    Text,
    heading,
    quiet,
)
from regard.show.images import check_image, resize, shrunk, size_within
from regard.show.label_text import clean, fit, text_width, trim
from regard.show.overlay import PHOTO_SIDE
from regard.show.picture import Picture, counted, titled
from regard.show.plain import plain_table
from regard.show.scales import Scale, check_scale, top_of
from regard.show.site_names import spoken_line
from regard.show.terminal import half_blocks, side_by_side, title_lines, usable_width

QUERY = 128  # the longer side of the query
# For up to so many examples: the longer side of an image, and how many stand in a row.
SIZES = ((10, 84, 5), (40, 64, 10))
SMALLEST = (48, 20)
BAR = 6  # height of a bar
COLOUR = LIGHT[4]  # of a bar
BELOW = BAR + 2.9 * SMALL  # room for bar, label and weight below an example
BETWEEN = 12
DATA_SIDE = 160  # pixels of an example in data
CELLS = 16  # of an image in a terminal
MANY = 20  # examples; of more than these only the most looked at are drawn as images in a terminal


@checked
@dataclass(frozen=True, eq=False)
class Example:
    """An image (H, W, 3) of bytes, its class, and the name of its file."""

    image: np.ndarray
    label: str
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", check_image(self.image))


@checked
@dataclass(frozen=True, eq=False)
class Examples(Picture):
    """An image (H, W, 3) of bytes beside the examples that a model was shown, and for each look, by its name, the
    weights (S + 1,) of the examples and last of the image itself.

    `chosen`: the class that the model tells, whose examples are marked. Bars run from 0 to the largest weight of
    all looks (None, "shared") or of each ("each"), rounded up; or to `scale`. Shows itself in a notebook."""

    query: np.ndarray
    examples: Sequence[Example]
    looks: Mapping[str, np.ndarray]
    title: str = ""
    caption: str = ""
    _: KW_ONLY
    chosen: str = ""
    scale: Scale = None

    kind = "examples"
    of_layers = "looks"
    png_side = PHOTO_SIDE

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if not self.examples or not self.looks:
            raise BadInput("nothing to draw: give at least one example, and one look as {name: weights (S + 1,)}")
        looks = {name: self._check(name, weights) for name, weights in self.looks.items()}
        object.__setattr__(self, "query", check_image(self.query))
        object.__setattr__(self, "examples", tuple(self.examples))
        object.__setattr__(self, "looks", looks)

    def _check(self, name: str, weights: np.ndarray) -> np.ndarray:
        weights, wanted = to_array(weights), (len(self.examples) + 1,)
        if weights.shape != wanted or not np.isfinite(weights).all() or weights.min() < 0:
            raise BadInput(
                f"{name}: the weights of {wanted[0] - 1} examples, and last of the image itself, must be {wanted}, "
                f"finite and not negative; got shape {weights.shape}"
            )
        return weights

    @property
    def words(self) -> list[str]:
        """What stands at each place of a look: the classes of the examples, and last the image itself."""
        return [*(example.label for example in self.examples), "itself"]

    def __repr__(self) -> str:
        looks = counted(len(self.looks), "look")
        return f"<Examples: {looks} at {counted(len(self.examples), 'example')}{titled(self.title)}>"

    def _fields(self) -> dict[str, Any]:
        examples = [
            {"image": plain_table(example.image, DATA_SIDE), "label": example.label, "name": example.name}
            for example in self.examples
        ]
        return super()._fields() | {"examples": examples}

    @cached_property
    def tops(self) -> dict[str, float]:
        """The weight of a full bar in each look."""
        own = {name: float(weights.max()) for name, weights in self.looks.items()}
        if self.scale == "each":
            return {name: top_of(largest) for name, largest in own.items()}
        return dict.fromkeys(own, top_of(max(own.values()), self.scale))

    def level(self, look: str, at: int) -> float:
        """A weight as a share of a full bar, in [0, 1]."""
        return float(min(1.0, self.looks[look][at] / (self.tops[look] or 1)))

    def notes(self, look: str) -> str:
        """The tooltip of a whole look: the shares of classes, the largest first, and of the image itself."""
        shares: dict[str, float] = {}
        for example, weight in zip(self.examples, self.looks[look], strict=False):
            shares[example.label] = shares.get(example.label, 0.0) + float(weight)
        ranked = sorted(shares.items(), key=lambda item: -item[1])[:3]
        told = [f"{clean(label)} {100 * share:.1f} %" for label, share in ranked]
        return ", ".join([*told, f"itself {100 * self.looks[look][-1]:.1f} %"])

    def drawing(self) -> Drawing:
        """The query, and for each look all examples."""
        title, marks, top, right = heading(self.title, self.caption)
        top += 6 if marks else 0
        query, bottom = self._draw_query(top + 1.6 * NAME)
        marks.append(query)
        left, y = float(EDGE + QUERY + 2 * BETWEEN), top
        for look in self.looks:
            name, note = (
                trim(clean(spoken_line(look)), 80),
                f"{self.notes(look)}; a full bar is {100 * self.tops[look]:g} %",
            )
            after = left + text_width(name) * NAME + 8
            marks += [Text(left, y + NAME, name, bold=True), quiet(after, y + NAME, note)]
            examples, y, end = self._draw_look(look, left, y + 1.6 * NAME)
            marks += examples
            right = max(right, after + text_width(note) * NOTE, end)
        height = max(y, bottom + 2 * NAME) + EDGE - BETWEEN
        return Drawing(title or "an image and the examples it looked at", right + EDGE, height, marks)

    def _draw_query(self, y: float) -> tuple[Group, float]:
        """And where its image ends."""
        size = size_within(self.query, QUERY, QUERY)
        image, bottom = Image(EDGE, y, *size, shrunk(self.query, *size)), y + size[1]
        name = Text(EDGE, bottom + 1.3 * NAME, "query", bold=True)
        return Group([image, name], "query", clean(self.title) or "query"), bottom

    @cached_property
    def _size(self) -> tuple[int, int]:
        """The longer side of an example, and how many stand in a row."""
        return next(((side, columns) for most, side, columns in SIZES if len(self.examples) <= most), SMALLEST)

    @cached_property
    def _shrunk(self) -> list[np.ndarray]:
        """The images as they are drawn: the same arrays in every look, so that an SVG file has them once."""
        side, _ = self._size
        return [shrunk(example.image, *size_within(example.image, side, side)) for example in self.examples]

    def _draw_look(self, look: str, left: float, top: float) -> tuple[list[Group], float, float]:
        """The examples of a look, where the next look begins, and where they end at the right."""
        side, columns = self._size
        groups, bottom = [], top
        for at, (example, pixels) in enumerate(zip(self.examples, self._shrunk, strict=True)):
            x, y = left + at % columns * (side + BETWEEN), top + at // columns * (side + BELOW + BETWEEN)
            size = across, down = size_within(example.image, side, side)
            weight, name, below = self.looks[look][at], clean(example.label), y + down + 2
            marks: list[Mark] = [Image(x, y, *size, pixels)]
            if example.label == self.chosen:
                marks.append(Box(x, y, *size, edge=MARK, line=2))
            marks += [
                Box(x, below, across, BAR, HIDDEN),
                Box(x, below, self.level(look, at) * across, BAR, COLOUR, kind="bar"),
                Text(x, below + BAR + 1.1 * SMALL, fit(name, side, SMALL), SMALL, bold=True),
                quiet(x, below + BAR + 2.3 * SMALL, f"{100 * weight:.1f} %", SMALL),
            ]
            tip = f"{name}, {100 * weight:.2f} %" + (f"\n{clean(example.name)}" if example.name else "")
            groups.append(Group(marks, "example", tip, {"label": name}))
            bottom = max(bottom, y + down)
        right = left + (min(len(self.examples), columns) - 1) * (side + BETWEEN) + side
        return groups, bottom + BELOW + BETWEEN, right

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The images in colour, two pixels a cell, and a bar for each weight; `width` cells wide (default: the
        terminal's width)."""
        width = usable_width(width)
        lines = title_lines(self.title, self.caption, width)
        for name, weights in self.looks.items():
            lines += ["", *title_lines(name, "", width)]
            ranked = sorted(range(len(self.examples)), key=lambda at: -weights[at])[:MANY]
            if colour:
                shown = [(["query"], half_blocks(resize(self.query, CELLS, CELLS)))]
                for at in sorted(ranked):
                    example = self.examples[at]
                    notes = [clean(example.label), f"{100 * weights[at]:.1f} %"]
                    shown.append((notes, half_blocks(resize(example.image, CELLS, CELLS))))
                lines += side_by_side(shown, CELLS, width)
            rows = [(self.examples[at].label, float(weights[at])) for at in ranked]
            lines += ["", bars([*rows, ("itself", float(weights[-1]))], width=width).rstrip("\n")]
        return "\n".join(lines).lstrip("\n") + "\n"
