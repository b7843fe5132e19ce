"""A recipe in TOML becomes a Job: file -> frozen dataclass -> constructor. Strict: an unknown key is an error."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.base.fields import build, check_known, parse_toml
from regard.data.text.special_tokens import numbering_for
from regard.data.text.tokenizer_training import KINDS, KINDS_OF_BERT, check_training
from regard.decode.settings import Decoding
from regard.errors import RecipeError
from regard.learn.settings import AUTO, LAST, Training
from regard.models import MODELS, blank, task_of
from regard.models.protocols import ModelConfig
from regard.runs.folder import Folder, shapes
from regard.tasks.core.given_data import Given, with_data, without_data
from regard.tasks.core.recipe_files import Recipe, for_beginning, logged, read_table
from regard.tasks.core.settings import AnyJob, DataSettings, Job, Tokens
from regard.tasks.core.table import TASKS, AnyTask

SECTIONS = ("data", "tokens", "model", "train", "decode")
WANTED = "--set wants section.key=value, as in model.dropout=0.2"
# Settings of [train] that only some tasks have (`Card.trains_with`), as they are without them.
NOT_FOR_ALL = {
    "label_smoothing": 0,
    "r_drop": 0,
    "capture": False,
    "reinforce_reward": "token",
    "reinforce_baseline": "rows",
    "ppo_passes": 1,
    "ppo_parts": 1,
    "ppo_clip": 0.2,
}
# Settings of [model] that follow from the data.
FROM_DATA = {
    "vocabulary": "follows from the tokenizer; set tokens.size and tokens.joint instead",
    "source_vocabulary": "follows from the tokenizer; set tokens.size and tokens.joint instead",
    "labels": "follow from the data, whose classes they name",
    "inputs": "follow from the data; set data.made and data.bits instead",
    "outputs": "follow from the data; set data.made and data.bits instead",
}
# Of a model: sizes by the fewest examples that they are for, settings by the side of images.
AUTO_TABLES = ("AUTO_SIZES", "AUTO_IMAGES")
SHAPE = ("dim", "layers", "heads", "ff", "decoder_layers", "decoder_heads", "decoder_ff")  # what model.size decides


def read(
    recipe: str | Path | Mapping[str, Any],
    changes: Iterable[str] | Mapping[str, Any] = (),
    start: Path | None = None,
    data: Given | None = None,
) -> tuple[AnyJob, str]:
    """The job of a recipe, by file, shipped name or its sections, with changes: `section.key=value` or values by
    `section.key`; and the text of just that job.

    start: a run to begin with, whose model and tokens the job then has, but for the dropout.
    data: in place of the recipe's own."""
    if isinstance(recipe, Mapping):
        table = sections_from_python(for_beginning(recipe, start=bool(start)))
    else:
        table = read_table(str(recipe), start=bool(start))
    parsed = changes_from_python(changes) if isinstance(changes, Mapping) else list(map(parse_change, changes))
    if data:
        table = without_data(table)
    # model.size first: it replaces the recipe's numbers, but not those that are changed beside it.
    parsed.sort(key=lambda change: change.key != "model.size")
    for change in parsed:
        check_change(table, change)
        apply_change(table, change)
    if start:
        take_model(table, start, parsed)
    if data:
        table = with_data(table, data)
    return build_job(table), dump(table)


class Change(NamedTuple):
    """A setting that is changed."""

    key: str  # section.key
    value: Any
    text: str  # as it was given, for errors


def parse_change(text: str) -> Change:
    """section.key=value in TOML; a bare word is a string."""
    key, equals, value = text.partition("=")
    if not equals:
        raise RecipeError(f"{WANTED}; got {text!r}")
    try:
        parsed = parse_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return Change(key.strip(), parsed, text)


def changes_from_python(changes: Mapping[str, Any]) -> list[Change]:
    return [Change(str(key), in_toml(str(key), value), f"{key}={value}") for key, value in changes.items()]


def changes_of(changes: Mapping[str, Any]) -> list[str]:
    """Values by section.key from Python as a command has them: section.key=value."""
    return [f"{key}={json.dumps(in_toml(str(key), value), ensure_ascii=False)}" for key, value in changes.items()]


def sections_from_python(sections: Mapping[str, Any]) -> Recipe:
    """The sections of a recipe, copied, with their values as TOML has them."""
    for name, part in sections.items():
        if not isinstance(part, Mapping):
            raise RecipeError(f"{name} must be a section, a dict of settings; got {part!r:.80}")
    return {
        str(name): {str(key): in_toml(f"{name}.{key}", value) for key, value in part.items()}
        for name, part in sections.items()
    }


def in_toml(key: str, value: Any) -> Any:
    """A value from Python as a TOML file would give it, so that the run's recipe.toml can say it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [in_toml(key, item) for item in value]
    if not isinstance(value, str | bool | int | float):
        raise RecipeError(
            f"{key} must be a string, a number, True, False or a list of these, got {value!r:.80} "
            f"({type(value).__name__})"
        )
    return value


def check_change(table: Recipe, change: Change) -> None:
    """The error for a key without its section, or with another section, names the right section."""
    section, dot, name = change.key.partition(".")
    meant = [place for place in places(table, name or section) if place != section]
    if not dot or not name:
        near = f"; did you mean {meant[0]}.{section}={change.text.partition('=')[2]}?" if meant else ""
        raise RecipeError(f"{WANTED}; got {change.text!r}{near}")
    allowed = {"data": True, "model": name in ("name", "size")}.get(section, False)  # [data] depends on the task
    if section in SECTIONS and meant and not allowed and section not in places(table, name):
        raise RecipeError(f"unknown key of [{section}]: {name!r}; did you mean {meant[0]}.{name}?")


def places(table: Recipe, key: str) -> list[str]:
    """The sections that may have this key."""
    model = table.get("model", {}).get("name")
    kinds: dict[str, Any] = {"train": Training, "tokens": Tokens, "decode": Decoding}
    if model in MODELS:
        kinds["model"] = MODELS[model].Config
    sections = [name for name, kind in kinds.items() if key in kind.__dataclass_fields__]
    return [*sections, "data"] if key in table.get("data", {}) else sections


def apply_change(table: Recipe, change: Change) -> None:
    section, _, name = change.key.partition(".")
    if not isinstance(table.setdefault(section, {}), dict):
        raise RecipeError(f"{section} is no section of a recipe")
    if (section, name) == ("model", "size"):
        sizes = getattr(MODELS.get(str(table[section].get("name"))), "SIZES", {})
        for number in {*SHAPE, *(key for size in sizes.values() for key in size)}:
            table[section].pop(number, None)
    table[section][name] = change.value


def take_model(table: Recipe, start: Path, changes: list[Change]) -> None:
    """Train on from a run: its model and tokens, but for what the recipe or --set may change."""
    folder = Folder(start)
    kind, config = folder.name, folder.config
    model = table.get("model", {})
    if model.get("name") != kind:
        take_part(table, start, folder, changes)
        return
    of_recipe, free = (getattr(MODELS[kind], name, ()) for name in ("OF_RECIPE", "MAY_DIFFER"))
    own = {"name", *of_recipe, *(key for key in model if key.endswith("dropout") or key == "drop_path")}
    for change in changes:
        name, _, key = change.key.partition(".")
        if name == "model" and key in free:
            own.add(key)
        elif name == "tokens" or (name == "model" and key not in own):
            dropout = ["dropout"] * hasattr(config, "dropout")
            may = " and ".join([*dropout, *of_recipe, *free])
            raise RecipeError(
                f"--set {change.text} is not possible: with --from the model and its tokens are those of {start}, "
                f"and of the model only {may} may change"
            )
    table.pop("tokens", None)
    taken = {key: value for key, value in dataclasses.asdict(config).items() if key not in FROM_DATA}
    table["model"] = {**taken, **{key: value for key, value in model.items() if key in own}, "name": kind}


def take_part(table: Recipe, start: Path, folder: Folder, changes: list[Change]) -> None:
    """Begin with a run of another model, which becomes a part of the recipe's, with its settings."""
    model = table.get("model", {})
    name = model.get("name")
    parts = getattr(MODELS.get(str(name)), "STARTS_FROM", {})
    if folder.name not in parts:
        may = f"it can start from {' or '.join([str(name), *parts])}" if parts else "they must be the same"
        raise RecipeError(f"the recipe trains {name!r} and {start} has the model {folder.name}; {may}")
    taken = parts[folder.name]
    for change in changes:
        section, _, key = change.key.partition(".")
        if section == "model" and key in ("size", *taken):
            raise RecipeError(
                f"--set {change.text} is not possible: with --from these are those of {start}: {', '.join(taken)}"
            )
    table["model"] = {**_sized(str(name), model), **{key: getattr(folder.config, key) for key in taken}}


def build_job(table: Recipe) -> AnyJob:
    """Every section checked, the model's shapes too."""
    table = {name: dict(part) if isinstance(part, dict) else part for name, part in table.items()}
    check_sections(table)
    model = table.get("model", {}).pop("name", None)
    if not isinstance(model, str) or model not in MODELS:
        raise RecipeError(f"model.name must be one of {', '.join(MODELS)}, got {model!r}")
    sized = auto_sized(model, table.get("model", {}))
    config = model_config(model, table.get("model", {}))
    task = TASKS[task_of(model, config)]
    if not task.desk.metrics_of(config):
        raise task.desk.not_trained()
    for name in ("tokens", "decode"):
        if name in table and name not in task.sections:
            raise RecipeError(f"[{name}] is not for a {model} that is made to {task.verb}; leave it out")
    training = build(Training, table.get("train", {}), "train")
    _check_training(training, task, model, config)
    settings = build(task.Settings, table.get("data", {}), "data")
    _check_batches(settings, model, config)
    return Job(
        model,
        MODELS[model].numbering,
        config,
        settings,
        training,
        _tokens(model, table.get("tokens", {}), writes="decode" in task.sections),
        build(Decoding, table.get("decode", {}), "decode"),
        task.verb,
        sized,
    )


def check_sections(table: Recipe) -> None:
    check_known(table, SECTIONS, "section")
    for name, part in table.items():
        if not isinstance(part, dict):
            raise RecipeError(f"{name} must be a section [{name}], got {part!r}")


def model_config(model: str, table: dict[str, Any]) -> ModelConfig:
    """A model's configuration of its part of a recipe, with placeholders for what follows from the data."""
    table = _sized(model, dict(table))
    for key, why in FROM_DATA.items():
        if key in table:
            raise RecipeError(f"model.{key} {why}")
    try:
        config: ModelConfig = build(MODELS[model].Config, {**blank(model), **table}, "model")
        shapes(model, config)
    except ValueError as error:
        raise error if isinstance(error, RecipeError) else RecipeError(f"[model]: {error}") from None
    return config


def _check_training(training: Training, task: AnyTask, model: str, config: ModelConfig) -> None:
    allowed = [logged(name) for name in task.validated if name in task.desk.metrics_of(config)]
    if training.best_by not in (AUTO, LAST, *allowed):
        raise RecipeError(
            f"[train]: best_by must be {' or '.join(allowed)} for {model}, got {training.best_by!r}; "
            f"{AUTO} is {logged(task.chosen_by[0])}, {LAST} keeps the last weights"
        )
    for name, off in NOT_FOR_ALL.items():
        if getattr(training, name) not in (off, AUTO) and name not in task.desk.trained_with(config):
            raise RecipeError(
                f"[train]: {name} is not for a {model} that is made to {task.verb}; "
                f"leave it out, or set train.{name}={str(off).lower()}"
            )


def _check_batches(data: DataSettings, model: str, config: ModelConfig) -> None:
    """A model with batch normalisation says how many rows it needs."""
    least = getattr(config, "min_batch", 1)
    if (size := getattr(data, "batch_size", least)) < least:
        raise RecipeError(
            f"[data]: batch_size must be at least {least} for this {model}, whose batch normalisation cannot learn "
            f"from one image; got {size}"
        )


def chosen_by(best_by: str, task: AnyTask) -> tuple[str, ...]:
    """The metrics that choose the best weights, the next one where the one before is equal."""
    first = [name for name in task.validated if logged(name) == best_by]
    return tuple(dict.fromkeys([*first, *task.chosen_by]))


def _tokens(model: str, table: dict[str, Any], *, writes: bool) -> Tokens:
    """Only BERT may use WordPiece, and but for words nothing else. `start` is for models that write."""
    numbering = MODELS[model].numbering
    kinds = KINDS_OF_BERT if numbering == "bert" else tuple(kind for kind in KINDS if kind != "wordpiece")
    tokens = build(Tokens, {"kind": "wordpiece", **table} if numbering == "bert" else table, "tokens")
    if tokens.kind not in kinds:
        raise RecipeError(f"tokens.kind must be {' or '.join(kinds)} for {model}, got {tokens.kind!r}")
    own = numbering == "regard" or (numbering == "marian" and not tokens.joint)
    if tokens.start and not (writes and own):
        joint = "; with tokens.joint = false it may be chosen" if numbering == "marian" else ""
        raise RecipeError(f"tokens.start is not for this {model}, which has start tokens of its own{joint}")
    if numbering:  # else it reads no text
        try:
            check_training(tokens.kind, tokens.size, tokens.normalise, numbering_for(numbering, tokens.kind))
        except ValueError as error:
            raise RecipeError(f"[tokens]: {error}") from None
    return tokens


def _sized(model: str, config: dict[str, Any]) -> dict[str, Any]:
    """model.size = "base" stands for the numbers of that name; others that are set win. What is left to the data
    has the smallest numbers until that has been counted (`model_size.py`)."""
    sizes, by_amount, by_side = (getattr(MODELS[model], name, {}) for name in ("SIZES", *AUTO_TABLES))
    free = auto_sized(model, config)
    smallest = sizes[next(iter(by_amount))] if by_amount else {}
    numbers = {**smallest, **next(iter(by_side.values()), {})}
    if "image_size" in free:
        config.pop("image_size")
    if "size" in config and (size := config.pop("size")) not in [AUTO] * bool(by_amount):
        if size not in sizes:
            named = ", ".join([*sizes, *[AUTO] * bool(by_amount)])
            raise RecipeError(f"model.size of {model} must be one of {named or 'none'}, got {size!r}")
        config = {**sizes[size], **config}
    return {**{name: value for name, value in numbers.items() if name in free}, **config}


def auto_sized(model: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings that are left to the data: with model.size = "auto" the numbers of sizes, with
    model.image_size = 0 what depends on the size of images; those that are set beside them are not."""
    sizes, by_amount, by_side = (getattr(MODELS[model], name, {}) for name in ("SIZES", *AUTO_TABLES))
    names = [name for size in by_amount for name in sizes[size]] if config.get("size") == AUTO else []
    if config.get("image_size") == 0:
        names += [name for numbers in by_side.values() for name in numbers]
    return tuple(dict.fromkeys(name for name in names if name == "image_size" or name not in config))


def dump(table: Recipe) -> str:
    """TOML of a two-level table; JSON writes its strings, numbers, booleans and lists the same way."""
    parts = []
    for name, part in table.items():
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in part.items()]
        parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"
