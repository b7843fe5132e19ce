"""From a recipe to a run: artifacts, data, the training, and what is left in the folder."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.attention.trace import sites_of
from regard.base import processes
from regard.base.device import choose_device
from regard.base.files import write_file
from regard.base.memory import explain_memory
from regard.base.memory_rows import AGAIN, NAME
from regard.data.artifacts import Artifacts
from regard.errors import BadInput, Interrupted, RecipeError
from regard.learn import auto
from regard.learn.checkpoint import checkpoints, chosen_before
from regard.learn.lock import locked
from regard.learn.loggers.logger import check_there
from regard.learn.loggers.loggers import Loggers
from regard.learn.loop import Report, take_steps
from regard.learn.ppo import passes
from regard.learn.progress import Progress, say
from regard.learn.restart import goes_on
from regard.learn.settings import AUTO, LAST, Training
from regard.learn.stepper import Stepper
from regard.learn.validation import Validation
from regard.models import MODELS
from regard.models.protocols import Model
from regard.runs import folder as runs
from regard.runs.folder import find
from regard.runs.replacing import clear_run
from regard.show import loss_curve
from regard.tasks.core.before_training import keep_recipe, look_around, take_weights, warn_of_frozen
from regard.tasks.core.desk import Prepared
from regard.tasks.core.given_data import Given, data_of
from regard.tasks.core.held_out import pictures_of
from regard.tasks.core.recipe import chosen_by, read
from regard.tasks.core.recipe_files import by_key, logged
from regard.tasks.core.run import Run
from regard.tasks.core.same_data import record
from regard.tasks.core.settings import BLOCKS, AnyJob
from regard.tasks.core.simple_ways import tell_if_below
from regard.tasks.core.table import TASKS, AnyTask, load

DRAWN = {"step", "loss", "valid_loss"}  # of a row of the log, in loss.svg
SIZES = ("batch_tokens", "batch_size", "memory_mib", "train_count", "valid_count")  # what takes memory


class Trained(NamedTuple):
    """A training that came to its end."""

    folder: Path
    report: Report
    device: str


def train_recipe(
    recipe: str | Path | Mapping[str, Any],
    out: str | Path | None,
    changes: Iterable[str] | Mapping[str, Any],
    *,
    command: str,
    resume: bool = False,
    overwrite: bool = False,
    accept_changed_data: bool = False,
    start: str | Path | None = None,
    data: Given | None = None,
) -> Trained:
    """What `regard train` and `regard.train` do. `start`: a run's folder or name. `data`: in place of the recipe's
    train, valid and test."""
    begin = None if start is None else find(start)
    out = None if out is None else Path(out)
    job, text = read(recipe, changes, begin, data)
    if out is None and isinstance(recipe, Mapping):
        raise RecipeError("a recipe without a name needs a folder for its run: out=...")
    folder = out or Path("runs", Path(str(recipe)).stem)
    if processes.is_first():
        keep_recipe(recipe, folder, text)
    report = train(
        job,
        folder,
        recipe=text,
        command=command,
        resume=resume,
        overwrite=overwrite,
        accept_changed_data=accept_changed_data,
        start=begin,
    )
    best = "  ".join(f"{name} {value:.4f}" for name, value in (report.best or {}).items())
    kept = "weights of" if job.train.best_by == LAST else "best at"
    say(f"{folder}: {kept} step {report.best_step} of {report.step}  {best}")
    return Trained(folder, report, job.train.device)


def train_and_open(
    recipe: str | Path | Mapping[str, Any],
    out: str | Path | None,
    changes: Mapping[str, Any],
    *,
    resume: bool = False,
    overwrite: bool = False,
    accept_changed_data: bool = False,
    start: str | Path | None = None,
    data: Mapping[str, Any] | None = None,
) -> Run:
    """`regard.train`: the run, opened on the device it was trained on."""
    given = None if data is None else data_of(data)
    # All of a dict of sections, and what was changed, is in the run's own recipe.toml.
    keywords = {"set": dict(changes), "start": start and str(start)} if not isinstance(recipe, Mapping) else {}
    name = "recipe.toml" if isinstance(recipe, Mapping) else str(recipe)
    words = [repr(name), *(f"{key}={value!r}" for key, value in keywords.items() if value)]
    command = f"regard.train({', '.join([*words, *(['data=...'] if given else [])])})"
    trained = train_recipe(
        recipe,
        out,
        changes,
        command=command,
        resume=resume,
        overwrite=overwrite,
        accept_changed_data=accept_changed_data,
        start=start,
        data=given,
    )
    run = load(trained.folder, trained.device)
    run.report = trained.report
    if given and run.folder and run.folder.recipe:
        run.folder.recipe["data"] |= given  # recipe.toml has only the name of rows; `run.evaluate()` has them
    return run


def train(
    job: AnyJob,
    out: Path,
    *,
    recipe: str,
    command: str,
    resume: bool = False,
    overwrite: bool = False,
    accept_changed_data: bool = False,
    start: Path | None = None,
) -> Report:
    """Train and leave a run in `out`: the best weights, the log, the loss curve, a model card.

    start: a run whose weights and vocabulary to begin with. overwrite: a run in `out` is replaced once the data is
    read and the training begins. RunError, with nothing touched, if another process is training in `out`."""
    if goes_on(out):
        say("Started again by torchrun: going on from the last checkpoint")
        resume, overwrite = True, False
    if resume and overwrite:
        raise BadInput("either go on with the run in the folder (resume) or replace it (overwrite), not both")
    lower = [f"data.{name}" for name in SIZES if name in job.data.__dataclass_fields__]
    what = f"training {job.model} on {job.data.name}"
    lock = locked(out) if processes.is_first() else nullcontext()
    with lock, explain_memory(what, " or ".join([*lower, "the sizes of [model]"])):
        try:
            return _train(job, out, recipe, command, resume, overwrite, accept_changed_data, start)
        except (KeyboardInterrupt, SystemExit):
            if processes.is_first() and not checkpoints(out):
                say(f"{out} holds no step yet: nothing was trained that could be lost")
            raise


def _train(
    job: AnyJob,
    out: Path,
    recipe: str,
    command: str,
    resume: bool,
    overwrite: bool,
    accept_changed_data: bool,
    start: Path | None,
) -> Report:
    device = choose_device(job.train.device, job.train.precision)  # a missing device is refused before any work
    check_there(job.train.loggers)
    if job.train.capture is True and device.type == "cuda" and processes.launched():
        say("Steps are not captured under torchrun (train.capture)")
    task = TASKS[job.task]
    found = processes.of_first(
        lambda: look_around(job, task, out, recipe, resume, overwrite, accept_changed_data, start)
    )
    begun, artifacts = bool(found.newest), found.artifacts
    job = replace(job, config=found.config)
    model = build_model(job, artifacts)
    asked = job.train
    job = replace(job, train=settle(job, task, model, device, out if begun else None))
    if processes.is_first():  # the others get its weights
        if start and begun:
            say(f"{out} goes on with its own weights; {start} is only for the beginning")
        elif start:
            take_weights(model, start)
        elif not begun:
            warn_of_frozen(model)
        if not begun:
            task.desk.initialise(job, model, artifacts)
    try:
        prepared = task.desk.prepare(job, model, artifacts, out)
        if processes.is_first():
            if overwrite:
                clear_run(out)
            if begun:
                write_file(out / runs.RECIPE, recipe.encode())
            else:
                runs.begin(out, model, artifacts, recipe, job.decode)
            record(out, found.digests)
        report = run_loop(job, task, model, prepared, out, resume, found.changed, asked, recipe)
    finally:
        if processes.is_first():
            shutil.rmtree(out / BLOCKS, ignore_errors=True)  # made again if the training goes on
    processes.of_first(lambda: finish_folder(job, task, out, report, model, command, prepared, found.newest))
    return report


def settle(job: AnyJob, task: AnyTask, model: Model, device: torch.device, begun: Path | None) -> Training:
    """The settings with what auto stands for: the shapes of batches depend on it. `begun`: the folder of a training
    that goes on, with what it was begun with."""
    settings = job.train
    if begun:
        before = processes.of_first(lambda: [chosen_before(begun) or {}])
        settings = auto.kept(settings, before[0], device)
    capturable = "capture" in task.desk.trained_with(job.config)
    return auto.settled(settings, model, device, several=processes.launched(), capturable=capturable)


def finish_folder(
    job: AnyJob,
    task: AnyTask,
    out: Path,
    report: Report,
    model: Model,
    command: str,
    prepared: Prepared[Any, Any],
    newest: list[Path],
) -> None:
    """The loss curve and README.md."""
    if (
        checkpoints(out)[:1] == newest and (out / "README.md").exists()
    ):  # else it was trained, or killed just before
        return
    log = out / "log.jsonl"
    rows = []
    if log.exists():
        with log.open() as file:  # a long training's has gigabytes of memory in what is not drawn
            rows = [{key: row[key] for key in row.keys() & DRAWN} for row in map(json.loads, file)]
    if rows:  # else someone deleted them
        loss_curve(rows).save(out / "loss.svg")
    write_file(out / "README.md", readme(job, task, report, model, command, prepared.amount).encode())
    tell_if_below(job, task, prepared, report)


def run_loop(
    job: AnyJob,
    task: AnyTask,
    model: Model,
    prepared: Prepared[Any, Any],
    out: Path,
    resume: bool,
    changed: Sequence[str],
    asked: Training,
    recipe: str,
) -> Report:
    """The training loop, with validation by the task's own evaluation."""
    progress = Progress(unit=task.unit)

    def validate(_: Model) -> dict[str, float]:
        valid, tick = prepared.valid, progress.validating
        metrics = task.desk.evaluate(prepared.run, valid, only=task.validated, tick=tick).metrics
        return {logged(name): value for name, value in metrics.items()}

    better, *ties = ((logged(name), task.metrics[name].better) for name in chosen_by(job.train.best_by, task))
    perfect = {logged(name): value for name in task.chosen_by if (value := task.metrics[name].perfect) is not None}
    validation = Validation(
        model,
        validate,
        lambda model, _: runs.save_weights(out, model),
        better,
        job.train,
        ties=ties,
        perfect=perfect,
        may_lack=job.train.best_by in (AUTO, LAST),
        divided=True,
    )
    stepper = Stepper(model, job.train, passes=passes(model, job.train), asked=asked)
    draw = None if stepper.team.sharded else partial(pictures_of, task, prepared)  # no process has all weights
    loggers = Loggers(job.train.loggers, by_key(tomllib.loads(recipe)), draw)
    try:
        return take_steps(stepper, prepared.data, validation, out, resume, progress, changed, loggers)
    except Interrupted as stop:
        if stop.best:
            raise
        whole = stepper.whole_model()
        if not processes.is_first():
            raise
        try:  # so that the run can be opened; the first validation replaces these weights
            runs.save_weights(out, whole)
        except OSError:  # the disk is full; the checkpoint is there
            raise stop from None
        said = f"{stop} No validation was finished yet: {out} opens with the weights of this step."
        raise Interrupted(said, stop.signal, best=False) from None


def build_model(job: AnyJob, artifacts: Artifacts) -> Model:
    """A new model, its initial weights fixed by the seed."""
    torch.manual_seed(job.train.seed)
    return MODELS[job.model](replace(job.config, **artifacts.settings()))


def readme(job: AnyJob, task: AnyTask, report: Report, model: Model, command: str, amount: str) -> str:
    """README.md of a run."""
    made = getattr(job.data, "made", "")
    data = f"generated set `{made}`" if made else f"`{job.data.name}`"
    best = ", ".join(f"{name} {value:.4f}" for name, value in sorted((report.best or {}).items()))
    count = sum(parameter.numel() for parameter in model.parameters())
    show = f" --show {task.picture}" if sites_of(model) else ""
    memory = f"\nIn this run {AGAIN}; data.json has their sha256.\n" if job.data.name == NAME else ""
    return f"""# {job.model} on {job.data.name}

{MODELS[job.model].paper}.

| | |
|---|---|
| data | {data}, {amount} |
| licence of the data | {"made by regard, Apache-2.0" if made else "that of your data"} |
| parameters | {count:,} |
| steps | {report.step:,}, best at {report.best_step:,}, seed {job.train.seed} |
| on the validation data | {best} |
| command | `{command}` |
{memory}
Use it: `regard {job.task} DIR {task.inputs.example}{show}`, where DIR is this folder.
"""
