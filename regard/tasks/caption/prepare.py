"""From images with captions to a captioner's batches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch

from regard.base.device import choose_device
from regard.data.artifacts import Artifacts
from regard.data.images.augment import Augment
from regard.data.images.caption_batches import CaptionData
from regard.data.images.captions import CaptionSet
from regard.decode.settings import Decoding
from regard.learn.progress import say
from regard.models.protocols import Model
from regard.tasks.caption.run import Captioner
from regard.tasks.caption.settings import CaptionSettings
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import Job
from regard.tasks.shared.image_settings import choose_pixels


@dataclass(frozen=True)
class TestCaptions:
    """Captions to evaluate on: as ids for the loss, and the subset whose images are captioned."""

    ids: CaptionData
    subset: CaptionSet


def survey(job: Job[CaptionSettings], start: Artifacts | None) -> Artifacts:
    """How images become numbers, and the tokenizer of the captions; a run that training begins with has the first
    and, if it is a captioner, both."""
    pixels = choose_pixels(job.data, job.config, start)
    if start and start.tokenizer is not None:
        return Artifacts(start.tokenizer, pixels=pixels)
    texts = chain.from_iterable(job.data.captions("train").captions)
    return Artifacts(job.tokens.learn(texts, job.numbering), pixels=pixels)


def prepare(
    job: Job[CaptionSettings], model: Model, artifacts: Artifacts, out: Path
) -> Prepared[Captioner, TestCaptions]:
    settings = job.data
    assert artifacts.pixels is not None
    decode = Decoding(max_length=job.decode.max_length)  # validated greedily, which takes the least time
    run = Captioner(model, artifacts.text, artifacts.pixels, decode)
    device = choose_device(job.train.device)
    train, valid = settings.captions("train"), settings.captions("valid")
    data = build_data(settings, train, run, seed=job.train.seed, augment=settings.augment, device=device)
    if data.cut:
        say(f"{data.cut:,} of {len(data):,} captions were cut after {settings.truncate} tokens (data.truncate)")
    test = TestCaptions(
        build_data(settings, valid, run, device=device),
        valid.subset(range(min(len(valid), settings.eval_images))),
    )
    return Prepared(data, run, test, f"{len(train):,} images, {len(data):,} captions")


def test_captions(settings: CaptionSettings, run: Captioner) -> TestCaptions:
    captions = settings.captions("test")
    return TestCaptions(build_data(settings, captions, run, device=run.device), captions)


def build_data(
    settings: CaptionSettings,
    captions: CaptionSet,
    run: Captioner,
    *,
    seed: int = 0,
    augment: Augment | None = None,
    device: torch.device | str = "cpu",
) -> CaptionData:
    """Images are augmented on the model's device, so that it need not wait."""
    return CaptionData(
        captions,
        run.tokenizer,
        image_size=run.model.config.size,
        pixels=run.pixels,
        batch_size=settings.batch_size,
        max_length=settings.truncate,
        seed=seed,
        augment=augment,
        device=device,
    )
