"""`model.size = "auto"`: a model's size by how much there is to learn from.

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
    size = [name for name, least in model.AUTO_SIZES.items() if least <= amount.count][-1]
    sides = getattr(model, "AUTO_IMAGES", {})
    numbers = dict(model.SIZES[size])
    if sides:
        numbers |= sides[next((side for side in sides if amount.side <= side), max(sides))]
    numbers = {name: value for name, value in numbers.items() if name in job.sized}
    of_images = f" of {amount.side} pixels" if sides else ""
    shown = ", ".join(f"{name} {value}" for name, value in numbers.items() if isinstance(value, int))
    say(
        f"model.size is {size} for {amount.count:,} {amount.unit}{of_images}{f' ({shown})' if shown else ''}; "
        f"sizes to set: {', '.join(model.SIZES)}"
    )
    return _with(job, numbers)


def _with(job: AnyJob, numbers: dict[str, Any]) -> AnyJob:
    try:
        return replace(job, config=replace(job.config, **numbers))
    except ValueError as error:
        raise RecipeError(f"[model]: {error}; set them all, or leave them to model.size=auto") from None
