"""The sites of a model, where a trace records attention or gates, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import Tensor

from regard.attention.trace import sites_of
from regard.base.arguments import check_argument
from regard.errors import NoAttention
from regard.models.protocols import Module


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
