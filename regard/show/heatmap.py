"""Who looked where: a table of weights with its tokens, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.show.files import suffix_of, write_whole
from regard.show.local import check_centres
from regard.show.page import draw_page
from regard.show.terminal import draw_terminal
from regard.show.vector import draw_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Map:
    """Weights (R, C) in [0, 1]: how much each row (what asks: target tokens) looks at each column
    (what is looked at: source tokens). Shows itself in a notebook.

    Of local attention, `centres` (R,) are the places p_t (NaN: that row has none), and `window` says how many
    columns round(p_t) - window .. round(p_t) + window could be seen (0: not shown)."""

    weights: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    row_label: str = ""
    column_label: str = ""
    _: KW_ONLY
    centres: Sequence[float] | np.ndarray | None = None
    window: int = 0

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            labels = tuple(getattr(self, name))
            strange = [entry for entry in labels if not isinstance(entry, str)]
            if strange:
                raise ValueError(f"{name} must be strings, got {strange[0]!r}: name each by its token")
            object.__setattr__(self, name, labels)
        weights = np.array(self.weights, dtype=np.float64)
        expected = (len(self.rows), len(self.columns))
        if weights.shape != expected:
            raise ValueError(
                f"weights must have shape (rows, columns) = {expected}, got {weights.shape}: "
                "give a label for every row and every column, and one head at a time"
            )
        if weights.size == 0:
            raise ValueError(f"a map needs at least one row and one column, got shape {weights.shape}")
        if not np.isfinite(weights).all():
            row, column = np.argwhere(~np.isfinite(weights))[0]
            raise ValueError(f"weights must be finite, got {weights[row, column]} in row {row}, column {column}")
        if weights.min() < -1e-3 or weights.max() > 1 + 1e-3:  # half precision may overshoot a little
            raise ValueError(
                f"weights must lie in [0, 1], got {weights.min():.4g} to {weights.max():.4g}: "
                "give weights (after the softmax), not scores"
            )
        object.__setattr__(self, "weights", weights.clip(0, 1))
        object.__setattr__(self, "centres", check_centres(self.centres, self.window, len(self.rows)))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure that grows with the tokens.

        Labels never overlap: in a small `ax` they shrink. matplotlib before 3.11 draws right-to-left
        text in the right order, but leaves Arabic letters unjoined."""
        from regard.show.raster import draw_axes, new_axes

        if ax is None:
            from matplotlib import pyplot

            ax = new_axes(self, pyplot.figure())
        return draw_axes(self, ax)

    def save(self, path: str | Path) -> None:
        """Write the picture, as its suffix says: .png, .svg or .html."""
        suffix = suffix_of(path, (".png", ".svg", ".html"))
        if suffix == ".png":
            from regard.show.raster import write_png

            write_whole(path, lambda draft: write_png(self, draft))
        else:
            text = self.svg() if suffix == ".svg" else self.html()
            write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))

    def svg(self) -> str:
        """The map as SVG with real text, drawn by the viewer's own fonts."""
        return draw_svg(self)

    def html(self) -> str:
        """The map as one page that needs nothing else: pointing at a row shows what it looks at."""
        return draw_page(self)

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The map in text, `width` cells wide (else as the terminal is); without colour in ░▒▓█."""
        return draw_terminal(self, colour=colour, width=width)

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'
