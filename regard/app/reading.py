"""Language models judged side by side: how well each foresees a text."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from regard.app.console import progress
from regard.app.recipe import read
from regard.models import MODELS
from regard.tasks import LanguageModel, find, load_as
from regard.tasks.folder import RunError, read_config
from regard.tasks.settings import Text
from regard.tasks.texts import judge_text


def are_language_models(runs: list[str]) -> bool:
    """Whether all of them are; a mixture is refused."""
    kinds = {run: MODELS[read_config(find(run))[0]].task for run in runs}
    if len(set(kinds.values())) > 1:
        named = ", ".join(f"{run} ({kind})" for run, kind in kinds.items())
        raise RunError(f"translators and language models cannot be judged by one text: {named}")
    return "generate" in kinds.values()


def evaluate_text(runs: list[str], data: str | None, stride: int | None, *, as_json: bool) -> None:
    rows = []
    for run in runs:
        text, files = read_text(run, data)
        if stride:
            text = Text(**{**vars(text), "stride": stride})
        model = load_as(run, LanguageModel)
        with progress(None, f"batches by {run}") as tick, tempfile.TemporaryDirectory() as folder:
            rows.append({"run": run, **judge_text(model, text, files, folder=Path(folder), tick=tick)})
    print(json.dumps(rows[0] if len(rows) == 1 else rows) if as_json else as_text(rows))


def read_text(run: str, data: str | None) -> tuple[Text, list[str]]:
    """How the run's recipe reads text, and the files to judge by: the one named, else the recipe's own."""
    path = find(run) / "recipe.toml"
    if not path.is_file():
        if data is None:
            raise RunError(f"{run} does not say what it was trained on; name a text to judge it by: --data FILE")
        return Text(train=data), [data]
    text = read(str(path))[0].data
    named = data or text.test or text.valid
    if not named:
        raise RunError(
            f"{run} was trained without a test or validation file; name a text to judge it by: --data FILE"
        )
    return text, [named]


def as_text(rows: list[dict[str, Any]]) -> str:
    """A column for each run."""
    keys = [key for key in rows[0] if key != "run" or len(rows) > 1]
    lines = [[key, *(_number(row[key]) for row in rows)] for key in keys]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}" if isinstance(value, float) else str(value)
