"""What every way of decoding shares: the generator it drives and the answer it gives.

Letters: B sentences, W beams of each, N = B * W rows, S source places, V words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.layers.products import plain_products
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
    nor filters nor forbidden tokens change it, so it equals that of a teacher-forced pass. Only a beam
    ranks by, and keeps, what a repetition penalty or a forced end makes of it."""

    tokens: list[int]  # without start and end
    score: float  # sum over the tokens, the end token included
    finished: bool  # False: cut off, by the limit or by a stop

    @property
    def length(self) -> int:
        """How many tokens the score sums over."""
        return len(self.tokens) + self.finished

    def normalised(self, length_penalty: float) -> float:
        """score / length^alpha"""
        return self.score / max(self.length, 1) ** length_penalty


def collect(sentences: Tensor, written: Tensor, scores: Tensor, end: int) -> Iterator[tuple[int, Hypothesis]]:
    """What rows that are done have written (N, length), each with its sentence; the end token makes it finished."""
    for sentence, tokens, score in zip(sentences.tolist(), written.tolist(), scores.tolist(), strict=True):
        finished = tokens[-1] == end
        yield sentence, Hypothesis(tokens[:-1] if finished else tokens, score, finished)


def at_least_single(logits: Tensor) -> Tensor:
    """Logits of half precision in float32, in which scores are summed."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


@contextmanager
def at_rest(model: Generator) -> Iterator[None]:
    """No gradients and no dropout meanwhile; afterwards every part trains again that did before."""
    parts = [part for part in model.modules() if part.training] if isinstance(model, nn.Module) else []
    for part in parts:
        part.training = False
    try:
        with torch.inference_mode(), plain_products(model):
            yield
    finally:
        for part in parts:
            part.training = True
