"""What is pushed with a run: a model card for the Hugging Face Hub, and a picture of where the model looked."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import BadInput
from regard.runs.examples import read_examples
from regard.tasks.core.card import Card
from regard.tasks.core.results import Evaluation
from regard.tasks.core.run import Run

PICTURE = "attention.png"
CARD = "README.md"
BAR = r"\|"  # within a table


def card_of(run: Run, name: str, evaluation: Evaluation | None, data: str, licence: str) -> dict[str, bytes]:
    """README.md, and attention.png where the run can show where it looked at its own example."""
    picture = picture_of(run)
    text = model_card(run, name, evaluation, data, licence, with_picture=picture is not None)
    return {CARD: text.encode()} | ({PICTURE: picture} if picture is not None else {})


def model_card(
    run: Run, name: str, evaluation: Evaluation | None, data: str, licence: str, *, with_picture: bool
) -> str:
    """The run's own README.md, with what the Hub reads above it and the evaluation below."""
    assert run.task is not None
    assert run.folder is not None
    own = run.folder.path / CARD
    body = _without_header(own.read_text(encoding="utf-8")) if own.is_file() else f"# {name}\n"
    head: dict[str, Any] = {"library_name": "regard", "tags": ["regard", "attention", run.folder.name]}
    head |= {"pipeline_tag": run.task.hub_task} if run.task.hub_task else {}
    head |= {"license": licence} if licence else {}
    if evaluation is not None:
        head["model-index"] = [{"name": name.split("/")[-1], "results": [_result(run.task, evaluation, data)]}]
    # JSON is YAML too.
    lines = ["---", *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()), "---", ""]
    parts = ["\n".join(lines), body.strip(), f"Get it: `regard get {name}`; in Python `regard.load({name!r})`."]
    parts += [f"![Where the model looked]({PICTURE})"] if with_picture else []
    parts += [_table(evaluation, data)] if evaluation is not None else []
    return "\n\n".join(parts) + "\n"


def picture_of(run: Run) -> bytes | None:
    """Where the model looked at the run's first example, as a PNG; None where there is nothing to show."""
    assert run.task is not None
    assert run.folder is not None
    task, examples = run.task, read_examples(run.folder.contents)
    asked = [*examples.inputs, *task.inputs.tried][:1]
    if not asked or not isinstance(asked[0], str) or asked[0].startswith("data:"):
        return None
    try:
        usual = {option.name: option.default for option in task.options}
        options = task.desk.settled(run, usual | examples.options)
        answer = next(iter(task.desk.ask(run, [task.desk.reader(run, options)(asked[0])], options)))
        picture = answer.picture()
        if picture is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            picture.save(Path(folder) / PICTURE)
            return (Path(folder) / PICTURE).read_bytes()
    except BadInput:  # it cannot be asked so, or has no attention
        return None


def _without_header(text: str) -> str:
    """Without what another push wrote above it."""
    if not text.startswith("---\n"):
        return text
    return text.partition("\n---\n")[2]


def _result(task: Card[Any], evaluation: Evaluation, data: str) -> Mapping[str, Any]:
    signatures = _signatures(evaluation)
    metrics = [
        {"type": metric, "value": round(value, 4)}
        | ({"args": {"signature": signatures[metric]}} if metric in signatures else {})
        for metric, value in evaluation.metrics.items()
    ]
    return {
        "task": {"type": task.hub_task or task.verb},
        "dataset": {"name": data, "type": data},
        "metrics": metrics,
    }


def _signatures(evaluation: Evaluation) -> dict[str, str]:
    """Those of sacrebleu, by the metric."""
    ending = "_signature"
    return {key.removesuffix(ending): str(text) for key, text in evaluation.details.items() if key.endswith(ending)}


def _table(evaluation: Evaluation, data: str) -> str:
    signatures = _signatures(evaluation)
    counts = ", ".join(f"{count:,} {what}" for what, count in evaluation.counts.items())
    rows = [
        f"| {metric} | {value:.4f} | {signatures.get(metric, '').replace('|', BAR)} |"
        for metric, value in evaluation.metrics.items()
    ]
    return "\n".join([f"On {data} ({counts}):", "", "| metric | value | signature |", "|---|---|---|", *rows])
