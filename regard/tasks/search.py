"""From settings to a search, and from many heads to one table: what tasks that decode or show attention share."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from torch import Tensor

from regard.attention import Attend
from regard.data.special_tokens import Special
from regard.decode.beam import beam
from regard.decode.greedy import Each, greedy
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Stop
from regard.decode.sample import sample
from regard.decode.settings import Decoding
from regard.errors import NoAttention, RunError
from regard.models.protocols import Generator, Model, Module

Asked = TypeVar("Asked")


def need(model: Model, protocol: type[Asked]) -> Asked:
    """The model in eval mode, known by what it can be asked."""
    if not isinstance(model, protocol):
        raise RunError(f"{type(model).__name__} cannot be asked as a {protocol.__name__}")
    model.eval()
    return model


def search(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    decode: Decoding,
    *,
    special: Special,
    start: int | Tensor,
    max_length: int | Tensor,
    prompt: Tensor | None = None,
    prompt_mask: Tensor | None = None,
    stop: Stop | None = None,
    each: Each | None = None,
) -> list[list[Hypothesis]]:
    """The answers for each source, best first, found as the settings say. `each` is for one answer at a time."""
    options: dict[str, Any] = {
        "start": start,
        "end": special.end,
        "max_length": max_length,
        "min_length": decode.min_length,
        "never": tuple({special.pad, special.start} - {special.end}),
        "repetition_penalty": decode.repetition_penalty,
        "no_repeat_ngram": decode.no_repeat_ngram,
        "prompt": prompt,
        "prompt_mask": prompt_mask,
        "stop": stop,
    }
    if decode.temperature > 0:
        drawn = {"top_k": decode.top_k or None, "top_p": decode.top_p, "seed": decode.seed}
        options |= {"temperature": decode.temperature, "each": each, **drawn}
        return [[one] for one in sample(model, source, mask, **options)]
    if decode.beam > 1:
        n_best = decode.beam if decode.coverage else decode.n_best  # the coverage penalty needs some to choose from
        options |= {"width": decode.beam, "n_best": n_best, "length_penalty": decode.length_penalty}
        options["renormalise"] = decode.renormalise
        return beam(model, source, mask, **options)
    return [[one] for one in greedy(model, source, mask, **options, each=each)]


def sites_like(model: Module, patterns: Sequence[str]) -> list[str]:
    """The names of the model's attention that match a pattern, each of which must match some; no pattern: all."""
    names = [name for name, part in model.named_modules() if isinstance(part, Attend)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise NoAttention(f"no attention has a name like {pattern!r}; there are {', '.join(names)}")
    return [name for name in names if not patterns or any(fnmatchcase(name, one) for one in patterns)]


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
