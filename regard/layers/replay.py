"""Work on a GPU as CUDA graphs: captured once for each shape of what comes in, then replayed.

Launching many short kernels takes longer than running them; a graph launches them all at once. What is captured
must be the same each time except for the values in its tensors, and must not sync with the GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.attention.record import tracing
from regard.base.device import current
from regard.data.batches.batch import Batch

MOST = 64  # shapes that are captured; each graph holds the memory of its work

T = TypeVar("T")
Tensors = dict[str, Tensor]


def run_aside(work: Callable[[], T], stream: torch.cuda.Stream) -> T:
    """Eagerly on another stream, as torch requires before a capture: libraries load and choose their kernels."""
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    with torch.cuda.stream(stream):
        output = work()
    torch.cuda.current_stream(stream.device).wait_stream(stream)
    return output


def capture(work: Callable[[], T], stream: torch.cuda.Stream, pool: Any = None) -> tuple[torch.cuda.CUDAGraph, T]:
    """The graph of `work`, and its static output; nothing is computed until the graph is replayed."""
    graph = torch.cuda.CUDAGraph()
    # What other threads do with models of their own does not disturb it.
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        output = work()
    return graph, output


without_sync: ContextVar[bool] = ContextVar("without_sync", default=False)  # of this thread


@contextmanager
def syncing_never() -> Iterator[None]:
    """What runs inside asks the host for nothing that is computed, as work of a graph must."""
    before = without_sync.set(True)
    try:
        yield
    finally:
        without_sync.reset(before)


def must_not_sync() -> bool:
    """Is this the work of a graph, so that it must not sync with the GPU?"""
    return without_sync.get()


def reserved(device: torch.device) -> int:
    """Bytes of a GPU's memory that torch holds; a capture makes them more."""
    return torch.cuda.memory_reserved(device) if device.type == "cuda" else 0


def modules_of(model: nn.Module) -> list[nn.Module]:
    """As `model.modules()`, which takes longer than a step of a small model; a shared one comes several times."""
    modules = [model]
    for module in modules:
        if module._modules:
            modules += [part for part in module._modules.values() if part is not None]
    return modules


known: ContextVar[dict[nn.Module, tuple[int, ...]]] = ContextVar("known")  # addresses, in `weights_stay`


@contextmanager
def weights_stay() -> Iterator[None]:
    """Inside, this thread's models keep their weights where they are, so that addresses are collected once."""
    before = known.set({})
    try:
        yield
    finally:
        known.reset(before)


def addresses(model: nn.Module) -> tuple[int, ...]:
    """The addresses of the weights: a graph reads them where they were when it was captured. Names are left out,
    as collecting them takes longer than a step of a small model."""
    found = known.get({})
    if model not in found:
        tables = [table for part in modules_of(model) for table in (part._parameters, part._buffers) if table]
        tensors = [tensor for table in tables for tensor in table.values() if tensor is not None]
        found[model] = tuple([tensor.data_ptr() for tensor in tensors])
    return found[model]


def shape_of(batch: Batch) -> tuple[Any, ...]:
    """The same for batches that one graph can compute."""
    return tuple((name, tensor.shape, tensor.dtype) for name, tensor in batch.tensors().items())


class BatchGraph(NamedTuple):
    """The graph of work on batches of one shape."""

    graph: torch.cuda.CUDAGraph
    batch: Batch  # static input: the next batch is copied into it
    output: Tensors  # static output: overwritten by the next replay


class Replay:
    """Work on batches, with one CUDA graph for each shape of batch that has come more than `warm` times."""

    def __init__(self, warm: int, device: torch.device) -> None:
        self.warm, self.device = warm, device
        self.seen: Counter[Any] = Counter()
        self.recordings: dict[Any, BatchGraph] = {}
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()  # shared by all graphs: only one runs at a time
        self.bytes = 0  # of GPU memory, for all graphs

    def __call__(self, work: Callable[[Any], Tensors], batch: Batch) -> Tensors:
        """work(batch); it must be the same function each time."""
        shape = shape_of(batch)
        if shape not in self.recordings:
            self.seen[shape] += 1
            if self.seen[shape] <= self.warm or len(self.recordings) == MOST:
                return self.eager(work, batch, self.seen[shape])
            self.recordings[shape] = self.record(work, batch)
        graph, static, output = self.recordings[shape]
        for name, tensor in static.tensors().items():
            tensor.copy_(getattr(batch, name))
        graph.replay()
        return {name: tensor.clone() for name, tensor in output.items()}

    def eager(self, work: Callable[[Any], Tensors], batch: Batch, count: int) -> Tensors:
        """Without a graph; the batch is that many-th of its shape."""
        return run_aside(lambda: work(batch), self.stream)

    def record(self, work: Callable[[Any], Tensors], batch: Batch) -> BatchGraph:
        with torch.inference_mode(False):  # else it could not be overwritten outside inference mode
            static = batch.each(torch.clone)
        before = reserved(self.device)
        graph, output = capture(lambda: work(static), self.stream, self.pool)
        self.bytes += max(0, reserved(self.device) - before)
        return BatchGraph(graph, static, output)


class Replayed(NamedTuple):
    """The graphs of a model's answers."""

    weights: tuple[int, ...]  # their addresses
    deriving: list[str]  # modules with `refresh_derived`: graphs read tensors that they make of their weights
    replay: Replay


replays: WeakKeyDictionary[nn.Module, Replayed] = WeakKeyDictionary()


def replayed(model: nn.Module, work: Callable[[Any], Tensor], batch: Batch) -> Tensor:
    """work(batch), where `work` is always the same method of the model. On a GPU in eval mode without gradients, it
    is a CUDA graph from the second batch of a shape on. The graphs are kept with the model."""
    first = next(iter(batch.tensors().values()))
    plain = model.training or torch.is_grad_enabled() or tracing() or torch.is_autocast_enabled(first.device.type)
    if plain or not first.is_cuda:
        return work(batch)
    weights = addresses(model)
    with current(first.device):
        if model not in replays or replays[model].weights != weights:
            deriving = [name for name, part in model.named_modules() if hasattr(part, "refresh_derived")]
            replays[model] = Replayed(weights, deriving, Replay(1, first.device))
        for name in replays[model].deriving:
            model.get_submodule(name).refresh_derived()  # type: ignore[operator]
        return replays[model].replay(lambda batch: {"output": work(batch)}, batch)["output"]
