"""Recipes side by side, each in several variants, on equal terms."""

from __future__ import annotations

import io
import itertools
import json
import platform
import shlex
import statistics
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from regard.base.files import open_to_append, write_file
from regard.base.overwriting import refuse_overwriting
from regard.errors import RecipeError
from regard.learn.checkpoint import checkpoints
from regard.learn.progress import say
from regard.runs.folder import find
from regard.tasks.core.at_once import run_at_once
from regard.tasks.core.recipe import read
from regard.tasks.core.results import Metric
from regard.tasks.core.settings import AnyJob
from regard.tasks.core.table import TASKS, AnyTask, load
from regard.tasks.core.training import train

Result = dict[str, float]  # metrics and the number of parameters
TABLE, STARTED = "table.md", "from.txt"  # beside the runs: the result, and what they began with
RESULT = "result.json"  # of a run
Way = tuple[str, tuple[str, ...]]  # what is trained, as RECIPE or RECIPE,KEY=VALUE,..., and the values varied


def compare(
    recipes: list[str],
    vary: list[str],
    changes: list[str],
    *,
    seeds: int,
    jobs: int,
    metric: str | None,
    out: Path,
    start: str | None = None,
) -> str:
    """Trains every recipe in every combination with every seed; the table, also written to out/table.md."""
    combinations = list(itertools.product(*map(choices_of, vary)))
    ways = [(recipe, way) for recipe in recipes for way in combinations]
    begin = None if start is None else find(start)
    planned = [read(*_settings(way, changes), begin)[0] for way in ways]  # a mistake stops here, before training
    task = _common_task(planned)
    metric = next(iter(task.metrics)) if metric is None else metric
    _check_metric(metric, task, planned)
    tested = all(job.data.has_own_test for job in planned)
    trainings = [(way, seed) for way in ways for seed in range(seeds)]
    folders = [_folder(out, way, seed, several=len(recipes) > 1) for way, seed in trainings]
    if len(set(folders)) < len(folders):
        raise RecipeError("two of the trainings would share a folder; give each recipe and value once")
    data = [file for job in planned for file in job.data.files() if not file.is_dir()]
    refuse_overwriting([*data, *(Path(_parts(recipe)[0]) for recipe in recipes)], [out / TABLE, out / STARTED])
    _check_start(out, begin)
    results: dict[tuple[Way, int], Result] = {}
    calls = [
        (*_settings(way, [*changes, f"train.seed={seed}"]), folder, jobs, begin)
        for (way, seed), folder in zip(trainings, folders, strict=True)
    ]

    def tell(number: int, result: Result) -> None:
        way, seed = trainings[number]
        if metric not in result:
            raise RecipeError(f"{way[0]} gives no {metric} on this data; take another --metric")
        results[way, seed] = result
        say(
            f"{len(results)}/{len(trainings)}  {' '.join([way[0], *way[1]])}  seed {seed}  "
            f"{metric} {result[metric]:.{task.metrics[metric].digits}f}"
        )

    _run_all(calls, jobs, tell)
    rows = [[results[way, seed] for seed in range(seeds)] for way in ways]
    table = _table(ways, rows, metric, task.metrics[metric], tested=tested)
    write_file(out / TABLE, table.encode())
    return table


def _run_all(calls: list[tuple[Any, ...]], jobs: int, tell: Callable[[int, Result], None]) -> None:
    """`_run` with each of these arguments, in a process each; `tell` gets the number and the result of each. No
    process is started for a training that was finished before."""
    done = {number: before for number, call in enumerate(calls) if (before := _finished(*call))}
    for number, before in done.items():
        tell(number, before)

    def told(number: int, result: Result | BaseException) -> None:
        if isinstance(result, BaseException):
            raise result
        tell(number, result)

    run_at_once(_run, ((number, call) for number, call in enumerate(calls) if number not in done), jobs, told)


def _common_task(jobs: list[AnyJob]) -> AnyTask:
    verbs = sorted({job.task for job in jobs})
    if len({tuple(TASKS[verb].metrics) for verb in verbs}) > 1:
        raise RecipeError(f"models made to {', '.join(verbs)} cannot be compared: they have different metrics")
    return TASKS[verbs[0]]


def _check_metric(metric: str, task: AnyTask, jobs: list[AnyJob]) -> None:
    if metric not in task.metrics:
        raise RecipeError(f"--metric must be one of {', '.join(task.metrics)}, got {metric!r}")
    for job in jobs:
        if metric not in task.desk.metrics_of(job.config):
            raise RecipeError(f"{metric} is not given by a {job.model} with these settings; take another --metric")


def _check_start(out: Path, start: Path | None) -> None:
    """A recipe does not say what a training was begun with, so that the folder does."""
    file, now = out / STARTED, str(start or "")
    then = file.read_text(encoding="utf-8") if file.is_file() else now
    if then != now and any(out.glob("*/recipe.toml")):
        was, comes = (f"--from {path}" if path else "no --from" for path in (then, now))
        raise RecipeError(f"{out} holds trainings begun with {was}, now it is {comes}; take another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_file(file, now.encode())


def _settings(way: Way, changes: list[str]) -> tuple[str, list[str]]:
    """The recipe, and all that is changed in it: for all trainings, for this way, and by what is varied."""
    recipe, *own = _parts(way[0])
    return recipe, [*changes, *own, *way[1]]


def _parts(text: str) -> list[str]:
    """Parted by commas, but for those in the braces or brackets of a value, as in data.train=train.{en,de}."""
    parts, depth = [""], 0
    for character in text:
        depth = max(0, depth + (character in "{[") - (character in "}]"))
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def choices_of(vary: str) -> list[str]:
    key, equals, values = vary.partition("=")
    if not equals or not values:
        raise RecipeError(f"--vary wants section.key=value,value, as in model.score=dot,additive; got {vary!r}")
    return [f"{key}={value}" for value in _parts(values)]


def _folder(out: Path, way: Way, seed: int, *, several: bool) -> Path:
    """Named by what tells the trainings apart: the recipe and its own changes, then the values varied."""
    recipe, *own = _parts(way[0])
    parts = [Path(recipe).stem, *(change.partition(".")[2] for change in own)] if several or own else []
    values = [change.partition("=")[2] for change in way[1]]
    return out / "-".join([*(quote(part, safe=" =") for part in (*parts, *values)), str(seed)])


def _run(recipe: str, changes: list[str], folder: Path, jobs: int, start: Path | None = None) -> Result:
    """One training and its evaluation, in a process of its own; kept beside the run."""
    if result := _finished(recipe, changes, folder, jobs, start):
        return result
    job, text = read(recipe, changes, start)
    if jobs > 1:
        torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    words = ["regard", "train", recipe, *(["--from", str(start)] if start else [])]
    command = shlex.join([*words, *(word for change in changes for word in ("--set", change))])
    with io.TextIOWrapper(open_to_append(folder / "progress.txt"), "utf-8") as file, redirect_stderr(file):
        train(job, folder, recipe=text, command=command, resume=bool(checkpoints(folder)), start=start)
    run, desk = load(folder), TASKS[job.task].desk
    with desk.test_data(run, job.data) as data:
        evaluation = desk.evaluate(run, data).to_dict()
    evaluation["parameters"] = sum(parameter.numel() for parameter in run.model.parameters())
    write_file(folder / RESULT, json.dumps(evaluation).encode())
    return _numbers(job, evaluation)


def _finished(recipe: str, changes: list[str], folder: Path, jobs: int, start: Path | None = None) -> Result | None:
    """The result of a training that was finished before; None: there is none by this recipe."""
    job, text = read(recipe, changes, start)
    if (folder / RESULT).is_file() and (folder / "recipe.toml").read_text(encoding="utf-8") == text:
        return _numbers(job, json.loads((folder / RESULT).read_text()))
    return None


def _numbers(job: AnyJob, result: Mapping[str, object]) -> Result:
    names = [*TASKS[job.task].metrics, "parameters"]
    return {name: value for name in names if isinstance(value := result.get(name), int | float)}


def _table(ways: list[Way], results: list[list[Result]], name: str, metric: Metric, *, tested: bool) -> str:
    """The metric of every seed, its mean and spread (largest - smallest); the mean perplexity or loss; how many
    parameters."""
    several = len({recipe for recipe, _ in ways}) > 1
    keys = [*(["recipe"] if several else []), *(change.partition("=")[0] for change in ways[0][1])]
    seeds = range(len(results[0]))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()} CPU"
    others = [other for other in ("perplexity", "loss") if other in results[0][0] and other != name][:1]
    head = [*keys, *(f"seed {seed}" for seed in seeds), "mean", "spread", *others, "parameters"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    digits = metric.digits
    for (recipe, changes), row in zip(ways, results, strict=True):
        values = [result[name] for result in row]
        cells = [
            *([recipe.replace(",", " ")] if several else []),
            *(change.partition("=")[2] for change in changes),
            *(f"{value:.{digits}f}" for value in (*values, statistics.mean(values), max(values) - min(values))),
            *(f"{statistics.mean(result[other] for result in row):.4f}" for other in others),
            f"{int(row[0]['parameters']):,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    command = shlex.join(["regard", *sys.argv[1:]])
    data = "the test data" if tested else "the validation data, by which the weights were chosen (no data.test)"
    better = "lower" if metric.better == "min" else "higher"
    notes = [
        f"{name} on {data}; {better} is better",
        f"`{command}`",
        f"{device}, torch {torch.__version__}, {date.today()}",
    ]
    return "\n".join([*lines, *(line for note in notes for line in ("", note)), ""])
