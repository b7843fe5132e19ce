"""What the settings of all image tasks share: where images come from, how they become numbers, how they are varied
in training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from regard.base.digests import Source, known_as
from regard.base.fields import numbers, setting
from regard.data.images.augment import Augment
from regard.errors import DataError, RecipeError
from regard.learn.progress import say
from regard.tasks.core.splits import MadeSplits

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts, Pixels
    from regard.data.images.images import Images
    from regard.foreign.hf_files import ImageConfig


class ImageFiles(Protocol):
    """A set of images, with labels or captions."""

    @property
    def files(self) -> Sequence[Path]: ...  # that images are read from on demand


T = TypeVar("T", bound=ImageFiles)


@dataclass(frozen=True)
class ImageSplits(MadeSplits[T]):
    """The part of a recipe's [data] that is about images of any kind."""

    train: str = ""  # the training data, looked for here and under $REGARD_DATA
    valid: str = ""  # the validation data; without it, a part of train is held out
    test: str = ""  # the test data; without it, the validation data is taken
    # share of train that is held out where there is no validation data
    valid_fraction: float = setting(0.1, above=0, below=1)
    # subtracted from each channel (red, green and blue, or grey); empty: that of the run that training begins with,
    # else 0.5
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()  # each channel is divided by it; empty: as mean
    skip_broken: bool = False  # leave out images that cannot be read; all are decoded once before training

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("mean", "std"):
            object.__setattr__(self, name, numbers(name, getattr(self, name), (0, 1, 3)))
        if not all(deviation > 0 for deviation in self.std):
            raise ValueError(f"std must be above 0, got {self.std!r}")

    @abstractmethod
    def open(self, split: str) -> T:
        """What the file named for this split holds, or train's where none is named."""

    @cached_property
    def all(self) -> T:
        """All of train, made or opened once; a part of it may be held out."""
        return self.make("train") if self.made else self.open("train")

    def readable(self, split: str, images: Images, rows: np.ndarray) -> np.ndarray:
        """The rows of a split without broken images, where these are to be skipped; how many is said once."""
        if not self.skip_broken:
            return rows
        if split not in self._readable:
            fine, errors = images.readable(rows)
            if not len(fine):
                raise DataError(f"none of the {len(rows):,} images of {split} can be read: {errors[0]}")
            if errors:
                more = f"; {errors[0]}" + ("; ..." if len(errors) > 1 else "")
                are = "is" if len(errors) == 1 else "are"
                say(f"{len(errors):,} of {len(rows):,} images of {split} {are} broken and left out{more}")
            self._readable[split] = fine
        return self._readable[split]

    @cached_property
    def _readable(self) -> dict[str, np.ndarray]:
        return {}

    @cached_property
    def _opened(self) -> dict[str, T]:
        return {}

    def whole(self, split: str) -> T:
        """What the split is, or is a part of; opened once."""
        source = self.source_of(split)
        if source == "train" or (not self.made and self.files_of(split) == self.files_of("train")):
            return self.all
        if source not in self._opened:
            self._opened[source] = self.make(source) if self.made else self.open(source)
        return self._opened[source]

    def sources(self) -> dict[str, Source]:
        """The images too, by the folders they are in."""
        if self.made:
            return {}
        images = dict.fromkeys(file for split in ("train", "valid") for file in self.whole(split).files)
        return {**super().sources(), **by_folder(images)}

    def rows_of(self, split: str, count: int) -> np.ndarray:
        """Which of `count` images are in the split. What is held out of train depends on their number alone."""
        if not self.is_part(split):
            return np.arange(count)
        order = np.random.default_rng(0).permutation(count)
        border = max(1, int(count * self.valid_fraction))
        rows = order[border:] if split == "train" else order[:border]
        if not len(rows):
            raise DataError(f"{self.name} has too few images to hold some out for validation; set data.valid")
        return np.sort(rows)


@dataclass(frozen=True)
class AugmentedSplits(ImageSplits[T]):
    """The same, and how images are varied in training."""

    crop: int = 4  # augmentation: pixels of padding from which an image of the right size is cropped
    scale: float = 0.0  # augmentation: crop a part of at least this share of the area and resize it; 0: off
    flip: bool = True  # augmentation: mirror left and right, one time in two
    num_ops: int = 0  # augmentation: changes to each image by RandAugment (Cubuk 2020)
    magnitude: float = 9.0  # augmentation: how strong those changes are, 0 to 30
    erase_probability: float = 0.0  # augmentation: share of images of which a rectangle is erased (Zhong 2020)
    cutout: int = 0  # augmentation: side in pixels of a square of each image that is covered (DeVries 2017); 0: off

    def __post_init__(self) -> None:
        super().__post_init__()
        self.augment  # noqa: B018 - checked now

    @property
    def augment(self) -> Augment:
        names = [field.name for field in fields(Augment) if hasattr(self, field.name)]
        return Augment(**{name: getattr(self, name) for name in names})


def by_folder(files: Iterable[Path]) -> dict[str, Source]:
    """Images by the folders they are in; a .zip by itself."""
    folders: dict[str, list[Path]] = {}
    for file in files:
        folders.setdefault(known_as(file if file.suffix.lower() == ".zip" else file.parent), []).append(file)
    return {name: own[0] if own[0].suffix.lower() == ".zip" else own for name, own in folders.items()}


def choose_pixels(settings: ImageSplits[T], config: ImageConfig, start: Artifacts | None) -> Pixels:
    """The pixels of the run that training begins with, with the changes that the settings make. If the image size
    changes, the centre crop keeps its share of an image."""
    from regard.data.artifacts import Pixels
    from regard.data.images.images import check_channels

    check_channels(config.channels)
    before = (start and start.pixels) or Pixels((0.5,) * config.channels, (0.5,) * config.channels)
    for name in ("mean", "std"):
        by_channel = getattr(settings, name)
        if by_channel and len(by_channel) != config.channels:
            raise RecipeError(
                f"data.{name} needs a number for each channel, and model.channels is {config.channels}; "
                f"got {list(by_channel)}"
            )
    pixels = replace(before, mean=settings.mean or before.mean, std=settings.std or before.std)
    if start and start.image_size:
        larger = max(config.size) / max(start.image_size)
        pixels = replace(pixels, shortest_edge=round(before.shortest_edge * larger))
    return pixels
