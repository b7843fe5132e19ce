"""Pictures of position encodings P (positions, dimensions): single dimensions, all values, similarities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.colours import DIVERGING
from regard.show.curves import Curves
from regard.show.label_text import clean, trim
from regard.show.plot import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


GAP = 2  # columns between two parts


@checked
@dataclass(frozen=True, eq=False)
class Barcode(Plot):
    """Values (positions, dimensions) as colours: blue below 0, orange above, on the same scale.

    `rows` are names in place of the positions' numbers. `parts` names groups of dimensions, which are drawn apart:
    {"token": 12, "segment": 12} for twelve of each."""

    values: np.ndarray
    title: str = ""
    _: KW_ONLY
    rows: Sequence[str] = ()
    parts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _check(self.values))
        count, width = self.values.shape
        if self.rows and len(self.rows) != count:
            raise BadInput(f"rows must name all {count} positions, got {len(self.rows)} names")
        if self.parts and (min(self.parts.values()) < 1 or sum(self.parts.values()) != width):
            raise BadInput(f"parts must add up to the {width} dimensions, got {dict(self.parts)}")

    def __repr__(self) -> str:
        positions, dimensions = self.values.shape
        return f"<Barcode: {positions:,} positions, {dimensions:,} dimensions>"

    @checked
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure."""
        from regard.show.figure import axes_or_new, colour_map
        from regard.show.fonts import text_style

        ax = axes_or_new(ax)
        limit = float(np.abs(self.values).max()) or 1.0
        colours = colour_map(DIVERGING).with_extremes(bad="#ffffff")
        image = ax.imshow(
            self._apart(), cmap=colours, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        names, title = [trim(clean(name), 40) for name in (*self.rows, *self.parts)], trim(clean(self.title), 80)
        style, drawable = text_style([*names, title])
        names = [drawable(name) for name in names]
        if self.rows:
            ax.set_yticks(range(len(self.rows)), names[: len(self.rows)], **style)
        if self.parts:
            widths = np.array(list(self.parts.values()))
            starts = np.cumsum(widths + GAP) - widths - GAP
            ax.set_xticks(starts + (widths - 1) / 2, names[len(self.rows) :], **style)
        ax.set(xlabel="" if self.parts else "dimension", ylabel="" if self.rows else "position")
        ax.set_title(drawable(title), **style)
        ax.figure.colorbar(image, ax=ax).outline.set_visible(False)
        return ax

    def _apart(self) -> np.ndarray:
        """The values with a gap between two parts."""
        parts = np.split(self.values, np.cumsum(list(self.parts.values()))[:-1], 1) if self.parts else [self.values]
        gap = np.full((len(self.values), GAP), np.nan)
        return np.concatenate([piece for part in parts for piece in (part, gap)][:-1], 1)


@checked
def position_curves(encodings: np.ndarray, dims: Sequence[int] | None = None) -> Curves:
    """Some dimensions over the positions; without `dims`, up to five of them, evenly spaced."""
    encodings = _check(encodings)
    width = encodings.shape[1]
    dims = range(0, width, max(1, -(-width // 5))) if dims is None else dims
    wrong = [dim for dim in dims if not 0 <= dim < width]
    if wrong:
        raise BadInput(f"dimensions must lie in 0 to {width - 1}, got {wrong[0]}")
    places = np.arange(len(encodings))
    series = {f"dimension {dim}": (places, encodings[:, dim]) for dim in dims}
    return Curves(series, title="Position encodings", x_label="position", y_label="value", legend_beside=True)


@checked
def barcode(encodings: np.ndarray) -> Barcode:
    """All values: a row for each position, a column for each dimension."""
    return Barcode(encodings, title="Position encodings")


@checked
def similarity(encodings: np.ndarray) -> Curves:
    """P(p) . P(p + k) by the distance k: the mean over all p, shaded from the minimum to the maximum.

    For sines and cosines the dot product depends on k alone, so nothing is shaded."""
    encodings = _check(encodings)
    products = encodings @ encodings.T  # (L, L)
    by_distance = [np.diagonal(products, k) for k in range(len(products))]
    mean, low, high = (np.array([pick(part) for part in by_distance]) for pick in (np.mean, np.min, np.max))
    # The mean of equal floats may differ from them in the last digit.
    name, band = "dot product", (np.minimum(low, mean), np.maximum(high, mean))
    series = {name: (np.arange(len(mean)), mean)}
    return Curves(series, "Similarity by distance", "distance", name, spread={name: band})


def _check(encodings: np.ndarray) -> np.ndarray:
    encodings = to_array(encodings, "encodings")
    if encodings.ndim != 2 or encodings.size == 0:
        raise BadInput(f"encodings must have shape (positions, dimensions), got {encodings.shape}")
    if not np.isfinite(encodings).all():
        row, column = np.argwhere(~np.isfinite(encodings))[0]
        raise BadInput(f"encodings must be finite, got {encodings[row, column]} at position {row}, dim {column}")
    return encodings
