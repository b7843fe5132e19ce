"""Speculation by looking up the text: the same tokens in fewer passes of the model.

The last tokens are looked up in the text so far, and those that followed them there are proposed (Saxena 2023,
prompt lookup decoding). One pass reads the proposal and says what the model writes behind each of its tokens. As
far as both agree, these are the tokens that it would have written one by one, and the first that differs is the
model's own (Leviathan et al. 2023). Texts that repeat sentences of their prompt are written in a fraction of the
passes.

For one row. It chooses tokens as `take_step` does, by the same rules and random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import tracing
from regard.decode import graphs
from regard.decode.graphs import WORTH, Copied, Recording, capacity_for, most_places, most_sources, refused
from regard.decode.rows import Rows, choose_tokens, take_step
from regard.decode.rules import PADDING
from regard.decode.settings import Decoding
from regard.errors import BadInput
from regard.layers.replay import addresses
from regard.layers.state import copy_all
from regard.models import protocols

TRUST = 2  # tokens in a row that were looked up rightly, before more are proposed: a pass costs more than a step
LONGEST = 3  # tokens that are looked up; shorter sequences where these occur nowhere else


def check_speculation(model: Any, decoding: Decoding) -> None:
    """BadInput where these settings ask for what the model cannot do."""
    if decoding.speculate and not isinstance(model, protocols.Speculator):
        raise BadInput(
            f"speculate is for models whose past can be cut back, and {type(model).__name__} is none; set it to 0"
        )


class Text:
    """The tokens of a text, and where each short sequence of them occurred last."""

    def __init__(self, tokens: Sequence[int]):
        self.tokens: list[int] = []
        self.followed: dict[tuple[int, ...], int] = {}  # the place behind the last occurrence
        self.add(tokens)

    def add(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            place = len(self.tokens)
            for size in range(1, min(LONGEST, place) + 1):
                self.followed[tuple(self.tokens[place - size :])] = place
            self.tokens.append(token)

    def propose(self, count: int) -> list[int]:
        """So many tokens that may follow: those behind the last occurrence of the longest sequence that ends the
        text and occurred before. What repeats itself goes on so. [] if there is none."""
        for size in range(min(LONGEST, len(self.tokens)), 0, -1):
            place = self.followed.get(tuple(self.tokens[-size:]))
            if place is not None:
                known = self.tokens[place:]
                return [known[number % len(known)] for number in range(count)]
        return []


class Lookup:
    """One row that is written so; to its loop it looks as `RowsAhead`."""

    def __init__(self, model: Any, rows: Rows, text: Sequence[int], ahead: int, size: int):
        self.model, self.rows, self.size, self.text, self.ahead = model, rows, size, Text(text), ahead
        self.right = 0  # tokens in a row that were looked up rightly

    @staticmethod
    def begin(model: Any, rows: Rows, left: int, text: Sequence[int], ahead: int) -> Lookup | None:
        """A row whose text is this, of which `ahead` tokens are proposed at a time; None: it is not written so."""
        sizes = rows.state.past_sizes()
        why = reason(model, rows, sizes, ahead)
        if why:
            if isinstance(model, nn.Module):
                graphs.tell(model, f"nothing is proposed: {why}")
            return None
        size = max(sizes)
        if graphs.on_gpu(rows.tokens) and left > WORTH and model not in refused:
            try:
                return CapturedLookup(model, rows, text, ahead, size, left)
            except Exception as error:
                graphs.refuse(model, error)
        own = rows.state.drop(torch.zeros(1, dtype=torch.long, device=rows.tokens.device))  # of no graph
        return Lookup(model, replace(rows, state=own), text, ahead, size)

    @property
    def most(self) -> int:
        """Places that its pasts may have."""
        return most_places(self.model)

    @property
    def is_full(self) -> bool:
        return self.size + self.ahead + 1 > self.most

    def take(self, left: int) -> np.ndarray:
        """What the next steps wrote (S, 3, 1), as `take_step` says it."""
        guess = self.text.propose(self.ahead)
        proposal = guess[: self._most_proposed(left)] if self.right >= TRUST else []
        told = self._pass(proposal).numpy()
        tokens = told[0].astype(np.int64).tolist()
        agreed = len(tokens) - 1 if proposal else int(tokens == guess[:1])
        self.right = self.right + agreed if agreed >= max(len(proposal), 1) else 0
        self.size += len(tokens)
        self.text.add(tokens)
        outcomes: np.ndarray = told.T[:, :, None]
        return outcomes

    def _most_proposed(self, left: int) -> int:
        """Each token of a proposal costs time, so it is as long as those before it let one hope."""
        return min(2 * self.right, left - 1)

    def _pass(self, proposal: list[int]) -> Tensor:
        """One pass of the model -> the outcomes (3, tokens)."""
        if not proposal:
            outcome, self.rows = take_step(self.model, self.rows)
            return outcome.cpu()
        outcome, agreed, after = verify(self.model, self.rows, self.rows.tokens.new_tensor(proposal))
        count = int(agreed) + 1
        state = self.model.cut_back(after.state, len(proposal) + 1 - count)
        history = after.history[:, : after.history.shape[1] - len(proposal) - 1 + count]
        self.rows = replace(after, state=state, history=history, minimum=self.rows.minimum - count)
        return outcome[:, :count].cpu()

    def thins_out(self, alive: int, left: int) -> bool:
        return False

    def outcomes(self) -> tuple[np.ndarray, ...]:
        """Nothing is written that was not told."""
        return ()

    def leave(self, places: Sequence[int]) -> Rows | None:
        """The row after all that was written; None: it is not wanted."""
        return self.rows if places else None


class CapturedLookup(Lookup):
    """The same with two CUDA graphs on the same tensors: of a pass with a proposal, and of a step without."""

    def __init__(self, model: Any, rows: Rows, text: Sequence[int], ahead: int, size: int, left: int):
        super().__init__(model, rows, text, ahead, size)
        places = max(size, rows.history.shape[1]) + left + ahead + 1
        self.capacity = capacity_for(places, most_places(model))
        self.masked = rows.state.is_masked
        self.key = "lookup", ahead, addresses(model), rows.form(1, self.capacity, most_sources(model))
        self.recording = graphs.take(model, self.key, lambda: record(model, rows, ahead, self.capacity))
        self.recording.load(rows, size)

    @property
    def most(self) -> int:
        return self.capacity

    def _most_proposed(self, left: int) -> int:
        """The graph has one size."""
        return self.ahead

    def _pass(self, proposal: list[int]) -> Tensor:
        if not proposal:
            return Copied(self.recording.launch(None)).wait()
        proposed = torch.tensor(proposal)
        outcome = Copied(self.recording.launch(proposed)).wait()
        return outcome[:, : int(agreement(outcome[0], proposed)) + 1]

    def leave(self, places: Sequence[int]) -> Rows | None:
        rows = None
        if places:
            static: Rows = self.recording.input
            rows = replace(static.growing(self.size, self.masked).keep([0]), minimum=self.rows.minimum)
        graphs.give_back(self.model, self.key, self.recording)
        return rows


def reason(model: Any, rows: Rows, sizes: set[int], ahead: int) -> str:
    """Why the next tokens are written one by one; "": they are looked up."""
    if len(rows) > 1:
        return f"it is for one text at a time, and these are {len(rows)}"
    if tracing():
        return "attention is traced"
    if not isinstance(model, protocols.Speculator) or len(sizes) != 1 or -1 in sizes:
        return "the state of the model cannot be cut back"
    if max(sizes) + ahead + 1 > most_places(model):
        return f"the model has {most_places(model)} places"
    return ""


def agreement(tokens: Tensor, proposal: Tensor) -> Any:
    """How many tokens of the proposal (Q - 1,) the model would have written too, up to the first that it would not;
    tokens (Q,)"""
    return (tokens[:-1] == proposal).cumprod(0).sum()


def verify(model: Any, rows: Rows, proposal: Tensor) -> tuple[Tensor, Tensor, Rows]:
    """One pass over the last token of a row and a proposal (Q - 1,) -> the outcomes of `take_step` (3, Q), each as
    if the proposal were right so far; how many tokens of it are, a; and the row after a + 1 of the outcomes, whose
    state and history still have all Q tokens."""
    given = torch.cat([rows.tokens, proposal])
    logits, state = model.read_on(given[None], rows.state)
    outcome = choose_tokens(logits[0], prefixes(rows, proposal))[0]
    written = outcome[0].to(given.dtype)
    agreed = agreement(written, proposal)
    totals = torch.cat([rows.totals, outcome[1].to(rows.totals.dtype)]).cumsum(0)[1:]
    outcome = torch.stack([outcome[0], totals.to(outcome.dtype), outcome[2]])
    (group,) = rows.groups
    if group.dice is not None:
        group = replace(group, dice=group.dice._replace(drawn=group.dice.drawn + agreed + 1))
    after = Rows(
        state,
        written.gather(0, agreed[None]),
        totals.gather(0, agreed[None]),
        rows.least - agreed - 1,
        torch.cat([rows.history, written[None]], 1) if rows.history.shape[1] else rows.history,
        (group,),
        rows.minimum,
    )
    return outcome, agreed, after


def prefixes(rows: Rows, proposal: Tensor) -> Rows:
    """Q rows that have written 0, 1, .. of the proposal (Q - 1,), with no state and log-probabilities of 0."""
    (group,), count = rows.groups, len(proposal) + 1
    number = torch.arange(count, device=proposal.device)
    repeated = group.repeat(torch.zeros_like(number))
    if repeated.dice is not None:
        repeated = replace(repeated, dice=repeated.dice._replace(drawn=repeated.dice.drawn + number))
    history = rows.history.expand(count, -1)
    if rows.history.shape[1]:
        whole = torch.cat([rows.history[0], proposal])
        place = torch.arange(len(whole), device=whole.device) - (count - 1 - number)[:, None]  # (Q, L + Q - 1)
        history = torch.where(place < 0, PADDING, whole[place.clamp_min(0)])
    return Rows(
        rows.state,
        rows.tokens.expand(count),
        rows.totals.new_zeros(count),
        rows.least - number,
        history,
        (repeated,),
        rows.minimum,
    )


def record(model: Any, rows: Rows, ahead: int, capacity: int) -> Recording:
    """The graphs of a pass with a proposal and of a step without; `launch` takes the proposal, or None."""
    room = graphs.room(model, capacity, rows.tokens.device)
    static = rows.fixed(1, room)
    proposal = rows.tokens.new_zeros(ahead)
    width = static.history.shape[1]

    def write(after: Rows, count: Tensor | int, longer: int) -> None:
        """The static row becomes `after`, of whose history `longer` tokens are new, `count` of them real."""
        if width:
            first = torch.arange(width, device=proposal.device) + (after.history.shape[1] - width - longer) + count
            after = replace(after, history=after.history[:, first])
        copy_all(zip(static.tensors(), after.tensors(), strict=True))
        room.place.add_(count)

    def several() -> Tensor:
        outcome, agreed, after = verify(model, static, proposal)
        write(replace(after, state=model.cut_back(after.state, ahead - agreed)), agreed + 1, ahead + 1)
        return outcome

    def one() -> Tensor:
        outcome, after = take_step(model, static)
        write(after, 1, 1)
        return outcome

    both = graphs.captured(several), graphs.captured(one)

    def launch(proposed: Tensor | None) -> Tensor:
        if proposed is None:
            return both[1]()
        proposal.copy_(proposed, non_blocking=True)
        return both[0]()

    return Recording(launch, static, room.place)
