"""From a recipe to a run: artifacts, data, the training, and what is left in the folder."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.attention.trace import sites_of
from regard.base import processes
from regard.base.device import choose_device
from regard.base.digests import Digest, digests
from regard.base.files import write_file
from regard.base.memory import explain_memory
from regard.base.memory_rows import AGAIN, NAME
from regard.base.overwriting import identity, refuse_overwriting
from regard.base.tensors import fill, named_tensors
from regard.data.artifacts import Artifacts
from regard.errors import BadInput, Interrupted, NoTokenizer, RecipeError, RunError
from regard.learn.checkpoint import checkpoints, refuse_files
from regard.learn.lock import locked
from regard.learn.loop import GO_ON, Report, Stepper, take_steps
from regard.learn.ppo import passes
from regard.learn.progress import Progress, say
from regard.learn.restart import goes_on
from regard.learn.settings import AUTO, Training
from regard.learn.validation import Validation
from regard.models import MODELS, name_of
from regard.models.protocols import Adopter, Model, ModelConfig
from regard.runs import folder as runs
from regard.runs.folder import Folder, find, own_files
from regard.runs.replacing import check_replaceable, clear_run
from regard.runs.weights import has_weights
from regard.show import loss_curve
from regard.tasks.core.desk import Prepared
from regard.tasks.core.given_data import Given, data_of
from regard.tasks.core.model_size import fit_to_data
from regard.tasks.core.recipe import chosen_by, logged, read
from regard.tasks.core.run import Run
from regard.tasks.core.same_data import check_same, record
from regard.tasks.core.settings import BLOCKS, AnyJob
from regard.tasks.core.simple_ways import tell_if_below
from regard.tasks.core.table import TASKS, AnyTask, load, task_for

HARDWARE = ("device", "compile", "capture", "shard", "recompute", "async_save")
# Settings that may change when a training goes on.
FREE = (
    *(f"train.{name}" for name in ("steps", "eval_every", "patience", *HARDWARE)),
    "data.skip_broken",  # a broken image may have stopped the training
)

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
    say(f"{folder}: best at step {report.best_step} of {report.step}  {best}")
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
    if job.train.capture and device.type == "cuda" and processes.launched():
        say("Steps are not captured under torchrun (train.capture)")
    task = TASKS[job.task]
    found = processes.of_first(
        lambda: look_around(job, task, out, recipe, resume, overwrite, accept_changed_data, start)
    )
    begun, artifacts = bool(found.newest), found.artifacts
    job = replace(job, config=found.config)
    model = build_model(job, artifacts)
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
        report = run_loop(job, task, model, prepared, out, resume, found.changed)
    finally:
        if processes.is_first():
            shutil.rmtree(out / BLOCKS, ignore_errors=True)  # made again if the training goes on
    processes.of_first(lambda: finish_folder(job, task, out, report, model, command, prepared, found.newest))
    return report


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
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
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
        may_lack=job.train.best_by == AUTO,
        divided=True,
    )
    stepper = Stepper(model, job.train, passes=passes(model, job.train))
    try:
        return take_steps(stepper, prepared.data, validation, out, resume, progress, changed)
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


def build_model(job: AnyJob, artifacts: Artifacts) -> Model:
    """A new model, its initial weights fixed by the seed."""
    torch.manual_seed(job.train.seed)
    return MODELS[job.model](replace(job.config, **artifacts.settings()))


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
    then, now = (
        {f"{name}.{key}": value for name, part in table.items() for key, value in part.items()}
        for table in (begun, tomllib.loads(recipe))
    )
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
