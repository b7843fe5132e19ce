"""The rows that a loop is writing, as tensors on the device of the model, and one step of them all.

Letters: N rows, V words, L tokens before."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.batch import wide
from regard.decode.choice import Dice, choose
from regard.decode.generator import at_least_float32
from regard.decode.largest import log_sum_exp
from regard.decode.rules import PADDING, Rules, join_padded, to_device
from regard.layers.state import Pairs, Room, State, copy_all, over_rows
from regard.models import protocols

try:
    from regard.decode import choice_cuda
except ImportError:  # no Triton
    choice_cuda = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Rows:
    """Rows that are written together. What they have written so far is the loop's, except for what rules look back
    at."""

    state: State
    tokens: Tensor  # (N,) the last ones
    totals: Tensor  # (N,) log-probabilities
    least: Tensor  # (N,) how many tokens they still write before they may end
    history: Tensor  # (N, L) what rules look back at, behind PADDING; (N, 0) if none does
    groups: tuple[RowGroup, ...]  # by the way their tokens are chosen
    minimum: int  # of `least` the largest, or more

    def __len__(self) -> int:
        return len(self.tokens)

    @staticmethod
    def begin(state: State, rules: Rules) -> Rows:
        """Rows that have written nothing; `state` is what the model makes of their sources."""
        count, device = len(rules), rules.start.device
        return Rows(
            state,
            rules.start,
            torch.zeros(count, device=device),
            rules.min_lengths,
            rules.before if rules.decoding.looks_back else rules.before[:, :0],
            (RowGroup.begin(rules),),
            rules.longest_minimum,
        )

    def join(self, others: Rows, state: State | None = None) -> Rows:
        """The others behind these. `state` is that of both, where it is known."""
        count = len(self)
        groups = list(self.groups)
        for group in others.groups:
            moved = replace(group, places=group.places + count)
            alike = next((place for place, mine in enumerate(groups) if mine.key == group.key), None)
            if alike is None:
                groups.append(moved)
            else:
                groups[alike] = groups[alike].join(moved)
        return Rows(
            self.state.join(others.state, (count, len(others))) if state is None else state,
            torch.cat([self.tokens, others.tokens]),
            torch.cat([self.totals, others.totals]),
            torch.cat([self.least, others.least]),
            join_padded(self.history, others.history),
            tuple(groups),
            max(self.minimum, others.minimum),
        )

    def keep(self, places: Sequence[int]) -> Rows:
        """The rows at these places, in ascending order."""
        here = to_device(np.array(places, np.int64), self.tokens.device)
        moved = np.full(len(self), -1)
        moved[places] = np.arange(len(places))
        return replace(
            self,
            state=self.state.drop(here),
            tokens=self.tokens[here],
            totals=self.totals[here],
            least=self.least[here],
            history=self.history[here],
            groups=tuple(kept for group in self.groups if len((kept := group.keep(moved)).places)),
        )

    def trim(self) -> Rows:
        """Without the padding that no row needs any more, after longer rows have left."""
        used = (self.history != PADDING).any(0)
        first = int(used.int().argmax()) if used.any() else len(used)
        return replace(self, state=self.state.trim(), history=self.history[:, first:])

    def form(self, count: int, capacity: int, source: int) -> Hashable:
        """What a graph of `fixed` depends on: its settings, and what the shapes of its tensors do."""
        (group,) = self.groups
        choice = group.key, self.minimum > 0, self.totals.dtype
        return choice, count, capacity, self._back(capacity), self.state.form(source)

    def _back(self, capacity: int) -> int:
        """How many tokens rules can look back at in buffers of this capacity."""
        return max(capacity, self.history.shape[1]) if self.history.shape[1] else 0

    def fixed(self, count: int, room: Room) -> Rows:
        """A copy whose tensors keep their shapes in later steps: `count` rows, of which those beyond N repeat the
        first and are not wanted. For rows of one group."""
        (group,) = self.groups
        tokens, totals, least = (x.new_zeros(count) for x in (self.tokens, self.totals, self.least))
        state, history = self.state.fixed(count, room, 1), self.history.new_zeros(count, self._back(room.capacity))
        static = Rows(state, tokens, totals, least, history, (group.fixed(count),), self.minimum)
        copy_all(static.loading(self))
        return static

    def loading(self, new: Rows) -> Pairs:
        """What is copied where to make these rows, of `fixed`, the new ones."""
        yield from self.state.loading(new.state)
        history, known = self.history, new.history.shape[1]
        if known:
            history[:, : history.shape[1] - known].fill_(PADDING)
            history = history[:, history.shape[1] - known :]
        mine, others = ((rows.tokens, rows.totals, rows.least, *rows.dice) for rows in (self, new))
        for static, other in zip((*mine, history), (*others, new.history), strict=True):
            yield from over_rows(static, other)

    def growing(self, size: int, masked: bool) -> Rows:
        """Rows of `fixed` whose pasts have so many places, as those that grow. masked: some may be hidden."""
        return replace(self, state=self.state.growing(size, masked))

    @property
    def dice(self) -> list[Tensor]:
        """The tensors that they draw their numbers from."""
        return [tensor for group in self.groups if group.dice is not None for tensor in group.dice]

    def tensors(self) -> Iterator[Tensor]:
        """All tensors that a step changes, or reads."""
        yield from self.state.tensors()
        yield from (self.tokens, self.totals, self.least, self.history, *self.dice)


@dataclass(frozen=True)
class RowGroup:
    """Rows whose tokens are chosen by the same settings, so that they are computed together."""

    rules: Rules  # its settings and tokens; the limits are those of the rows
    places: np.ndarray  # (n,) in the batch
    dice: Dice | None  # None: the likeliest tokens are taken
    checked: bool = False  # are its tokens those of the model?

    @property
    def key(self) -> object:
        return self.rules.decoding.choice, self.rules.end, self.rules.never

    @staticmethod
    def begin(rules: Rules) -> RowGroup:
        settings, device = rules.decoding, rules.start.device
        dice = Dice.begin(settings.seed, len(rules), device) if settings.temperature else None
        return RowGroup(rules, np.arange(len(rules)), dice)

    @cached_property
    def here(self) -> Tensor:
        """The places on the device."""
        return to_device(self.places, self.rules.start.device)

    def check(self, words: int) -> RowGroup:
        """ValueError where a token of its rules is none of so many words."""
        if self.checked:
            return self
        self.rules.check_tokens(words)
        return replace(self, checked=True)

    def choose(self, scores: Tensor, early: Tensor | None, history: Tensor) -> tuple[Tensor, Tensor]:
        """The next tokens (n,) by their scores (n, V), which are overwritten, and the best scores that rows could
        choose from (n,)."""
        self.rules.apply(scores, early, history)
        return choose(scores, self.rules.decoding, self.dice)

    def join(self, others: RowGroup) -> RowGroup:
        dice = self.dice.join(others.dice) if self.dice is not None and others.dice is not None else None
        return replace(self, places=np.concatenate([self.places, others.places]), dice=dice)

    def keep(self, moved: np.ndarray) -> RowGroup:
        """Its rows that stay in the batch: moved (N,) says where to, -1 where not."""
        places = moved[self.places]
        stay = (places >= 0).nonzero()[0]
        dice = None if self.dice is None else self.dice.select(to_device(stay, self.dice.keys.device))
        return replace(self, places=places[stay], dice=dice)

    def fixed(self, count: int) -> RowGroup:
        """A group of so many rows, whose dice `Rows.loading` fills."""
        dice = None if self.dice is None else Dice(*(numbers.new_zeros(count) for numbers in self.dice))
        return replace(self, places=np.arange(count), dice=dice)

    def repeat(self, rows: Tensor) -> RowGroup:
        """These of its rows (n',), some of them several times; for a group of all rows."""
        dice = None if self.dice is None else self.dice.select(rows)
        return replace(self, places=np.arange(len(rows)), dice=dice)


def take_step(model: protocols.Generator, rows: Rows) -> tuple[Tensor, Rows]:
    """Write the next token of every row -> (3, N): the tokens, the log-probabilities of the rows, and whether there
    was a possible token; and the rows after it. Integers below 2^53 are exact in float64: one copy fetches all."""
    logits, state = model.step(rows.tokens, rows.state)
    return choose_tokens(logits, replace(rows, state=state))


def choose_tokens(logits: Tensor, rows: Rows) -> tuple[Tensor, Rows]:
    """The part of `take_step` behind the model, for rows with their next state."""
    rows = replace(rows, groups=tuple(group.check(logits.shape[1]) for group in rows.groups))
    rules, minimum = rows.groups[0].rules, rows.minimum
    if choice_cuda is not None and len(rows.groups) == 1 and choice_cuda.fits(logits, rules):
        outcome, tokens, totals, least = choice_cuda.choose(
            logits, rows.totals, rows.least, rules, early=minimum > 0
        )
        after = replace(rows, tokens=tokens, totals=totals, least=least, minimum=minimum - 1)
        return outcome, after
    logits = at_least_float32(logits)
    everything = log_sum_exp(logits)
    tokens, best = _choose(logits, rows)
    totals = rows.totals + (logits.gather(1, tokens[:, None]).flatten() - everything)
    possible = (best - everything).isfinite()
    history = torch.cat([rows.history, tokens[:, None]], 1) if rows.history.shape[1] else rows.history
    after = Rows(rows.state, tokens, totals, rows.least - 1, history, rows.groups, minimum - 1)
    return torch.stack([wide(tokens), wide(totals), wide(possible)]), after


def _choose(logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """The next tokens (N,), and the best scores (N,) that rows could choose from. The logits of tokens that are not
    chosen may be overwritten."""
    early = rows.least > 0 if rows.minimum > 0 else None
    if len(rows.groups) == 1:
        (group,) = rows.groups
        # Other rules than a penalty leave the scores of tokens that may be written.
        scores = logits if group.rules.decoding.repetition_penalty == 1 else logits.clone()
        return group.choose(scores, early, rows.history)
    tokens, best = torch.empty_like(rows.tokens), logits.new_empty(len(logits))
    for group in rows.groups:
        at = group.here
        tokens[at], best[at] = group.choose(logits[at], None if early is None else early[at], rows.history[at])
    return tokens, best
