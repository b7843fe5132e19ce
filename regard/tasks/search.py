"""From settings to a search, and from many heads to one table: what every task that writes text shares."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from regard.attention import Attend
from regard.data.text import Special
from regard.decode.beam import beam
from regard.decode.greedy import Each, greedy
from regard.decode.protocol import Hypothesis
from regard.decode.rules import Stop
from regard.decode.sample import sample
from regard.tasks.settings import Decoding


class LooksAtNothing(ValueError):
    """Asked where a model looked that has no attention, or none of that name."""


def search(
    model: Any,
    source: Tensor,
    mask: Tensor,
    decode: Decoding,
    *,
    special: Special,
    start: int | Tensor,
    limit: int | Tensor,
    prompt: Tensor | None = None,
    prompt_mask: Tensor | None = None,
    stop: Stop | None = None,
    each: Each | None = None,
) -> list[list[Hypothesis]]:
    """The answers for each source, best first, found as the settings say. `each` is for one answer at a time."""
    options: dict[str, Any] = {
        "start": start,
        "end": special.end,
        "limit": limit,
        "least": decode.min_length,
        "never": tuple({special.pad, special.start} - {special.end}),
        "repetition_penalty": decode.repetition_penalty,
        "no_repeat": decode.no_repeat,
        "prompt": prompt,
        "prompt_mask": prompt_mask,
        "stop": stop,
    }
    if decode.temperature > 0:
        drawn = {"top_k": decode.top_k or None, "top_p": decode.top_p, "seed": decode.seed}
        options |= {"temperature": decode.temperature, "each": each, **drawn}
        return [[one] for one in sample(model, source, mask, **options)]
    if decode.beam > 1:
        best = decode.beam if decode.coverage else decode.best  # the coverage penalty needs some to choose from
        options |= {"width": decode.beam, "best": best, "length_penalty": decode.length_penalty}
        options["renormalise"] = decode.renormalise
        return beam(model, source, mask, **options)
    return [[one] for one in greedy(model, source, mask, **options, each=each)]


def sites_like(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """The names of the model's attention that match a pattern, each of which must match some; no pattern: all."""
    names = [name for name, part in model.named_modules() if isinstance(part, Attend)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise LooksAtNothing(f"there is no attention named like {pattern!r}; there are {', '.join(names)}")
    return [name for name in names if not patterns or any(fnmatchcase(name, one) for one in patterns)]


def head_weights(weights: Tensor, head: int | None, site: str) -> Tensor:
    """(B, H, Q, K) -> (B, Q, K): one head, or the mean of all; without heads as it is."""
    if weights.dim() == 3:
        if head:
            raise LooksAtNothing(f"{site} has one head, 0, got {head}")
        return weights
    if head is None:
        return weights.mean(1)
    if not 0 <= head < weights.shape[1]:
        raise LooksAtNothing(f"{site} has heads 0 to {weights.shape[1] - 1}, got {head}")
    return weights[:, head]
