"""Where labelled images come from, and how they are varied in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.base.fields import setting
from regard.learn.progress import say
from regard.tasks.shared.image_settings import AugmentedSplits

if TYPE_CHECKING:
    from regard.data.images.labelled_images import ImageSet


@dataclass(frozen=True)
class ImageSettings(AugmentedSplits["ImageSet"]):
    """A recipe's [data] (`data.images.labelled_images` describes the forms of files)."""

    form = "images: a folder with a folder for each class, an .npz or a .parquet file, or tars"
    sets = ("shapes",)

    image: str = ""  # the column or array that holds the images
    label: str = ""  # the column or array that holds their classes
    batch_size: int = setting(128, at_least=1)  # images of a batch
    mixup: float = 0.0  # augmentation: mix two images by shares from Beta(mixup, mixup) (Zhang 2018); 0: off
    # augmentation: a rectangle of an image is another's, by shares from Beta(cutmix, cutmix) (Yun 2019); 0: off
    cutmix: float = 0.0

    def make(self, split: str) -> ImageSet:
        from regard.data.made.shapes import shapes

        return shapes(split, self.count_of(split))

    def open(self, split: str) -> ImageSet:
        from regard.data.images.labelled_images import open_image_set

        return open_image_set(getattr(self, split) or self.train, image=self.image, label=self.label, tell=say)

    def images(self, split: str) -> tuple[ImageSet, np.ndarray]:
        """The images of train, valid or test: where they are, and which of them."""
        images = self.whole(split)
        return images, self.readable(split, images, self.rows_of(split, len(images)))
