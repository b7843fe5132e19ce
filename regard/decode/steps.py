"""The decoding steps of a beam search, on a GPU as a CUDA graph where the model allows it.

A recurrent step is some forty short kernels, and launching them takes longer than running them. A graph launches
them at once. It is captured for one number of rows, so finished sentences stay in the batch until half of it is
finished. Graphs are kept with the model: the next batch of the same shape is decoded by the same graph."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import tracing
from regard.layers.state import State, each_tensor
from regard.models.protocols import Generator

WORTH = 8  # steps: a capture takes about as long as four
KEPT = 8  # graphs of a model; each holds the memory of its step


class Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    held: State  # static input, overwritten by what follows from it
    following: Tensor  # (2, N) static input; see `Steps.__call__`
    logits: Tensor  # (N, V) static output


recordings: WeakKeyDictionary[nn.Module, dict[Any, Recording]] = WeakKeyDictionary()


class Steps:
    """A model and the state of the sentences that are being written."""

    def __init__(self, model: Generator, state: State):
        self.model, self.state = model, state
        self.recording: Recording | None = None

    def first(self, tokens: Tensor, width: int) -> Tensor:
        """The first tokens (B,) -> logits (B, V); from here on a sentence has `width` rows."""
        logits, state = self.model.step(tokens, self.state)
        self.state, self.device = state.spread(width), tokens.device
        return logits

    def __call__(self, following: np.ndarray) -> Tensor:
        """(2, N): the rows that go on, and their last tokens -> logits (N, V)"""
        given = torch.from_numpy(following)
        if self.recording is not None:
            self.recording.following.copy_(given)
            self.recording.graph.replay()
            return self.recording.logits
        order, tokens = given.to(self.device)
        logits, self.state = self.model.step(tokens, self.state.reorder(order))
        return logits

    def record(self, most: int) -> None:
        """From here on replay a graph, if that is possible and pays with at most so many steps to come."""
        if not getattr(self.model, "fixed_state", False) or self.device.type != "cuda" or most < WORTH or tracing():
            return
        assert isinstance(self.model, nn.Module)
        known, key = recordings.setdefault(self.model, {}), _key(self.model, self.state)
        if key not in known:
            if len(known) == KEPT:
                del known[next(iter(known))]
            known[key] = _record(self.model, self.state)
        self.recording = known[key] = known.pop(key)  # the one used last is the last to go
        for mine, held in zip(self.state.tensors(), self.recording.held.tensors(), strict=True):
            held.copy_(mine)

    def going_on(self, done: np.ndarray) -> np.ndarray:
        """Which sentences of the batch (B,) stay in it: those that are not done, or all while a graph replays."""
        return (~done).nonzero()[0] if self.recording is None else until_half(done)

    def keep(self, sentences: Tensor, most: int) -> None:
        """Go on with these sentences (B',) alone, for at most so many steps."""
        if self.recording is not None:
            self.state, self.recording = self.recording.held, None
        self.state = self.state.drop(sentences)
        self.record(most)


def until_half(done: np.ndarray) -> np.ndarray:
    """All places of the batch (B,), or, once half of it is done, the half with all that are not done."""
    half = len(done) // 2
    if len(done) - done.sum() > half:
        return np.arange(len(done))
    return np.sort(np.argsort(done, kind="stable")[:half])


def _key(model: nn.Module, state: State) -> Any:
    """What a graph depends on: the addresses of the weights, and the shapes of the state."""
    weights = tuple(tensor.data_ptr() for tensor in chain(model.parameters(), model.buffers()))
    return weights, state.width, tuple((tensor.shape, tensor.dtype) for tensor in state.tensors())


def _record(model: Any, state: State) -> Recording:
    held = State(each_tensor(torch.clone, state.memory), each_tensor(torch.clone, state.rows), state.width)
    rows = len(held.tensors()[-1])
    following = torch.zeros(2, rows, dtype=torch.long, device=state.tensors()[0].device)

    def step() -> Tensor:
        logits, after = model.step(following[1], held.reorder(following[0]))
        for old, new in zip(held.tensors(), after.tensors(), strict=True):
            if old is not new:
                old.copy_(new)
        return logits

    aside = torch.cuda.Stream()  # libraries load their kernels before the capture, on a stream of its own
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = step()
    return Recording(graph, held, following, logits)
