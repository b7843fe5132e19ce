"""Where the classes of episodes come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.base.fields import file_names, setting
from regard.base.files import find_file
from regard.learn.progress import say
from regard.tasks.shared.image_settings import ImageSplits

if TYPE_CHECKING:
    from regard.data.images.episodes import Chosen
    from regard.data.images.labelled_images import ImageSet


FEWEST = 2  # classes of an episode


@dataclass(frozen=True)
class EpisodeSettings(ImageSplits["ImageSet"]):
    """A recipe's [data] (`labelled_images.py` describes the forms of files). How many classes and examples an
    episode has is the model's: model.ways and model.shots."""

    form = "images: a folder with a folder for each class, an .npz or a .parquet file, or tars"
    sets = ("glyphs",)

    train_count: int = setting(400, at_least=1)  # training classes of a generated set
    valid_count: int = setting(50, at_least=1)  # validation classes of a generated set
    test_count: int = setting(100, at_least=1)  # test classes of a generated set
    # a file with the name of one training class a line; without it, those that no other list has
    train_classes: str = ""
    valid_classes: str = ""  # the same for validation
    test_classes: str = ""  # the same for the test
    image: str = ""  # the column or array that holds the images
    label: str = ""  # the column or array that holds their classes
    rotations: bool = False  # each class turned by 90, 180 and 270 degrees is a class too
    # share of the classes that is held out; model.ways of them at least, where there are twice as many
    valid_fraction: float = setting(0.1, above=0, below=1)
    batch_size: int = setting(32, at_least=1)  # episodes of a batch
    # images to be told of a training episode, about the same examples; in the paper one
    queries: int = setting(1, at_least=1)
    distort: float = setting(0.0, at_least=0, at_most=1)  # how far training images are turned, scaled and shifted
    invert: float = setting(0.0, at_least=0, at_most=1)  # share of training images that become their negative
    # pixels by which strokes of training images grow at most, on each side; bright strokes on a dark ground
    thicken: int = setting(0, at_least=0, at_most=16)
    coarsen: float = setting(0.0, at_least=0, at_most=1)  # share of training images that become coarse
    # steps in which the classes of an episode rise from 2; 0: all at once
    curriculum_steps: int = setting(0, at_least=0)
    valid_episodes: int = setting(1000, at_least=1)  # episodes of a validation
    test_episodes: int = setting(10000, at_least=1)  # episodes of the test

    def __post_init__(self) -> None:
        super().__post_init__()
        named = [name for name in ("train_classes", "valid_classes", "test_classes") if getattr(self, name)]
        if self.made and named:
            raise ValueError(f"data.{named[0]} is for images in files, not for a generated set")

    @property
    def holds_out(self) -> bool:
        return super().holds_out and not self.valid_classes

    @property
    def has_own_test(self) -> bool:
        return super().has_own_test or bool(self.test_classes)

    @property
    def test_name(self) -> str:
        if self.made:
            return f"episodes from {self.test_count:,} classes of {self.made}"
        return super().test_name + (f" ({self.test_classes})" if self.test_classes else "")

    def changes_to_test(self, file: str) -> dict[str, object]:
        """The lists of classes are those of the recipe's own files."""
        return {**super().changes_to_test(file), "test_classes": ""}

    def named(self, split: str) -> tuple[str, ...]:
        """All lists of classes too: a class of the test list is none of training."""
        lists = (self.train_classes, self.valid_classes, self.test_classes)
        return (*super().named(split), *file_names(lists))

    def make(self, split: str) -> ImageSet:
        from regard.data.made.glyphs import glyphs

        return glyphs(split, self.count_of(split))

    def open(self, split: str) -> ImageSet:
        from regard.data.images.labelled_images import open_image_set

        return open_image_set(getattr(self, split) or self.train, image=self.image, label=self.label, tell=say)

    def classes(self, split: str, ways: int = 1) -> tuple[ImageSet, list[Chosen]]:
        """The images of train, valid or test, and the classes among them that episodes are drawn from, of `ways`
        classes each."""
        from regard.data.images.episodes import listed_classes, with_rotations

        images, source = self.whole(split), self.source_of(split)
        if self.skip_broken:
            images = images.taking(self.readable(source, images, np.arange(len(images))))
        if names := getattr(self, f"{source}_classes"):
            chosen = listed_classes(find_file(names), images.classes)
        else:
            chosen = _every(images) if self.made or source != "train" else self._unlisted(images)
        if self.is_part(split):
            chosen = self._part(chosen, split, ways)
        return images, with_rotations(chosen) if self.rotations else chosen

    def _unlisted(self, images: ImageSet) -> list[Chosen]:
        """The classes of train that are not listed for validation or test."""
        from regard.data.images.episodes import listed_classes

        lists = [(self.valid, self.valid_classes), (self.test, self.test_classes)]
        names = [listed for file, listed in lists if listed and file in ("", self.train)]
        labels = {each.label for name in names for each in listed_classes(find_file(name), images.classes)}
        return [each for each in _every(images) if each.label not in labels]

    def _part(self, chosen: list[Chosen], split: str, ways: int) -> list[Chosen]:
        """All rotations of a class are on the same side. Where `valid_fraction` is too little for an episode, more
        classes are held out; where training and validation cannot both have `ways` classes, a third of them, and
        two at least: such episodes have fewer ways."""
        from regard.data.images.episodes import with_rotations

        turned = with_rotations(chosen) if self.rotations else chosen
        labels, counts = np.unique([each.label for each in turned], return_counts=True)
        order = np.random.default_rng(0).permutation(len(labels))
        sums = counts[order].cumsum()

        def least(classes: int) -> int:
            """How many labels have so many classes together, with their rotations."""
            return 1 + int(np.searchsorted(sums, classes))

        count = max(1, int(len(labels) * self.valid_fraction), least(ways))
        if count >= len(labels) or sums[-1] - sums[count - 1] < ways:
            count = least(max(FEWEST, int(sums[-1]) // 3))
        held_out = set(labels[order[:count]].tolist())
        return [each for each in chosen if (each.label in held_out) == (split != "train")]


def _every(images: ImageSet) -> list[Chosen]:
    from regard.data.images.episodes import Chosen

    return [Chosen(label) for label in range(len(images.classes))]
