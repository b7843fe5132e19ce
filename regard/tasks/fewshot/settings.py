"""Where the classes of episodes come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.base.fields import setting
from regard.base.files import find_data
from regard.errors import DataError
from regard.tasks.shared.image_settings import Normalised

if TYPE_CHECKING:
    from regard.data.images.episodes import Chosen
    from regard.data.images.labelled_images import ImageSet


def _glyphs(split: str, count: int) -> ImageSet:
    from regard.data.made.glyphs import glyphs

    return glyphs(split, count)


MADE: dict[str, Callable[[str, int], ImageSet]] = {"glyphs": _glyphs}


@dataclass(frozen=True)
class EpisodeSettings(Normalised):
    """A recipe's [data] (`labelled_images.py` describes the forms of files). How many classes and examples an
    episode has is the model's: model.ways and model.shots."""

    made: str = ""  # a generated set: glyphs
    train_count: int = setting(400, at_least=1)  # classes of a generated set
    valid_count: int = setting(50, at_least=1)
    test_count: int = setting(100, at_least=1)
    train: str = ""  # a folder of folders, .npz or .parquet, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, train; and without valid_classes a part of its classes is held out
    test: str = ""  # without one, train by test_classes, else the validation classes
    train_classes: str = ""  # a file with the name of one class a line; without one, those that no other list has
    valid_classes: str = ""
    test_classes: str = ""
    image: str = ""  # the column or array that holds the images
    label: str = ""  # and that of their classes
    rotations: bool = False  # each class turned by 90, 180 and 270 degrees is a class too
    valid_fraction: float = setting(0.1, above=0, below=1)  # of the classes; model.ways of them at least
    batch_size: int = setting(32, at_least=1)  # episodes
    queries: int = setting(1, at_least=1)  # of a training episode, about the same examples; in the paper one
    distort: float = setting(0.0, at_least=0, at_most=1)  # how far training images are turned, scaled and shifted
    curriculum_steps: int = setting(0, at_least=0)  # in which the classes of an episode rise from 2; 0: all at once
    valid_episodes: int = setting(1000, at_least=1)
    test_episodes: int = setting(10000, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.made) == bool(self.train):
            raise ValueError(
                f"set either data.made to a generated set ({', '.join(MADE)}) or data.train to images: a folder "
                "with a folder for each class, an .npz or a .parquet file"
            )
        if self.made and self.made not in MADE:
            raise ValueError(f"unknown generated set {self.made!r}; there are {', '.join(MADE)}")
        named = [name for name in ("train_classes", "valid_classes", "test_classes") if getattr(self, name)]
        if self.made and named:
            raise ValueError(f"data.{named[0]} is for images in files, not for a generated set")

    @property
    def name(self) -> str:
        return self.made or self.train.rstrip("/").rpartition("/")[2]

    @property
    def holds_out(self) -> bool:
        """Is a part of the training classes left for validation?"""
        return not (self.made or self.valid or self.valid_classes)

    @cached_property
    def all(self) -> ImageSet:
        """The images of train, opened once."""
        return MADE[self.made]("train", self.train_count) if self.made else self._open(self.train)

    def classes(self, split: str, ways: int = 1) -> tuple[ImageSet, list[Chosen]]:
        """The images of train, valid or test, and the classes among them that episodes are drawn from, of `ways`
        classes each."""
        from regard.data.images.episodes import with_rotations

        if split == "test" and not (self.made or self.test or self.test_classes):
            split = "valid"
        images, chosen = self._made(split) if self.made else self._of_files(split, ways)
        return images, with_rotations(chosen) if self.rotations else chosen

    def _made(self, split: str) -> tuple[ImageSet, list[Chosen]]:
        images = self.all if split == "train" else MADE[self.made](split, getattr(self, f"{split}_count"))
        return images, _every(images)

    def _of_files(self, split: str, ways: int) -> tuple[ImageSet, list[Chosen]]:
        from regard.data.images.episodes import listed_classes

        file, listed = getattr(self, split), getattr(self, f"{split}_classes")
        images = self._open(file) if file not in ("", self.train) else self.all
        if listed:
            return images, listed_classes(find_list(listed), images.classes)
        if split != "train" and file:
            return images, _every(images)
        train = (
            listed_classes(find_list(self.train_classes), images.classes)
            if self.train_classes
            else self._unlisted(images)
        )
        return images, self._part(train, split, ways) if self.holds_out else train

    def _unlisted(self, images: ImageSet) -> list[Chosen]:
        """The classes of train that are not listed for validation or test."""
        from regard.data.images.episodes import listed_classes

        lists = [(self.valid, self.valid_classes), (self.test, self.test_classes)]
        names = [listed for file, listed in lists if listed and file in ("", self.train)]
        listed = {one.label for name in names for one in listed_classes(find_list(name), images.classes)}
        return [one for one in _every(images) if one.label not in listed]

    def _part(self, chosen: list[Chosen], split: str, ways: int) -> list[Chosen]:
        """All rotations of a class are on the same side. Where `valid_fraction` is too little for an episode, more
        classes are held out, if enough remain for training."""
        from regard.data.images.episodes import with_rotations

        turned = with_rotations(chosen) if self.rotations else chosen
        labels, counts = np.unique([one.label for one in turned], return_counts=True)
        order = np.random.default_rng(0).permutation(len(labels))
        count, sums = max(1, int(len(labels) * self.valid_fraction)), counts[order].cumsum()
        enough = max(count, 1 + int(np.searchsorted(sums, ways)))
        if enough < len(labels) and sums[-1] - sums[enough - 1] >= ways:
            count = enough
        held = set(labels[order[:count]].tolist())
        return [one for one in chosen if (one.label in held) == (split != "train")]

    def _open(self, name: str) -> ImageSet:
        from regard.data.images.labelled_images import open_image_set

        return open_image_set(name, image=self.image, label=self.label)


def find_list(name: str) -> Path:
    """A list of classes, found here or under $REGARD_DATA."""
    try:
        return find_data(name)
    except FileNotFoundError as error:
        raise DataError(str(error)) from None


def _every(images: ImageSet) -> list[Chosen]:
    from regard.data.images.episodes import Chosen

    return [Chosen(label) for label in range(len(images.classes))]
