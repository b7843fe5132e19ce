"""A model's size by the data: `model.size = "auto"` by how much there is to learn from, `model.image_size = 0` by
the size of the images.

A large model learns slowly from few examples and then overfits them. The model's own tables say which of its sizes
is for how many examples (`AUTO_SIZES`), and which settings are for images of which size (`AUTO_IMAGES`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.errors import RecipeError
from regard.learn.progress import say
from regard.models import MODELS
from regard.runs.folder import Folder
from regard.tasks.core.settings import AnyJob
from regard.tasks.core.table import AnyTask


def fit_to_data(job: AnyJob, task: AnyTask, begun: Path | None) -> AnyJob:
    """The job with the numbers that the recipe left to the data; those of `begun`, a training that goes on."""
    if not job.sized:
        return job
    if begun:
        config = Folder(begun).config
        return _with(job, {name: getattr(config, name) for name in job.sized})
    model: Any = MODELS[job.model]
    amount = task.desk.amount(job)
    by_amount, by_side = model.AUTO_SIZES, getattr(model, "AUTO_IMAGES", {})
    size = [name for name, least in by_amount.items() if least <= amount.count][-1]
    side = next((side for side in by_side if amount.side <= side), max(by_side, default=0))
    every = {**model.SIZES[size], **by_side.get(side, {})}
    numbers = {name: value for name, value in every.items() if name in job.sized}
    shown = ", ".join(f"{name} {value}" for name, value in numbers.items() if isinstance(value, int))
    of_images = f" of {amount.side} pixels" if amount.side else ""
    named = [f"model.size {size}"] if job.sized != tuple(by_side.get(side, {})) else []
    chosen = " ".join([*named, *([f"({shown})" if named else shown] if shown else [])])
    say(f"For {amount.count:,} {amount.unit}{of_images}: {chosen}, unless it is set")
    return _with(job, numbers)


def _with(job: AnyJob, numbers: dict[str, Any]) -> AnyJob:
    try:
        return replace(job, config=replace(job.config, **numbers))
    except ValueError as error:
        raise RecipeError(f"[model]: {error}; set all of these numbers, or none") from None
