"""Steps of a search as CUDA graphs, and the graphs that are kept.

A step is many short kernels. Launching them one by one, and asking the host after every step what goes on, takes
longer than running them. So a whole step, with its rules and its choice of tokens, is one graph, and the host
follows behind. A graph needs tensors of fixed shapes: rows come in buckets, and pasts are in buffers
(`State.fixed`).

Graphs are kept with the model: the next batch of the same shapes is written by the same graph. A search takes its
graph out and puts it back, so that no two threads write into the same tensors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from regard.layers.encoder_decoder import NO_LIMIT
from regard.layers.replay import capture, run_aside
from regard.layers.state import Room

WORTH = 8  # steps: a capture takes about as long as four
KEPT = 16  # graphs of a model, each with the tensors of its step
KEPT_SHARE = 0.25  # of a GPU's memory, for the tensors of all graphs of a model
SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)  # rows of a batch; beyond, multiples of the last
LEAST_PLACES = 64

log = logging.getLogger("regard.decode")

Launch = Callable[[], Tensor]


class Recording(NamedTuple):
    """A step that can be taken again and again."""

    launch: Launch  # takes the step, and returns what the host is told
    input: Any  # static: overwritten by what follows from it
    place: Tensor  # () where pasts are written next

    def tensors(self) -> Iterator[Tensor]:
        yield from self.input.tensors()

    def load(self, begun: Any, size: int) -> None:
        """Go on from this state, whose pasts have so many places."""
        for mine, static in zip(begun.tensors(), self.tensors(), strict=True):
            static.copy_(mine)
        self.place.fill_(size)


recordings: WeakKeyDictionary[nn.Module, dict[Any, Recording]] = WeakKeyDictionary()
refused: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()  # models whose step is no graph, and why


def take(model: nn.Module, key: Any, record: Callable[[], Recording]) -> Recording:
    """The graph of this key, no longer kept; it is made where there is none."""
    kept = recordings.setdefault(model, {}).pop(key, None)
    return record() if kept is None else kept


def give_back(model: nn.Module, key: Any, recording: Recording) -> None:
    """Keep a graph; those that were used longest ago go."""
    kept = recordings.setdefault(model, {})
    kept[key] = recording
    room = KEPT_SHARE * _memory(recording.place.device)
    while len(kept) > KEPT or (len(kept) > 1 and sum(map(size_of, kept.values())) > room):
        del kept[next(iter(kept))]
    log.debug("%d graphs of %s are kept: %.0f MiB", len(kept), type(model).__name__, kept_bytes(model) / 2**20)


def size_of(recording: Recording) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in recording.tensors())


def kept_bytes(model: nn.Module) -> int:
    """What the tensors of a model's graphs take."""
    return sum(map(size_of, recordings.get(model, {}).values()))


def _memory(device: torch.device) -> float:
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else float("inf")


def bucket(rows: int) -> int:
    """The size of the batch that so many rows are written in."""
    return next((size for size in SIZES if size >= rows), -(-rows // SIZES[-1]) * SIZES[-1])


def capacity_for(places: int, most: int) -> int:
    """The capacity of buffers for so many places: a power of two, or the most places that the model can have."""
    return min(max(LEAST_PLACES, 1 << (places - 1).bit_length()), most)


def most_places(model: Any) -> int:
    """How many places a past of the model may have."""
    return getattr(model, "max_target_positions", NO_LIMIT)


def room(model: Any, capacity: int, device: torch.device) -> Room:
    """Room for pasts of this capacity, at place 0."""
    place = torch.zeros((), dtype=torch.long, device=device)
    return Room(capacity, getattr(model, "max_source_positions", NO_LIMIT), place)


def captured(launch: Launch) -> Launch:
    """The step as a CUDA graph; what it returns is overwritten by the next."""
    stream = torch.cuda.Stream()
    run_aside(launch, stream)
    graph, told = capture(launch, stream)

    def replay() -> Tensor:
        graph.replay()
        return told

    return replay


class Copied:
    """A tensor on its way from the GPU to the host."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor.to("cpu", non_blocking=True)  # into pinned memory
        self.arrived = torch.cuda.Event() if tensor.is_cuda else None
        if self.arrived is None:
            self.tensor = tensor.clone()
        else:
            self.arrived.record()

    def keep(self, sentences: np.ndarray) -> None:
        """These sentences alone, of (.., B, ..)."""
        self.tensor = torch.from_numpy(self.numpy()[:, sentences])

    def wait(self) -> Tensor:
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.tensor

    def numpy(self) -> np.ndarray:
        array: np.ndarray = self.wait().numpy()
        return array
