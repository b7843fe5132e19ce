"""Images side by side, each with its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.colours import HIDDEN
from regard.show.images import check_image
from regard.show.label_text import clean, trim
from regard.show.plot import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BETWEEN = 0.08  # two images, as a share of their height


@checked
@dataclass(frozen=True, eq=False)
class Images(Plot):
    """Images (H, W, 3) of bytes by name: {"as it is": image}. They stand in a row and have one height; pixels stay
    squares."""

    images: Mapping[str, Any]
    title: str = ""

    def __post_init__(self) -> None:
        if not self.images:
            raise BadInput("no images to draw: give at least one, as {name: image}")
        object.__setattr__(self, "images", {name: check_image(image) for name, image in self.images.items()})

    def __repr__(self) -> str:
        return f"<Images: {', '.join(map(repr, self.images))}{f', {self.title!r}' if self.title else ''}>"

    @property
    def height(self) -> float:
        widths = sum(image.shape[1] / image.shape[0] + BETWEEN for image in self.images.values())
        return 7 / widths + (0.4 if self.title else 0)

    @checked
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure."""
        from regard.show.figure import axes_or_new
        from regard.show.fonts import text_style

        ax = axes_or_new(ax, self.height)
        names, title = [trim(clean(name), 40) for name in self.images], trim(clean(self.title), 80)
        style, drawable = text_style([*names, title])
        left = 0.0
        for name, image in zip(names, self.images.values(), strict=True):
            width = image.shape[1] / image.shape[0]
            ax.imshow(image, extent=(left, left + width, 0, 1), interpolation="nearest")
            ax.plot([left, left, left + width, left + width, left], [0, 1, 1, 0, 0], color=HIDDEN, linewidth=0.8)
            ax.text(left, -0.03, drawable(name), va="top", **style)
            left += width + BETWEEN
        ax.set(xlim=(0, left - BETWEEN), ylim=(-0.12, 1), aspect="equal")
        ax.axis("off")
        ax.set_title(drawable(title), **style)
        return ax
