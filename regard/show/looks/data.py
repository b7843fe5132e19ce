"""An image, the words of one or more captions, and where each word looked, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from regard.show.image_bytes import check_image
from regard.show.overlay.blending import smooth
from regard.show.overlay.data import check_map, levels_of, shared_top, shares_of
from regard.show.scales import Scale, check_scale

ALL = 0.999  # a place with this share of a look was chosen alone: hard attention


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
            raise ValueError(f"words must be a sequence, got one text: {self.words!r:.80}; split it")
        words, weights = tuple(self.words), np.array(self.weights, dtype=np.float64)
        if weights.ndim != 3 or len(weights) != len(words):
            raise ValueError(
                f"weights of {len(words)} words must be ({len(words)}, rows, columns), got {weights.shape}: "
                "one map for each word, reshaped to the grid"
            )
        for at, (word, one) in enumerate(zip(words, weights, strict=True)):
            check_map(f"word {at} ({word!r:.40})", one)
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


@dataclass(frozen=True, eq=False)
class LooksData:
    """An image (H, W, 3) of bytes and one or more captions of it. Each word has a panel with its attention over the
    image, and its gate below. Several captions, such as of soft and of hard attention, stand below each other.

    Every grid covers the whole image. Colours run from 0 to each panel's own maximum (None, "each"); to the maximum
    of all panels, rounded up ("shared"); or to `scale`, a share. Shows itself in a notebook."""

    image: np.ndarray
    lines: Sequence[Line]
    title: str = ""
    _: KW_ONLY
    scale: Scale = None

    def __post_init__(self) -> None:
        lines = tuple(self.lines)
        if not lines:
            raise ValueError("no caption to draw: give at least one line, as Line(words, weights)")
        check_scale(self.scale)
        object.__setattr__(self, "image", check_image(self.image))
        object.__setattr__(self, "lines", lines)

    @cached_property
    def most(self) -> float:
        """The largest share of all panels."""
        return float(max((shares.max() for line in self.lines for shares in line.shares), default=0.0))

    @property
    def top(self) -> float | None:
        """The share of the brightest colour; None: every panel has its own."""
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


def _check_gates(gates: np.ndarray, count: int) -> np.ndarray:
    gates = np.array(gates, dtype=np.float64)
    if gates.shape != (count,):
        raise ValueError(f"gates must have shape ({count},), one for each word, got {gates.shape}")
    allowed = (gates >= -1e-3) & (gates <= 1 + 1e-3)  # float16 may overshoot a little; NaN is not allowed either
    if not allowed.all():
        at = int(allowed.argmin())
        raise ValueError(f"gates must lie in [0, 1], got {gates[at]:.4g} at word {at}: give them after the sigmoid")
    return gates.clip(0, 1)
