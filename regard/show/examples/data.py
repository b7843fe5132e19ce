"""A query, labelled examples, and how much the query looked at each, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from regard.show.image_bytes import check_image
from regard.show.label_text import clean
from regard.show.scales import Scale, check_scale, top_of


@dataclass(frozen=True, eq=False)
class Example:
    """An image (H, W, 3) of bytes, its class, and the name of its file."""

    image: np.ndarray
    label: str
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", check_image(self.image))


@dataclass(frozen=True, eq=False)
class ExamplesData:
    """An image (H, W, 3) of bytes beside the examples that a model was shown, and for each look, by its name, the
    weights (S + 1,) of the examples and last of the image itself.

    `chosen`: the class that the model tells, whose examples are marked. Bars run from 0 to the largest weight of
    all looks (None, "shared") or of each ("each"), rounded up; or to `scale`. Shows itself in a notebook."""

    query: np.ndarray
    examples: Sequence[Example]
    looks: Mapping[str, np.ndarray]
    title: str = ""
    caption: str = ""
    _: KW_ONLY
    chosen: str = ""
    scale: Scale = None

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if not self.examples or not self.looks:
            raise ValueError("nothing to draw: give at least one example, and one look as {name: weights (S + 1,)}")
        looks = {name: self._check(name, weights) for name, weights in self.looks.items()}
        object.__setattr__(self, "query", check_image(self.query))
        object.__setattr__(self, "examples", tuple(self.examples))
        object.__setattr__(self, "looks", looks)

    def _check(self, name: str, weights: np.ndarray) -> np.ndarray:
        weights, wanted = np.array(weights, dtype=np.float64), (len(self.examples) + 1,)
        if weights.shape != wanted or not np.isfinite(weights).all() or weights.min() < 0:
            raise ValueError(
                f"{name}: the weights of {wanted[0] - 1} examples, and last of the image itself, must be {wanted}, "
                f"finite and not negative; got shape {weights.shape}"
            )
        return weights

    @cached_property
    def tops(self) -> dict[str, float]:
        """The weight of a full bar in each look."""
        own = {name: float(weights.max()) for name, weights in self.looks.items()}
        if self.scale == "each":
            return {name: top_of(largest) for name, largest in own.items()}
        return dict.fromkeys(own, top_of(max(own.values()), self.scale))

    def level(self, look: str, at: int) -> float:
        """A weight as a share of a full bar, in [0, 1]."""
        return float(min(1.0, self.looks[look][at] / (self.tops[look] or 1)))

    def notes(self, look: str) -> str:
        """What is said of a whole look: the shares of classes, the largest first, and of the image itself."""
        shares: dict[str, float] = {}
        for one, weight in zip(self.examples, self.looks[look], strict=False):
            shares[one.label] = shares.get(one.label, 0.0) + float(weight)
        ranked = sorted(shares.items(), key=lambda item: -item[1])[:3]
        told = [f"{clean(label)} {100 * share:.1f} %" for label, share in ranked]
        return ", ".join([*told, f"itself {100 * self.looks[look][-1]:.1f} %"])
