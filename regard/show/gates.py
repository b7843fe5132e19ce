"""Gates: how far each channel of each block of a network is open. Bars stand in one column, early blocks above late
blocks; lines in a grid, in which every stage begins a new row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
from rich.cells import cell_len

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.colours import HATCH, LIGHT, line_look
from regard.show.drawing import (
    EDGE,
    NAME,
    NOTE,
    SMALL,
    Box,
    Boxes,
    Drawing,
    Group,
    Image,
    Mark,
    Place,
    Stroke,
    Text,
    heading,
    quiet,
)
from regard.show.images import check_image, shrunk, size_within
from regard.show.label_text import clean, fit, text_width, trim
from regard.show.picture import Picture, counted, titled
from regard.show.scales import Scale, check_scale, top_of, top_words
from regard.show.site_names import spoken_line
from regard.show.terminal import RESET, title_lines, usable_width

NAMED = 3  # channels named as the most open, and as many as the least open
TICK = 10  # font size of the numbers at an axis
PHOTO = 150  # the longer side of the image
AXIS = 22  # room for the numbers at the left of a panel
BETWEEN = 24  # columns
STAGES = 16  # more room between stages than between the blocks of a stage
BARS = 520  # width of a panel of bars
FEW = 10  # panels of bars up to which they are high
HEIGHTS = (44, 30)  # of few panels of bars, and of many
# The width of panels with lines, by how many stand side by side. Their height is the same.
WIDTHS, LINES_HEIGHT = {1: 640, 2: 480, 3: 360, 4: 290}, 110
BELOW = 52  # room for the numbers below a panel of lines and for the name of the next
MOST_ROWS = 10  # lines in a panel; of more rows some are drawn, and the mean of all
MOST_CHANNELS = 64  # points of a line; of more channels some are drawn (the paper draws 50)
MEAN = "mean of all"
LINE_SIGN = 34  # room for a piece of the line before its name
THICK = 1.5  # of a line
BLOCKS = " ▁▂▃▄▅▆▇█"  # heights in a terminal
TERMINAL_COLOUR = "\x1b[38;2;72;155;214m"  # readable on black and on white


@checked
@dataclass(frozen=True, eq=False)
class Gates(Picture):
    """How far each channel of each block is open, from 0 to 1: {"stages.0.0.excite": (rows, channels)}, the blocks
    in order of depth. A panel of shape (channels,) is one row.

    One row, such as the gates of one image, is drawn as bars, with the image beside them if it is given. Several
    rows, such as the mean gates of several classes, are drawn as lines over the channels (Hu et al. 2018, fig. 6);
    `rows` are their names. Every axis runs from 0 to 1; `scale` sets another end: a number, "shared" (the largest
    gate of all panels, rounded up) or "each" (of each panel). Shows itself in a notebook."""

    panels: Mapping[str, np.ndarray]
    _: KW_ONLY
    rows: Sequence[str] = ()
    image: np.ndarray | None = None  # bytes (H, W, 3)
    title: str = ""
    caption: str = ""
    scale: Scale = None

    kind = "gates"

    def __post_init__(self) -> None:
        if not self.panels:
            raise BadInput("no gates to draw: give at least one block, as {name: gates (rows, channels)}")
        panels = {name: _check(name, gates) for name, gates in self.panels.items()}
        counts = {name: len(gates) for name, gates in panels.items()}
        if len(set(counts.values())) > 1:
            raise BadInput(f"all blocks must have gates of the same rows, got {counts} rows")
        count = next(iter(counts.values()))
        rows = tuple(self.rows) or tuple(f"row {row}" for row in range(count))
        if isinstance(self.rows, str) or len(rows) != count:
            raise BadInput(f"rows must be {count} names, one for each row of gates, got {self.rows!r:.80}")
        check_scale(self.scale)
        object.__setattr__(self, "panels", panels)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "image", None if self.image is None else check_image(self.image))

    def __repr__(self) -> str:
        blocks, rows = counted(len(self.panels), "block"), counted(len(self.rows), "row")
        return f"<Gates: {blocks}, {rows}{titled(self.title)}>"

    @cached_property
    def most(self) -> float:
        """The largest gate of all panels."""
        return float(max(gates.max() for gates in self.panels.values()))

    def top(self, name: str) -> float:
        """The gate at the end of a panel's axis."""
        if self.scale is None:
            return 1.0
        return top_of(float(self.panels[name].max()) if self.scale == "each" else self.most, self.scale)

    @property
    def stages(self) -> list[list[str]]:
        """The panels that stand together: their names are the same up to the last number."""
        return [list(names) for _, names in groupby(self.panels, _stage)]

    def note(self, name: str) -> str:
        """Mean and standard deviation: of one row over the channels, else between the rows, as the mean over the
        channels."""
        gates = self.panels[name]
        if len(gates) == 1:
            return f"mean {gates.mean():.2f} ± {gates.std():.2f}"
        return f"mean {gates.mean():.2f}, between lines ± {gates.std(0).mean():.3f}"

    def named(self, name: str) -> tuple[str, str]:
        """The most and the least open channels of one row: "most open: 12 (0.98), 3 (0.95)"."""
        gates = self.panels[name][0]
        order = np.argsort(gates, kind="stable")
        few = max(1, min(NAMED, len(gates) // 2))
        ends = {"most open": order[::-1][:few], "least open": order[:few]}
        first, second = (
            f"{word}: {', '.join(f'{channel} ({gates[channel]:.2f})' for channel in channels)}"
            for word, channels in ends.items()
        )
        return first, second

    @property
    def shown_rows(self) -> list[tuple[str, np.ndarray]]:
        """The name of each line and the rows that it is the mean of: each row, or of many some and the mean of
        all."""
        every = np.arange(len(self.rows))
        few = len(every) <= MOST_ROWS
        chosen = every if few else np.linspace(0, len(every) - 1, MOST_ROWS - 1).round().astype(int)
        lines = [(trim(clean(self.rows[row]), 30), every[row : row + 1]) for row in chosen]
        return lines if few else [*lines, (MEAN, every)]

    def _for_html(self) -> tuple[Gates, str]:
        """If there are many rows, some of them and the mean of all."""
        if len(self.rows) <= MOST_ROWS:
            return self, ""
        shown = self.shown_rows
        panels = {name: np.stack([gates[rows].mean(0) for _, rows in shown]) for name, gates in self.panels.items()}
        note = f"{len(shown) - 1} of {len(self.rows):,} rows are drawn, and the mean of all"
        return replace(self, panels=panels, rows=[name for name, _ in shown]), note

    def drawing(self) -> Drawing:
        """The image, if there is one, and beside it bars or lines."""
        title, marks, top, right = heading(self.title, self.caption)
        top += 6 if marks else 0
        left, bottom = float(EDGE), top
        if self.image is not None:
            size = size_within(self.image, PHOTO, PHOTO)
            marks.append(Image(EDGE, top, *size, shrunk(self.image, *size)))
            left, bottom = left + size[0] + BETWEEN, top + size[1]
        panels, legend = _bars(self, left, top) if len(self.rows) == 1 else _lines(self, left, top)
        texts = [mark for panel in panels for mark in panel.marks if isinstance(mark, Text)]
        names = [mark for mark in legend if isinstance(mark, Text)]
        boxes = [mark for panel in panels for mark in panel.marks if isinstance(mark, Box)]
        note = _note(self)
        bottom = max(bottom, *(box.y + box.height + (1.6 * TICK if legend else 0) for box in boxes))
        rights = [text.x + 0.85 * text_width(text.text) * SMALL for text in texts if text.size > TICK]
        rights += [box.x + box.width for box in boxes] + [EDGE + text_width(note) * NOTE]
        rights += [name.x + text_width(name.text) * NAME for name in names]
        height = bottom + 2.4 * NOTE + EDGE
        marks += [*legend, *panels, quiet(EDGE, height - EDGE, note)]
        return Drawing(title or "gates of channels", max(right, *rights) + EDGE, height, marks)

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """A line for each row of a block, a cell for each channel or for the mean of several; `width` cells wide
        (default: the terminal's width)."""
        width = usable_width(width)
        lines = title_lines(self.title, self.caption, width)
        several = len(self.rows) > 1
        names = [trim(clean(name), max(2, min(16, width // 4))) for name in self.rows] if several else [""]
        margin = max(map(cell_len, names)) + several
        for stage in self.stages:
            lines.append("")
            for name in stage:
                gates = self.panels[name]
                lines.append(trim(f"{clean(name)}, {gates.shape[1]:,} channels: {self.note(name)}", width))
                if not several:
                    lines += [trim(text, width) for text in self.named(name)]
                for row, row_gates in zip(names, gates, strict=True):
                    drawn = _blocks(row_gates / self.top(name), width - margin)
                    drawn = f"{TERMINAL_COLOUR}{drawn}{RESET}" if colour else drawn
                    lines.append(row + " " * (margin - cell_len(row)) + drawn)
        top = max(self.top(name) for name in self.panels)
        end = "largest of each block" if self.scale == "each" else f"{top:g}"
        most = max(gates.shape[1] for gates in self.panels.values())
        cells = ", a cell for the mean of several channels" if most > width - margin else ""
        return "\n".join([*lines, "", trim(f"{BLOCKS[1:]}: 0 to {end}{cells}", width)]) + "\n"


def _stage(name: str) -> str:
    """stages.0.1.excite -> stages.0"""
    parts = name.split(".")
    last = max((at for at, part in enumerate(parts) if part.isdecimal()), default=len(parts) - 1)
    return ".".join(parts[:last])


def _check(name: str, gates: np.ndarray) -> np.ndarray:
    gates = to_array(gates, f"{name}: gates")
    gates = gates[None] if gates.ndim == 1 else gates
    if gates.ndim != 2 or gates.size == 0:
        raise BadInput(f"{name}: gates must have shape (rows, channels) or (channels,), got {gates.shape}")
    if not np.isfinite(gates).all():
        row, channel = np.argwhere(~np.isfinite(gates))[0]
        raise BadInput(f"{name}: gates must be finite, got {gates[row, channel]} in row {row}, channel {channel}")
    if gates.min() < -1e-3 or gates.max() > 1 + 1e-3:  # float16 may overshoot a little
        wrong = gates.min() if gates.min() < -1e-3 else gates.max()
        raise BadInput(f"{name}: gates must lie in [0, 1], got {wrong:.4g}: give them after the sigmoid")
    return gates.clip(0, 1)


def _note(data: Gates) -> str:
    shown = len(data.shown_rows)
    notes = [
        "± : standard deviation " + ("between channels" if shown == 1 else "between lines, mean over channels")
    ]
    if len(data.rows) > MOST_ROWS:
        notes.append(f"{shown - 1} of {len(data.rows):,} rows are drawn")
    if shown > 1 and max(gates.shape[1] for gates in data.panels.values()) > MOST_CHANNELS:
        notes.append(f"at most {MOST_CHANNELS} channels are drawn, evenly spaced")
    return "; ".join(notes)


def _bars(data: Gates, left: float, y: float) -> tuple[list[Group], list[Mark]]:
    """Name and note at the left of the bars, the most and the least open channels at their right; no legend."""
    height = HEIGHTS[len(data.panels) > FEW]
    names = {name: trim(clean(spoken_line(name)), 60) for name in data.panels}
    notes = {name: f"{gates.shape[1]:,} channels: {data.note(name)}" for name, gates in data.panels.items()}
    room = max(text_width(name) * NOTE for name in names.values())
    room = max(room, *(0.85 * text_width(note) * SMALL for note in notes.values()))  # digits are narrow
    x, panels = left + room + AXIS, []
    for stage in data.stages:
        for name in stage:
            middle, box = y + height / 2, (x, y, BARS, height)
            texts: list[Mark] = [Text(left, middle - 3, names[name], NOTE, bold=True)]
            texts.append(quiet(left, middle + 11, notes[name], SMALL))
            texts += [
                quiet(x + BARS + 12, middle + down, text, SMALL)
                for down, text in zip((-3, 11), data.named(name), strict=True)
            ]
            middles, ys = _points(data, name, data.panels[name], box)
            step = BARS / len(middles)
            bar = step * 0.85 if step >= 3 else step  # wide bars have some space between them
            places = np.stack([middles - bar / 2, ys[0], np.full_like(ys[0], bar), y + height - ys[0]], -1)
            panels.append(Group([*_frame(data, name, box), *texts, Boxes(places, LIGHT[4])], "panel"))
            y += height + 8
        y += STAGES - 8
    return panels, []


def _lines(data: Gates, left: float, y: float) -> tuple[list[Group], list[Mark]]:
    """A panel for each block and the legend above all."""
    columns = _columns([len(stage) for stage in data.stages])
    width, panels = WIDTHS[columns], []
    rows = [row for _, row in data.shown_rows]
    legend, y = _legend(
        [name for name, _ in data.shown_rows], left, y, columns * (width + AXIS + BETWEEN) - BETWEEN
    )
    for stage in data.stages:
        for at, name in enumerate(stage):
            x = left + at % columns * (width + AXIS + BETWEEN) + AXIS
            if at and at % columns == 0:
                y += LINES_HEIGHT + BELOW
            gates = np.stack([data.panels[name][row].mean(0) for row in rows])
            count, box = gates.shape[1], (x, y + 24, width, LINES_HEIGHT)
            channels = np.linspace(0, count - 1, min(count, MOST_CHANNELS)).round().astype(int)
            below = y + 24 + LINES_HEIGHT + 1.2 * TICK
            texts = [
                Text(x, y + 4, fit(clean(spoken_line(name)), width + AXIS, NOTE), NOTE, bold=True),
                quiet(x, y + 18, data.note(name), SMALL),
                quiet(x, below, f"channel {channels[0]}", TICK),
                quiet(x + width, below, str(channels[-1]), TICK, anchor="end"),
            ]
            middles, heights = _points(data, name, gates[:, channels], box)
            strokes = [
                Stroke(np.stack([middles, ys], -1), colour, THICK, dashes)
                for ys, (colour, dashes) in zip(heights, map(line_look, range(len(rows))), strict=True)
            ]
            panels.append(Group([*_frame(data, name, box), *texts, *strokes], "panel"))
        y += LINES_HEIGHT + BELOW + STAGES
    return panels, legend


def _columns(stages: list[int]) -> int:
    """As many panels side by side as fit, or one fewer if that leaves fewer places empty: 9 blocks as 3 x 3."""
    most = min(max(stages), max(WIDTHS))
    if max(stages) <= most:
        return most
    return min((most, most - 1), key=lambda columns: sum(-count % columns for count in stages))


def _points(data: Gates, name: str, gates: np.ndarray, box: Place) -> tuple[np.ndarray, np.ndarray]:
    """The x (points,) and the y (lines, points) of gates in the box of a panel."""
    x, y, width, height = box
    count = gates.shape[1]
    return x + (np.arange(count) + 0.5) * width / count, y + (1 - (gates / data.top(name)).clip(0, 1)) * height


def _frame(data: Gates, name: str, box: Place) -> list[Mark]:
    """The box that bars or lines are drawn in, with its axis."""
    x, y, width, height = box
    top = top_words(data.top(name), float(data.panels[name].max()))
    levels = ((y, ":"), (y + height / 2, ":"), (y + height, "-"))
    return [
        Box(*box, "#ffffff", tip=clean(name), kind="plot"),
        *(Stroke(np.array([(x, at), (x + width, at)]), HATCH, 0.7, dashes) for at, dashes in levels),
        quiet(x - 4, y + height, "0", TICK, anchor="end"),
        quiet(x - 4, y + 0.8 * TICK, top, TICK, anchor="end"),
    ]


def _legend(names: list[str], left: float, top: float, room: float) -> tuple[list[Mark], float]:
    """The names of the lines side by side, on further lines where they do not fit; and where panels may begin."""
    marks: list[Mark] = []
    x, y = left, top + NAME
    for at, name in enumerate(names):
        width = LINE_SIGN + text_width(name) * NAME + 18
        if x > left and x + width > left + room:
            x, y = left, y + 1.5 * NAME
        middle, (colour, dashes) = y - 0.35 * NAME, line_look(at)
        marks.append(Stroke(np.array([(x, middle), (x + LINE_SIGN - 6, middle)]), colour, THICK, dashes))
        marks.append(Text(x + LINE_SIGN, y, name))
        x += width
    return marks, y + 2 * NAME


def _blocks(levels: np.ndarray, room: int) -> str:
    """A character for each level (channels,) in [0, 1]; for the mean of neighbours where there is little room."""
    parts = np.array_split(levels, min(room, len(levels)))
    return "".join(BLOCKS[1 + int(min(part.mean(), 1) * 7.999)] for part in parts)
