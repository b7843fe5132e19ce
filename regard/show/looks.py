"""A caption word by word: where over the image the model looked for each. The image stands alone at the left, the
words beside it in rows, each caption below the previous caption."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.colours import DARK_VEIL, HIDDEN, LIGHT
from regard.show.drawing import (
    EDGE,
    KEY,
    NAME,
    NOTE,
    SMALL,
    Box,
    Drawing,
    Group,
    Image,
    Mark,
    Text,
    fade_scale,
    heading,
    quiet,
)
from regard.show.images import check_image, faded, resize, shrunk, size_within, smooth
from regard.show.label_text import clean, fit, label, text_width, trim, wrap_text
from regard.show.overlay import (
    FADED,
    PHOTO_SIDE,
    check_map,
    levels_of,
    note_on,
    shared_top,
    shares_of,
    size_in_cells,
    top_note,
)
from regard.show.picture import Picture, counted, titled
from regard.show.scales import Scale, check_scale
from regard.show.terminal import half_blocks, half_shades, side_by_side, title_lines, usable_width

ALL = 0.999  # a place with this share of a look was chosen alone: hard attention
WIDEST = 1500  # of a row of panels
NARROWEST = 420  # for the caption above the panels
LARGEST = 240  # the longer side of a panel
# For up to so many words in the longest line: the longer side of a panel, or more if that fits into one row.
SIZES = ((20, 150), (40, 120))
SMALLEST = 100  # for more words than that
ROOM = 84  # for the word and notes below a panel, at least
BETWEEN = 14
BAR = 5  # height of the bar that shows the gate
GATE = LIGHT[4]  # its colour
GATE_NOTE = "bar below a panel: the gate, from 0 to 1"
FEW = 4  # captions of fewer words than these are drawn larger in a terminal


@checked
@dataclass(frozen=True, eq=False)
class Line:
    """The words of one caption, the weights (T, rows, columns) with which each looked at the image, and, where the
    model has them, the gates (T,) from 0 to 1 that say how much of what was read is used. `name` tells several
    captions of one image apart: "soft", "hard"."""

    words: Sequence[str]
    weights: np.ndarray
    gates: np.ndarray | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.words, str):
            raise BadInput(f"words must be a sequence, got one text: {self.words!r:.80}; split it")
        words, weights = tuple(self.words), to_array(self.weights)
        if weights.ndim != 3 or len(weights) != len(words):
            raise BadInput(
                f"weights of {len(words)} words must be ({len(words)}, rows, columns), got {weights.shape}: "
                "one map for each word, reshaped to the grid"
            )
        for at, (word, looked) in enumerate(zip(words, weights, strict=True)):
            check_map(f"word {at} ({word!r:.40})", looked)
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "weights", weights)
        if self.gates is not None:
            object.__setattr__(self, "gates", _check_gates(self.gates, len(words)))

    @property
    def text(self) -> str:
        """The whole caption."""
        return " ".join(self.words)

    @cached_property
    def shares(self) -> list[np.ndarray]:
        """For each word its weights as shares of their sum (rows, columns)."""
        return [shares_of(weights) for weights in self.weights]

    def gate(self, at: int) -> float | None:
        """How far the gate of a word is open; None where there is none."""
        return None if self.gates is None else float(self.gates[at])

    def chosen(self, at: int) -> tuple[int, int] | None:
        """Row and column of the only place that a word looked at; None where it looked at several."""
        shares = self.shares[at]
        row, column = np.unravel_index(shares.argmax(), shares.shape)
        return (int(row), int(column)) if shares.size > 1 and shares[row, column] >= ALL else None

    def notes(self, at: int) -> list[str]:
        """The gate of a word, if there is one, and the largest share of its look."""
        gate = self.gate(at)
        most = "one place" if self.chosen(at) else note_on(self.weights[at])
        return [most] if gate is None else [f"gate {gate:.2f}", most]


@checked
@dataclass(frozen=True, eq=False)
class Looks(Picture):
    """An image (H, W, 3) of bytes and one or more captions of it. Each word has a panel with its attention over the
    image, and its gate below. Several captions, such as of soft and of hard attention, stand below each other.

    Every grid covers the whole image. What is looked at keeps its colours, the rest is faded; nothing is faded at
    each panel's own maximum (None, "each"); at the maximum of all panels, rounded up ("shared"); or at `scale`, a
    share. Shows itself in a notebook."""

    image: np.ndarray
    lines: Sequence[Line]
    title: str = ""
    _: KW_ONLY
    scale: Scale = None

    kind = "looks"
    png_side = PHOTO_SIDE

    def __post_init__(self) -> None:
        lines = tuple(self.lines)
        if not lines:
            raise BadInput("no caption to draw: give at least one line, as Line(words, weights)")
        check_scale(self.scale)
        object.__setattr__(self, "image", check_image(self.image))
        object.__setattr__(self, "lines", lines)

    def __repr__(self) -> str:
        height, width, _ = self.image.shape
        words = " + ".join(counted(len(line.words), "word") for line in self.lines)
        return f"<Looks: {words} over {height} x {width} pixels{titled(self.title)}>"

    @classmethod
    def together(cls, pictures: Mapping[str, Looks]) -> Looks:
        """Pictures of one image in one, such as {"soft": answer.attention, "hard": other.attention}; the names tell
        their captions apart."""
        if not pictures:
            raise BadInput("no picture to draw: give at least one, by its name")
        first = next(iter(pictures.values()))
        for name, picture in pictures.items():
            if not np.array_equal(first.image, picture.image):
                raise BadInput(f"all pictures must be over the same image; that of {name!r:.40} is another one")
        lines = [
            replace(line, name=f"{name}, {line.name}" if line.name else name)
            for name, picture in pictures.items()
            for line in picture.lines
        ]
        joined = cls(first.image, lines, first.title, scale=first.scale)
        if all(picture.pieces is picture for picture in pictures.values()):
            return joined
        return joined.over(cls.together({name: picture.pieces for name, picture in pictures.items()}))

    @cached_property
    def most(self) -> float:
        """The largest share of all panels."""
        return float(max((shares.max() for line in self.lines for shares in line.shares), default=0.0))

    @property
    def top(self) -> float | None:
        """The share that is not faded; None: every panel has its own."""
        return shared_top(self.most, self.scale)

    @property
    def gated(self) -> bool:
        """Has a line gates?"""
        return any(line.gates is not None for line in self.lines)

    def levels(self, line: int, at: int) -> np.ndarray:
        """What is drawn of a word's look: shares of the scale, in [0, 1]."""
        return levels_of(self.lines[line].shares[at], self.top)

    def dots(self, line: int, at: int, width: int, height: int) -> np.ndarray:
        """The levels of a word's look over (height, width) dots: smoothly, but with sharp edges around a place that
        was chosen alone, since nothing beside it was read."""
        levels = self.levels(line, at)
        if self.lines[line].chosen(at) is None:
            return smooth(levels, width, height)
        rows, columns = levels.shape
        return levels[np.ix_(np.arange(height) * rows // height, np.arange(width) * columns // width)]

    def drawing(self, widest: int = WIDEST) -> Drawing:
        """The image, and for each caption its text and a panel for each word, in rows of up to `widest`."""
        count = max(len(line.words) for line in self.lines)
        side = next((size for most, size in SIZES if count <= most), SMALLEST)
        side = min(LARGEST, max(side, (widest + BETWEEN) // (count + 1) - BETWEEN))
        size = across, down = size_within(self.image, side, side)
        room = max(across, ROOM)
        pitch = room + BETWEEN
        columns = _columns(count, (widest + BETWEEN) // pitch - 1)
        width = max((columns + 1) * pitch - BETWEEN, NARROWEST, KEY + 20 + text_width(GATE_NOTE) * NOTE)
        row = down + (BAR + 4 if self.gated else 0) + 1.35 * (NAME + (1 + self.gated) * SMALL) + BETWEEN
        title, marks, y, right = heading(self.title)
        y += 6 if title else 0
        left = EDGE + pitch  # left edge of the words, to the right of the image
        image = shrunk(self.image, *size)
        below = down + (BAR + 4 if self.gated else 0)
        for number, line in enumerate(self.lines):
            captions = _captions(line, left, y + NAME, width - pitch)
            marks += captions
            y = math.ceil(captions[-1].y + 0.7 * NAME)
            if not number:
                alone = Image(EDGE, y, *size, image, smooth=True)
                shape = f"{self.image.shape[1]} × {self.image.shape[0]}"
                marks.append(Group([alone, *_texts("image", "image", [shape], EDGE, y + below)], "panel"))
            for at, word in enumerate(line.words):
                x, top = left + at % columns * pitch, y + math.ceil(at // columns * row)
                looked = Image(x, top, *size, image, smooth=True, layer=self.dots(number, at, *size))
                shown = fit(label(word, 120), room, NAME)
                texts = _texts(shown, clean(word), line.notes(at), x, top + below)
                marks.append(Group([looked, *_choice(line, at, x, top, *size), *texts], "panel"))
            y += math.ceil(max(1, math.ceil(len(line.words) / columns)) * row) + BETWEEN
        key = top_note(self.top, self.most) + FADED + (f";  {GATE_NOTE}" if self.gated else "")
        marks += fade_scale(y, key)
        width = EDGE + max(right, EDGE + width, EDGE + KEY + 20 + 0.85 * text_width(key) * NOTE)
        name = title or "attention over an image, word by word"
        return Drawing(name, width, y + NOTE + EDGE, marks)

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """A panel for each word, `width` cells wide (default: the terminal's width); without colour as ░▒▓█."""
        width = usable_width(width)
        few = max(len(line.words) for line in self.lines) < FEW
        across, down = size_in_cells(self.image, min(width, 32 if few else 20))
        image = resize(self.image, across, down)
        shape = f"{self.image.shape[1]} × {self.image.shape[0]}"
        shown = title_lines(self.title, "", width)
        for number, line in enumerate(self.lines):
            panels = [(["image", shape], half_blocks(image))] if colour and not number else []
            for at, word in enumerate(line.words):
                levels = self.dots(number, at, across, down)
                drawn = half_blocks(faded(image, levels, DARK_VEIL)) if colour else half_shades(levels)
                panels.append(([label(word), *line.notes(at)], drawn))
            shown += ["", trim(clean(f"{line.name}: {line.text}"), width)] if line.name else []
            shown += side_by_side(panels, across, width)
        scale = trim(f"not faded: {top_note(self.top, self.most)}", width)
        return "\n".join([*shown, "", scale]) + "\n"


def _columns(count: int, most: int) -> int:
    """Words in a row: as few rows as possible, and these about equally long."""
    most = max(1, most)
    return max(1, math.ceil(count / math.ceil(max(1, count) / most)))


def _captions(line: Line, x: float, y: float, room: float) -> list[Text]:
    """The name of a line and its caption, above its panels."""
    name = trim(clean(line.name), 40)
    text = clean(line.text) or "(no words)"
    lines = wrap_text(f"{name}: {text}" if name else text, room, NAME, 3)
    return [Text(x, y + 1.4 * NAME * at, text, bold=True, kind="caption") for at, text in enumerate(lines)]


def _texts(shown: str, word: str, notes: list[str], x: float, y: float) -> list[Mark]:
    """The word below a panel, cut where it is longer than its room, and notes on it."""
    y += 1.35 * NAME
    below = [quiet(x, y + 1.35 * SMALL * (at + 1), note, SMALL, kind="note") for at, note in enumerate(notes)]
    return [Text(x, y, shown, bold=True, kind="word", tip=word if word != shown else ""), *below]


def _choice(line: Line, at: int, x: float, y: float, across: int, down: int) -> list[Mark]:
    """The outline of the only place that was looked at, and the bar of the gate."""
    marks: list[Mark] = []
    if place := line.chosen(at):
        rows, columns = line.weights.shape[1:]
        wide, high = across / columns, down / rows
        thin = min(1.0, min(wide, high) / 15)  # thinner around small places
        corner = x + place[1] * wide, y + place[0] * high
        # White over black is seen over any image.
        edges = (("#000000", 3 * thin), ("#ffffff", 1.5 * thin))
        marks += [Box(*corner, wide, high, edge=edge, line=thick, kind="place") for edge, thick in edges]
    if (gate := line.gate(at)) is not None:
        marks.append(Box(x, y + down + 3, across, BAR, HIDDEN))
        marks.append(Box(x, y + down + 3, gate * across, BAR, GATE, kind="gate"))
    return marks


def _check_gates(gates: np.ndarray, count: int) -> np.ndarray:
    gates = to_array(gates, "gates")
    if gates.shape != (count,):
        raise BadInput(f"gates must have shape ({count},), one for each word, got {gates.shape}")
    allowed = (gates >= -1e-3) & (gates <= 1 + 1e-3)  # float16 may overshoot a little; NaN is not allowed either
    if not allowed.all():
        at = int(allowed.argmin())
        raise BadInput(f"gates must lie in [0, 1], got {gates[at]:.4g} at word {at}: give them after the sigmoid")
    return gates.clip(0, 1)
