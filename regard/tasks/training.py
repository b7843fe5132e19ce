"""From a recipe to a run: tokens, data, the training, and what is left in the folder."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.files import write_file
from regard.data.text import Tokenizer
from regard.learn.checkpoint import checkpoints, fill, named_tensors
from regard.learn.loop import Report, fit
from regard.learn.progress import Progress
from regard.models import MODELS
from regard.show import loss_curve
from regard.tasks import folder as runs
from regard.tasks import labelled, masked, pairs, pictures, texts
from regard.tasks.known import Known
from regard.tasks.settings import BLOCKS, Job
from regard.tasks.weights import has_weights

# Each has `Settings` (a recipe's [data]), BEST_BY, UNIT (what the loss is a mean over), `survey(job, start)` and
# `prepare(job, model, known, out)`.
TASKS: dict[str, Any] = {
    "translate": pairs,
    "generate": texts,
    "fill": masked,
    "classify": labelled,
    "recognise": pictures,
}

FREE = ("train.steps", "train.patience", "train.device", "train.compile", "train.capture")  # when a run goes on


def train(
    job: Job, out: Path, *, recipe: str, command: str, resume: bool = False, start: Path | None = None
) -> Report:
    """Train and leave a run in `out`: the best weights, the log, the curve, a card.

    start: a run whose weights and vocabulary to begin with, in place of new ones."""
    newest = checkpoints(out)[:1]
    begun = bool(newest)  # without one, what lies there is begun anew
    check_out(out, begun, resume)
    task = TASKS[job.task]
    if begun:
        check_recipe(out, recipe)
        known = read_known(out)
    else:
        known = task.survey(job, read_known(start) if start else None)
    model = build_model(job, known)
    if start and begun:
        print(f"{out} goes on with its own weights; {start} is for the beginning alone", file=sys.stderr)
    elif start:
        take_over(model, start)
    try:
        data, validate, amount = task.prepare(job, model, known, out)
        if begun:
            write_file(out / "recipe.toml", recipe.encode())
        else:
            runs.begin(out, model, known, recipe, job.decode)
        settings = job.train
        report = fit(
            model,
            data,
            settings=settings,
            folder=out,
            validate=lambda _: validate(),
            keep_best=lambda model, metrics: runs.save_weights(out, model),
            better=(settings.best_by, "min" if settings.best_by == "valid_loss" else "max"),
            resume=resume,
            progress=Progress(unit=task.UNIT),
        )
    finally:
        shutil.rmtree(out / BLOCKS, ignore_errors=True)  # made anew where the training goes on
    if checkpoints(out)[:1] != newest or not (out / "README.md").exists():  # it was trained, or killed just before
        rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        loss_curve(rows).save(out / "loss.svg")
        write_file(out / "README.md", card(job, report, model, command, amount).encode())
    return report


def check_out(out: Path, begun: bool, resume: bool) -> None:
    """Nothing that lies there may be lost."""
    if begun:
        if not resume:
            raise runs.RunError(f"{out} already holds a training: use --resume to go on, or another --out")
        return
    killed_early = resume and (out / "training").exists()
    if has_weights(out) and not killed_early:
        raise runs.RunError(f"{out} holds a model already, whose weights would be lost; take another --out")
    own = [name for name in ("config.json", "README.md", "log.jsonl") if (out / name).exists()]
    if own and not (out / "recipe.toml").exists():
        raise runs.RunError(f"{out} is no run, and its {' and '.join(own)} would be lost; take another --out")


def build_model(job: Job, known: Known) -> nn.Module:
    """A new model, its first weights fixed by the seed."""
    torch.manual_seed(job.train.seed)
    kind = MODELS[job.model]
    return kind(kind.Config(**known.settings(), **job.config))


def take_over(model: Any, start: Path) -> None:
    """Begin with a run's weights. A model that may have another head (`adopt`) tells what is new."""
    found = runs.read_model(start)
    if not hasattr(model, "adopt"):
        fill(model, named_tensors(found), source=start)
    elif new := model.adopt(found):
        shown = ", ".join(new[:4]) + (f" and {len(new) - 4} more" if len(new) > 4 else "")
        print(f"Not in {start}, and so learned from the start: {shown}", file=sys.stderr)


def read_known(folder: Path) -> Known:
    known = runs.read_known(folder)
    if known.tokenizer is not None and not isinstance(known.tokenizer, Tokenizer):
        raise runs.RunError(f"{folder} reads text by SentencePiece, which can be run here but not trained with")
    return known


def check_recipe(folder: Path, recipe: str) -> None:
    """A training goes on with the settings it was begun with; only how long it goes on and by what may change."""
    path = folder / "recipe.toml"
    try:
        tables = [tomllib.loads(text) for text in (path.read_text(encoding="utf-8"), recipe)]
    except (OSError, ValueError) as error:
        raise runs.RunError(f"{path} does not say how the training was begun: {error}") from None
    then, now = (
        {f"{name}.{key}": value for name, part in table.items() for key, value in part.items()} for table in tables
    )
    for key in sorted(then.keys() ^ now.keys() | {key for key in then if then[key] != now.get(key)}):
        if key not in FREE:
            was, comes = (repr(part[key]) if key in part else "not set" for part in (then, now))
            raise runs.RunError(
                f"{folder} was begun with other settings: {key} was {was}, now it is {comes}. "
                "Resume with the recipe, --from and --set it was begun with, or take another --out"
            )


def card(job: Job, report: Report, model: Any, command: str, amount: str) -> str:
    """README.md of a run."""
    made = getattr(job.data, "made", "")
    data = f"generated set `{made}`" if made else f"`{job.data.name}`"
    best = ", ".join(f"{name} {value:.4f}" for name, value in sorted((report.best or {}).items()))
    count = sum(parameter.numel() for parameter in model.parameters())
    asked = {"recognise": "FILE", "fill": '"... [MASK] ..."'}.get(job.task, '"..."')
    picture = {"translate": "alignment.png", "recognise": "overlay.png"}.get(job.task, "looks.png")
    show = f" --show {picture}" if model.alignment else ""  # a fixed vector has nothing to show
    return f"""# {job.model} on {job.data.name}

{MODELS[job.model].paper}.

| | |
|---|---|
| data | {data}, {amount} |
| licence of the data | {"made by regard, Apache-2.0" if made else "that of your file"} |
| parameters | {count:,} |
| steps | {report.step:,}, best at {report.best_step:,}, seed {job.train.seed} |
| on the validation data | {best} |
| command | `{command}` |

Use it: `regard {job.task} DIR {asked}{show}`, where DIR is this folder.
"""
