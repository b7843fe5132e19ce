"""A recipe in TOML becomes a Job: file -> frozen dataclass -> constructor. Strict: an unknown key is an error."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.data.fields import build, check_known, nearest, read_toml
from regard.data.tokenizer_training import KINDS
from regard.decode.settings import Decoding
from regard.errors import RecipeError
from regard.learn.settings import Training
from regard.models import MODELS, blank, task_of
from regard.models.protocols import ModelConfig
from regard.runs.folder import Folder, shapes
from regard.tasks.settings import AnyJob, Job, Tokens
from regard.tasks.table import TASKS, AnyTask

RECIPES = Path(__file__).parent.parent / "recipes"
SECTIONS = ("data", "tokens", "model", "train", "decode")
SHAPE = ("dim", "layers", "heads", "ff", "decoder_layers", "decoder_heads", "decoder_ff")  # what model.size decides

Recipe = dict[str, dict[str, Any]]  # sections as TOML has them


def recipes() -> dict[str, str]:
    """The shipped recipes, each with its first comment line."""
    return {
        path.stem: path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        for path in sorted(RECIPES.glob("*.toml"))
    }


def model_of(name: str) -> str:
    """Which model a recipe trains."""
    return read_table(name)["model"]["name"]


def read(name: str, changes: Iterable[str] = (), start: Path | None = None) -> tuple[AnyJob, str]:
    """The job of a recipe, by file or shipped name, with `key=value` changes; and the text of just that job.

    start: a run to begin with, whose model and tokens the job then has, but for the dropout."""
    table = read_table(name)
    # model.size first: it replaces the recipe's numbers, but not those that are asked for beside it.
    changes = sorted(changes, key=lambda change: not change.startswith("model.size="))
    for change in changes:
        apply_change(table, change)
    if start:
        take_model(table, start, changes)
    return build_job(table), dump(table)


def read_table(name: str) -> Recipe:
    path = Path(name)
    if not path.is_file():
        path = RECIPES / f"{name}.toml"
        if Path(name).name != name or not path.is_file():
            near = nearest(name, recipes())
            raise RecipeError(f"there is no recipe {name!r}, neither a file nor shipped{near}")
    return read_toml(path)


def apply_change(table: Recipe, change: str) -> None:
    """section.key=value; a bare word is a string."""
    key, equals, value = change.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or not dot or not name:
        raise RecipeError(f"--set wants section.key=value, as in model.dropout=0.2; got {change!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    if not isinstance(table.setdefault(section, {}), dict):
        raise RecipeError(f"{section} is no section of a recipe")
    if (section, name) == ("model", "size"):
        for number in SHAPE:
            table[section].pop(number, None)
    table[section][name] = parsed


def take_model(table: Recipe, start: Path, changes: list[str]) -> None:
    """Train on from a run: its model and tokens, but for what the recipe or --set may change."""
    folder = Folder(start)
    kind, config = folder.name, folder.config
    asked = table.get("model", {})
    if asked.get("name") != kind:
        raise RecipeError(f"the recipe trains {asked.get('name')!r} and {start} is a {kind}; they must be the same")
    of_recipe, free = (getattr(MODELS[kind], name, ()) for name in ("OF_RECIPE", "MAY_DIFFER"))
    told = {"name", *of_recipe, *(key for key in asked if key.endswith("dropout") or key == "drop_path")}
    for change in changes:
        name, _, key = change.partition("=")[0].strip().partition(".")
        if name == "model" and key in free:
            told.add(key)
        elif name == "tokens" or (name == "model" and key not in told):
            may = " and ".join(["dropout", *of_recipe, *free])
            raise RecipeError(
                f"--set {change} is not possible: with --from the model and its tokens are those of {start}, and "
                f"of the model only {may} may change"
            )
    table.pop("tokens", None)
    known = ("vocabulary", "source_vocabulary", "labels")
    own = {key: value for key, value in dataclasses.asdict(config).items() if key not in known}
    changed = {key: value for key, value in asked.items() if key in told}
    table["model"] = {**own, **changed, "name": kind}


def build_job(table: Recipe) -> AnyJob:
    """Every section checked, the model's shapes too."""
    table = {name: dict(part) if isinstance(part, dict) else part for name, part in table.items()}
    check_known(table, SECTIONS, "section")
    for name, part in table.items():
        if not isinstance(part, dict):
            raise RecipeError(f"{name} must be a section [{name}], got {part!r}")
    model = table.get("model", {}).pop("name", None)
    if not isinstance(model, str) or model not in MODELS:
        raise RecipeError(f"model.name must be one of {', '.join(MODELS)}, got {model!r}")
    config = _sized(model, table.get("model", {}))
    task, example = _task(model, config)
    data = task.Settings  # refused here where nothing is trained for the task
    for name in ("tokens", "decode"):
        if name in table and name not in task.sections:
            raise RecipeError(f"[{name}] is not for a {model} that is made to {task.verb}; leave it out")
    training = build(Training, table.get("train", {}), "train")
    _check_training(training, task, model, example)
    return Job(
        model,
        MODELS[model].layout,
        config,
        build(data, table.get("data", {}), "data"),
        training,
        _tokens(model, table.get("tokens", {})),
        build(Decoding, table.get("decode", {}), "decode"),
        task.verb,
    )


def _task(model: str, config: dict[str, Any]) -> tuple[AnyTask, ModelConfig]:
    """The task of a model with this configuration, and an example of that: the real one needs the data's sizes."""
    for key in ("vocabulary", "source_vocabulary"):
        if key in config:
            raise RecipeError(f"model.{key} follows from the tokenizer; set tokens.size and tokens.joint instead")
    if "labels" in config:
        raise RecipeError("model.labels follow from the data, whose classes they name")
    try:
        example = build(MODELS[model].Config, {**blank(model), **config}, "model")
        shapes(model, example)
    except ValueError as error:
        raise error if isinstance(error, RecipeError) else RecipeError(f"[model]: {error}") from None
    return TASKS[task_of(model, example)], example


def _check_training(training: Training, task: AnyTask, model: str, config: ModelConfig) -> None:
    allowed = [logged(name) for name in task.validated if name in task.given_by(config)]
    if training.best_by not in allowed:
        raise RecipeError(f"[train]: best_by must be {' or '.join(allowed)} for {model}, got {training.best_by!r}")
    for name in ("label_smoothing", "r_drop", "capture"):
        if getattr(training, name) and name not in task.trains_with:
            raise RecipeError(f"[train]: {name} is not for a {model} that is made to {task.verb}; leave it out")


def logged(metric: str) -> str:
    """A validation metric's name in log.jsonl, where `loss` is that of the training batches."""
    return "valid_loss" if metric == "loss" else metric


def _tokens(model: str, table: dict[str, Any]) -> Tokens:
    """WordPiece is BERT's, and nobody else's."""
    layout = MODELS[model].layout
    kinds = ("wordpiece",) if layout == "bert" else tuple(kind for kind in KINDS if kind != "wordpiece")
    tokens = build(Tokens, {"kind": "wordpiece", **table} if layout == "bert" else table, "tokens")
    if tokens.kind not in kinds:
        raise RecipeError(f"tokens.kind must be {' or '.join(kinds)} for {model}, got {tokens.kind!r}")
    return tokens


def _sized(model: str, config: dict[str, Any]) -> dict[str, Any]:
    """model.size = "base" stands for the numbers of that name; others that are set win."""
    if "size" not in config:
        return config
    sizes = getattr(MODELS[model], "SIZES", {})
    size = config.pop("size")
    if size not in sizes:
        raise RecipeError(f"model.size of {model} must be one of {', '.join(sizes) or 'none'}, got {size!r}")
    return {**sizes[size], **config}


def dump(table: Recipe) -> str:
    """TOML of a two-level table; JSON writes its strings, numbers, booleans and lists the same way."""
    parts = []
    for name, part in table.items():
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in part.items()]
        parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"
