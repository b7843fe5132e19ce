"""Recipes side by side, each in several ways, on equal terms."""

from __future__ import annotations

import itertools
import json
import platform
import re
import shlex
import shutil
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from regard.app.recipe import RecipeError, read
from regard.app.scoring import MEASURES, score
from regard.data.files import write_file
from regard.learn.checkpoint import checkpoints
from regard.tasks import find, load
from regard.tasks.settings import BLOCKS, Job
from regard.tasks.training import train

Way = tuple[str, tuple[str, ...]]  # what is trained, as RECIPE or RECIPE,KEY=VALUE,..., and the values varied


def compare(
    recipes: list[str],
    vary: list[str],
    changes: list[str],
    *,
    seeds: int,
    jobs: int,
    metric: str,
    out: Path,
    start: str | None = None,
) -> str:
    """Trains every recipe in every combination with every seed; the table, also written to out/table.md."""
    combinations = list(itertools.product(*(_choices(one) for one in vary)))
    ways = [(recipe, way) for recipe in recipes for way in combinations]
    begin = find(start) if start else None
    asked = [read(*_settings(way, changes), begin)[0] for way in ways]  # a mistake is found before training
    _check_metric(metric, asked)
    tested = all(getattr(job.data, "made", "") or job.data.test for job in asked)
    tasks = [(way, seed) for way in ways for seed in range(seeds)]
    folders = [_folder(out, way, seed, several=len(recipes) > 1) for way, seed in tasks]
    if len(set(folders)) < len(folders):
        raise RecipeError("two of the trainings would share a folder; give each recipe and value once")
    _check_start(out, begin)
    results: dict[tuple[Way, int], dict[str, Any]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {}
        for (way, seed), folder in zip(tasks, folders, strict=True):
            recipe, settings = _settings(way, [*changes, f"train.seed={seed}"])
            waiting[pool.submit(_run, recipe, settings, folder, jobs, begin)] = way, seed
        try:
            for done in as_completed(waiting):
                way, seed = waiting[done]
                results[way, seed] = done.result()
                print(
                    f"{len(results)}/{len(tasks)}  {' '.join([way[0], *way[1]])}  seed {seed}  "
                    f"{metric} {results[way, seed][metric]:.2f}",
                    file=sys.stderr,
                    flush=True,
                )
        except BaseException:
            pool.shutdown(cancel_futures=True)  # or the failure would be told only after all the others
            raise
    table = _table(ways, [[results[way, seed] for seed in range(seeds)] for way in ways], metric, tested=tested)
    write_file(out / "table.md", table.encode())
    return table


def _check_metric(metric: str, asked: list[Job]) -> None:
    tasks = {job.task for job in asked}
    if len({MEASURES[task] for task in tasks}) > 1:
        named = ", ".join(sorted(tasks))
        raise RecipeError(f"what is made to {named} cannot be compared: they are judged by other measures")
    measures = MEASURES[asked[0].task]
    if metric not in measures:
        raise RecipeError(f"--metric must be one of {', '.join(measures)}, got {metric!r}")
    if metric == "next_accuracy" and any(job.config.get("head", "pretrain") != "pretrain" for job in asked):
        raise RecipeError("next_accuracy is for model.head=pretrain, which learns what follows what")
    if tasks & {"generate", "fill"} and not all(job.data.test or job.data.valid for job in asked):
        raise RecipeError("set data.test or data.valid to a file of text to compare by")


def _check_start(out: Path, start: Path | None) -> None:
    """A recipe does not say what a training was begun with, so that the folder does."""
    path, now = out / "from.txt", str(start or "")
    then = path.read_text(encoding="utf-8") if path.is_file() else now
    if then != now and any(out.glob("*/recipe.toml")):
        was, comes = (f"--from {one}" if one else "no --from" for one in (then, now))
        raise RecipeError(f"{out} holds trainings begun with {was}, now it is {comes}; take another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_file(path, now.encode())


def _settings(way: Way, changes: list[str]) -> tuple[str, list[str]]:
    """The recipe, and all that is changed in it: for all trainings, for this one, and by what is varied."""
    recipe, *own = _parts(way[0])
    return recipe, [*changes, *own, *way[1]]


def _parts(text: str) -> list[str]:
    """Parted by commas, but for those in the braces or brackets of a value, as in data.train=train.{en,de}."""
    return re.split(r",(?![^{\[]*[}\]])", text)


def _choices(vary: str) -> list[str]:
    key, equals, values = vary.partition("=")
    if not equals or not values:
        raise RecipeError(f"--vary wants section.key=value,value, as in model.score=dot,additive; got {vary!r}")
    return [f"{key}={value}" for value in _parts(values)]


def _folder(out: Path, way: Way, seed: int, *, several: bool) -> Path:
    """Named by what tells the trainings apart: the recipe and its own changes, then the values varied."""
    recipe, *own = _parts(way[0])
    parts = [Path(recipe).stem, *(one.partition(".")[2] for one in own)] if several or own else []
    values = [one.partition("=")[2] for one in way[1]]
    return out / "-".join([*(quote(part, safe=" =") for part in (*parts, *values)), str(seed)])


def _run(recipe: str, changes: list[str], folder: Path, jobs: int, start: Path | None = None) -> dict[str, Any]:
    """One training and its judgement, in a process of its own; kept beside the run."""
    job, text = read(recipe, changes, start)
    kept = folder / "result.json"
    if kept.is_file() and (folder / "recipe.toml").read_text(encoding="utf-8") == text:
        return json.loads(kept.read_text())
    if jobs > 1:
        torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    words = ["regard", "train", recipe, *(["--from", str(start)] if start else [])]
    command = shlex.join([*words, *(word for one in changes for word in ("--set", one))])
    with open(folder / "progress.txt", "a", encoding="utf-8") as file, redirect_stderr(file):
        train(job, folder, recipe=text, command=command, resume=bool(checkpoints(folder)), start=start)
    task = load(folder)
    result = score(job.task, task, job.data, folder=folder / BLOCKS)
    shutil.rmtree(folder / BLOCKS, ignore_errors=True)
    result["parameters"] = sum(parameter.numel() for parameter in task.model.parameters())
    write_file(kept, json.dumps(result).encode())
    return result


def _table(ways: list[Way], results: list[list[dict[str, Any]]], metric: str, *, tested: bool) -> str:
    """The metric of every seed, its mean and spread (largest - smallest); the mean perplexity; how many weights."""
    several = len({recipe for recipe, _ in ways}) > 1
    keys = [*(["recipe"] if several else []), *(one.partition("=")[0] for one in ways[0][1])]
    seeds = range(len(results[0]))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()} CPU"
    other = "perplexity" if "perplexity" in results[0][0] else "loss"
    head = [*keys, *(f"seed {seed}" for seed in seeds), "mean", "spread", other, "parameters"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    digits = 4 if metric in MEASURES["generate"] or metric == "loss" else 1  # the others go up to 100
    for (recipe, changes), row in zip(ways, results, strict=True):
        values = [one[metric] for one in row]
        cells = [
            *([recipe.replace(",", " ")] if several else []),
            *(one.partition("=")[2] for one in changes),
            *(f"{value:.{digits}f}" for value in (*values, statistics.mean(values), max(values) - min(values))),
            f"{statistics.mean(one[other] for one in row):.4f}",
            f"{row[0]['parameters']:,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    command = shlex.join(["regard", *sys.argv[1:]])
    data = "the test data" if tested else "the validation data, by which the weights were chosen (no data.test)"
    notes = [f"{metric} on {data}", f"`{command}`", f"{device}, torch {torch.__version__}, {date.today()}"]
    return "\n".join([*lines, *(line for note in notes for line in ("", note)), ""])
