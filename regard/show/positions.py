"""Encodings of positions P (positions, dimensions) as pictures: their waves, their barcode, how alike they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.show.colour import LIGHT
from regard.show.curves import Curves
from regard.show.files import suffix_of, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# From blue over the page's own colour to orange; as far from the middle, as dark.
DIVERGING = (*LIGHT[-2:0:-1], "#f5f5f4", "#fbdcc0", "#f4b583", "#e58c4b", "#cb6622", "#a04a12", "#6f320e")


@dataclass(frozen=True, eq=False)
class Barcode:
    """Values (positions, dimensions) as colours: blue below 0, orange above, the same on both sides."""

    values: np.ndarray
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _check(self.values))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure."""
        from matplotlib.colors import LinearSegmentedColormap

        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.figure(figsize=(6.4, 4), layout="constrained").add_subplot()
        limit = float(np.abs(self.values).max()) or 1.0
        ramp = LinearSegmentedColormap.from_list("regard-diverging", DIVERGING)
        image = ax.imshow(self.values, cmap=ramp, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        ax.set(xlabel="dimension", ylabel="position")
        ax.set_title(self.title, parse_math=False)
        ax.figure.colorbar(image, ax=ax).outline.set_visible(False)
        return ax

    def save(self, path: str | Path) -> None:
        """Write the picture, as its suffix says: .png or .svg."""
        import matplotlib
        from matplotlib.figure import Figure

        suffix = suffix_of(path, (".png", ".svg"))
        figure = Figure(figsize=(6.4, 4), layout="constrained")
        self.plot(figure.add_subplot())
        extra: dict[str, Any] = {"metadata": {"Date": None}} if suffix == ".svg" else {}
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}):
            write_whole(
                path, lambda draft: figure.savefig(draft, format=suffix[1:], dpi=160, facecolor="white", **extra)
            )


def position_curves(encodings: np.ndarray, dims: Sequence[int] | None = None) -> Curves:
    """A few dimensions over the positions; without `dims`, five from the first on, evenly apart."""
    encodings = _check(encodings)
    width = encodings.shape[1]
    dims = range(0, width, max(1, -(-width // 5))) if dims is None else dims
    wrong = [dim for dim in dims if not 0 <= dim < width]
    if wrong:
        raise ValueError(f"dimensions must lie in 0 to {width - 1}, got {wrong[0]}")
    places = np.arange(len(encodings))
    series = {f"dimension {dim}": (places, encodings[:, dim]) for dim in dims}
    return Curves(series, title="Encodings of positions", x_label="position", y_label="value")


def barcode(encodings: np.ndarray) -> Barcode:
    """Positions down, dimensions across."""
    return Barcode(encodings, title="Encodings of positions")


def similarity(encodings: np.ndarray) -> Curves:
    """P(p) . P(p + k) by the distance k: the mean over all p, shaded from the least to the most.

    Where the distance alone decides, as for sines and cosines, there is a line and no shade."""
    encodings = _check(encodings)
    products = encodings @ encodings.T  # (L, L)
    by_distance = [np.diagonal(products, k) for k in range(len(products))]
    mean, low, high = (np.array([pick(part) for part in by_distance]) for pick in (np.mean, np.min, np.max))
    # A mean of equal numbers may differ from them in its last digit.
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
