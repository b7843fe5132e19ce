"""From classes of images to episodes."""

from __future__ import annotations

from pathlib import Path

import torch

from regard.base.device import choose_device
from regard.base.files import find_file
from regard.base.memory_rows import MemoryRows
from regard.data.artifacts import Artifacts
from regard.data.images.episodes import DrawnEpisodes, EpisodeData, build_pool, fixed_episodes, open_runs
from regard.errors import DataError
from regard.learn.progress import say
from regard.models.protocols import Model
from regard.tasks.core.desk import Prepared
from regard.tasks.core.settings import Job
from regard.tasks.fewshot.run import FewShot
from regard.tasks.fewshot.settings import FEWEST, EpisodeSettings
from regard.tasks.shared.image_settings import choose_pixels


def survey(job: Job[EpisodeSettings], start: Artifacts | None) -> Artifacts:
    """How images become numbers; classes are learned in each episode anew."""
    return Artifacts(pixels=choose_pixels(job.data, job.config, start))


def prepare(
    job: Job[EpisodeSettings], model: Model, artifacts: Artifacts, out: Path
) -> Prepared[FewShot, EpisodeData]:
    assert artifacts.pixels is not None
    run, settings = FewShot(model, artifacts.pixels), job.data
    device = choose_device(job.train.device)
    data = drawn(settings, "train", run, seed=job.train.seed, device=device)
    valid = drawn(settings, "valid", run, count=settings.valid_episodes, device=device)
    return Prepared(data, run, valid, f"{len(data.counts):,} classes, {data.ways}-way {data.shots}-shot episodes")


def test_data(settings: EpisodeSettings, run: FewShot) -> EpisodeData:
    """Episodes drawn from the test classes, or those that a file gives."""
    named = settings.test and not isinstance(settings.test, MemoryRows)
    runs = open_runs(find_file(settings.test)) if named else None
    if runs is None:
        return drawn(settings, "test", run, count=settings.test_episodes, device=run.device)
    config = run.model.config
    if runs.support.shape[1] > config.ways:
        raise DataError(
            f"{settings.test} asks for one of {runs.support.shape[1]} classes, and this model tells {config.ways} "
            "apart; train one with a larger model.ways"
        )
    return fixed_episodes(
        runs, size=config.size, pixels=run.pixels, batch_size=settings.batch_size, device=run.device
    )


def drawn(
    settings: EpisodeSettings,
    split: str,
    run: FewShot,
    *,
    seed: int = 0,
    count: int | None = None,
    device: torch.device | str,
) -> DrawnEpisodes:
    """Episodes of the model's shots and ways, or of fewer ways where there are no more classes. `count`: how many;
    None: new episodes in every epoch."""
    config, (images, chosen) = run.model.config, settings.classes(split, run.model.config.ways)
    ways = min(config.ways, len(chosen))
    if ways < FEWEST:
        apart = ", as some are held out for validation" if settings.holds_out else ""
        raise DataError(
            f"{settings.name}: an episode has {FEWEST} classes at least, and {len(chosen)} of "
            f"{len(images.classes)} {'is' if len(chosen) == 1 else 'are'} there for {split}{apart}; "
            "give images of more classes"
        )
    if ways < config.ways:
        say(
            f"{settings.name} has {len(images.classes)} classes, {len(chosen)} of them for {split}: its episodes "
            f"are {ways}-way and not {config.ways}-way (model.ways)"
        )
    pool = build_pool(images, chosen, config.size, run.pixels)
    if pool.counts.min() <= config.shots:
        least = int(pool.counts.argmin())
        raise DataError(
            f"{settings.name}: class {images.classes[chosen[least].label]!r:.80} has {pool.counts[least]} images; "
            f"an episode takes {config.shots} as examples and one as the query: add some, or set model.shots"
        )
    return DrawnEpisodes(
        pool,
        ways=ways,
        shots=config.shots,
        pixels=run.pixels,
        batch_size=settings.batch_size,
        seed=seed,
        count=count,
        queries=settings.queries if count is None else 1,
        distort=settings.distort if count is None else 0.0,
        thicken=settings.thicken if count is None else 0,
        coarsen=settings.coarsen if count is None else 0.0,
        invert=settings.invert if count is None else 0.0,
        curriculum_steps=settings.curriculum_steps if count is None else 0,
        device=device,
    )
