"""How a model's weights are named and laid out in folders of `transformers`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.text import Special

MOST_LABELS = 1 << 20


class Unrepresentable(ValueError):
    """A foreign configuration asks for something that the model here does not do, or the other way round."""


@dataclass(frozen=True)
class Form:
    """A model's form in `transformers`."""

    kind: str  # model_type
    architectures: tuple[str, ...]  # those that are read; the first is written, unless `architecture` says which
    read_config: Callable[[Table], tuple[Any, Special | None]]  # raises Unrepresentable; None: it reads no text
    write_config: Callable[[Any, Any], dict[str, Any]]  # of the configuration and the special tokens
    parts: Callable[[Any], list[Part]]
    lacks: Callable[[Any], str]  # why a model of ours has no such form; "": it has
    prefix: str  # which files of the bare model leave out
    computed: str  # a pattern of names whose tensors say nothing that is not known: masks, sinusoids
    copies: Callable[[Any], dict[str, str]]  # names that may repeat, or stand for, another; for "": are not used
    may_lack: frozenset[str] = frozenset()  # names whose weights are 0 where a file has none
    architecture: Callable[[Any], str] | None = None  # by which name a model of this configuration goes there
    # The configuration as the files have it, by the names of their tensors (with or without the prefix): which
    # heads are really there.
    holds: Callable[[Any, frozenset[str]], Any] | None = None
    rename: Callable[[str], str] = str  # names as older files spell them -> as they are spelt now


@dataclass(frozen=True)
class Part:
    """One foreign tensor, and the tensors of ours that it holds."""

    foreign: str
    ours: tuple[str, ...]
    write: Callable[..., Tensor]  # ours -> foreign
    read: Callable[[Tensor], tuple[Tensor, ...]]  # foreign -> ours
    unused: bool = False  # transformers wants to find it, and neither side computes with it


def same(foreign: str, ours: str) -> Part:
    return Part(foreign, (ours,), lambda x: x, lambda x: (x,))


def used(parts: Iterable[Part]) -> list[Part]:
    return [part for part in parts if not part.unused]


def write_parts(parts: Iterable[Part], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Ours by our names -> theirs by theirs."""
    return {part.foreign: part.write(*(tensors[name] for name in part.ours)) for part in parts}


def read_parts(parts: Iterable[Part], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Theirs by their names -> ours by ours."""
    found: dict[str, Tensor] = {}
    for part in used(parts):
        found.update(zip(part.ours, part.read(tensors[part.foreign]), strict=True))
    return found


# Settings of transformers that say nothing of what a model computes: how it is stored, trained, called, or decoded
# by default (`tasks.folder` reads what of the last it can; forced_eos_token_id acts at the limit alone).
HARMLESS = frozenset(
    """model_type architectures torch_dtype dtype transformers_version _name_or_path name_or_path use_cache
    task_specific_params return_dict output_attentions output_hidden_states output_scores return_dict_in_generate
    initializer_range init_std is_encoder_decoder chunk_size_feed_forward id2label label2id num_labels problem_type
    gradient_checkpointing _commit_hash attn_implementation _attn_implementation_autoset finetuning_task
    tokenizer_class bos_token_id eos_token_id pad_token_id decoder_start_token_id forced_eos_token_id max_length
    min_length num_beams early_stopping length_penalty do_sample temperature top_k top_p repetition_penalty
    no_repeat_ngram_size num_return_sequences remove_invalid_values tf_legacy_loss use_bfloat16 torchscript
    bad_words_ids _num_labels output_past""".split()  # noqa: SIM905
)
# Those that would change the answer, with the values at which they do not.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "is_decoder": (False,),
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


class Table:
    """A foreign config.json, of which every key must be asked for, or known to be harmless."""

    def __init__(self, table: Mapping[str, Any]):
        self.table, self.left = table, set(table) - HARMLESS
        for key, allowed in NEUTRAL.items():
            self.must(key, *allowed)

    def take(self, key: str, default: Any, kind: type | None = None) -> Any:
        """The value under a key, of the default's type."""
        self.left.discard(key)
        value = self.table.get(key, default)
        wanted = kind or type(default)
        if wanted is float and type(value) is int and abs(value) < 1 << 53:
            value = float(value)
        if type(value) is not wanted:
            raise Unrepresentable(f"{key} must be of type {wanted.__name__}, got {value!r:.80}")
        return value

    def count(self, key: str, default: int) -> int:
        """A number of at least 1, where 0 has a meaning of its own here; null is the default."""
        self.left.discard(key)
        if self.table.get(key) is None:
            return default
        value: int = self.take(key, default)
        if value < 1:
            raise Unrepresentable(f"{key} must be at least 1, got {value}")
        return value

    def token(self, key: str, default: int | None = None) -> int:
        """The id of a special token, one of the vocabulary's as far as can be seen here."""
        value = self.table.get(key, default)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if type(value) is not int or value < 0:
            raise Unrepresentable(f"{key} must be one token's number, got {value!r:.80}")
        return value

    def must(self, key: str, *allowed: Any) -> None:
        """A key for which there is only one value here."""
        self.left.discard(key)
        value = self.table.get(key, allowed[0])
        if value not in allowed:
            shown = " or ".join(repr(one) for one in allowed)
            raise Unrepresentable(f"{key} = {value!r:.80} has no counterpart here, only {shown}")

    def done(self) -> None:
        if self.left:
            names = ", ".join(f"{key} = {self.table[key]!r:.40}" for key in sorted(self.left)[:5])
            raise Unrepresentable(
                f"these settings are not known here, so that nothing can be promised of them: {names}"
            )


def columns(order: Callable[[Tensor], Tensor], *dims: int) -> Callable[[Tensor], Tensor]:
    """x with the features along `dims` put in another order; order gives the places, on the tensor's device."""

    def change(x: Tensor) -> Tensor:
        for dim in dims:
            x = x.index_select(dim, order(torch.arange(x.shape[dim], device=x.device)))
        return x

    return change


def read_labels(table: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes' names: id2label, else so many as num_labels says; transformers' default are two. Where two share
    a name, as ImageNet's cranes do, the later one has its number behind it; again, if that is another's name."""
    found = table.get("id2label")
    if found is None:
        count = table.get("num_labels", 2)
        if type(count) is not int or not 1 <= count <= MOST_LABELS:
            raise Unrepresentable(f"num_labels must be a whole number from 1 to {MOST_LABELS:,}, got {count!r:.80}")
        return tuple(f"LABEL_{number}" for number in range(count))
    if not isinstance(found, dict) or not 1 <= len(found) <= MOST_LABELS:
        raise Unrepresentable(f"id2label must name 1 to {MOST_LABELS:,} classes, got {found!r:.80}")
    names = [found.get(str(number)) for number in range(len(found))]
    if not all(isinstance(name, str) for name in names):
        raise Unrepresentable(f"id2label must name the classes 0 to {len(found) - 1}, got {found!r:.80}")
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


def check_labels(labels: Any) -> None:
    if not isinstance(labels, tuple) or not all(isinstance(name, str) for name in labels):
        raise ValueError(f"labels must be a tuple of the classes' names, got {labels!r:.80}")
    if twice := [label for label, count in Counter(labels).items() if count > 1]:
        raise ValueError(f"labels must differ, got {twice[0]!r:.80} twice")


def write_labels(labels: Iterable[str]) -> dict[str, Any]:
    named = dict(enumerate(labels))
    return {
        "id2label": {str(number): name for number, name in named.items()},
        "label2id": {name: number for number, name in named.items()},
    }
