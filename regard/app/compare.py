"""One recipe in several ways, on equal terms."""

from __future__ import annotations

import itertools
import json
import platform
import shlex
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
from regard.data.files import write_file
from regard.learn.checkpoint import checkpoints
from regard.tasks import load, translate


def compare(recipe: str, vary: list[str], changes: list[str], *, seeds: int, jobs: int, out: Path) -> str:
    """Trains every combination with every seed; the table, also written to out/table.md."""
    ways = list(itertools.product(*(_choices(one) for one in vary)))
    for way in ways:
        read(recipe, [*changes, *way])  # a mistake is found before anything is trained
    tasks = [(way, seed) for way in ways for seed in range(seeds)]
    results: dict[tuple[tuple[str, ...], int], dict[str, Any]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {
            pool.submit(_run, recipe, [*changes, *way, f"train.seed={seed}"], _folder(out, way, seed), jobs): (
                way,
                seed,
            )
            for way, seed in tasks
        }
        try:
            for done in as_completed(waiting):
                way, seed = waiting[done]
                results[way, seed] = done.result()
                print(
                    f"{len(results)}/{len(tasks)}  {' '.join(way)}  seed {seed}  "
                    f"exact match {results[way, seed]['exact_match']:.1f}",
                    file=sys.stderr,
                    flush=True,
                )
        except BaseException:
            pool.shutdown(cancel_futures=True)  # or the failure would be told only after all the others
            raise
    table = _table(ways, [[results[way, seed] for seed in range(seeds)] for way in ways])
    write_file(out / "table.md", table.encode())
    return table


def _choices(vary: str) -> list[str]:
    key, equals, values = vary.partition("=")
    if not equals or not values:
        raise RecipeError(f"--vary wants section.key=value,value, as in model.score=dot,additive; got {vary!r}")
    return [f"{key}={value}" for value in values.split(",")]


def _folder(out: Path, way: tuple[str, ...], seed: int) -> Path:
    return out / "-".join([*(quote(one.partition("=")[2], safe=" ") for one in way), str(seed)])


def _run(recipe: str, changes: list[str], folder: Path, jobs: int) -> dict[str, Any]:
    """One training and its judgement, in a process of its own; kept beside the run."""
    job, text = read(recipe, changes)
    kept = folder / "result.json"
    if kept.is_file() and (folder / "recipe.toml").read_text(encoding="utf-8") == text:
        return json.loads(kept.read_text())
    if jobs > 1:
        torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "progress.txt", "a", encoding="utf-8") as file, redirect_stderr(file):
        translate.train(
            job, folder, recipe=text, command=f"regard train {recipe}", resume=bool(checkpoints(folder))
        )
    result = load(folder).evaluate(job.data.pairs("test"))
    write_file(kept, json.dumps(result).encode())
    return result


def _table(ways: list[tuple[str, ...]], results: list[list[dict[str, Any]]]) -> str:
    """Exact match of every seed, its mean and spread; loss as perplexity."""
    keys = [one.partition("=")[0] for one in ways[0]]
    seeds = range(len(results[0]))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()} CPU"
    head = [*keys, *(f"seed {seed}" for seed in seeds), "mean", "spread", "perplexity"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for way, row in zip(ways, results, strict=True):
        exact = [one["exact_match"] for one in row]
        perplexity = statistics.mean(one["perplexity"] for one in row)
        cells = [
            *(one.partition("=")[2] for one in way),
            *(f"{value:.1f}" for value in exact),
            f"{statistics.mean(exact):.1f}",
            f"{max(exact) - min(exact):.1f}",
            f"{perplexity:.4f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    command = shlex.join(["regard", *sys.argv[1:]])
    return "\n".join([*lines, "", f"`{command}`", "", f"{device}, torch {torch.__version__}, {date.today()}", ""])
