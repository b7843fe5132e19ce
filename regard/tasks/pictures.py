"""From labelled pictures to a recogniser's batches, and how often it is right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.augment import Augment
from regard.data.image_batches import ImageData
from regard.data.images import Pictures, need_classes, open_images
from regard.data.pairs import DataError
from regard.data.shapes import shapes
from regard.learn.optimise import choose_device
from regard.tasks.classes import class_logits, validation
from regard.tasks.known import Known, Pixels
from regard.tasks.settings import Job
from regard.tasks.weights import RunError

BEST_BY = ("valid_loss", "accuracy")
UNIT = "pictures"
MADE: dict[str, Callable[..., Pictures]] = {"shapes": shapes}


@dataclass(frozen=True)
class Settings:
    """Where labelled pictures come from (`data.images` tells the forms), and how they are varied in training."""

    made: str = ""  # a generated set: shapes
    train_count: int = 20000  # how many of a generated set
    valid_count: int = 1000
    test_count: int = 1000
    train: str = ""  # a folder of folders, .npz or .parquet, looked for here and under $REGARD_DATA
    valid: str = ""  # without one, a share of train is held out
    test: str = ""  # without one, the validation pictures are taken
    image: str = ""  # the column or array that holds the pictures
    label: str = ""  # and that of their classes
    held_out: float = 0.1
    batch: int = 128  # pictures
    mean: tuple[float, ...] = ()  # of red, green and blue, and their deviations; without them those of the run
    std: tuple[float, ...] = ()  # that it begins with, else 0.5
    crop: int = 4  # pixels of border from which a picture of the right size is cut anew
    scale: float = 0.0  # above 0: cut a part of at least this share of the area, and resize it
    flip: bool = True  # left and right, one time in two
    operations: int = 0  # so many changes to each picture (RandAugment), of this strength (0 to 30)
    strength: float = 9.0
    erase: float = 0.0  # the share of pictures of which a rectangle is erased
    mixup: float = 0.0  # above 0: pictures are mixed by shares from Beta(mixup, mixup)
    cutmix: float = 0.0  # above 0: a part of a picture is another's, by shares from Beta(cutmix, cutmix)

    def __post_init__(self) -> None:
        if bool(self.made) == bool(self.train):
            raise ValueError(
                f"set either data.made to a generated set ({', '.join(MADE)}) or data.train to pictures: a folder "
                "with a folder for each class, an .npz or a .parquet file"
            )
        if self.made and self.made not in MADE:
            raise ValueError(f"unknown generated set {self.made!r}; there are {', '.join(MADE)}")
        for name in ("train_count", "valid_count", "test_count", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out must lie in (0, 1), got {self.held_out}")
        for name in ("mean", "std"):
            value = getattr(self, name)
            numbers = isinstance(value, list | tuple) and all(type(one) in (int, float) for one in value)
            if not numbers or len(value) not in (0, 3) or not all(map(math.isfinite, value)):
                raise ValueError(f"{name} must be three numbers, of red, green and blue, got {value!r}")
            if name == "std" and not all(one > 0 for one in value):
                raise ValueError(f"std must be above 0, got {value!r}")
            object.__setattr__(self, name, tuple(map(float, value)))
        self.augment  # noqa: B018 - checked now

    @property
    def augment(self) -> Augment:
        return Augment(**{one.name: getattr(self, one.name) for one in fields(Augment)})

    @property
    def name(self) -> str:
        return self.made or self.train.rstrip("/").rpartition("/")[2]

    @cached_property
    def all(self) -> Pictures:
        """The pictures of train, opened once."""
        if self.made:
            return MADE[self.made]("train", self.train_count)
        return open_images(self.train, image=self.image, label=self.label)

    def pictures(self, split: str) -> tuple[Pictures, np.ndarray]:
        """The pictures of train, valid or test: where they are, and which of them. A share of train is held out in
        an order that its number fixes."""
        if self.made:
            found = self.all if split == "train" else MADE[self.made](split, getattr(self, f"{split}_count"))
            return found, np.arange(len(found))
        named = {"train": self.train, "valid": self.valid, "test": self.test or self.valid}[split]
        found = (
            open_images(named, image=self.image, label=self.label) if named not in ("", self.train) else self.all
        )
        if self.valid or (named and split != "train"):
            return found, np.arange(len(found))
        order = np.random.default_rng(0).permutation(len(found))
        border = max(1, int(len(found) * self.held_out))
        rows = order[border:] if split == "train" else order[:border]
        if not len(rows):
            raise DataError(f"{self.name} has too few pictures to hold some out for validation; set data.valid")
        return found, np.sort(rows)


def survey(job: Job, start: Known | None) -> Known:
    """The names of the classes, and how pictures become numbers."""
    settings: Settings = job.data
    before = (start and start.pixels) or Pixels()
    pixels = Pixels(settings.mean or before.mean, settings.std or before.std, before.resample)
    need_classes(settings.all, settings.name)
    labels = settings.all.classes
    if start and set(start.labels) == set(labels):
        labels = start.labels  # in the order of the head that is there
    return Known(labels=labels, pixels=pixels)


def prepare(job: Job, model: Any, known: Known, out: Path) -> tuple[ImageData, Callable[[], dict[str, float]], str]:
    """The training data, how to validate, and how much there is to learn from, in words."""
    settings: Settings = job.data
    device = choose_device(job.train)
    data = build_data(settings, "train", model, known, seed=job.train.seed, augment=settings.augment, device=device)
    held = build_data(settings, "valid", model, known, device=device)

    def validate() -> dict[str, float]:
        return validation(*judge_pictures(model, held))

    return data, validate, f"{len(data):,} pictures, {len(known.labels)} classes"


def build_data(
    settings: Settings,
    split: str,
    model: Any,
    known: Known,
    *,
    seed: int = 0,
    augment: Augment | None = None,
    device: torch.device | str = "cpu",
) -> ImageData:
    """Classes are those of the model by name. Pictures are varied where the model is, so that it need not wait."""
    if model.config.channels != 3:
        raise RunError(
            f"pictures are read in red, green and blue: model.channels must be 3, got {model.config.channels}"
        )
    if not known.labels:
        raise RunError("this model has no head and knows no classes, so there is nothing to judge it by")
    pictures, rows = settings.pictures(split)
    assert known.pixels is not None
    return ImageData(
        pictures.relabelled(known.labels),
        rows,
        image=(model.config.image, model.config.width or model.config.image),
        mean=known.pixels.mean,
        std=known.pixels.std,
        resample=known.pixels.resample,
        batch=settings.batch,
        seed=seed,
        augment=augment,
        device=device,
    )


def judge_pictures(
    model: Any, data: ImageData, *, tick: Callable[[], None] = lambda: None
) -> tuple[Tensor, Tensor]:
    """The logits (N, classes) of every picture and their true classes (N,), in one order."""
    items = data.order(0)
    logits = class_logits(model, map(data.batch, items), lambda batch: model(batch.images), tick=tick)
    return logits, torch.from_numpy(data.pictures.labels[np.concatenate([item.taken for item in items])])
