"""Another engine that computes what a model would: one that somebody built for speed, as CTranslate2.

A model that has one keeps its own weights: where it looked is computed by them, from the engine's answer."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from regard.attention.record import tracing
from regard.layers.loss import Loss


class Engine(Protocol):
    """What is asked of an engine; each kind of model is asked for a part of it."""

    def search(self, source: Tensor, mask: Tensor, rules: Any) -> Any:
        """The answers of a generator, as `decode.search.search` gives them."""
        ...

    def states(self, tokens: Tensor, segments: Tensor | None, mask: Tensor | None) -> Tensor:
        """The last layer's states of an encoder (B, T, dim)."""
        ...

    def loss(self, batch: Any) -> Loss:
        """Of the texts of a batch, by the engine's own numbers."""
        ...


def engine_of(model: Any) -> Engine | None:
    """The engine that computes for this model. None: the model computes itself, as whenever it is traced."""
    engine: Engine | None = getattr(model, "engine", None)
    return None if engine is None or tracing() else engine
