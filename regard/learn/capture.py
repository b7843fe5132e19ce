"""A training step captured in a CUDA graph and replayed.

Small models are launch-bound: launching the kernels takes longer than running them. A CUDA graph launches the
whole step at once. A captured step must be the same each time except for the values in its tensors: batches of one
shape, no GPU sync in between, the learning rate in a tensor.

Before a shape is captured, its last eager step is watched: if it asks the host for anything, nothing is captured
from then on, and the training goes on step by step. So it does where a capture fails all the same."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import torch

from regard.data.batches.batch import Batch
from regard.layers.host_syncs import NotCapturable, noting_syncs, refusing_syncs
from regard.layers.replay import BatchGraph, Replay, Tensors, run_aside, syncing_never
from regard.learn.progress import say

WARM = 3  # eager steps per shape before capture: libraries pick kernels, the optimiser allocates its state
MOST_SHAPES = 128  # batches of more come in any shape: few of them would come again

Numbers = Tensors
Change = Callable[[Iterable[Batch]], Numbers]


class Captured(Replay):
    """Steps of one batch each, with one CUDA graph for each batch shape that comes often enough.

    Set the seed before each step: random numbers in a replayed graph follow from it too."""

    def __init__(self, device: torch.device, *, compiled: bool = False) -> None:
        super().__init__(WARM, device)
        self.compiled = compiled
        self.refused = ""  # why nothing is captured any more

    def step(self, change: Change, batches: Iterable[Batch], again: Callable[[], None]) -> Numbers:
        """`change` does one training step; it must be the same function each time. `again` sets the seed of this
        step once more."""
        (batch,) = batches
        if not self.refused and not isinstance(batch, Batch):
            self.refuse(f"batches of {type(batch).__name__} have no shape to go by")
        if self.refused:
            return change([batch])
        try:
            with syncing_never():
                return self(lambda batch: change([batch]), batch)
        except torch.OutOfMemoryError as error:
            more = "A captured step keeps its memory: use smaller batches, or set train.capture = false"
            raise torch.OutOfMemoryError(f"{error}\n{more}" if self.recordings else str(error)) from error
        except CaptureFailed as failed:  # nothing was computed: the graph would have done it
            why = str(failed)
        gc.collect()  # the failed step's loss, whose gradients belong to another stream: torch would warn
        self.refuse(why)
        again()
        return change([batch])

    def refuse(self, why: str) -> None:
        """From here on every step is run as it is."""
        self.refused = why
        self.recordings.clear()
        torch.cuda.empty_cache()  # of their memory
        say(f"Steps are not captured, but run one by one (train.capture): {why}")

    def eager(self, work: Callable[[Any], Numbers], batch: Batch, count: int) -> Numbers:
        """The last step before a capture is watched, when all is loaded and made that is made once."""
        if self.compiled:  # strides as those of the graph's batch: for others it would be compiled again
            batch = batch.each(torch.clone)
        if len(self.seen) > MOST_SHAPES:
            self.refuse(f"the batches have more than {MOST_SHAPES} shapes")
        if count != self.warm:
            return super().eager(work, batch, count)
        with noting_syncs(compiled=self.compiled) as found:
            numbers = run_aside(lambda: work(batch), self.stream)
        if found:
            self.refuse(f"a step asks the host: {found[0]}")
        return numbers

    def record(self, work: Callable[[Any], Numbers], batch: Batch) -> BatchGraph:
        def guarded(batch: Any) -> Numbers:
            with refusing_syncs(compiled=self.compiled):
                return work(batch)

        try:
            return super().record(guarded, batch)
        except (RuntimeError, NotCapturable) as error:  # if torch raises when the capture ends, it has a context
            why = str(error.__context__ or error).partition("\n")[0]
            if not mended(self.device, self.pool):
                raise RuntimeError(
                    "a step of this model cannot be captured, and the failed capture left CUDA unusable in this "
                    f"process: set train.capture = false and go on with --resume. Torch says: {why}"
                ) from error
            raise CaptureFailed(why) from error


class CaptureFailed(Exception):
    """Nothing was computed, and CUDA can be used."""


def mended(device: torch.device, pool: Any) -> bool:
    """Whether CUDA can be used after a failed capture. One that was invalidated leaves the allocator and the random
    numbers as in a capture, which torch has no function to end."""
    try:
        return usable(device)
    except RuntimeError:
        pass
    with suppress(Exception):  # it was ended, or has another name in this torch
        torch._C._cuda_endAllocateToPool(device.index or 0, pool)
    try:
        generator = torch.cuda.default_generators[device.index or 0]
        generator.graphsafe_set_state(generator.clone_state())  # a copy is not in a capture
        return usable(device)
    except Exception:
        return False


def usable(device: torch.device) -> bool:
    """Random numbers, memory and a product."""
    torch.cuda.synchronize(device)
    x = torch.rand(64, 64, device=device)
    return bool((x @ x).isfinite().all())
