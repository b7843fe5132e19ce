"""Pictures of position encodings P (positions, dimensions): single dimensions, all values, similarities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.show.colours import DIVERGING
from regard.show.curves import Curves
from regard.show.plot import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Barcode(Plot):
    """Values (positions, dimensions) as colours: blue below 0, orange above, on the same scale."""

    values: np.ndarray
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _check(self.values))

    def __repr__(self) -> str:
        positions, dimensions = self.values.shape
        return f"<Barcode: {positions:,} positions, {dimensions:,} dimensions>"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure."""
        from regard.show.figure import colour_map, new_plot

        ax = new_plot() if ax is None else ax
        limit = float(np.abs(self.values).max()) or 1.0
        colours = colour_map(DIVERGING)
        image = ax.imshow(
            self.values, cmap=colours, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        ax.set(xlabel="dimension", ylabel="position")
        ax.set_title(self.title, parse_math=False)
        ax.figure.colorbar(image, ax=ax).outline.set_visible(False)
        return ax


def position_curves(encodings: np.ndarray, dims: Sequence[int] | None = None) -> Curves:
    """Some dimensions over the positions; without `dims`, up to five of them, evenly spaced."""
    encodings = _check(encodings)
    width = encodings.shape[1]
    dims = range(0, width, max(1, -(-width // 5))) if dims is None else dims
    wrong = [dim for dim in dims if not 0 <= dim < width]
    if wrong:
        raise ValueError(f"dimensions must lie in 0 to {width - 1}, got {wrong[0]}")
    places = np.arange(len(encodings))
    series = {f"dimension {dim}": (places, encodings[:, dim]) for dim in dims}
    return Curves(series, title="Position encodings", x_label="position", y_label="value", legend_beside=True)


def barcode(encodings: np.ndarray) -> Barcode:
    """All values: a row for each position, a column for each dimension."""
    return Barcode(encodings, title="Position encodings")


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
    encodings = np.array(encodings, dtype=np.float64)
    if encodings.ndim != 2 or encodings.size == 0:
        raise ValueError(f"encodings must have shape (positions, dimensions), got {encodings.shape}")
    if not np.isfinite(encodings).all():
        row, column = np.argwhere(~np.isfinite(encodings))[0]
        raise ValueError(f"encodings must be finite, got {encodings[row, column]} at position {row}, dim {column}")
    return encodings
