"""Before a training begins or goes on: what is in its folder, what its data must be like, and the weights it starts
from."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from regard.base.digests import Digest, digests
from regard.base.overwriting import identity, refuse_overwriting
from regard.base.tensors import fill, named_tensors
from regard.data.artifacts import Artifacts
from regard.errors import NoTokenizer, RecipeError, RunError
from regard.learn.checkpoint import checkpoints, refuse_files
from regard.learn.loop import GO_ON
from regard.learn.progress import say
from regard.learn.settings import Training
from regard.models import name_of
from regard.models.protocols import Adopter, Model, ModelConfig
from regard.runs import folder as runs
from regard.runs.folder import Folder, own_files
from regard.runs.replacing import check_replaceable
from regard.runs.weights import has_weights
from regard.tasks.core.model_size import fit_to_data
from regard.tasks.core.recipe_files import by_key
from regard.tasks.core.same_data import check_same
from regard.tasks.core.settings import AnyJob
from regard.tasks.core.table import TASKS, AnyTask, task_for

HARDWARE = ("device", "compile", "capture", "shard", "recompute", "async_save")
# Settings that may change when a training goes on.
FREE = (
    *(f"train.{name}" for name in ("steps", "eval_every", "patience", *HARDWARE)),
    "train.log",
    "data.skip_broken",  # a broken image may have stopped the training
)


class Found(NamedTuple):
    """What there is before a training begins or goes on."""

    newest: list[Path]  # the newest checkpoint; without one, what is in the folder is begun anew
    config: ModelConfig
    artifacts: Artifacts
    digests: Mapping[str, Digest]  # of the data
    changed: list[str]  # how the data differs from what the training was begun with


def look_around(
    job: AnyJob,
    task: AnyTask,
    out: Path,
    recipe: str,
    resume: bool,
    overwrite: bool,
    accept_changed_data: bool,
    start: Path | None,
) -> Found:
    """Refuses what cannot be trained in this folder; reads the data once where the model must know it."""
    refuse_files(out)
    newest = [] if overwrite else checkpoints(out)[:1]
    if overwrite:
        check_replaceable(out)
    else:
        check_out(out, bool(newest), resume)
    files = [file for file in job.data.files() if not file.is_dir()]
    refuse_overwriting([*files, *(own_files(start) if start and not newest else [])], own_files(out))
    if not newest:
        job = fit_to_data(job, task, None)
        artifacts = task.desk.survey(job, start_artifacts(job, start) if start else None)
        return Found(newest, job.config, artifacts, digests(job.data.sources()), [])
    check_recipe(out, recipe, job.train)
    now = digests(job.data.sources())
    changed = check_same(out, now, accept=accept_changed_data)
    job = fit_to_data(job, task, out)
    return Found(newest, job.config, read_artifacts(task, out), now, changed)


def check_out(out: Path, begun: bool, resume: bool) -> None:
    """Nothing that is in the folder may be lost."""
    if begun:
        if not resume:
            raise RunError(
                f"{out} already holds a training: {GO_ON}, or --overwrite (overwrite=True) to replace it"
            )
        return
    killed_early = resume and (out / "training").exists()
    if has_weights(out) and not killed_early:
        raise RunError(
            f"{out} already holds a model, whose weights would be lost; take another --out, or replace it with "
            "--overwrite (in Python: overwrite=True)"
        )
    own = [name for name in ("config.json", "README.md", "log.jsonl") if (out / name).exists()]
    if own and not (out / runs.RECIPE).exists():
        raise RunError(f"{out} is no run, and its {' and '.join(own)} would be lost; take another --out")


def keep_recipe(recipe: object, folder: Path, text: str) -> None:
    """The recipe in a run's folder is the run's own, without the comments of the recipe that was read."""
    own = folder / runs.RECIPE
    is_read = isinstance(recipe, str | Path) and own.is_file() and identity(own) == identity(Path(recipe))
    if is_read and not checkpoints(folder) and own.read_bytes() != text.encode():
        raise RecipeError(
            f"{own} is the recipe that is read, and would be overwritten by all its settings without its comments; "
            "move it out of that folder, or take another --out"
        )


def take_weights(model: Model, start: Path) -> None:
    """Begin with a run's weights. A model that may have another head than the run says which weights are new, and
    a model of another kind which were taken."""
    other = Folder(start).model()
    if not isinstance(model, Adopter):
        fill(model, named_tensors(other), source=start)
        return
    new = model.adopt(other)
    if type(other) is not type(model):
        counts = Counter[str]()
        for name, weight in model.named_parameters():
            counts[name.partition(".")[0]] += weight.numel() if name not in new else 0
        parts = ", ".join(f"{name} ({count:,} parameters)" for name, count in counts.items() if count)
        say(f"Taken from {start}, a {name_of(other)}: {parts}")
    if new:
        shown = ", ".join(new[:4]) + (f" and {len(new) - 4} more" if len(new) > 4 else "")
        say(f"Not taken from {start}, and so initialised anew: {shown}")


def warn_of_frozen(model: Model) -> None:
    """Weights that are not trained should come from somewhere."""
    frozen = [name for name, weight in model.named_parameters() if not weight.requires_grad]
    if frozen:
        parts = ", ".join(dict.fromkeys(name.partition(".")[0] for name in frozen))
        say(f"{parts}: these stay frozen at their random initial weights; start from a trained run: --from RUN")


def start_artifacts(job: AnyJob, start: Path) -> Artifacts:
    """What the run to begin with keeps beside the weights; if it is of another model, for its own task."""
    folder = Folder(start)
    return read_artifacts(TASKS[job.task] if folder.name == job.model else task_for(folder), start)


def read_artifacts(task: AnyTask, folder: Path) -> Artifacts:
    """What a run's folder keeps beside the weights, to train with."""
    artifacts = task.desk.artifacts(Folder(folder))
    try:
        if artifacts.tokenizer is not None:
            artifacts.own_tokenizer.special  # noqa: B018 - refuses a tokenizer that cannot be trained with
    except NoTokenizer:  # which names the folder
        raise
    except RunError as error:
        raise RunError(f"{folder}: {error}") from None
    return artifacts


def check_recipe(folder: Path, recipe: str, settings: Training) -> None:
    """A training goes on with the settings it was begun with, but for how long it goes on, how often it validates
    and on which device."""
    begun = Folder(folder).recipe
    if begun is None:
        raise RunError(f"{folder} has no {runs.RECIPE} that says how the training was begun")
    then, now = (by_key(table) for table in (begun, tomllib.loads(recipe)))
    for key in sorted(then.keys() ^ now.keys() | {key for key in then if then[key] != now.get(key)}):
        if key not in FREE:
            was, comes = (repr(part[key]) if key in part else "not set" for part in (then, now))
            raise RunError(
                f"{folder} was begun with other settings: {key} was {was}, now it is {comes}. "
                "Resume with the recipe, --from and --set it was begun with, or take another --out"
            )
    if then.get("train.eval_every") != now.get("train.eval_every"):
        used = {
            "patience": settings.patience > 0,
            "plateau_patience": settings.schedule == "plateau",
            "average_checkpoints": settings.average_checkpoints > 1,
        }
        counted = [name for name, on in used.items() if on]
        note = (
            f". Counted in validations, and so other numbers of steps now: {', '.join(counted)}" if counted else ""
        )
        say(f"Validating every {settings.eval_every:,} steps from here on{note}")
