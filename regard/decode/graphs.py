"""Beam search on a GPU as a CUDA graph, for models whose state has one shape at all steps (`fixed_state`).

A recurrent step is some forty short kernels, the choice of the beams thirty more. Launching them one by one, and
asking the host after every step which beams go on, takes longer than running them. So the whole step is one graph,
the choice of the beams included. The host follows one step behind: it gets the same candidates, makes the same
choice, and keeps the account of ended sentences while the GPU takes the next step.

A graph is captured for one number of rows, so finished sentences stay in the batch until half of it is finished.
Graphs are kept with the model: the next batch of the same shape is decoded by the same graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import tracing
from regard.decode.generator import at_least_float32
from regard.decode.rules import Rules
from regard.decode.steps import Candidates, extend
from regard.layers.replay import addresses, capture, run_aside
from regard.layers.state import State, each_tensor
from regard.models.protocols import Generator

try:
    from regard.decode import beams_cuda
except ImportError:  # no Triton: `choose` runs on any device
    beams_cuda = None  # type: ignore[assignment]

WORTH = 8  # steps: a capture takes about as long as four
KEPT = 8  # graphs of a model; each holds the memory of its step


Launch = Callable[[], Tensor]


class Recording(NamedTuple):
    launch: Launch  # takes a step and returns its candidates; see `advance`
    input: State  # static, overwritten by what follows from it
    rules: Rules  # whose tokens the graph reads


recordings: WeakKeyDictionary[nn.Module, dict[Any, Recording]] = WeakKeyDictionary()


def possible(model: Generator, rules: Rules, last: int) -> bool:
    """Can a search whose last step is `last` be a graph, and does it pay?"""
    constant = not (rules.decoding.looks_back or rules.stop or rules.decoding.renormalise)
    on_gpu = rules.start.device.type == "cuda"
    return constant and on_gpu and getattr(model, "fixed_state", False) and last > WORTH and not tracing()


class Ahead:
    """As `Steps`, but a step is launched before the candidates of the previous step have arrived."""

    def __init__(self, model: Generator, state: State, rules: Rules, last: int):
        assert isinstance(model, nn.Module)
        self.model, self.rules, self.width, self.last = model, rules, rules.decoding.beam, last
        limits = torch.stack([rules.min_lengths, rules.max_lengths], 1)
        rows = state.rows, rules.start, torch.zeros(len(limits), device=limits.device)
        candidates, order, after = advance(model, State((state.memory, limits), rows), rules, self.width)
        own = each_tensor(lambda x: x.index_select(0, order), after.rows[0])
        begun = State(after.memory, (own, *after.rows[1:]), self.width)
        self.launched, self.waiting = 1, deque([Copied(candidates)])
        self.recording = self._record(begun)

    def candidates(self) -> Candidates:
        if self.launched < self.last:
            self.waiting.append(Copied(self.recording.launch()))
            self.launched += 1
        scores, beams, tokens = self.waiting.popleft().numpy()
        precision = np.float64 if self.recording.input.rows[-1].dtype == torch.float64 else np.float32
        return Candidates(scores.astype(precision), beams.astype(np.int64), tokens.astype(np.int64))

    def staying(self, done: np.ndarray, last: int) -> np.ndarray:
        return until_half(done) if last - self.launched >= WORTH else np.arange(len(done))

    def keep(self, sentences: np.ndarray, last: int) -> None:
        for candidates in self.waiting:
            candidates.keep(sentences)
        here = torch.from_numpy(sentences).to(self.rules.start.device)
        self.last, self.recording = last, self._record(self.recording.input.drop(here))

    def follow(self, scores: np.ndarray, beams: np.ndarray, written: np.ndarray) -> None:
        """Nothing to do: the GPU has chosen the same beams."""

    def _record(self, state: State) -> Recording:
        """The graph that goes on from this state."""
        graphs, key = recordings.setdefault(self.model, {}), _key(self.model, state, self.rules)
        if key not in graphs:
            if len(graphs) == KEPT:
                del graphs[next(iter(graphs))]
            graphs[key] = _record(self.model, state, self.rules, self.width)
        recording = graphs[key] = graphs.pop(key)  # the one used last is the last to go
        for mine, static in zip(state.tensors(), recording.input.tensors(), strict=True):
            static.copy_(mine)
        return recording


class Copied:
    """A tensor on its way from the GPU to the host."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor.to("cpu", non_blocking=True)  # into pinned memory
        self.arrived = torch.cuda.Event() if tensor.is_cuda else None
        if self.arrived is not None:
            self.arrived.record()

    def keep(self, sentences: np.ndarray) -> None:
        """These sentences alone, of (.., B, ..)."""
        self.tensor = torch.from_numpy(self.numpy()[:, sentences])

    def numpy(self) -> np.ndarray:
        if self.arrived is not None:
            self.arrived.synchronize()
        array: np.ndarray = self.tensor.numpy()
        return array


def advance(model: Generator, state: State, rules: Rules, width: int) -> tuple[Tensor, Tensor, State]:
    """One step of a search whose rules do not depend on what is written -> its candidates (scores, beams, tokens:
    3, B, 2 W), the rows (B W,) that the W beams that go on continue, and their state; of its rows, those of the
    model are not reordered yet.

    The state is the model's with, of each sentence, how many tokens it must and may still write (B, 2), and of each
    row its last token and its score (N,). These are overwritten where the shapes stay."""
    (memory, limits), (rows, tokens, scores) = state.memory, state.rows
    logits, after = model.step(tokens, State(memory, rows, state.width))
    if state.width < width:  # the first step
        rules.check_tokens(logits.shape[-1])
    run = beams_cuda.choose if _fused(logits, rules, width) else choose
    candidates, order, tokens, scores = run(logits, tokens, scores, limits, rules, width)
    return candidates, order, State((after.memory, limits), (after.rows, tokens, scores), width)


def _fused(logits: Tensor, rules: Rules, width: int) -> bool:
    if beams_cuda is None or not logits.is_cuda:
        return False
    here = logits.get_device() == torch.cuda.current_device()  # where Triton launches
    return here and beams_cuda.fits(logits, rules, width)


def choose(
    logits: Tensor, tokens: Tensor, scores: Tensor, limits: Tensor, rules: Rules, width: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The candidates of a step and, of the W beams that go on, the rows they continue, tokens and scores (B W,).
    The limits (B, 2) are counted down in place. Integers below 2^53 are exact in float64: one copy fetches all."""
    log_probabilities = at_least_float32(logits).log_softmax(-1)
    rules.forbid(log_probabilities, limits[:, 0] > 0)
    before = len(logits) // len(limits)
    grown, beams, chosen = extend(scores.unflatten(0, (-1, before)), log_probabilities, width)
    ended = (chosen == rules.end) | (limits[:, 1:] == 1)
    places = ended.byte().argsort(stable=True, dim=1)[:, :width]
    candidates = torch.stack([grown.double(), beams.double(), chosen.double()])
    scores = grown.masked_fill(ended, -torch.inf).gather(1, places)
    first = torch.arange(len(limits), device=limits.device)[:, None] * before
    limits.sub_(1)
    order = first + beams.gather(1, places)
    return candidates, order.flatten(), chosen.gather(1, places).flatten(), scores.flatten()


def until_half(done: np.ndarray) -> np.ndarray:
    """All places of the batch (B,), or, once half of it is done, the half with all that are not done."""
    half = len(done) // 2
    if len(done) - done.sum() > half:
        return np.arange(len(done))
    return np.sort(np.argsort(done, kind="stable")[:half])


def _key(model: nn.Module, state: State, rules: Rules) -> Any:
    """What a graph depends on: the addresses of the weights, the shapes of the state, and fixed tokens."""
    shapes = tuple((tensor.shape, tensor.dtype) for tensor in state.tensors())
    return addresses(model), state.width, shapes, rules.end, rules.never


def _record(model: Any, state: State, rules: Rules, width: int) -> Recording:
    static = State(each_tensor(torch.clone, state.memory), each_tensor(torch.clone, state.rows), state.width)

    def launch() -> Tensor:
        candidates, order, after = advance(model, static, rules, width)
        own = (State((), state.rows[0]).tensors() for state in (static, after))
        for old, new in zip(*own, strict=True):
            if old is new:  # the model does not change it
                new = new.clone()
            torch.index_select(new, 0, order, out=old)
        rest = (State(state.memory, state.rows[1:]).tensors() for state in (static, after))
        for old, new in zip(*rest, strict=True):
            if old is not new:
                old.copy_(new)
        return candidates

    return Recording(captured(launch), static, rules)


def captured(launch: Launch) -> Launch:
    """The step as a CUDA graph; what it returns is overwritten by the next."""
    stream = torch.cuda.Stream()
    run_aside(launch, stream)
    graph, candidates = capture(launch, stream)

    def replay() -> Tensor:
        graph.replay()
        return candidates

    return replay
