"""A tape: what a machine with a memory does, step by step. Panels of one width stand one below the other, the
memory below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.colours import DARK, DIVERGING, HATCH, LIGHT, shade
from regard.show.drawing import EDGE, NAME, NOTE, Box, Cells, Drawing, Mark, Text, heading, quiet
from regard.show.label_text import clean, text_width, trim
from regard.show.picture import Picture, counted, titled
from regard.show.plain import LISTED, pack_numbers
from regard.show.scales import Scale, check_scale, top_of
from regard.show.terminal import LIMITS, half_blocks, shade_characters, title_lines, usable_width

MOMENTS = 5  # steps after which the memory is drawn
WIDE = 900  # of all steps together, where their cells are not as large as they may be
LARGEST, SMALLEST = 14.0, 2.0  # width of a cell
TALLEST = 240.0  # height of a panel
MARGIN = 34  # left of the panels, for the numbers of rows
BETWEEN = 8
EVERY = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # steps from one number below the panels to the next
MOST_LINES = 32  # rows of a panel in a terminal; of more, the largest of several is drawn


@checked
@dataclass(frozen=True, eq=False)
class Tape(Picture):
    """Panels (rows, steps) one below the other: {"input": (bits, steps), "write 0": (places, steps)}.

    `shown` is True at the steps of a panel that are drawn, {"output": (steps,)}; the others are left grey. `memory`
    (steps, places, width) is drawn after a few steps, and in HTML after the step that is pointed at. Colours run
    from 0 to 1; in a panel with values below 0, from blue (negative) to orange. `scale` sets another end: a number,
    "shared" (the largest value of all panels, rounded up) or "each" (of each panel). Shows itself in a notebook."""

    panels: Mapping[str, Any]
    _: KW_ONLY
    shown: Mapping[str, Any] = field(default_factory=dict)
    memory: Any = None
    title: str = ""
    caption: str = ""
    scale: Scale = None

    kind = "tape"

    def __post_init__(self) -> None:
        if not self.panels:
            raise BadInput("nothing to draw: give at least one panel, as {name: values (rows, steps)}")
        panels = {name: _finite(name, values, 2) for name, values in self.panels.items()}
        counts = {name: values.shape[1] for name, values in panels.items()}
        if len(set(counts.values())) > 1:
            raise BadInput(f"all panels must have the same steps, got {counts}")
        steps = next(iter(counts.values()))
        if unknown := [name for name in self.shown if name not in panels]:
            raise BadInput(f"shown names {unknown[0]!r}; the panels are {', '.join(map(repr, panels))}")
        shown = {name: np.asarray(self.shown.get(name, np.ones(steps)), dtype=bool) for name in panels}
        if wrong := [name for name, drawn in shown.items() if drawn.shape != (steps,)]:
            raise BadInput(f"shown[{wrong[0]!r}] must have {steps} steps, got {shown[wrong[0]].shape}")
        memory = None if self.memory is None else _finite("memory", self.memory, 3)
        if memory is not None and len(memory) != steps:
            raise BadInput(f"memory must have {steps} steps, as the panels, got {len(memory)}")
        check_scale(self.scale)
        for name, value in (("panels", panels), ("shown", shown), ("memory", memory)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        names = ", ".join(self.panels)
        return f"<Tape: {counted(self.steps, 'step')} of {names}{titled(self.title)}>"

    def _fields(self) -> dict[str, Any]:
        """The memory, which is drawn and not told, has 64 levels if it is large."""
        fields = super()._fields()
        if self.memory is not None and self.memory.size > LISTED:
            fields["memory"] = pack_numbers(self.memory, 1)
        return fields

    @property
    def steps(self) -> int:
        """How many there are."""
        return next(iter(self.panels.values())).shape[1]

    def top(self, name: str) -> float:
        """The value of the darkest colour in a panel."""
        if self.scale is None:
            return max(1.0, top_of(_most(self.panels[name]))) if self.signed(name) else 1.0
        shared = max(map(_most, self.panels.values()))
        return top_of(_most(self.panels[name]) if self.scale == "each" else shared, self.scale)

    def signed(self, name: str) -> bool:
        """Has the panel values below 0?"""
        return bool((self.panels[name] < 0).any())

    def levels(self, name: str) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
        """A panel as shares of its scale in [0, 1], the colours of these, and where it is grey (rows, steps)."""
        values, hidden = self.panels[name], ~self.shown[name][None].repeat(len(self.panels[name]), 0)
        shares = (values / self.top(name)).clip(-1, 1)
        return ((shares + 1) / 2, DIVERGING, hidden) if self.signed(name) else (shares, LIGHT, hidden)

    @property
    def moments(self) -> list[int]:
        """The steps after which the memory is drawn."""
        if self.memory is None:
            return []
        return np.unique(np.linspace(0, self.steps - 1, MOMENTS).round().astype(int)).tolist()

    def memory_levels(self) -> np.ndarray:
        """(steps, places, width) in [0, 1]; 1/2 is 0."""
        assert self.memory is not None
        levels: np.ndarray = (self.memory / (_most(self.memory) or 1) + 1) / 2
        return levels

    def drawing(self) -> Drawing:
        """The panels, the numbers of steps below them, and the memory after some steps."""
        title, marks, y, right = heading(self.title, self.caption)
        cell = min(LARGEST, max(SMALLEST, WIDE / self.steps))
        x, across = EDGE + MARGIN, cell * self.steps
        for name in self.panels:
            levels, ramp, hidden = self.levels(name)
            high = min(max(cell, 4.0), TALLEST / len(levels)) * len(levels)
            y += 1.5 * NAME
            cells = Cells(x, y, across, high, levels, ramp, hidden=hidden if hidden.any() else None)
            marks += [*_panel(clean(name), cells, "panel"), *_row_numbers(cells)]
            y += high + BETWEEN
        y += 1.2 * NOTE - BETWEEN
        every = next(step for step in EVERY if cell * step >= 30 or step == EVERY[-1])
        for step in range(0, self.steps, every):
            marks.append(quiet(x + cell * (step + 0.5), y, str(step), anchor="middle"))
        marks.append(quiet(EDGE, y, "step"))
        moments, below, end = self._draw_memory(float(x), y + BETWEEN)
        marks += moments
        tops = {f"{self.top(name):g}" for name in self.panels if not self.signed(name)}
        note = f"rows: bits or places; dark: {' or '.join(sorted(tops)) or 'large'}; blue below 0, orange above"
        right = max(right, x + across, end, EDGE + text_width(note) * NOTE)
        height = below + 1.5 * NOTE + EDGE
        marks.append(quiet(EDGE, height - EDGE, note))
        return Drawing(title or "bits, weights and memory over time", right + EDGE, height, marks)

    def _draw_memory(self, x: float, y: float) -> tuple[list[Mark], float, float]:
        """Side by side after some steps, from (x, y) on; its bottom and its right end."""
        if not self.moments:
            return [], y, x
        marks: list[Mark] = []
        y, levels = y + 1.5 * NAME, self.memory_levels()
        places, width = levels.shape[1:]
        side = min(LARGEST / 2, TALLEST / places)
        size = max(side * width, 60.0), side * places
        for at in self.moments:
            name = f"memory after {at}"
            marks += _panel(name, Cells(x, y, *size, levels[at], DIVERGING), "moment")
            x += max(size[0], text_width(name) * NAME) + 2 * BETWEEN
        return marks, y + size[1] + BETWEEN, x

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """A cell for each step, `width` cells wide (default: the terminal's width); in colour two rows a line, as
        half blocks, else ░▒▓█."""
        width = usable_width(width)
        lines = title_lines(self.title, self.caption, width)
        for name, values in self.panels.items():
            levels, _, hidden = self.levels(name)
            strength = np.abs(2 * levels - 1) if self.signed(name) else levels
            strength = _fewer(np.where(hidden, 0, strength), width)
            rows = f", {len(values)} rows" if len(values) > MOST_LINES else ""
            lines += ["", trim(f"{clean(name)}{rows}", width), *_level_lines(strength, colour)]
        lines += _memory_lines(self, colour, width)
        ends = f"colours: 0 to 1{'' if self.steps <= width else '; a cell is the largest of several steps'}"
        return "\n".join([*lines, "", trim(ends, width)]) + "\n"


def _panel(name: str, cells: Cells, kind: str) -> list[Mark]:
    """A table in a thin frame, below its name."""
    frame = Box(cells.x, cells.y, cells.width, cells.height, edge=HATCH, line=0.5, kind=kind)
    return [Text(cells.x, cells.y - 0.35 * NAME, name), cells, frame]


def _row_numbers(cells: Cells) -> list[Mark]:
    """The numbers of the first and the last row, if there is room."""
    count = len(cells.weights)
    step = cells.height / count
    ends = [(0, step / 2), (count - 1, cells.height - step / 2)] if cells.height >= 2 * NOTE else []
    return [quiet(cells.x - 4, cells.y + y + 0.35 * NOTE, str(row), anchor="end") for row, y in ends]


def _level_lines(levels: np.ndarray, colour: bool) -> list[str]:
    if not colour:
        return [shade_characters(row, LIMITS) for row in levels]
    even = np.concatenate([levels, np.zeros_like(levels[:1])]) if len(levels) % 2 else levels
    return half_blocks(shade(even, DARK))


def _memory_lines(data: Tape, colour: bool, width: int) -> list[str]:
    """After the last step; its places are rows. Without colours its sizes alone."""
    if data.memory is None:
        return []
    levels = data.memory_levels()[-1][:, :width]
    head = ["", trim(f"memory after step {data.steps - 1}, {len(levels)} rows", width)]
    few = levels[np.linspace(0, len(levels) - 1, min(MOST_LINES, len(levels))).round().astype(int)]
    if not colour:
        return [*head, *_level_lines(np.abs(2 * few - 1), False)]
    return [*head, *half_blocks(shade(few if len(few) % 2 == 0 else few[:-1], DIVERGING))]


def _fewer(levels: np.ndarray, width: int) -> np.ndarray:
    """(rows, steps), at most MOST_LINES and `width` of them: the largest of neighbours."""
    for axis, most in ((0, MOST_LINES), (1, width)):
        parts = np.array_split(levels, min(most, levels.shape[axis]), axis)
        levels = np.stack([part.max(axis) for part in parts], axis)
    return levels


def _most(values: np.ndarray) -> float:
    return float(np.abs(values).max())


def _finite(name: str, values: Any, axes: int) -> np.ndarray:
    values = to_array(values, name)
    if values.ndim != axes or values.size == 0:
        shape = "(rows, steps)" if axes == 2 else "(steps, places, width)"
        raise BadInput(f"{name}: values must have the shape {shape}, got {values.shape}")
    if not np.isfinite(values).all():
        raise BadInput(f"{name}: values must be finite, got {values[~np.isfinite(values)][0]}")
    return values
