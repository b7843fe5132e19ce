"""How images become numbers and how they are varied in training: what the settings of all image tasks share."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from regard.base.fields import check, numbers
from regard.data.images.augment import Augment
from regard.errors import RecipeError

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts, Pixels
    from regard.foreign.hf_files import ImageConfig


@dataclass(frozen=True)
class Normalised:
    """The part of a recipe's [data] that is about images of any kind."""

    mean: tuple[float, ...] = ()  # of each channel (red, green and blue, or grey), and the standard deviations;
    std: tuple[float, ...] = ()  # without them those of the run that training begins with, else 0.5

    def __post_init__(self) -> None:
        check(self)
        for name in ("mean", "std"):
            object.__setattr__(self, name, numbers(name, getattr(self, name), (0, 1, 3)))
        if not all(one > 0 for one in self.std):
            raise ValueError(f"std must be above 0, got {self.std!r}")


@dataclass(frozen=True)
class Varied(Normalised):
    """The same, and how images are varied in training."""

    crop: int = 4  # pixels of padding from which an image of the right size is cropped
    scale: float = 0.0  # above 0: crop a part of at least this share of the area, and resize it
    flip: bool = True  # left and right, one time in two
    num_ops: int = 0  # RandAugment: so many changes to each image, of this magnitude (0 to 30)
    magnitude: float = 9.0
    erase_probability: float = 0.0  # erase a rectangle of an image

    def __post_init__(self) -> None:
        super().__post_init__()
        self.augment  # noqa: B018 - checked now

    @property
    def augment(self) -> Augment:
        names = [one.name for one in fields(Augment) if hasattr(self, one.name)]
        return Augment(**{name: getattr(self, name) for name in names})


def choose_pixels(settings: Normalised, config: ImageConfig, start: Artifacts | None) -> Pixels:
    """Those of the run that training begins with, but for what the settings say. If image_size is another than
    there, the centre crop keeps its share of an image."""
    from regard.data.artifacts import Pixels
    from regard.data.images.images import check_channels

    check_channels(config.channels)
    before = (start and start.pixels) or Pixels((0.5,) * config.channels, (0.5,) * config.channels)
    for name in ("mean", "std"):
        given = getattr(settings, name)
        if given and len(given) != config.channels:
            raise RecipeError(
                f"data.{name} needs a number for each channel, and model.channels is {config.channels}; "
                f"got {list(given)}"
            )
    pixels = replace(before, mean=settings.mean or before.mean, std=settings.std or before.std)
    if start and start.image_size:
        larger = max(config.size) / max(start.image_size)
        pixels = replace(pixels, shortest_edge=round(before.shortest_edge * larger))
    return pixels
