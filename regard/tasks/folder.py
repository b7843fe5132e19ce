"""A run is a folder anyone can open: config, weights, tokenizer, recipe, log and a card.

Models that have a form in `transformers` are saved in it, and folders made by it are opened as they are. Reading
runs no code from a folder and follows no path in it, and compares every shape before memory is taken."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.data.files import write_file
from regard.data.foreign import open_bert, open_foreign, read_longest
from regard.data.pairs import DataError
from regard.data.text import Special, Tokenizer
from regard.learn.checkpoint import fill, named_tensors, write_tensors
from regard.models import FORMS, MODELS, blank, task_of
from regard.models.foreign import Form, Table, read_parts, used, write_parts
from regard.tasks.beside import read_pixels, small_files
from regard.tasks.known import Known
from regard.tasks.settings import Decoding
from regard.tasks.weights import WEIGHTS, RunError, has_weights, read_headers, read_weights

SHIPPED = Path(__file__).parent.parent / "shipped"
TOKENIZER, SOURCE_TOKENIZER = "tokenizer.json", "source_tokenizer.json"  # the second with two vocabularies only
TYPE = "regard-"  # before the name in model_type: a run that only regard can open
LARGEST_CONFIG = 16 << 20  # bytes; the names of all classes stand there, twice, and may be tens of thousands
GENERATION = {  # settings of transformers' generate, and ours
    "num_beams": "beam",
    "length_penalty": "length_penalty",
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat",
    "renormalize_logits": "renormalise",
}
# How long an answer may be is asked with each.
LENGTHS = frozenset({"max_new_tokens", "max_time", "renormalize_logits", "_from_model_config"})
MOST_LAYERS, MOST = 1000, 1 << 24  # beyond any model; so that a config cannot ask for a day's worth of layers


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
    folder: Path,
    model: Any,
    known: Known,
    recipe: str,
    decode: Decoding | None = None,
    *,
    dtype: str = "float32",
) -> None:
    """All of a run but its weights, which will be of that dtype."""
    folder.mkdir(parents=True, exist_ok=True)
    name, form = form_of(model)
    config: dict[str, Any] = {"model_type": TYPE + name, **dataclasses.asdict(model.config)}
    files: dict[str, dict[str, Any]] = {}
    if form:
        called = form.architecture(model.config) if form.architecture else form.architectures[0]
        config = {"model_type": form.kind, "architectures": [called], "dtype": dtype}
        config |= form.write_config(model.config, known.tokenizer and known.tokenizer.special)
    if form or known.pixels:
        files = small_files(known, model, task_of(name, model.config), decode or Decoding())
    if recipe:
        write_file(folder / "recipe.toml", recipe.encode())
    if known.tokenizer is not None:
        known.tokenizer.save(folder / TOKENIZER)
    if known.source_tokenizer is None:
        (folder / SOURCE_TOKENIZER).unlink(missing_ok=True)  # of a training that was given up
    else:
        known.source_tokenizer.save(folder / SOURCE_TOKENIZER)
    for file, table in {**files, "config.json": config}.items():
        write_file(folder / file, (json.dumps(table, indent=2) + "\n").encode())


def form_of(model: Any) -> tuple[str, Form | None]:
    """The model's name, and its form in `transformers` where it has one."""
    name = next(name for name, kind in MODELS.items() if kind is type(model))
    form = FORMS.get(name)
    return name, None if form is None or form.lacks(model.config) else form


def save_weights(folder: Path, model: nn.Module, dtype: torch.dtype = torch.float32) -> None:
    """model.safetensors, replaced at once: a reader finds the old weights or the new."""
    tensors = named_tensors(model)
    _, form = form_of(model)
    if form:
        tensors = write_parts(form.parts(model.config), tensors)
    write_tensors(folder / WEIGHTS, {name: tensor.to(dtype) for name, tensor in tensors.items()}, {"format": "pt"})


def read_config(folder: Path) -> tuple[str, Any]:
    """The model's name and its configuration, every field checked."""
    found = _read_config(folder)
    return found.name, found.config


@dataclass(frozen=True)
class Found:
    """What config.json says."""

    name: str
    config: Any
    form: Form | None = None  # a foreign one
    special: Special | None = None  # its special tokens, as far as they stand there


def _read_config(folder: Path) -> Found:
    path = folder / "config.json"
    if path.stat().st_size > LARGEST_CONFIG:
        raise RunError(f"{path} has {path.stat().st_size:,} bytes; no configuration is that large")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        kind = str(table.pop("model_type"))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise RunError(f"{path} is not the configuration of a run: {error!r:.200}") from None
    for name, form in FORMS.items():
        if form.kind == kind:
            config, special = _foreign_config(path, table, form)
            return Found(name, config, form, special)
    name = kind.removeprefix(TYPE)
    if name not in MODELS or name == kind:
        known = ", ".join([*(form.kind for form in FORMS.values()), *(TYPE + name for name in MODELS)])
        raise RunError(f"{path} asks for {kind!r:.80}; this version opens {known}")
    return Found(name, _own_config(path, table, name))


def _foreign_config(path: Path, table: dict[str, Any], form: Form) -> tuple[Any, Special | None]:
    asked = table.get("architectures")
    if asked is not None and asked not in [[one] for one in form.architectures]:
        known = ", ".join(form.architectures)
        raise RunError(f"{path}: architectures = {asked!r:.80} is another head than {known}")
    try:
        settings = Table(table)
        config, special = form.read_config(settings)
        settings.done()
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None
    if form.holds and has_weights(path.parent):
        names = (name for header in read_headers(path.parent).values() for name in header)
        config = form.holds(config, frozenset(map(form.rename, names)))
    for key, number in vars(special).items() if special else ():
        if number >= config.vocabulary:
            raise RunError(
                f"{path}: the {key} token is {number:,}, and vocab_size ends at {config.vocabulary - 1:,}"
            )
    return config, special


def _own_config(path: Path, table: dict[str, Any], name: str) -> Any:
    example = MODELS[name].Config(**blank(name))
    fields = {field.name: type(getattr(example, field.name)) for field in dataclasses.fields(example)}
    if odd := sorted(set(table) ^ set(fields)):
        raise RunError(f"{path}: missing or unknown: {', '.join(odd):.200}; {name} has {', '.join(fields)}")
    for key, value in table.items():
        if fields[key] is tuple and type(value) is list and all(type(one) is str for one in value):
            table[key] = tuple(value)  # the names of classes
        elif type(value) is not fields[key] and not (fields[key] is float and type(value) is int):
            raise RunError(f"{path}: {key} must be of type {fields[key].__name__}, got {value!r:.80}")
    try:
        return MODELS[name].Config(**table)
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None


class Unfilled(TorchFunctionMode):
    """First weights are not drawn: others come in their place, or there is no memory to put them in, for
    which torch would load its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("uniform_", "normal_", "truncated_normal_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def check_sizes(config: Any) -> None:
    for key, value in dataclasses.asdict(config).items():
        most = MOST_LAYERS if key.endswith("layers") else MOST
        if type(value) is int and value > most:
            raise ValueError(f"{key} must be at most {most:,}, got {value:,}")


def shapes(name: str, config: Any) -> dict[str, Tensor]:
    """Every weight by name, without memory. ValueError where there can be no such model."""
    check_sizes(config)
    with torch.device("meta"), Unfilled():
        return named_tensors(MODELS[name](config))


def check_layers(config: Any, tensors: int) -> None:
    """Each layer has weights: many layers are not built to find that they have none."""
    layers = max([value for key, value in dataclasses.asdict(config).items() if key.endswith("layers")], default=0)
    if layers > tensors:
        raise ValueError(f"it asks for {layers:,} layers, and the folder holds {tensors:,} tensors in all")


def read_model(folder: Path) -> nn.Module:
    """The model with its weights, in float32 and ready to answer."""
    found = _read_config(folder)
    name, config, form = found.name, found.config, found.form
    headers = read_headers(folder)
    try:
        check_sizes(config)
        check_layers(config, sum(map(len, headers.values())))
        wanted = shapes(name, config)
    except ValueError as error:
        raise RunError(f"{folder / 'config.json'}: {error}") from None
    parts = form.parts(config) if form else []
    if form:
        wanted = write_parts(used(parts), wanted)
    copies = form.copies(config) if form else {}
    tensors = read_weights(headers, {key: tuple(x.shape) for key, x in wanted.items()}, form, copies)
    with Unfilled():
        model = MODELS[name](config)
    fill(model, read_parts(parts, tensors) if form else tensors, source=folder)
    return model.eval()


def read_known(folder: Path) -> Known:
    """What the folder holds beside settings and weights."""
    found = _read_config(folder)
    config, special = found.config, found.special
    labels = getattr(config, "labels", ())
    if task_of(found.name, config) == "recognise":
        return Known(labels=labels, pixels=read_pixels(folder, config))
    if special:
        try:
            if MODELS[found.name].layout == "bert":
                words = open_bert(folder, vocabulary=config.vocabulary, pad=special.pad)
                return Known(words, labels=labels, longest=read_longest(folder))
            return Known(open_foreign(folder, vocabulary=config.vocabulary, special=special), labels=labels)
        except (DataError, RecursionError) as error:
            raise RunError(str(error)) from None
    tokenizer = _read_tokenizer(folder / TOKENIZER, config.vocabulary)
    if not getattr(config, "source_vocabulary", 0):
        return Known(tokenizer)
    return Known(tokenizer, _read_tokenizer(folder / SOURCE_TOKENIZER, config.source_vocabulary))


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


def read_decoding(folder: Path) -> Decoding:
    """How the run's recipe, else its generation_config.json, has answers found."""
    path = folder / "recipe.toml"
    if not path.is_file():
        return _foreign_decoding(folder)
    try:
        return Decoding(**tomllib.loads(path.read_text(encoding="utf-8")).get("decode", {}))
    except (ValueError, TypeError, RecursionError) as error:
        raise RunError(f"{path}, [decode]: {error}") from None


def _foreign_decoding(folder: Path) -> Decoding:
    """What generation_config.json asks for. Old folders have these settings in config.json."""
    path = folder / "generation_config.json"
    apart = path.is_file()
    path = path if apart else folder / "config.json"
    if path.stat().st_size > LARGEST_CONFIG:
        raise RunError(f"{path} has {path.stat().st_size:,} bytes; no configuration is that large")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if apart:
            _check_generation(folder, Table(table))
        drawn = {"temperature": 1.0, "top_k": 50, "top_p": 1.0} if table.get("do_sample") else {}
        asked = {ours: table.get(ours, default) for ours, default in drawn.items()}
        asked |= {ours: table[key] for key, ours in GENERATION.items() if table.get(key) is not None}
        return Decoding(**{key: value for key, value in asked.items() if value is not None})
    except RunError:  # of config.json, which it names
        raise
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise RunError(f"{path}: {error!s:.300}") from None


def _check_generation(folder: Path, table: Table) -> None:
    """Refuse what would have other tokens written than are written here."""
    found = _read_config(folder)
    name, special = found.name, found.special
    if special is None:
        return
    table.must("eos_token_id", special.end, [special.end], None)
    table.must("min_length", 0, None)
    table.must("min_new_tokens", None, 0)
    table.must("num_return_sequences", 1, None)
    if MODELS[name].task == "generate":
        table.must("bad_words_ids", None, [])
    else:
        table.must("bad_words_ids", None, [], [[special.pad]])
        table.must("decoder_start_token_id", special.start, None)
    if table.table.get("do_sample"):
        table.must("num_beams", 1, None)
    elif table.table.get("num_beams") not in (None, 1):
        table.must("early_stopping", False, None)
    table.left -= LENGTHS
    table.done()
