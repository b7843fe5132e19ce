"""An image and the maps over it, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from regard.show.image_bytes import check_image
from regard.show.scales import Scale, check_scale, top_of


@dataclass(frozen=True, eq=False)
class OverlayData:
    """An image (H, W, 3) of bytes and maps over it: {"rollout": (rows, columns), "block 11, head 3": ...}.

    Every map covers the whole image, whatever its grid. Its numbers are shares of its own sum, so weight that went
    to a class token is left out. Colours run from 0 to each map's own maximum (None, "each"); to the maximum of all
    maps, rounded up ("shared"); or to `scale`, a share: with 0.05, images drawn one by one can be compared. Shows
    itself in a notebook."""

    image: np.ndarray
    panels: Mapping[str, np.ndarray]
    title: str = ""
    caption: str = ""
    _: KW_ONLY
    scale: Scale = None

    def __post_init__(self) -> None:
        image = check_image(self.image)
        if not self.panels:
            raise ValueError("no map to draw: give at least one, as {name: weights (rows, columns)}")
        checked = {name: check_map(name, weights) for name, weights in self.panels.items()}
        check_scale(self.scale)
        object.__setattr__(self, "image", image)
        object.__setattr__(self, "panels", checked)

    @cached_property
    def shares(self) -> dict[str, np.ndarray]:
        """The maps as shares of their sums."""
        return {name: shares_of(weights) for name, weights in self.panels.items()}

    @cached_property
    def most(self) -> float:
        """The largest share of all maps."""
        return float(max(shares.max() for shares in self.shares.values()))

    @property
    def top(self) -> float | None:
        """The share of the brightest colour; None: every map has its own."""
        return shared_top(self.most, self.scale)

    def levels(self, name: str) -> np.ndarray:
        """What is drawn of a map: shares of the scale, in [0, 1]."""
        return levels_of(self.shares[name], self.top)


def shares_of(weights: np.ndarray) -> np.ndarray:
    """A map as shares of its sum."""
    return weights / (weights.sum() or 1)


def shared_top(most: float, scale: Scale) -> float | None:
    """The share of the brightest colour; None: every map has its own."""
    return None if scale in (None, "each") else top_of(most, scale)


def levels_of(shares: np.ndarray, top: float | None) -> np.ndarray:
    """Shares of the scale, in [0, 1]; `top` is None where the map's own maximum is the brightest."""
    top = top or float(shares.max())
    return (shares / top).clip(0, 1) if top > 0 else shares


def check_map(name: str, weights: np.ndarray) -> np.ndarray:
    weights = np.array(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(
            f"{name}: a map must have shape (rows, columns), got {weights.shape}: "
            "leave the class token out and reshape the patches to their grid"
        )
    if not np.isfinite(weights).all():
        row, column = np.argwhere(~np.isfinite(weights))[0]
        raise ValueError(f"{name}: a map must be finite, got {weights[row, column]} in row {row}, column {column}")
    if weights.min() < 0:
        raise ValueError(f"{name}: a map must not be negative, got {weights.min():.4g}: give weights, not scores")
    return weights
