"""A run is a folder anyone can open: config, weights, tokenizer, recipe, log and a card.

Reading one runs no code from it and follows no path in it, and compares every shape before memory is taken."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.data.files import write_file
from regard.data.pairs import DataError
from regard.data.text import Tokenizer
from regard.learn.checkpoint import fill, named_tensors, write_tensors
from regard.models import MODELS

SHIPPED = Path(__file__).parent.parent / "shipped"
TOKENIZER, SOURCE_TOKENIZER = "tokenizer.json", "source_tokenizer.json"  # the second with two vocabularies only
TYPE = "regard-"  # before the name in model_type: a run that only regard can open
LARGEST_CONFIG = 1 << 20
MOST_LAYERS, MOST = 1000, 1 << 24  # beyond any model; so that a config cannot ask for a day's worth of layers


class RunError(ValueError):
    """A run folder that is missing, half there or not what it claims to be."""


def shipped() -> list[str]:
    return sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))


def find(run: str | Path) -> Path:
    """A folder, else the name of a shipped run."""
    path = Path(run)
    if (path / "config.json").is_file():
        return path
    if path.is_dir():
        raise RunError(f"{path} is a folder without config.json, so it is no run; `regard train` makes one")
    if str(run) in shipped():
        return SHIPPED / str(run)
    there = ", ".join(shipped()) or "none"
    raise RunError(f"there is no run {str(run)!r}: it is neither a folder nor one of those shipped ({there})")


def begin(
    folder: Path, model: nn.Module, tokenizer: Tokenizer, recipe: str, source_tokenizer: Tokenizer | None = None
) -> None:
    """All of a run but its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    name = next(name for name, kind in MODELS.items() if kind is type(model))
    config = {"model_type": TYPE + name, **dataclasses.asdict(model.config)}  # type: ignore[call-overload]
    write_file(folder / "recipe.toml", recipe.encode())
    tokenizer.save(folder / TOKENIZER)
    if source_tokenizer is None:
        (folder / SOURCE_TOKENIZER).unlink(missing_ok=True)  # of a training that was given up
    else:
        source_tokenizer.save(folder / SOURCE_TOKENIZER)
    write_file(folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())


def save_weights(folder: Path, model: nn.Module) -> None:
    """model.safetensors, replaced at once: a reader finds the old weights or the new."""
    write_tensors(folder / "model.safetensors", named_tensors(model), {"format": "pt"})


def read_config(folder: Path) -> tuple[str, Any]:
    """The model's name and its configuration, every field checked."""
    path = folder / "config.json"
    if path.stat().st_size > LARGEST_CONFIG:
        raise RunError(f"{path} has {path.stat().st_size:,} bytes; no configuration is that large")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        kind = str(table.pop("model_type"))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise RunError(f"{path} is not the configuration of a run: {error!r:.200}") from None
    name = kind.removeprefix(TYPE)
    if name not in MODELS or name == kind:
        known = ", ".join(TYPE + name for name in MODELS)
        raise RunError(f"{path} asks for {kind!r:.80}; this version opens {known}")
    example = MODELS[name].Config(vocabulary=1)
    fields = {field.name: type(getattr(example, field.name)) for field in dataclasses.fields(example)}
    if odd := sorted(set(table) ^ set(fields)):
        raise RunError(f"{path}: missing or unknown: {', '.join(odd):.200}; {name} has {', '.join(fields)}")
    for key, value in table.items():
        if type(value) is not fields[key] and not (fields[key] is float and type(value) is int):
            raise RunError(f"{path}: {key} must be of type {fields[key].__name__}, got {value!r:.80}")
    try:
        return name, MODELS[name].Config(**table)
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None


class Unfilled(TorchFunctionMode):
    """First weights are not drawn: on tensors without memory that is no use, and torch would load its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("uniform_", "normal_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def shapes(name: str, config: Any) -> dict[str, tuple[int, ...]]:
    """The shape of every weight, by name; no memory is taken. ValueError where there can be no such model."""
    for key, value in dataclasses.asdict(config).items():
        most = MOST_LAYERS if key.endswith("layers") else MOST
        if type(value) is int and value > most:
            raise ValueError(f"{key} must be at most {most:,}, got {value:,}")
    with torch.device("meta"), Unfilled():
        return {key: tuple(x.shape) for key, x in named_tensors(MODELS[name](config)).items()}


def read_model(folder: Path) -> nn.Module:
    """The model with its weights, in float32 and ready to answer."""
    name, config = read_config(folder)
    path = folder / "model.safetensors"
    if not path.is_file():
        raise RunError(f"{folder} has no model.safetensors; its training has not come to a first validation yet")
    try:
        wanted = shapes(name, config)
    except ValueError as error:
        raise RunError(f"{folder / 'config.json'}: {error}") from None
    tensors = _read_tensors(path, wanted)
    model = MODELS[name](config)
    fill(model, tensors, source=path)
    return model.eval()


def read_tokenizers(folder: Path, config: Any) -> tuple[Tokenizer, Tokenizer | None]:
    """The target's tokenizer and the source's, None where one serves both."""
    tokenizer = _read_tokenizer(folder / TOKENIZER, config.vocabulary)
    if not config.source_vocabulary:
        return tokenizer, None
    return tokenizer, _read_tokenizer(folder / SOURCE_TOKENIZER, config.source_vocabulary)


def _read_tokenizer(path: Path, vocabulary: int) -> Tokenizer:
    """The tokenizer, its ids being just those the model knows."""
    try:
        tokenizer = Tokenizer.load(path)
    except (DataError, RecursionError) as error:
        raise RunError(str(error)) from None
    ids = sorted(tokenizer.inner.get_vocab().values())
    if ids != list(range(vocabulary)):
        raise RunError(
            f"{path} has {len(ids):,} entries, ids up to {max(ids):,}, and config.json wants {vocabulary:,}; "
            "they are not of one run"
        )
    return tokenizer


def _read_tensors(path: Path, wanted: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The file's tensors, after its header has been found to promise just these shapes."""
    try:
        with safe_open(path, framework="pt") as file:
            found = {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
            for key in sorted(wanted.keys() | found.keys()):
                if wanted.get(key) != found.get(key):
                    raise RunError(
                        f"{path}: {key} should be {wanted.get(key, 'absent')} by config.json, "
                        f"it is {found.get(key, 'absent')}"
                    )
            tensors = {key: file.get_tensor(key).float() for key in found}
    except SafetensorError as error:
        raise RunError(f"{path} cannot be read; it is cut short, altered or no safetensors file: {error}") from None
    if broken := [key for key, tensor in tensors.items() if not tensor.isfinite().all()]:
        raise RunError(f"{path}: {', '.join(broken)} hold numbers that are not finite; the run is of no use")
    return tensors
