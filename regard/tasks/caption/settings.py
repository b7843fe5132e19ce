"""Where images with captions come from, and how they are varied in training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.base.fields import file_names, setting
from regard.learn.progress import say
from regard.tasks.shared.image_settings import AugmentedSplits

if TYPE_CHECKING:
    from regard.data.images.captions import CaptionSet


@dataclass(frozen=True)
class CaptionSettings(AugmentedSplits["CaptionSet"]):
    """A recipe's [data] (`data.images.captions` describes the forms of files)."""

    form = "a file of captions: TSV, CSV or JSONL with the columns image and caption, COCO's JSON, or tars"
    sets = ("scenes",)

    images: str = ""  # the folder or .zip that the images are in; without one, the folder of the captions
    image: str = ""  # the column with the names of the images
    caption: str = ""  # the column with their captions
    # where one file has the captions of all images: a file with the name of one training image a line
    train_names: str = ""
    valid_names: str = ""  # the same for validation
    test_names: str = ""  # the same for the test
    valid_fraction: float = setting(0.05, above=0, below=1)
    eval_images: int = setting(500, at_least=1)  # validation images that are also captioned at each validation
    batch_size: int = setting(64, at_least=1)  # captions of a batch
    truncate: int = setting(50, at_least=1)  # most tokens of a caption in training, without the end token
    # augmentation: mirror left and right, one time in two; what is left of something would be right of it
    flip: bool = False

    def make(self, split: str) -> CaptionSet:
        from regard.data.made.scenes import scenes

        return scenes(split, self.count_of(split))

    def open(self, split: str) -> CaptionSet:
        from regard.data.images.captions import open_caption_set

        file, names = getattr(self, split) or self.train, getattr(self, f"{split}_names")
        return open_caption_set(
            file, images=self.images, image=self.image, caption=self.caption, only=names, tell=say
        )

    def captions(self, split: str) -> CaptionSet:
        """The images of train, valid or test with their captions."""
        captions = self.whole(split)
        rows = self.readable(split, captions.images, self.rows_of(split, len(captions)))
        return captions.subset(rows) if len(rows) < len(captions) else captions

    @property
    def holds_out(self) -> bool:
        return super().holds_out and not self.valid_names

    @property
    def has_own_test(self) -> bool:
        return super().has_own_test or bool(self.test_names)

    def files_of(self, split: str) -> tuple[str, ...]:
        """The captions, and the list of images, if there is one."""
        names = getattr(self, f"{self.source_of(split)}_names")
        return (*super().files_of(split), names) if names else super().files_of(split)

    def named(self, split: str) -> tuple[str, ...]:
        return (*super().named(split), *file_names(self.images))

    def files(self) -> list[Path]:
        """Images that are named nowhere else are beside their captions."""
        files = super().files()
        return files if self.images else [*files, *(file.parent for file in files if file.is_file())]

    def changes_to_test(self, file: str) -> dict[str, object]:
        """Other captions have other images."""
        return {**super().changes_to_test(file), "test_names": "", "images": ""}
