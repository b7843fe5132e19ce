"""What tasks that decode or show attention share: what may be searched for, and the sites of attention by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import Tensor

from regard.attention.trace import sites_of
from regard.base.arguments import check_argument
from regard.data.text.special_tokens import Special
from regard.decode.settings import Decoding
from regard.errors import BadInput, NoAttention, RunError
from regard.models.protocols import Model, Module
from regard.tasks.shared.measuring import device_of

P = TypeVar("P")  # a protocol


def need(model: Model, protocol: type[P]) -> P:
    """The model in eval mode, known by what it can be asked."""
    if not isinstance(model, protocol):
        raise RunError(f"{type(model).__name__} cannot be asked as a {protocol.__name__}")
    model.eval()
    return model


def never_written(special: Special, never: Collection[int] = ()) -> tuple[int, ...]:
    """The tokens that no answer has: padding, the start token unless it also ends texts, and these."""
    return tuple({special.pad, special.start, *never} - {special.end})


def check_search(decode: Decoding, most: int, what: str) -> None:
    """BadInput where an answer, `what`, of a model that ends it itself and writes at most so many tokens cannot be
    searched for."""
    if decode.stop:
        raise BadInput(f"stop strings are for language models; {what} ends by itself, or by max_length")
    if decode.min_length >= most:
        raise BadInput(
            f"min_length must be below {most:,}, the most tokens of an answer of this model, got "
            f"{decode.min_length:,}"
        )


def check_batch(batch: int | None, model: Module) -> int:
    """How many inputs at once: enough to keep the machine busy, unless given."""
    if batch is None:
        return 512 if device_of(model).type == "cuda" else 64
    if batch < 1:
        raise BadInput(f"batch must be at least 1, got {batch}")
    return batch


def sites_like(
    model: Module, patterns: Sequence[str], *, kind: str | tuple[str, ...] | None = "weights"
) -> list[str]:
    """The names of the model's sites that match a pattern, each of which must match a site; no pattern: all. Only
    sites where a trace records this kind, "weights" or "gate", or one of several kinds of gates; None: any kind."""
    names = sites_of(model, kind)
    for pattern in patterns:
        check_argument("sites", pattern, str)
        if not any(fnmatchcase(name, pattern) for name in names):
            looks = kind == "weights" or (kind is None and names == sites_of(model, "weights"))
            what = "attention" if looks else "site" if kind is None else "gate"
            raise NoAttention(f"no {what} has a name like {pattern!r}; there {_are(names, model)}")
    return [name for name in names if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]


def looks_back(model: Module, sites: Sequence[str]) -> bool:
    """Whether the queries of these sites are the words that are read, each of which looks at those before it: then
    there is a row for every word, and a column for every word but the last."""
    modules = dict(model.named_modules())
    return bool(sites) and all(getattr(modules[site], "looks_back", False) for site in sites)


def _are(names: list[str], model: Module) -> str:
    """The sites for an error message; without any, those of other kinds."""
    others = sites_of(model)
    if not names and others:
        return f"is none in this model; what it has is {', '.join(others)}"
    return f"are {', '.join(names)}" if names else "is none in this model"


def need_gates(model: Module, patterns: Sequence[str] = ()) -> list[str]:
    """The sites of gates that match a pattern; no pattern: all."""
    if not sites_of(model, "gate"):
        raise NoAttention("this model has no gates: it does not weigh its channels, so there is nothing to draw")
    return sites_like(model, patterns, kind="gate")


def head_weights(weights: Tensor, head: int | None, site: str) -> Tensor:
    """(B, H, Q, K) -> (B, Q, K): one head, or the mean of all; without heads as it is."""
    if weights.dim() == 3:
        if head:
            raise NoAttention(f"{site} has one head, 0, got {head}")
        return weights
    if head is None:
        return weights.mean(1)
    if not 0 <= head < weights.shape[1]:
        raise NoAttention(f"{site} has heads 0 to {weights.shape[1] - 1}, got {head}")
    return weights[:, head]
