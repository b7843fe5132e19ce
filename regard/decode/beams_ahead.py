"""Beam search on a GPU as a CUDA graph: the step of the model and the choice of the beams.

The host follows one graph behind: it gets the same candidates, makes the same choice, and keeps the account of
ended sentences while the GPU takes the next steps. Finished sentences stay in the batch until half of it is
finished."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import tracing
from regard.decode import graphs
from regard.decode.generator import at_least_float32
from regard.decode.graphs import WORTH, Copied, Recording, bucket, capacity_for, most_places, refused
from regard.decode.rules import Rules
from regard.decode.steps import Candidates, extend
from regard.layers.replay import addresses
from regard.layers.state import State, reorder_tree
from regard.models.protocols import Generator

try:
    from regard.decode import beams_cuda
except ImportError:  # no Triton: `choose` runs on any device
    beams_cuda = None  # type: ignore[assignment]


STEPS = 4  # of a graph, some of which may be for nothing at the end


def possible(model: Generator, state: State, rules: Rules, last: int) -> bool:
    """Can a search from this state to the step `last` be a graph, and does it pay?"""
    if not graphs.on_gpu(rules.start):
        return False
    why = reason(model, state, rules, last)
    if why and isinstance(model, nn.Module):
        graphs.tell(model, f"searched step by step: {why}")
    return not why


def reason(model: Generator, state: State, rules: Rules, last: int) -> str:
    """Why a search is not a graph; "": it is."""
    if tracing():
        return "attention is traced"
    if rules.decoding.looks_back or rules.stop or rules.decoding.renormalise:
        return "its rules depend on what is written"
    if last <= WORTH:
        return f"a graph does not pay for {last} steps"
    sizes = state.past_sizes()
    if -1 in sizes or len(sizes) > 1:
        return "the shapes of its pasts are not known, or differ"
    if max(sizes, default=0) + last > most_places(model):
        return f"the model has {most_places(model)} places, and {last} more tokens are asked for"
    return refused.get(model, "") if isinstance(model, nn.Module) else "it is no module"


class BeamsAhead:
    """As `Steps`, but a step is launched before the candidates of the previous step have arrived."""

    def __init__(self, model: Generator, state: State, rules: Rules, last: int):
        assert isinstance(model, nn.Module)
        self.model, self.rules, self.width, self.last = model, rules, rules.decoding.beam, last
        limits = torch.stack([rules.min_lengths, rules.max_lengths], 1)
        dtype = torch.promote_types(next(model.parameters()).dtype, torch.float32)
        # All beams are equal at first, so only the first of a sentence is alive.
        scores = torch.full((len(limits), self.width), -torch.inf, dtype=dtype, device=limits.device)
        scores[:, 0] = 0
        wide = state.spread(self.width)
        rows = wide.rows, rules.start.repeat_interleave(self.width), scores.flatten()
        self.launched, self.taken, self.size = 0, 0, max(state.past_sizes(), default=0)
        self.waiting: deque[Copied] = deque()  # the candidates of graphs
        self.ready: deque[np.ndarray] = deque()  # those of steps (3, B, 2 W)
        self._record(State((state.memory, limits), rows, self.width), len(limits))

    def candidates(self) -> Candidates:
        while self.launched < self.last and len(self.waiting) < (1 if self.ready else 2):
            self.waiting.append(Copied(self.recording.launch()))
            self.launched, self.size = self.launched + self.steps, self.size + self.steps
        if not self.ready:
            self.ready.extend(self.waiting.popleft().wait().numpy())
        scores, beams, tokens = self.ready.popleft()[:, : self.count]
        precision = np.float64 if self.recording.input.rows[-1].dtype == torch.float64 else np.float32
        if not self.taken:
            beams = np.zeros_like(beams)  # those of dead beams are not wanted
        self.taken += 1
        return Candidates(scores.astype(precision), beams.astype(np.int64), tokens.astype(np.int64))

    def staying(self, done: np.ndarray, last: int) -> np.ndarray:
        return until_half(done) if last - self.launched >= WORTH else np.arange(len(done))

    def keep(self, sentences: np.ndarray, last: int) -> None:
        for copied in self.waiting:
            copied.keep(sentences)
        self.ready = deque(candidates[:, sentences] for candidates in self.ready)
        here = torch.from_numpy(sentences).to(self.rules.start.device)
        state = self.recording.input.growing(self.size).drop(here)
        self.close()
        self.last = last
        self._record(state, len(here))

    def follow(self, scores: np.ndarray, beams: np.ndarray, written: np.ndarray) -> None:
        """Nothing to do: the GPU has chosen the same beams."""

    def close(self) -> None:
        """Others may use the graph from now on."""
        graphs.give_back(self.model, self.key, self.recording)

    def _record(self, state: State, sentences: int) -> None:
        """The graph that goes on from this state. It has as many sentences as a bucket, so that few are made: those
        beyond `count` repeat the first and are not wanted."""
        left, most = self.last - self.launched, most_places(self.model)
        whole = -(-left // STEPS) * STEPS
        self.steps = STEPS if self.size + whole <= most else 1
        capacity = capacity_for(self.size + (whole if self.steps > 1 else left), most) if state.past_sizes() else 0
        self.count, index = sentences, torch.arange(bucket(sentences), device=self.rules.start.device)
        index = torch.where(index < sentences, index, 0)

        def fixed() -> tuple[State, Tensor]:
            room = graphs.room(self.model, capacity, index.device)
            return state.fixed(index, room), room.place

        as_they_are = len(index) == sentences
        begun = state.fixed(None if as_they_are else index, graphs.room(self.model, capacity, index.device))
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in begun.tensors())
        self.key = addresses(self.model), state.width, shapes, self.rules.end, self.rules.never, self.steps
        self.recording = graphs.take(
            self.model, self.key, lambda: record(self.model, *fixed(), self.rules, self.width, self.steps)
        )
        self.recording.load(begun, self.size)


def advance(model: Generator, state: State, rules: Rules, width: int) -> tuple[Tensor, Tensor, State]:
    """One step of a search whose rules do not depend on what is written -> its candidates (scores, beams, tokens:
    3, B, 2 W), the rows (B W,) that the W beams that go on continue, and their state; of its rows, those of the
    model are not reordered yet.

    The state is the model's with, of each sentence, how many tokens it must and may still write (B, 2), and of each
    row its last token and its score (N,). These are overwritten where the shapes stay."""
    (memory, limits), (rows, tokens, scores) = state.memory, state.rows
    logits, after = model.step(tokens, State(memory, rows, state.width))
    rules.check_tokens(logits.shape[-1])
    run = beams_cuda.choose if _fused(logits, rules, width) else choose
    candidates, order, tokens, scores = run(logits, tokens, scores, limits, rules, width)
    return candidates, order, State((after.memory, limits), (after.rows, tokens, scores), width)


def _fused(logits: Tensor, rules: Rules, width: int) -> bool:
    return beams_cuda is not None and logits.is_cuda and beams_cuda.fits(logits, rules, width)


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


def record(model: Any, static: State, place: Tensor, rules: Rules, width: int, steps: int) -> Recording:
    """The graph of so many steps from this state on."""

    def step() -> Tensor:
        candidates, order, after = advance(model, static, rules, width)
        reorder_tree(static.rows[0], after.rows[0], order, width)
        graphs.copy_all(*(State(state.memory, state.rows[1:]).tensors() for state in (static, after)))
        place.add_(1)
        return candidates

    def launch() -> Tensor:
        return torch.stack([step() for _ in range(steps)])

    return Recording(graphs.captured(launch), static, place)
