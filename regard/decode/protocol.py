"""What every way of decoding shares: the generator it drives, the answer it gives, the checks at the door.

Letters: B sentences, W beams of each, N = B * W rows, S source places, V words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.layers.state import State


class Generator(Protocol):
    """A model that writes one token at a time. The W beams of a sentence stand side by side in the N rows."""

    def start(self, source: Tensor, mask: Tensor) -> State:
        """Read the source (B, S), mask True = a real token."""
        ...

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Last tokens (N,) in; logits of the next ones (N, V) and the state after them out."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One answer. The score is log p(tokens | source) as the model itself gives it: neither temperature
    nor filters nor forbidden tokens change it, so it equals that of a teacher-forced pass."""

    tokens: list[int]  # without start and end
    score: float  # sum over the tokens, the end token included
    finished: bool  # False: cut off by the limit

    @property
    def length(self) -> int:
        """How many tokens the score sums over."""
        return len(self.tokens) + self.finished

    def normalised(self, length_penalty: float) -> float:
        """score / length^alpha"""
        return self.score / max(self.length, 1) ** length_penalty


def collect(
    done: Tensor, sentences: Tensor, written: Tensor, scores: Tensor, end: int
) -> Iterator[tuple[int, Hypothesis]]:
    """What stands in the rows that are done (N,), each with its sentence: finished if it closes with the end."""
    rows = done.nonzero().flatten()
    parts = (sentences[rows].tolist(), written[rows].tolist(), scores[rows].tolist())
    for sentence, tokens, score in zip(*parts, strict=True):
        finished = tokens[-1] == end
        yield sentence, Hypothesis(tokens[:-1] if finished else tokens, score, finished)


@contextmanager
def at_rest(model: Generator) -> Iterator[None]:
    """No gradients and no dropout meanwhile; afterwards every part trains again that did before."""
    parts = [part for part in model.modules() if part.training] if isinstance(model, nn.Module) else []
    for part in parts:
        part.training = False
    try:
        with torch.inference_mode():
            yield
    finally:
        for part in parts:
            part.training = True


def check(source: Tensor, mask: Tensor, limit: int | Tensor, least: int | Tensor) -> tuple[Tensor, Tensor]:
    """The limit and the least of every sentence, each (B,), on the source's device."""
    if mask.dtype != torch.bool or mask.shape[:1] != source.shape[:1]:
        raise ValueError(
            f"mask must be boolean (True = a real token) with one row a sentence, here {len(source)}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    return counts("limit", limit, source), counts("least", least, source)


def counts(name: str, value: int | Tensor, source: Tensor) -> Tensor:
    """A number of tokens for each sentence (B,)."""
    numbers = torch.as_tensor(value, device=source.device)
    if numbers.is_floating_point() or numbers.shape not in ((), source.shape[:1]):
        raise ValueError(
            f"{name} must be a whole number or one for each of the {len(source)} sentences; "
            f"got {numbers.dtype} of shape {tuple(numbers.shape)}"
        )
    if (numbers < 0).any():
        raise ValueError(f"{name} must be 0 or more, got {int(numbers.min())}")
    return numbers.expand(len(source))


def log_probabilities(logits: Tensor, never: tuple[int, ...], end: int, early: Tensor) -> Tensor:
    """log p of every next token (N, V), at least in float32; -inf for those in `never`, and for the end token
    in all rows of the sentences for which it is still too early (B,).

    They are taken out after the softmax: the others keep the probability the model gives them."""
    words = logits.shape[-1]
    for name, token in (("end", end), *(("never", token) for token in never)):
        if not 0 <= token < words:
            raise ValueError(f"{name} names token {token}, but the model's tokens are 0 to {words - 1}")
    scores = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    if never:
        scores[:, list(never)] = -torch.inf
    scores.view(len(early), -1, words)[..., end].masked_fill_(early[:, None], -torch.inf)
    if not scores.amax(-1).isfinite().all():
        raise ValueError(
            "the model leaves no possible next token: its logits hold NaN or infinity (look for a diverged "
            "training run), or all that is possible was named in never, or is the end token before the least length"
        )
    return scores
