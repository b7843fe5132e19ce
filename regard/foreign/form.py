"""What all forms share: names and layouts of tensors, config.json read strictly, names of classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from regard.data.artifacts import AnyTokenizer, Artifacts, Pixels
from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.errors import RunError, Unrepresentable
from regard.foreign.contents import Contents, Json, say_once
from regard.models.labels import MOST_LABELS

Config = TypeVar("Config")


class Form(ABC, Generic[Config]):
    """How another library writes one of our models to a folder: one subclass for each form.

    A folder is opened by the first form that `matches` it."""

    model: ClassVar[str]  # our name of the model
    library: ClassVar[str] = "transformers"  # for error messages
    model_type: ClassVar[str] = ""  # its name in config.json; "": there is none, and `matches` knows its folders
    config_file: ClassVar[str] = "config.json"  # the JSON file that `read_config` reads
    architectures: ClassVar[tuple[str, ...]] = ()  # the heads that can be read; the first is the one written
    prefix: ClassVar[str] = ""  # tensor names begin with this, but not in files of a model without a head
    derived: ClassVar[str] = ""  # regex of tensors that hold nothing learned (masks, sinusoids) and are skipped
    optional: ClassVar[str] = ""  # regex of tensors that a file may lack; they are 0 then

    def matches(self, contents: Contents) -> bool:
        """By model_type, or by architectures if config.json has no model_type. A form without these has a test of
        its own."""
        kind, heads = (contents.config.get(key) for key in ("model_type", "architectures"))
        return kind == self.model_type or (kind is None and heads in [[head] for head in self.architectures])

    def kind(self, config: Config, dtype: str) -> Json:
        """The keys of config.json that say which model this is, and of which dtype its weights are."""
        if not self.model_type:
            return {}
        return {"model_type": self.model_type, "architectures": [self.architecture(config)], "dtype": dtype}

    @abstractmethod
    def read_config(self, table: Table) -> tuple[Config, Special | None]:
        """Our configuration and the special tokens (None: it reads no text). Raises Unrepresentable."""

    @abstractmethod
    def write_config(self, config: Config, special: Special | None) -> Json:
        """Their settings of a model of ours; `kind` is written before them."""

    @abstractmethod
    def parts(self, config: Config) -> list[Part]:
        """Every tensor of theirs, and what of ours it holds."""

    def lacks(self, config: Config) -> str:
        """Why this form cannot hold a model of ours; "" if it can."""
        return ""

    def copies(self, config: Config) -> dict[str, str]:
        """Tensors that repeat another tensor, {name: original}; original "": the tensor is not used."""
        return {}

    def architecture(self, config: Config) -> str:
        """The head's name in config.json."""
        return self.architectures[0]

    def holds(self, config: Config, names: frozenset[str]) -> Config:
        """The configuration adjusted to the tensors that are there (names with or without the prefix)."""
        return config

    def rename(self, name: str) -> str:
        """A tensor's name as older or newer files spell it -> as `parts` spells it."""
        return name

    def check_derived(self, where: str, read: Callable[[], Tensor]) -> None:
        """Raise RunError if a derived tensor is not what would be derived; `read` loads it."""
        return None

    def tokenizer(self, contents: Contents, config: Config, special: Special) -> AnyTokenizer:
        """The tokenizer of the folder."""
        raise RunError(f"{contents.path}: a {self.model} reads no text")

    def settings_file(self, contents: Contents) -> str:
        """The JSON file of the settings: `config_file`, unless a library's folders differ in its name."""
        return self.config_file

    def weight_file(self, contents: Contents) -> str:
        """The file of the weights, where they are not in safetensors files; "": they are."""
        return ""

    def max_length(self, contents: Contents) -> int:
        """How many tokens of a text are read, 0: as many as the model has positions."""
        return 0

    def pixels(self, contents: Contents, config: Config) -> Pixels:
        """How the folder's model reads images."""
        raise RunError(f"{contents.path}: a {self.model} reads no images")

    def decoding(self, contents: Contents, special: Special) -> Decoding:
        """The decoding settings of the folder."""
        return Decoding()

    def small_files(self, config: Config, artifacts: Artifacts, decoding: Decoding) -> dict[str, Json]:
        """The JSON files that the other library expects beside its settings, by name; `config_file` is added to
        those, for libraries that keep there how images are read, say."""
        return {}


@dataclass(frozen=True)
class Part:
    """One tensor of theirs, and the tensors of ours that it holds."""

    foreign: str
    ours: tuple[str, ...]
    write: Callable[..., Tensor]  # ours -> foreign
    read: Callable[[Tensor], tuple[Tensor, ...]]  # foreign -> ours
    unused: bool = False  # the other library expects it, but nothing computes with it


def same(foreign: str, ours: str) -> Part:
    return Part(foreign, (ours,), lambda x: x, lambda x: (x,))


def used(parts: Iterable[Part]) -> list[Part]:
    return [part for part in parts if not part.unused]


def write_parts(parts: Iterable[Part], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors by our names -> theirs by their names."""
    return {part.foreign: part.write(*(tensors[name] for name in part.ours)) for part in parts}


def read_parts(parts: Iterable[Part], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors by their names -> ours by our names."""
    ours: dict[str, Tensor] = {}
    for part in used(parts):
        ours.update(zip(part.ours, part.read(tensors[part.foreign]), strict=True))
    return ours


# Settings of transformers that do not change what a model computes: how it is stored, trained, called or decoded
# (hf_files.py reads what it can of the last; forced_eos_token_id acts at the length limit alone).
HARMLESS = frozenset(
    """model_type architectures torch_dtype dtype transformers_version _name_or_path name_or_path use_cache
    task_specific_params return_dict output_attentions output_hidden_states output_scores return_dict_in_generate
    initializer_range init_std is_encoder_decoder chunk_size_feed_forward id2label label2id num_labels problem_type
    gradient_checkpointing _commit_hash attn_implementation _attn_implementation_autoset finetuning_task
    tokenizer_class bos_token_id eos_token_id pad_token_id decoder_start_token_id forced_eos_token_id max_length
    min_length num_beams early_stopping length_penalty do_sample temperature top_k top_p repetition_penalty
    no_repeat_ngram_size num_return_sequences remove_invalid_values tf_legacy_loss use_bfloat16 torchscript
    bad_words_ids _num_labels output_past custom_pipelines""".split()  # noqa: SIM905
)
# Settings that would change the answer, with the values at which they do not.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({}, None),
    "tie_encoder_decoder": (False,),
    "cross_attention_hidden_size": (None,),
    "prefix": (None, ""),
    "sep_token_id": (None,),
    "forced_bos_token_id": (None,),
    "suppress_tokens": (None, []),
    "begin_suppress_tokens": (None, []),
    "encoder_no_repeat_ngram_size": (0, None),
    "exponential_decay_length_penalty": (None,),
    "diversity_penalty": (0.0, None),
    "num_beam_groups": (1, None),
    "typical_p": (1.0, None),
    "force_bos_token_to_be_generated": (False, None),
}
# Further settings that would change the answer. Beside these and those that a form reads, transformers knows none.
UNSUPPORTED = frozenset({"quantization_config", "compression_config", "auto_map", "per_layer_config"})


class TokenBeyond(Unrepresentable):
    """A special token's id is beyond the vocabulary."""


class Table:
    """Another library's config.json, read strictly: a key that is neither read nor known to be harmless is an
    error if the library knows it. Keys that it does not know are the author's own, and change nothing there."""

    def __init__(
        self, table: Json, unsupported: frozenset[str] = UNSUPPORTED, *, library: str = "transformers"
    ) -> None:
        self.table, self.left, self.unsupported = table, set(table) - HARMLESS, unsupported
        self.library = library
        for key, allowed in NEUTRAL.items():
            self.must(key, *allowed)
        for key in ("dtype", "torch_dtype"):
            self._check_dtype(key)

    def _check_dtype(self, key: str) -> None:
        """The type in which the weights were saved; their file has the last word."""
        value = self.table.get(key)
        name = value.removeprefix("torch.") if isinstance(value, str) else ""
        if value not in (None, "auto") and not isinstance(getattr(torch, name, None), torch.dtype):
            raise Unrepresentable(
                f"{key} must be a data type of torch, such as 'float32', got {value!r:.80}; correct or remove it"
            )

    def take(self, key: str, default: Any, kind: type | None = None) -> Any:
        """The value of a key, which must be of the default's type."""
        self.left.discard(key)
        value = self.table.get(key, default)
        wanted = kind or type(default)
        if wanted is float and type(value) is int and abs(value) < 1 << 53:
            value = float(value)
        if type(value) is not wanted:
            raise Unrepresentable(f"{key} must be of type {wanted.__name__}, got {value!r:.80}")
        return value

    def count(self, key: str, default: int) -> int:
        """A number of at least 1 (0 has a meaning of its own in our configs); null is the default."""
        self.left.discard(key)
        if self.table.get(key) is None:
            return default
        value: int = self.take(key, default)
        if value < 1:
            raise Unrepresentable(f"{key} must be at least 1, got {value}")
        return value

    def token(self, key: str, default: int | None = None, *, vocabulary: int) -> int:
        """The id of a special token."""
        value = self.table.get(key, default)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if type(value) is not int or value < 0:
            raise Unrepresentable(f"{key} must be the id of one token, got {value!r:.80}")
        if value >= vocabulary:
            where = "is" if key in self.table else "is not given, which means"
            raise TokenBeyond(
                f"{key} {where} {value:,}, and the ids end at {vocabulary - 1:,} (vocab_size = {vocabulary:,}); "
                f"set {key} to the id of that token"
            )
        return value

    def optional_token(self, key: str, usual: int, *, vocabulary: int) -> int | None:
        """The same where there may be none: null, -1, or `usual`, which transformers writes into every folder, even
        where the vocabulary is smaller."""
        value = self.table.get(key)
        none = value is None or value == -1 or (value == usual >= vocabulary)
        return None if none else self.token(key, vocabulary=vocabulary)

    def must(self, key: str, *allowed: Any) -> None:
        """A key that may only have one of these values."""
        self.left.discard(key)
        value = self.table.get(key, allowed[0])
        if value not in allowed:
            shown = " or ".join(repr(option) for option in allowed)
            raise Unrepresentable(f"{key} = {value!r:.80} is not supported, only {shown}")

    def done(self, path: Path) -> None:
        """Called last: refuses settings that we cannot follow, and names those that the library does not know."""
        refused = sorted(key for key in self.left & self.unsupported if self.table[key] is not None)
        if refused:
            names = ", ".join(f"{key} = {self.table[key]!r:.40}" for key in refused[:5])
            raise Unrepresentable(
                f"{names}: {self.library} follows such a setting, and regard does not support it; save the model "
                f"without it, or open the folder with {self.library}"
            )
        if own := sorted(self.left - self.unsupported):
            names = ", ".join(f"{key[:40]!r}" for key in own[:5]) + (f" and {len(own) - 5} more" * (len(own) > 5))
            say_once(f"{path}: left aside, as {self.library} has no such setting: {names}")


def columns(order: Callable[[Tensor], Tensor], *dims: int) -> Callable[[Tensor], Tensor]:
    """A permutation of the features along `dims`; order(arange) gives their new order."""

    def change(x: Tensor) -> Tensor:
        if x.is_meta:  # a permutation keeps the shape; on the meta device torch would import sympy for it
            return x
        for dim in dims:
            x = x.index_select(dim, order(torch.arange(x.shape[dim], device=x.device)))
        return x

    return change


def joined(*parts: Tensor) -> Tensor:
    """One below the other."""
    if parts[0].is_meta:  # on the meta device torch would import its compiler for it
        return parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
    return torch.cat(parts)


def settle_labels(table: Json, classes: Callable[[], int]) -> Json:
    """The settings. Where `id2label` and `num_labels` are different numbers of classes, the one counts that agrees
    with the classifier's weights, else `num_labels` as in transformers, which numbers the classes then."""
    names, count = table.get("id2label"), table.get("num_labels")
    if not isinstance(names, dict) or type(count) is not int or count == len(names):
        return table
    dropped = "num_labels" if classes() == len(names) else "id2label"
    say_once(f"id2label names {len(names):,} classes, and num_labels is {count:,}: {dropped} is left aside")
    return {key: value for key, value in table.items() if key not in (dropped, "label2id")}


def read_labels(table: Json) -> tuple[str, ...]:
    """The classes' names: id2label, else num_labels numbered ones (2 if not given, as in transformers). Where two
    share a name, as ImageNet's cranes do, the later one gets its number appended until it is unique."""
    names_by_id = table.get("id2label")
    if names_by_id is None:
        count = table.get("num_labels", 2)
        if type(count) is not int or not 1 <= count <= MOST_LABELS:
            raise Unrepresentable(f"num_labels must be a whole number from 1 to {MOST_LABELS:,}, got {count!r:.80}")
        return tuple(f"LABEL_{number}" for number in range(count))
    if not isinstance(names_by_id, dict) or not 1 <= len(names_by_id) <= MOST_LABELS:
        raise Unrepresentable(f"id2label must name 1 to {MOST_LABELS:,} classes, got {names_by_id!r:.80}")
    names = [names_by_id.get(str(number)) for number in range(len(names_by_id))]
    if not all(isinstance(name, str) for name in names):
        raise Unrepresentable(
            f"id2label must name the classes 0 to {len(names_by_id) - 1}, got {names_by_id!r:.80}"
        )
    first = {name: number for number, name in reversed(list(enumerate(names)))}
    taken, labels = set(names), []
    for number, name in enumerate(names):
        label = f"{name}"
        if first[name] != number:
            while label in taken:
                label += f" ({number})"
            taken.add(label)
        labels.append(label)
    return tuple(labels)


def write_labels(labels: Iterable[str]) -> Json:
    named = dict(enumerate(labels))
    return {
        "id2label": {str(number): name for number, name in named.items()},
        "label2id": {name: number for number, name in named.items()},
    }
