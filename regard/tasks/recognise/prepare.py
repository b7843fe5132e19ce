"""From labelled images to a classifier's batches."""

from __future__ import annotations

from pathlib import Path

import torch

from regard.base.device import choose_device
from regard.data.artifacts import Artifacts
from regard.data.images.augment import Augment
from regard.data.images.image_batches import ImageData
from regard.data.images.images import check_channels
from regard.data.images.labelled_images import need_classes
from regard.errors import RunError
from regard.models.protocols import Model
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import Job
from regard.tasks.recognise.run import Recogniser
from regard.tasks.recognise.settings import ImageSettings
from regard.tasks.shared.image_settings import choose_pixels


def survey(job: Job[ImageSettings], start: Artifacts | None) -> Artifacts:
    """The names of the classes, and how images become numbers."""
    settings, config = job.data, job.config
    pixels = choose_pixels(settings, config, start)
    need_classes(settings.all, settings.name)
    labels = settings.all.classes
    if start and set(start.labels) == set(labels):
        labels = start.labels  # in the order of the head that is there
    return Artifacts(labels=labels, pixels=pixels)


def prepare(
    job: Job[ImageSettings], model: Model, artifacts: Artifacts, out: Path
) -> Prepared[Recogniser, ImageData]:
    settings = job.data
    assert artifacts.pixels is not None
    run = Recogniser(model, artifacts.pixels)
    device = choose_device(job.train.device)
    seed, augment = job.train.seed, settings.augment
    data = build_data(settings, "train", run, seed=seed, augment=augment, device=device)
    valid = build_data(settings, "valid", run, device=device)
    return Prepared(data, run, valid, f"{len(data):,} images, {len(artifacts.labels)} classes")


def build_data(
    settings: ImageSettings,
    split: str,
    run: Recogniser,
    *,
    seed: int = 0,
    augment: Augment | None = None,
    device: torch.device | str = "cpu",
) -> ImageData:
    """Classes are those of the model, by name. Images are augmented on the model's device, so that it need not
    wait."""
    config = run.model.config
    check_channels(config.channels)
    if not config.labels:
        raise RunError("this model has no head and knows no classes, so there is nothing to evaluate")
    images, rows = settings.images(split)
    return ImageData(
        images.relabelled(config.labels),
        rows,
        image_size=config.size,
        pixels=run.pixels,
        batch_size=settings.batch_size,
        seed=seed,
        augment=augment,
        device=device,
    )
