"""What stands where in a drawing, for tests."""

from __future__ import annotations

from typing import Any

from regard.show.drawing import Drawing, Group, flat


def marks(drawing: Drawing | Group, kind: type) -> list[Any]:
    """The marks of a type in a drawing or a group."""
    return [mark for mark in flat(drawing.marks) if isinstance(mark, kind)]


def edges(mark: Any) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a box, of cells or of an image."""
    return mark.x, mark.y, mark.x + mark.width, mark.y + mark.height


def apart(boxes: list[tuple[float, float, float, float]]) -> bool:
    """Whether no two boxes (left, top, right, bottom) overlap; they may touch."""
    return all(
        right <= x0 or x1 <= left or bottom <= y0 or y1 <= top
        for at, (left, top, right, bottom) in enumerate(boxes)
        for x0, y0, x1, y1 in boxes[at + 1 :]
    )
