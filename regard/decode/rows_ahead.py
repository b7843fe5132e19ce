"""Greedy decoding and sampling on a GPU as a CUDA graph: steps are launched before the host has seen the last ones.

Rows that are done stay in the batch and write on, unheard, until few are left or others join."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import tracing
from regard.decode import graphs
from regard.decode.graphs import WORTH, Copied, Recording, bucket, capacity_for, most_places, most_sources, refused
from regard.decode.rows import Rows, take_step
from regard.layers.replay import addresses
from regard.layers.state import copy_all
from regard.models import protocols

STEPS = 4  # of a graph: the host launches it and asks for its outcome once
AHEAD = 2  # graphs that the GPU has to run while the host follows


class RowsAhead:
    """Rows that are written by a graph, from where they are."""

    def __init__(self, model: Any, rows: Rows, size: int, capacity: int):
        self.model, self.device = model, rows.tokens.device
        self.count, self.size, self.capacity = bucket(len(rows)), size, capacity
        self.masked, self.minimum = rows.state.is_masked, rows.minimum
        self.key = addresses(model), STEPS, rows.form(self.count, capacity, most_sources(model))
        self.recording = graphs.take(model, self.key, lambda: record(model, rows, self.count, capacity))
        self.recording.load(rows, size)
        self.waiting: deque[Copied] = deque()  # the outcomes of graphs
        self.taken = 0  # steps

    @staticmethod
    def begin(model: protocols.Generator, rows: Rows, left: int) -> RowsAhead | None:
        """None where a step is not a graph, or it would not pay: `left` more tokens may be written."""
        if not graphs.on_gpu(rows.tokens) or not isinstance(model, nn.Module):
            return None
        sizes = rows.state.past_sizes()
        if -1 in sizes:  # the first step shows the shapes of keys and values
            return None
        size, back = max(sizes, default=0), rows.history.shape[1]
        capacity = capacity_for(max(size, back) + left + STEPS, most_places(model)) if sizes or back else 0
        why = reason(model, rows, sizes, min(left, capacity - size - STEPS + 1) if capacity else left)
        if why:
            graphs.tell(model, f"written step by step: {why}")
            return None
        try:
            return RowsAhead(model, rows, size, capacity)
        except Exception as error:
            graphs.refuse(model, error)
            return None

    @property
    def is_full(self) -> bool:
        """Is there no room for another place, and nothing left to tell?"""
        return not self.waiting and not self.has_room

    @property
    def has_room(self) -> bool:
        return not self.capacity or self.size + STEPS <= self.capacity

    def take(self, left: int) -> np.ndarray:
        """What the next steps wrote (S, 3, N), as `take_step` says it; no row writes more than `left` tokens from
        there on."""
        while len(self.waiting) <= AHEAD and STEPS * len(self.waiting) < left and self.has_room:
            self.waiting.append(Copied(self.recording.launch()))
            self.size, self.taken = self.size + STEPS, self.taken + STEPS
        return self.waiting.popleft().wait().numpy()

    def thins_out(self, alive: int, left: int) -> bool:
        """Does it pay to go on with a smaller batch, if so many rows are not done?"""
        return left > 4 * WORTH and 4 * bucket(alive) <= self.count

    def outcomes(self) -> Iterator[np.ndarray]:
        """Those of the steps that were taken ahead and not told yet."""
        while self.waiting:
            yield self.waiting.popleft().wait().numpy()

    def leave(self, places: Sequence[int]) -> Rows | None:
        """A copy of the rows at these places, after all steps that were taken; None: of none. The graph may be used
        by others afterwards."""
        rows = None
        if places:
            static: Rows = self.recording.input
            rows = static.growing(self.size, self.masked).keep(places)
            rows = replace(rows, minimum=self.minimum - self.taken)
        for copied in self.waiting:
            copied.forget()
        graphs.give_back(self.model, self.key, self.recording)
        return rows


def reason(model: nn.Module, rows: Rows, sizes: set[int], left: int) -> str:
    """Why the next `left` steps are not a graph; "": they are."""
    if tracing():
        return "attention is traced"
    if len(rows.groups) > 1:
        return "rows choose their tokens in different ways"
    if len(sizes) > 1:
        return "the pasts of its layers differ in length"
    if left <= WORTH:
        return f"a graph does not pay for {left} steps"
    return refused.get(model, "")


def record(model: protocols.Generator, rows: Rows, count: int, capacity: int) -> Recording:
    """The graph of some steps from such rows on."""
    room = graphs.room(model, capacity, rows.tokens.device)
    static = rows.fixed(count, room)
    width = static.history.shape[1]

    def launch() -> Tensor:
        rows, outcomes = static, []
        for _ in range(STEPS):
            outcome, rows = take_step(model, rows)
            history = rows.history[:, rows.history.shape[1] - width :]
            if capacity:
                room.place.add_(1)
            outcomes.append(outcome)
            # The graph is for any minimum.
            rows = replace(rows, state=rows.state.moved(), history=history, minimum=static.minimum)
        copy_all(zip(static.tensors(), rows.tensors(), strict=True))
        return torch.stack(outcomes)

    return Recording(graphs.captured(launch), static, room.place)
