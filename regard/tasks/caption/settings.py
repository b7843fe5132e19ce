"""Where images with captions come from, and how they are varied in training."""

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
    from regard.data.images.captions import CaptionSet


def _scenes(split: str, count: int) -> CaptionSet:
    from regard.data.made.scenes import scenes

    return scenes(split, count)


MADE: dict[str, Callable[[str, int], CaptionSet]] = {"scenes": _scenes}


@dataclass(frozen=True)
class CaptionSettings(Varied):
    """A recipe's [data] (`data.images.captions` describes the forms of files)."""

    made: str = ""  # a generated set: scenes
    train_count: int = setting(20000, at_least=1)  # how many images of a generated set
    valid_count: int = setting(1000, at_least=1)
    test_count: int = setting(1000, at_least=1)
    train: str = ""  # a file of captions, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, a part of the images of train is held out
    test: str = ""  # without one, the validation images are taken
    images: str = ""  # the folder or .zip that the images are in; without one, the folder of the captions
    image: str = ""  # the column with the names of the images
    caption: str = ""  # and that of their captions
    train_names: str = ""  # where one file has the captions of all images: a file with a name a line for each part
    valid_names: str = ""
    test_names: str = ""
    valid_fraction: float = setting(0.05, above=0, below=1)
    eval_images: int = setting(500, at_least=1)  # validation images that are also captioned at each validation
    batch_size: int = setting(64, at_least=1)  # captions
    truncate: int = setting(50, at_least=1)  # tokens of a caption in training, without the end token
    flip: bool = False  # left and right, one time in two; what is left of something would be right of it

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.made) == bool(self.train):
            raise ValueError(
                f"set either data.made to a generated set ({', '.join(MADE)}) or data.train to a file of captions: "
                "TSV, CSV or JSONL with the columns image and caption, or COCO's JSON"
            )
        if self.made and self.made not in MADE:
            raise ValueError(f"unknown generated set {self.made!r}; there are {', '.join(MADE)}")

    @property
    def name(self) -> str:
        return self.made or self.train.rpartition("/")[2]

    def file_of(self, split: str) -> tuple[str, str]:
        """The captions of train, valid or test and the list of their images ("": all); of valid or test ("", "")
        where they are held out of train."""
        file, names = getattr(self, split), getattr(self, f"{split}_names")
        if not file and not names:
            return ("", "") if split == "valid" else self.file_of("valid")
        return file or self.train, names

    @cached_property
    def all(self) -> CaptionSet:
        """What is named for training, opened once."""
        return MADE[self.made]("train", self.train_count) if self.made else self._open(*self.file_of("train"))

    def captions(self, split: str) -> CaptionSet:
        """The images of train, valid or test with their captions. Which part of train is held out depends on its
        size alone."""
        if self.made:
            return self.all if split == "train" else MADE[self.made](split, getattr(self, f"{split}_count"))
        file, names = self.file_of(split)
        if file and split != "train":
            return self._open(file, names)
        if self.file_of("valid")[0]:
            return self.all
        order = np.random.default_rng(0).permutation(len(self.all))
        border = max(1, int(len(order) * self.valid_fraction))
        rows = order[border:] if split == "train" else order[:border]
        if not len(rows):
            raise DataError(f"{self.name} has too few images to hold some out for validation; set data.valid")
        return self.all.subset(np.sort(rows))

    def _open(self, file: str, names: str) -> CaptionSet:
        from regard.data.images.captions import open_caption_set

        return open_caption_set(file, images=self.images, image=self.image, caption=self.caption, only=names)
