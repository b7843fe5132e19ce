"""Beam search on a GPU as a CUDA graph: the step of the model and the choice of the beams.

The host follows one graph behind: it gets the same candidates, makes the same choice, and keeps the account of
ended sentences while the GPU takes the next steps. Finished sentences stay in the batch until half of it is
finished."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import tracing
from regard.decode import graphs
from regard.decode.generator import at_least_float32
from regard.decode.graphs import WORTH, Copied, Recording, bucket, capacity_for, most_places, most_sources, refused
from regard.decode.rules import Rules, to_device
from regard.decode.steps import Candidates, extend
from regard.layers.replay import addresses
from regard.layers.state import Pairs, Room, State, copy_all, over_rows, reorder_tree
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


class Beams(NamedTuple):
    """A search between two steps: the state of the model, and what the choice of beams reads."""

    state: State
    limits: Tensor  # (B, 2) how many tokens a sentence must and may still write
    tokens: Tensor  # (N,) the last ones
    scores: Tensor  # (N,)

    def fixed(self, sentences: int, room: Room, width: int) -> Beams:
        """A copy whose tensors keep their shapes in later steps; sentences and beams beyond its own repeat the
        first."""
        limits, tokens, scores = self.limits.new_zeros(sentences, 2), self.tokens, self.scores
        tokens, scores = (x.new_zeros(sentences * width) for x in (tokens, scores))
        static = Beams(self.state.fixed(sentences, room, width), limits, tokens, scores)
        copy_all(static.loading(self))
        return static

    def loading(self, new: Beams) -> Pairs:
        """What is copied where to make this search, of `fixed`, the new one."""
        width = self.state.width // new.state.width
        yield from self.state.loading(new.state)
        yield from over_rows(self.limits, new.limits)
        yield from over_rows(self.tokens, new.tokens, width)
        yield from over_rows(self.scores, new.scores, width)

    def tensors(self) -> list[Tensor]:
        return [*self.state.tensors(), *self[1:]]

    def keep(self, sentences: Tensor, size: int, masked: bool) -> Beams:
        """A copy of these sentences (B',) of `fixed`, whose pasts have so many places; masked: some may be
        hidden."""
        state = self.state.growing(size, masked).drop(sentences)
        tokens, scores = (x.unflatten(0, (-1, state.width))[sentences].flatten() for x in self[2:])
        return Beams(state, self.limits[sentences], tokens, scores)


class BeamsAhead:
    """As `Steps`, but a step is launched before the candidates of the previous step have arrived."""

    def __init__(self, model: Generator, state: State, rules: Rules, last: int):
        assert isinstance(model, nn.Module)
        self.model, self.rules, self.width, self.last = model, rules, rules.decoding.beam, last
        dtype = torch.promote_types(next(model.parameters()).dtype, torch.float32)
        scores = torch.zeros(len(rules), dtype=dtype, device=rules.start.device)
        self.launched, self.taken, self.size = 0, 0, max(state.past_sizes(), default=0)
        self.masked = state.is_masked
        self.waiting: deque[Copied] = deque()  # the candidates of graphs
        self.ready: deque[Candidates] = deque()  # those of steps
        self._record(Beams(state, rules.both_lengths(), rules.start, scores))
        # All beams are equal at first, so only the first of a sentence is alive.
        self.recording.input.scores.unflatten(0, (-1, self.width))[:, 1:].fill_(-torch.inf)

    def candidates(self) -> Candidates:
        while self.launched < self.last and len(self.waiting) < (1 if self.ready else 2):
            self.waiting.append(Copied(self.recording.launch()))
            self.launched, self.size = self.launched + self.steps, self.size + self.steps
        if not self.ready:
            self._read(self.waiting.popleft().wait().numpy())
        self.taken += 1
        return self.ready.popleft()

    def _read(self, told: np.ndarray) -> None:
        """The candidates that a graph has told (steps, 3, B, 2 W)."""
        precision = np.float64 if self.recording.input.scores.dtype == torch.float64 else np.float32
        scores, beams, tokens = told[:, :, : self.count].swapaxes(0, 1)
        scores, beams, tokens = scores.astype(precision), beams.astype(np.int64), tokens.astype(np.int64)
        if not self.taken:
            beams[0] = 0  # those of dead beams are not wanted
        self.ready.extend(map(Candidates, scores, beams, tokens))

    def staying(self, done: np.ndarray, last: int) -> np.ndarray:
        return until_half(done) if last - self.launched >= WORTH else np.arange(len(done))

    def keep(self, sentences: np.ndarray, last: int) -> None:
        for copied in self.waiting:
            copied.keep(sentences)
        self.ready = deque(Candidates(*(side[sentences] for side in step)) for step in self.ready)
        here = to_device(sentences, self.rules.start.device)
        beams = self.recording.input.keep(here, self.size, self.masked)
        self.close()
        self.last = last
        self._record(beams)

    def follow(self, scores: np.ndarray, beams: np.ndarray, written: np.ndarray) -> None:
        """Nothing to do: the GPU has chosen the same beams."""

    def close(self) -> None:
        """Others may use the graph from now on."""
        for copied in self.waiting:
            copied.forget()
        graphs.give_back(self.model, self.key, self.recording)

    def _record(self, beams: Beams) -> None:
        """The graph that goes on from here. It has as many sentences as a bucket, so that few are made: those
        beyond `count` repeat the first and are not wanted."""
        left, most = self.last - self.launched, most_places(self.model)
        whole = -(-left // STEPS) * STEPS
        self.steps = STEPS if self.size + whole <= most else 1
        state, device = beams.state, beams.tokens.device
        capacity = capacity_for(self.size + (whole if self.steps > 1 else left), most) if state.past_sizes() else 0
        self.count, sentences = len(beams.limits), bucket(len(beams.limits))

        def made() -> Recording:
            room = graphs.room(self.model, capacity, device)
            static = beams.fixed(sentences, room, self.width)
            return record(self.model, static, room.place, self.rules, self.width, self.steps)

        form = state.form(most_sources(self.model)), beams.scores.dtype, sentences, capacity
        self.key = addresses(self.model), self.width, form, self.rules.end, self.rules.never, self.steps
        self.recording = graphs.take(self.model, self.key, made)
        self.recording.load(beams, self.size)


def advance(model: Generator, beams: Beams, rules: Rules, width: int) -> tuple[Tensor, Tensor, Beams]:
    """One step of a search whose rules do not depend on what is written -> its candidates (scores, beams, tokens:
    3, B, 2 W), the rows (B W,) that the W beams that go on continue, and the search after it; the rows of its state
    are not reordered yet. Limits are counted down in place, other tensors overwritten where the shapes stay."""
    logits, state = model.step(beams.tokens, beams.state)
    rules.check_tokens(logits.shape[-1])
    run = beams_cuda.choose if _fused(logits, rules, width) else choose
    candidates, order, tokens, scores = run(logits, beams.tokens, beams.scores, beams.limits, rules, width)
    return candidates, order, Beams(state, beams.limits, tokens, scores)


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


def record(model: Generator, static: Beams, place: Tensor, rules: Rules, width: int, steps: int) -> Recording:
    """The graph of so many steps from here on."""
    grows = static.state.has_buffers

    def step() -> Tensor:
        candidates, order, after = advance(model, static, rules, width)
        reorder_tree(static.state.rows, after.state.rows, order, width)
        static_rest, rest = (beams._replace(state=State(beams.state.memory, ())) for beams in (static, after))
        copy_all(zip(static_rest.tensors(), rest.tensors(), strict=True))
        if grows:
            place.add_(1)
        return candidates

    def launch() -> Tensor:
        return torch.stack([step() for _ in range(steps)])

    return Recording(graphs.captured(launch), static, place, rules.barred)
