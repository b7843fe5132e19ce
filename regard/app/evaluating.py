"""Runs judged side by side on a text, labelled texts or pictures; translators are judged by `judging`."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

from regard.app.console import progress
from regard.app.recipe import read
from regard.app.scoring import score
from regard.models import task_of
from regard.tasks import find, load
from regard.tasks.folder import RunError, read_config
from regard.tasks.training import TASKS

SHOWN = 20  # classes that are told one by one
CONFUSED = 10  # pairs of classes, those most often confused


def task_of_runs(runs: list[str]) -> str:
    """What all of them are for; a mixture is refused."""
    kinds = {run: task_of(*read_config(find(run))) for run in runs}
    if len(set(kinds.values())) > 1:
        named = ", ".join(f"{run} ({kind})" for run, kind in kinds.items())
        raise RunError(f"runs that are for different things cannot be judged by the same data: {named}")
    return next(iter(kinds.values()))


def evaluate_others(
    runs: list[str], task: str, data: str | None, changes: dict[str, Any], *, as_json: bool
) -> None:
    """`changes` of how the recipe reads data: a stride, the columns."""
    if task not in TASKS:
        raise RunError(f"{', '.join(runs)} has no head that answers, so there is nothing to judge it by")
    rows = []
    for run in runs:
        settings = read_settings(
            run, task, data, {key: value for key, value in changes.items() if value is not None}
        )
        with progress(None, f"batches by {run}") as tick, tempfile.TemporaryDirectory() as folder:
            rows.append({"run": run, **score(task, load(run), settings, folder=Path(folder), tick=tick)})
    print(json.dumps(rows[0] if len(rows) == 1 else rows) if as_json else as_text(rows))


def read_settings(run: str, task: str, data: str | None, changes: dict[str, Any]) -> Any:
    """How the run's recipe reads data; the file to judge by is the one named, else the recipe's own."""
    path = find(run) / "recipe.toml"
    if not path.is_file():
        if data is None:
            raise RunError(f"{run} does not say what it was trained on; name data to judge it by: --data FILE")
        return TASKS[task].Settings(**{"train": data, "valid": data, **changes})
    settings = read(str(path))[0].data
    if data is not None:
        made = {"made": "", "train": data} if getattr(settings, "made", "") else {}
        changes = {**made, "test": data, **changes}
    elif task in ("generate", "fill") and not (settings.test or settings.valid):  # of others a part is held out
        raise RunError(f"{run} was trained without a test or validation file; name data to judge by: --data FILE")
    return dataclasses.replace(settings, **changes)


def as_text(rows: list[dict[str, Any]]) -> str:
    """A column for each run; below it, of a single one, the scores of its classes and what was taken for what."""
    found = dict.fromkeys(key for row in rows for key in row)  # not every head has all measures
    keys = [key for key in found if (key != "run" or len(rows) > 1) and key not in ("classes", "confusion")]
    table = _aligned([[key, *(_number(row.get(key, "")) for row in rows)] for key in keys])
    classes = rows[0].get("classes", [])
    if len(rows) > 1 or not classes:
        return table
    parts = [table]
    if len(classes) <= SHOWN:
        heads = ["label", "count", "precision", "recall", "f1"]
        parts.append(_aligned([heads, *([_number(one[head]) for head in heads] for one in classes)]))
    if confused := _confused([one["label"] for one in classes], rows[0]["confusion"]):
        parts.append(_aligned([["label", "taken for", "times"], *confused]))
    return "\n\n".join(parts)


def _confused(labels: list[str], confusion: list[list[int]]) -> list[list[str]]:
    found = [
        (times, true, answered)
        for true, row in enumerate(confusion)
        for answered, times in enumerate(row)
        if times and true != answered
    ]
    found.sort(key=lambda one: -one[0])
    return [[labels[true], labels[answered], _number(times)] for times, true, answered in found[:CONFUSED]]


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}" if isinstance(value, float) else str(value)
