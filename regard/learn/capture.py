"""A training step captured in a CUDA graph and replayed.

Small models are launch-bound: launching the kernels takes longer than running them. A CUDA graph launches the
whole step at once. A captured step must be the same each time except for the values in its tensors: batches of one
shape, no GPU sync in between, the learning rate in a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from regard.data.batches.batch import Batch
from regard.layers.replay import BatchGraph, Replay, Tensors

WARM = 3  # eager steps per shape before capture: libraries pick kernels, the optimiser allocates its state

Numbers = Tensors
Change = Callable[[Iterable[Batch]], Numbers]


class Captured(Replay):
    """Steps of one batch each, with one CUDA graph for each batch shape that comes often enough.

    Set the seed before each step: random numbers in a replayed graph follow from it too."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(WARM, device)

    def step(self, change: Change, batches: Iterable[Batch]) -> Numbers:
        """`change` does one training step; it must be the same function each time."""
        (batch,) = batches
        try:
            return self(lambda batch: change([batch]), batch)
        except torch.OutOfMemoryError as error:
            raise torch.OutOfMemoryError(
                f"{error}\nA captured step keeps its memory: use smaller batches, or set train.capture = false"
            ) from error

    def record(self, work: Callable[[Any], Numbers], batch: Batch) -> BatchGraph:
        try:
            return super().record(work, batch)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # torch raises it when the capture ends; the cause is its context
            raise ValueError(
                "a step of this model cannot be captured: set train.capture = false and start a new process, as a "
                f"failed capture leaves CUDA unusable in this one. Torch says: {error.__context__ or error}"
            ) from error
