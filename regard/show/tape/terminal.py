"""A tape in a terminal: a cell for each step; in colour two rows a line, as half blocks, else ░▒▓█."""

from __future__ import annotations

import numpy as np

from regard.show.colours import DARK, DIVERGING, shade
from regard.show.label_text import clean, trim
from regard.show.overlay.terminal import half_blocks
from regard.show.tape.data import TapeData
from regard.show.terminal import LIMITS, shade_characters, usable_width

TALLEST = 32  # rows of a panel; of more, the largest of several is drawn


def draw_terminal(data: TapeData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    lines = [trim(clean(line), width) for line in (data.title, *data.caption.split("\n")) if line]
    for name, values in data.panels.items():
        levels, _, hidden = data.levels(name)
        strength = np.abs(2 * levels - 1) if data.signed(name) else levels
        strength = _fewer(np.where(hidden, 0, strength), width)
        rows = f", {len(values)} rows" if len(values) > TALLEST else ""
        lines += ["", trim(f"{clean(name)}{rows}", width), *_drawn(strength, colour)]
    lines += _memory(data, colour, width)
    ends = f"colours: 0 to 1{'' if data.steps <= width else '; a cell is the largest of several steps'}"
    return "\n".join([*lines, "", trim(ends, width)]) + "\n"


def _drawn(levels: np.ndarray, colour: bool) -> list[str]:
    if not colour:
        return [shade_characters(row, LIMITS) for row in levels]
    even = np.concatenate([levels, np.zeros_like(levels[:1])]) if len(levels) % 2 else levels
    return half_blocks(shade(even, DARK))


def _memory(data: TapeData, colour: bool, width: int) -> list[str]:
    """After the last step; its places are rows. Without colours its sizes alone."""
    if data.memory is None:
        return []
    levels = data.memory_levels()[-1][:, :width]
    head = ["", trim(f"memory after step {data.steps - 1}, {len(levels)} rows", width)]
    few = levels[np.linspace(0, len(levels) - 1, min(TALLEST, len(levels))).round().astype(int)]
    if not colour:
        return [*head, *_drawn(np.abs(2 * few - 1), False)]
    return [*head, *half_blocks(shade(few if len(few) % 2 == 0 else few[:-1], DIVERGING))]


def _fewer(levels: np.ndarray, width: int) -> np.ndarray:
    """(rows, steps), at most TALLEST and `width` of them: the largest of neighbours."""
    for axis, most in ((0, TALLEST), (1, width)):
        parts = np.array_split(levels, min(most, levels.shape[axis]), axis)
        levels = np.stack([part.max(axis) for part in parts], axis)
    return levels
