"""A step recorded once and played again: torch's CUDA graphs.

A small model keeps a card waiting: to ask for one small product after the other takes longer than the products.
A recorded step is asked for as a whole. So it must be the same each time but for the numbers: batches of one
shape, no question to the card in between, the rate in a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.data.batch import Batch

WARM = 3  # steps of a shape before it is recorded: libraries choose their ways, the optimiser makes its moments
MOST = 16  # shapes that are recorded; each holds the memory of its step

Numbers = dict[str, Tensor]
Change = Callable[[Iterable[Batch]], Numbers]


class Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    batch: Batch  # where the next one must lie
    numbers: Numbers  # overwritten by the next


class Captured:
    """Steps of one batch each, as a recording for each shape of batch that comes often enough.

    Seeds must be set before: what is drawn at random follows from the seed in a recording, too."""

    def __init__(self) -> None:
        self.seen: Counter[Any] = Counter()
        self.recordings: dict[Any, Recording] = {}
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()  # one memory for all: only one is played at a time

    def __call__(self, change: Change, batches: Iterable[Batch]) -> Numbers:
        """`change` is a step's work, the same each time."""
        (batch,) = batches
        try:
            return self._step(change, batch)
        except torch.OutOfMemoryError as error:
            raise torch.OutOfMemoryError(
                f"{error}\nA recorded step keeps its memory: lower data.batch, or set train.capture = false"
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
        """As it is, but beside the main stream, as torch wants of what is recorded later."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            numbers = change([batch])
        torch.cuda.current_stream().wait_stream(self.stream)
        return numbers

    def _record(self, change: Change, batch: Batch) -> Recording:
        """Nothing is computed yet."""
        held = batch.each(torch.clone)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                numbers = change([held])
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # torch's own, when it ends the recording; what led to it comes before
            raise ValueError(
                "a step of this model cannot be recorded: set train.capture = false, and begin in a new process, "
                f"for torch is no longer sound in this one. It says: {error.__context__ or error}"
            ) from error
        return Recording(graph, held, numbers)
