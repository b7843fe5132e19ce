"""Where labelled images come from, and how they are varied in training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from regard.base.fields import setting
from regard.errors import DataError
from regard.tasks.shared.image_settings import Varied

if TYPE_CHECKING:
    from regard.data.images.labelled_images import ImageSet


def _shapes(split: str, count: int) -> ImageSet:
    from regard.data.made.shapes import shapes

    return shapes(split, count)


MADE: dict[str, Callable[[str, int], ImageSet]] = {"shapes": _shapes}


@dataclass(frozen=True)
class ImageSettings(Varied):
    """A recipe's [data] (`data.images.labelled_images` describes the forms of files)."""

    made: str = ""  # a generated set: shapes
    train_count: int = setting(20000, at_least=1)  # how many of a generated set
    valid_count: int = setting(1000, at_least=1)
    test_count: int = setting(1000, at_least=1)
    train: str = ""  # a folder of folders, .npz or .parquet, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, a part of train is held out
    test: str = ""  # without one, the validation images are taken
    image: str = ""  # the column or array that holds the images
    label: str = ""  # and that of their classes
    valid_fraction: float = setting(0.1, above=0, below=1)
    batch_size: int = setting(128, at_least=1)  # images
    mixup: float = 0.0  # above 0: images are mixed by shares from Beta(mixup, mixup)
    cutmix: float = 0.0  # above 0: a rectangle of an image is another's, by shares from Beta(cutmix, cutmix)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.made) == bool(self.train):
            raise ValueError(
                f"set either data.made to a generated set ({', '.join(MADE)}) or data.train to images: a folder "
                "with a folder for each class, an .npz or a .parquet file"
            )
        if self.made and self.made not in MADE:
            raise ValueError(f"unknown generated set {self.made!r}; there are {', '.join(MADE)}")

    @property
    def name(self) -> str:
        return self.made or self.train.rstrip("/").rpartition("/")[2]

    @cached_property
    def all(self) -> ImageSet:
        """The images of train, opened once."""
        return MADE[self.made]("train", self.train_count) if self.made else self._open(self.train)

    def images(self, split: str) -> tuple[ImageSet, np.ndarray]:
        """The images of train, valid or test: where they are, and which of them. The order in which a part of train
        is held out depends on its size alone."""
        if self.made:
            found = self.all if split == "train" else MADE[self.made](split, getattr(self, f"{split}_count"))
            return found, np.arange(len(found))
        named = {"train": self.train, "valid": self.valid, "test": self.test or self.valid}[split]
        found = self._open(named) if named not in ("", self.train) else self.all
        if self.valid or (named and split != "train"):
            return found, np.arange(len(found))
        order = np.random.default_rng(0).permutation(len(found))
        border = max(1, int(len(found) * self.valid_fraction))
        rows = order[border:] if split == "train" else order[:border]
        if not len(rows):
            raise DataError(f"{self.name} has too few images to hold some out for validation; set data.valid")
        return found, np.sort(rows)

    def _open(self, name: str) -> ImageSet:
        from regard.data.images.labelled_images import open_image_set

        return open_image_set(name, image=self.image, label=self.label)
