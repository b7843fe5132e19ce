"""A run is a folder anyone can open: config, weights, tokenizer, recipe, log and model card.

Models that have a form in another library are saved in it, and folders of that library are opened as they are.
Opening runs no code from a folder, follows no path in it, and compares every shape before memory is allocated."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.base.fields import build, read_toml
from regard.base.files import is_there, write_file
from regard.base.names import check_name
from regard.base.short_repr import printable
from regard.base.tensors import CHECKSUM, checksum, fill, named_tensors, write_tensors
from regard.data.artifacts import AnyTokenizer, Artifacts, MissingTokenizer, Pixels
from regard.data.text.special_tokens import Special
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.errors import DataError, RecipeError, RunError
from regard.foreign import FORMS, form_of
from regard.foreign.contents import Contents, Json, run_errors
from regard.foreign.form import Form, Table, read_parts, settle_labels, used, write_parts
from regard.foreign.hf_files import (
    MAX_LENGTH,
    PREPROCESSOR,
    TOKENIZER_CONFIG,
    preprocessor_file,
    read_max_length,
    read_pixels,
)
from regard.models import MODELS, name_of
from regard.models.protocols import Model, ModelConfig
from regard.runs.hub import hub_folder, is_hub_name
from regard.runs.shipped import SHIPPED, shipped
from regard.runs.weights import (
    WEIGHTS,
    broken_weights,
    changed_files,
    has_weights,
    kind_of,
    read_headers,
    read_weights,
    stored_numbers,
)
from regard.wrapped.base import WrappedConfig
from regard.wrapped.opening import Wrapping, is_wrapped, read_wrapped, why_not_wrapped

TOKENIZER, SOURCE_TOKENIZER = "tokenizer.json", "source_tokenizer.json"  # the second with two vocabularies only
RECIPE = "recipe.toml"
CLASSIFIER = "classifier.bias"  # in folders of transformers
# Files that belong to a run; beside them a folder may hold what its owner keeps there.
OWN_FILES = (
    *("config.json", "options.json", "*_config.json", "*tokenizer.json", "*_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "*.spm", "*.safetensors", "*.safetensors.index.json", "*.hdf5"),
    *(RECIPE, "log.jsonl", "README.md", "loss.svg", "data.json", "examples.json", "result.json", "training/*/*"),
)
TYPE = "regard-"  # model_type of a run that only regard can open begins with this
FORMAT_VERSION = 1  # of the folders of our own form
# More than any real model has: a hostile config must not keep us building for hours.
MOST_LAYERS, MOST = 1000, 1 << 24
NONE = Special(0, 0, 0, -1)  # of a wrapped model, whose tokenizer names its special tokens


def find(run: str | Path) -> Path:
    """The place of a run: a folder, else the name of a shipped run, else org/name on the Hugging Face Hub."""
    try:
        check_name(run)
    except DataError as error:
        remedy = "name a folder, a shipped run, or org/name on the Hugging Face Hub"
        raise RunError(f"there is no run of that name: {error}; {remedy}") from None
    path = Path(run)
    if path.is_dir():
        contents = Contents(path)
        if contents.has("config.json") or any(form.matches(contents) for form in FORMS.values()):
            return path
        raise RunError(f"{path} is a folder without config.json, so it is not a run; `regard train` makes one")
    if str(run) in shipped():
        return SHIPPED / str(run)
    if is_hub_name(str(run)):
        return hub_folder(str(run))
    names = ", ".join(shipped()) or "none"
    raise RunError(
        f"there is no run {str(run)!r}: it is neither a folder nor one of those shipped ({names}), nor org/name on "
        "the Hugging Face Hub"
    )


@dataclass(frozen=True)
class ModelSettings:
    """What config.json says."""

    name: str  # of the model, in MODELS
    config: ModelConfig
    form: Form[Any] | None = None  # None: our own
    special: Special | None = None  # special tokens, as far as another library's config.json names them


def own_files(folder: Path) -> list[Path]:
    """The files of a run, which nothing else may be written to."""
    return [path for pattern in OWN_FILES for path in folder.glob(pattern)]


class Folder:
    """A run's folder, opened. Every file is read when it is first asked for, and once."""

    def __init__(self, run: str | Path) -> None:
        self.path = find(run)
        self.contents = Contents(self.path)

    def __repr__(self) -> str:
        return f"<run folder {printable(str(self.path))}>"

    @cached_property
    def settings(self) -> ModelSettings:
        """The model's name and its configuration, every field checked."""
        return read_settings(self.contents)

    @property
    def name(self) -> str:
        """The model's name in MODELS."""
        return self.settings.name

    @property
    def config(self) -> ModelConfig:
        """The model's settings."""
        return self.settings.config

    @cached_property
    def recipe(self) -> Json | None:
        """recipe.toml as tables; None where there is none, as in folders of other libraries."""
        with run_errors():
            return read_toml(self.path / RECIPE) if self.contents.has(RECIPE) else None

    def model(self) -> Model:
        """The model with its weights, in float32 (counters and masks as they are) and eval mode, on the CPU."""
        return read_model(self.path, self.settings)

    def outline(self) -> Model:
        """The model without weights, on the meta device. The headers of its weight files are read and checked."""
        return outline(self.path, self.settings)

    def tokenizer(self) -> AnyTokenizer:
        """The tokenizer; of a translator with two vocabularies, the target's."""
        settings = self.settings
        vocabulary = getattr(settings.config, "vocabulary", 0)
        if not vocabulary:
            raise RunError(f"{self.path}: a {settings.name} reads no text")
        with run_errors():
            if settings.form and settings.special:
                return settings.form.tokenizer(self.contents, settings.config, settings.special)
            return _read_tokenizer(self.path / TOKENIZER, vocabulary)

    def source_tokenizer(self) -> Tokenizer | None:
        """The source's own, of a translator with two vocabularies."""
        size = getattr(self.config, "source_vocabulary", 0)
        return _read_tokenizer(self.path / SOURCE_TOKENIZER, size) if size else None

    def max_length(self) -> int:
        """How many tokens of a text are read; 0: as many as the model has positions."""
        form = self.settings.form
        return form.max_length(self.contents) if form else read_max_length(self.contents)

    def pixels(self) -> Pixels:
        """How its model reads images."""
        form, config = self.settings.form, self.config
        if not hasattr(config, "channels"):
            raise RunError(f"{self.path}: a {self.name} reads no images")
        return form.pixels(self.contents, config) if form else read_pixels(self.contents, config)  # type: ignore[arg-type]

    def decoding(self) -> Decoding:
        """The decoding settings: those of the recipe, else those of the other library's files."""
        if self.recipe is not None:
            table = self.recipe.get("decode", {})
            if not isinstance(table, dict):
                raise RunError(f"{self.path / RECIPE}: decode must be a section [decode], got {table!r:.80}")
            try:
                return build(Decoding, table, "decode")
            except RecipeError as error:
                raise RunError(f"{self.path / RECIPE}: {error}") from None
        form, special = self.settings.form, self.settings.special
        return form.decoding(self.contents, special) if form and special else Decoding()


# ---- writing


def begin(
    folder: Path,
    model: Model,
    artifacts: Artifacts,
    recipe: str,
    decoding: Decoding | None = None,
    *,
    dtype: str = "float32",
) -> None:
    """Write everything of a run but its weights, which will be of that dtype."""
    folder.mkdir(parents=True, exist_ok=True)
    name = name_of(model)
    form = form_of(name, model.config)
    special = artifacts.tokenizer.special if artifacts.tokenizer is not None else None
    settings = form.config_file if form else "config.json"
    if form:
        config: Json = {**form.kind(model.config, dtype), **form.write_config(model.config, special)}
        files = form.small_files(model.config, artifacts, decoding or Decoding())
        config |= files.get(settings, {})
    else:
        config = {"model_type": TYPE + name, "format_version": FORMAT_VERSION, **dataclasses.asdict(model.config)}
        files = {}
        if artifacts.pixels is not None:
            files[PREPROCESSOR] = preprocessor_file(model.config, artifacts.pixels)
        files[TOKENIZER_CONFIG] = {MAX_LENGTH: artifacts.max_length} if artifacts.max_length else {}
    if recipe:
        write_file(folder / RECIPE, recipe.encode())
    if artifacts.tokenizer is not None:
        artifacts.own_tokenizer.save(folder / TOKENIZER)
    if artifacts.source_tokenizer is None:
        (folder / SOURCE_TOKENIZER).unlink(missing_ok=True)  # left by an abandoned training
    else:
        artifacts.source_tokenizer.save(folder / SOURCE_TOKENIZER)
    for file, table in {**files, settings: config}.items():
        if table:
            write_file(folder / file, (json.dumps(table, indent=2) + "\n").encode())
        else:
            (folder / file).unlink(missing_ok=True)


def save_weights(folder: Path, model: Model, dtype: torch.dtype = torch.float32) -> None:
    """Replace model.safetensors atomically: a reader finds the old weights or the new."""
    save_weights_in(folder, model, form_of(name_of(model), model.config), dtype)


def save_weights_in(folder: Path, model: Model, form: Form[Any] | None, dtype: torch.dtype = torch.float32) -> None:
    """The same in this form; None: our own."""
    tensors = named_tensors(model)
    for name, tensor in tensors.items():
        kind_of(f"{folder / WEIGHTS}: {name}", tensor.dtype)  # refuses what could not be read again
    if form:
        tensors = write_parts(form.parts(model.config), tensors)
    stored = {name: in_dtype(tensor, dtype) for name, tensor in tensors.items()}
    write_tensors(folder / WEIGHTS, stored, {"format": "pt", CHECKSUM: checksum(stored.items())})


def in_dtype(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """As it is stored in a run of this dtype: counters and masks stay as they are."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


# ---- reading


def read_settings(contents: Contents) -> ModelSettings:
    for form in FORMS.values():
        if form.matches(contents):
            return _foreign_settings(contents, form)
    if is_wrapped(contents):
        form, config = read_wrapped(contents)
        return ModelSettings(config.model_type, config, form, NONE)
    path = contents.path / "config.json"
    kind = contents.config.get("model_type")
    types = [form.model_type for form in FORMS.values() if form.model_type]
    supported = ", ".join([*types, *(TYPE + name for name in MODELS)])
    if others := [f"{form.library}'s {form.model}" for form in FORMS.values() if not form.model_type]:
        supported += f"; and without a model_type the folders of {', '.join(others)}"
    if not isinstance(kind, str):
        reason = "it has no model_type" if kind is None else f"its model_type is {kind!r:.80}"
        raise RunError(
            f"{path} does not say which model this is: {reason}; add one that this version opens, as in "
            f'"model_type": "gpt2": {supported}'
        )
    name = kind.removeprefix(TYPE)
    if name not in MODELS or name == kind:
        more = why_not_wrapped(contents)
        raise RunError(f"{path} asks for {kind!r:.80}; this version opens {supported}{more}")
    return ModelSettings(name, _own_config(path, contents.config, name))


def _foreign_settings(contents: Contents, form: Form[Any]) -> ModelSettings:
    name = form.settings_file(contents)
    path, settings = contents.path / name, contents.json(name)
    heads = settings.get("architectures")
    if form.architectures and heads is not None and heads not in [[head] for head in form.architectures]:
        supported = ", ".join(form.architectures)
        raise RunError(f"{path}: architectures = {heads!r:.80} is not supported, only {supported}")
    settings = settle_labels(settings, lambda: _classes(path.parent))
    try:
        table = Table(settings, library=form.library)
        config, special = form.read_config(table)
        table.done(path)
        check_sizes(config)
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None
    if has_weights(path.parent):
        names = (name for header in read_headers(path.parent).values() for name in header)
        config = form.holds(config, frozenset(map(form.rename, names)))
    return ModelSettings(form.model, config, form, special)


def _classes(folder: Path) -> int:
    """How many classes the weights of a transformers classifier have; 0: there is none."""
    if not has_weights(folder):
        return 0
    shapes = [header[CLASSIFIER][0] for header in read_headers(folder).values() if CLASSIFIER in header]
    return shapes[0][0] if shapes and shapes[0] else 0


def _own_config(path: Path, table: Json, name: str) -> ModelConfig:
    version = table.get("format_version")
    if type(version) is not int or version < 1:
        raise RunError(f"{path}: format_version must be a whole number of at least 1, got {version!r:.40}")
    if version > FORMAT_VERSION:
        raise RunError(
            f"{path}: this run was written by a newer version of regard: its format_version is {version:,}, and "
            f"this version reads up to {FORMAT_VERSION}; upgrade regard"
        )
    values = {key: value for key, value in table.items() if key not in ("model_type", "format_version")}
    declared = dataclasses.fields(MODELS[name].Config)
    fields = [field.name for field in declared]
    later = {field.name for field in declared if field.metadata.get("later")}
    if odd := sorted((set(values) ^ set(fields)) - later):
        raise RunError(f"{path}: missing or unknown: {', '.join(odd):.200}; {name} has {', '.join(fields)}")
    try:  # the configuration checks types and ranges
        config = MODELS[name].Config(**values)
        check_sizes(config)
        return config
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None


class SkipInit(TorchFunctionMode):
    """Skip weight initialisation: the weights are loaded next, or the model is on the meta device, where random
    initialisation would make torch import its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__.endswith(("uniform_", "normal_")):  # kaiming_uniform_ too: what it calls is not seen here
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def shapes(name: str, config: ModelConfig) -> Mapping[str, Tensor]:
    """Every weight by name, on the meta device. ValueError where there can be no such model."""
    return _shapes(name, config, torch.get_default_dtype())


@lru_cache(maxsize=64)
def _shapes(name: str, config: ModelConfig, default_dtype: torch.dtype) -> Mapping[str, Tensor]:
    check_sizes(config)
    with torch.device("meta"), SkipInit():
        return named_tensors(MODELS[name](config))


def check_sizes(config: ModelConfig) -> None:
    for name, (sizes, layers) in _sizes(config).items():
        size, most = (sum(sizes), MOST_LAYERS) if layers else (max(sizes, default=0), MOST)
        if size > most:
            words = "add up to" if len(sizes) > 1 and layers else "be"
            raise ValueError(f"{name} must {words} at most {most:,}, got {size:,}")


def check_layers(config: ModelConfig, tensors: int) -> None:
    """Each layer has weights, so a config with more layers than there are tensors is refused before building."""
    layers = max([sum(sizes) for sizes, layers in _sizes(config).values() if layers], default=0)
    if layers > tensors:
        raise ValueError(f"it has {layers:,} layers, and the folder holds only {tensors:,} tensors")


def _sizes(config: ModelConfig) -> dict[str, tuple[list[int], bool]]:
    """The positive whole numbers of each setting, and whether they count layers."""
    sizes_of = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        numbers = value if isinstance(value, tuple) else (value,)
        sizes = [number for number in numbers if type(number) is int and number > 0]
        sizes_of[field.name] = sizes, bool(field.metadata.get("layers"))
    return sizes_of


def outline(folder: Path, settings: ModelSettings) -> Model:
    headers = read_headers(folder, settings.form)
    if isinstance(settings.form, Wrapping):
        return cast(Model, settings.form.outline(folder, cast(WrappedConfig, settings.config)))
    try:
        check_layers(settings.config, sum(map(len, headers.values())))
        check_sizes(settings.config)
        with torch.device("meta"), SkipInit():
            model = MODELS[settings.name](settings.config)
    except ValueError as error:
        raise RunError(f"{folder}: {error}") from None
    return model.eval()


def read_model(folder: Path, settings: ModelSettings) -> Model:
    name, config, form = settings.name, settings.config, settings.form
    headers = read_headers(folder, form)
    if isinstance(form, Wrapping):
        return cast(Model, form.open(folder, cast(WrappedConfig, config), stored_numbers(headers)))
    try:
        check_layers(config, sum(map(len, headers.values())))
        wanted = shapes(name, config)
    except ValueError as error:
        raise RunError(f"{folder / (form.config_file if form else 'config.json')}: {error}") from None
    parts = form.parts(config) if form else []
    if form:
        wanted = write_parts(used(parts), wanted)
    copies = form.copies(config) if form else {}
    tensors = read_weights(headers, wanted, form, copies)
    with SkipInit():
        model = MODELS[name](config)
    assert isinstance(model, nn.Module)
    model.broken = broken = broken_weights(list(headers), tensors)  # type: ignore[assignment]  # what errors say then
    for fault in ([f"{broken}; this model's answers will be of no use"] if broken else []) + changed_files(headers):
        warnings.warn(fault, RuntimeWarning, stacklevel=2)
    fill(model, read_parts(parts, tensors) if form else tensors, source=folder)
    model.eval()
    return model


def _read_tokenizer(path: Path, vocabulary: int) -> Tokenizer:
    """The tokenizer; its ids must be exactly those of the model."""
    with run_errors():
        if not is_there(path):
            return MissingTokenizer(f"{path} does not exist, and without it this run reads no text")
        tokenizer = Tokenizer.load(path)
    ids = sorted(tokenizer.inner.get_vocab().values())
    if ids != list(range(vocabulary)):
        raise RunError(
            f"{path} has {len(ids):,} entries, ids up to {max(ids):,}, and config.json says {vocabulary:,}; "
            "they are not from the same run"
        )
    return tokenizer
