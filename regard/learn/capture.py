"""A training step captured in a CUDA graph and replayed.

Small models are launch-bound: launching the kernels takes longer than running them. A CUDA graph launches the
whole step at once. A captured step must be the same each time except for the values in its tensors: batches of one
shape, no GPU sync in between, the learning rate in a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.data.batch import Batch

WARM = 3  # eager steps per shape before capture: libraries pick kernels, the optimiser allocates its state
MOST = 32  # shapes that are captured; each graph holds the memory of its step

Numbers = dict[str, Tensor]
Change = Callable[[Iterable[Batch]], Numbers]


class Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    batch: Batch  # static input: the next batch is copied into it
    numbers: Numbers  # static output: overwritten by the next replay


class Captured:
    """Steps of one batch each, with one CUDA graph for each batch shape that comes often enough.

    Set the seed before each step: random numbers in a replayed graph follow from it too."""

    def __init__(self) -> None:
        self.seen: Counter[Any] = Counter()
        self.recordings: dict[Any, Recording] = {}
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()  # shared by all graphs: only one runs at a time

    def __call__(self, change: Change, batches: Iterable[Batch]) -> Numbers:
        """`change` does one training step; it must be the same function each time."""
        (batch,) = batches
        try:
            return self._step(change, batch)
        except torch.OutOfMemoryError as error:
            raise torch.OutOfMemoryError(
                f"{error}\nA captured step keeps its memory: use smaller batches, or set train.capture = false"
            ) from error

    def _step(self, change: Change, batch: Batch) -> Numbers:
        shape = tuple((name, tensor.shape, tensor.dtype) for name, tensor in batch.tensors().items())
        if shape not in self.recordings:
            self.seen[shape] += 1
            if self.seen[shape] <= WARM or len(self.recordings) == MOST:
                return self._aside(change, batch)
            self.recordings[shape] = self._record(change, batch)
        graph, held, numbers = self.recordings[shape]
        for name, tensor in held.tensors().items():
            tensor.copy_(getattr(batch, name))
        graph.replay()
        return {name: number.clone() for name, number in numbers.items()}

    def _aside(self, change: Change, batch: Batch) -> Numbers:
        """Run eagerly on the side stream, as torch requires before a capture."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            numbers = change([batch])
        torch.cuda.current_stream().wait_stream(self.stream)
        return numbers

    def _record(self, change: Change, batch: Batch) -> Recording:
        """Capture the step; nothing is computed until the graph is replayed."""
        held = batch.each(torch.clone)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                numbers = change([held])
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # torch raises it when the capture ends; the cause is its context
            raise ValueError(
                "a step of this model cannot be captured: set train.capture = false and start a new process, as a "
                f"failed capture leaves CUDA unusable in this one. Torch says: {error.__context__ or error}"
            ) from error
        return Recording(graph, held, numbers)
