"""A recipe in TOML becomes a Job: file -> frozen dataclass -> constructor. Strict: an unknown key is an error."""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.data.text import KINDS
from regard.learn.optimise import Training
from regard.models import MODELS, blank, task_of
from regard.tasks.folder import read_config, shapes
from regard.tasks.settings import Decoding, Job, Tokens
from regard.tasks.training import TASKS

RECIPES = Path(__file__).parent.parent / "recipes"
SHAPE = ("dim", "layers", "heads", "ff", "decoder_layers", "decoder_heads", "decoder_ff")  # what model.size decides


class RecipeError(ValueError):
    """A recipe that is missing or asks for something there is not."""


def recipes() -> dict[str, str]:
    """The shipped recipes, each with its first comment line."""
    return {
        path.stem: path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        for path in sorted(RECIPES.glob("*.toml"))
    }


def read(name: str, changes: Iterable[str] = (), start: Path | None = None) -> tuple[Job, str]:
    """The job of a recipe, by file or shipped name, with `key=value` changes; and the text of just that job.

    start: a run to begin with, whose model and tokens it then has, but for the dropout."""
    table = _table(name)
    # A size first: it takes the place of the recipe's numbers, and not of those that are asked for beside it.
    changes = sorted(changes, key=lambda change: not change.startswith("model.size="))
    for change in changes:
        _change(table, change)
    if start:
        _take_model(table, start, changes)
    return build(table), dump(table)


def _take_model(table: dict[str, Any], start: Path, changes: list[str]) -> None:
    kind, config = read_config(start)
    asked = table.get("model", {})
    if asked.get("name") != kind:
        raise RecipeError(f"the recipe trains {asked.get('name')!r} and {start} is a {kind}; they must be the same")
    learns, free = (getattr(MODELS[kind], name, ()) for name in ("LEARNS", "FREE"))
    told = {"name", *learns, *(key for key in asked if key.endswith("dropout"))}
    for change in changes:
        name, _, key = change.partition("=")[0].strip().partition(".")
        if name == "model" and key in free:
            told.add(key)
        elif name == "tokens" or (name == "model" and key not in told):
            may = " and ".join(["dropout", *learns, *free])
            raise RecipeError(
                f"--set {change} cannot be: with --from the model and its tokens are those of {start}, and of the "
                f"model only {may} may change"
            )
    table.pop("tokens", None)
    known = ("vocabulary", "source_vocabulary", "labels")
    own = {key: value for key, value in dataclasses.asdict(config).items() if key not in known}
    changed = {key: value for key, value in asked.items() if key in told}
    table["model"] = {**own, **changed, "name": kind}


def _table(name: str) -> dict[str, Any]:
    path = Path(name)
    if not path.is_file():
        path = RECIPES / f"{name}.toml"
        if Path(name).name != name or not path.is_file():
            near = _nearest(name, recipes())
            raise RecipeError(f"there is no recipe {name!r}, neither a file nor shipped{near}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from None


def _change(table: dict[str, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or not dot or not name:
        raise RecipeError(f"--set wants section.key=value, as in model.dropout=0.2; got {change!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()  # a bare word is a string
    if not isinstance(table.setdefault(section, {}), dict):
        raise RecipeError(f"{section} is no section of a recipe")
    if (section, name) == ("model", "size"):
        for number in SHAPE:
            table[section].pop(number, None)
    table[section][name] = parsed


def build(table: dict[str, Any]) -> Job:
    table = {name: dict(part) if isinstance(part, dict) else part for name, part in table.items()}
    _known(table, ("data", "tokens", "model", "train", "decode"), "section")
    for name, part in table.items():
        if not isinstance(part, dict):
            raise RecipeError(f"{name} must be a section [{name}], got {part!r}")
    model = table.get("model", {}).pop("name", None)
    if not isinstance(model, str) or model not in MODELS:
        raise RecipeError(f"model.name must be one of {', '.join(MODELS)}, got {model!r}")
    kind = MODELS[model].Config
    config = _sized(model, table.get("model", {}))
    for key in ("vocabulary", "source_vocabulary"):
        if key in config:
            raise RecipeError(f"model.{key} follows from the tokenizer; set tokens.size and tokens.joint instead")
    if "labels" in config:
        raise RecipeError("model.labels follow from the data, whose classes they name")
    try:  # checked now, built once the vocabulary is known
        example = section(kind, {**blank(model), **config}, "model")
        shapes(model, example)
    except ValueError as error:
        raise error if isinstance(error, RecipeError) else RecipeError(f"[model]: {error}") from None
    name = task_of(model, example)
    if name not in TASKS:
        raise RecipeError(f"[model]: a {model} made to {name} has nothing to learn by; set model.head")
    task = TASKS[name]
    if "decode" in table and name not in ("translate", "generate"):
        raise RecipeError(f"[decode] says how answers are written, and a {model} made to {name} writes none")
    training = section(Training, table.get("train", {}), "train")
    if training.best_by not in task.BEST_BY:
        allowed = " or ".join(task.BEST_BY)
        raise RecipeError(f"[train]: best_by must be {allowed} for {model}, got {training.best_by!r}")
    if training.agreement and name != "translate":
        raise RecipeError(f"[train]: agreement is between two passes of a translator, and {model} is none")
    if training.capture and name != "recognise":
        raise RecipeError(
            f"[train]: capture is for models of pictures, whose steps are alike; set capture = false for {model}"
        )
    return Job(
        model,
        config,
        section(task.Settings, table.get("data", {}), "data"),
        training,
        _tokens(model, table.get("tokens", {})),
        section(Decoding, table.get("decode", {}), "decode"),
    )


def _tokens(model: str, table: dict[str, Any]) -> Tokens:
    """WordPiece is BERT's, and nobody else's."""
    layout = MODELS[model].layout
    if table and not layout:
        raise RecipeError(f"[tokens] are pieces of text, and a {model} reads none; leave them out")
    kinds = ("wordpiece",) if layout == "bert" else tuple(kind for kind in KINDS if kind != "wordpiece")
    tokens = section(Tokens, {"kind": "wordpiece", **table} if layout == "bert" else table, "tokens")
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


def model_of(name: str) -> str:
    """Which model a recipe trains."""
    return _table(name)["model"]["name"]


def section(kind: type, table: dict[str, Any], name: str) -> Any:
    """A settings dataclass from one section: every key known, every value of its field's type.

    A whole number is also a text: that of a column, say."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    _known(table, fields, f"key of [{name}]")
    table = {
        key: str(value) if type(value) is int and fields[key].type == "str" else value
        for key, value in table.items()
    }
    for key, value in table.items():
        wanted = str(fields[key].type)
        if wanted in TYPES and type(value) not in TYPES[wanted]:
            raise RecipeError(f"{name}.{key} must be {WORDS[wanted]}, got {value!r}")
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in table:
            raise RecipeError(f"{name}.{key} must be set")
    try:
        return kind(**table)
    except ValueError as error:
        raise RecipeError(f"[{name}]: {error}") from None


TYPES = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}


def _known(table: Iterable[str], allowed: Iterable[str], what: str) -> None:
    allowed = list(allowed)
    for key in table:
        if key not in allowed:
            raise RecipeError(f"unknown {what}: {key!r}{_nearest(key, allowed)}")


def _nearest(word: str, words: Iterable[str]) -> str:
    words = list(words)
    near = difflib.get_close_matches(word, words, 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(words)}"


def dump(table: dict[str, Any]) -> str:
    """TOML of a two-level table; JSON writes its strings, numbers, booleans and lists the same way."""
    parts = []
    for name, part in table.items():
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in part.items()]
        parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"
