"""The loop of greedy decoding and sampling: one token of every row at each step.

Rows that are done leave the batch, and others may join it between two steps. The tokens of a row do not depend on
the others: each has its own limits, rules and random numbers, and padding is masked. What may differ is the last
bit of a logit, as for every change of a batch's size.

A step of the model and the choice of the tokens are `take_step`, run at once or as a CUDA graph (`RowsAhead`).
Which rows are done and what they have written is kept on the host."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.decode import graphs
from regard.decode.graphs import WORTH
from regard.decode.hypothesis import Hypothesis
from regard.decode.lookup import Lookup
from regard.decode.rows import Rows, take_step
from regard.decode.rows_ahead import RowsAhead
from regard.decode.rules import PADDING, Rules, Stop, no_token, to_device
from regard.models import protocols


class Step(NamedTuple):
    """What one step wrote."""

    rows: list[int]  # by the caller's numbers
    tokens: list[int]
    ended: list[bool]  # True: the token is the end token
    answers: dict[int, Hypothesis]  # of the rows that are done with this step
    failed: list[int]  # the rows that had no possible next token, and have left too

    def pairs(self) -> list[tuple[int, int]]:
        """(row, token) of every row that wrote a token, the end token left out."""
        columns = zip(self.rows, self.tokens, self.ended, strict=True)
        return [(row, token) for row, token, ended in columns if not ended]

    def without(self, names: Collection[int]) -> Step:
        """What it wrote of other rows."""
        places = [place for place, row in enumerate(self.rows) if row not in names]
        answers = {name: answer for name, answer in self.answers.items() if name not in names}
        return Step(
            [self.rows[place] for place in places],
            [self.tokens[place] for place in places],
            [self.ended[place] for place in places],
            answers,
            [name for name in self.failed if name not in names],
        )


def write(
    model: protocols.Generator, source: Tensor, mask: Tensor, rules: Rules
) -> Generator[Step, None, list[Hypothesis]]:
    """One answer to each sentence, greedy or sampled. Yields what each step wrote and returns the answers. Run it
    by `finish`, or by `step_by_step` to use the tokens as they are written: these set eval mode."""
    answers = [Hypothesis([], 0.0, False)] * len(source)
    live: np.ndarray = rules.limits.nonzero()[0]
    if not len(live):
        return answers
    if len(live) < len(source):
        here = to_device(live, source.device)
        source, mask, rules = source[here], mask[here], rules.keep(live)
    loop = Loop(model)
    loop.join(source, mask, live.tolist(), [rules])
    while len(loop):
        step = loop.step()
        if step.failed:
            raise no_token(model)
        for sentence, answer in step.answers.items():
            answers[sentence] = answer
        yield step
    return answers


@dataclass(eq=False)
class Draft:
    """What a row has written, and when it is done."""

    name: int  # the caller's number
    end: int  # end token
    limit: int  # most tokens
    stop: Stop | None
    speculate: int = 0  # tokens that are proposed at a time
    before: list[int] = field(default_factory=list)  # the tokens before, for proposals
    written: list[int] = field(default_factory=list)

    @property
    def is_stopped(self) -> bool:
        """Is it told to stop behind its last token?"""
        return self.stop is not None and self.stop(self.written)

    def answer(self, score: float) -> Hypothesis:
        finished = self.written[-1] == self.end
        return Hypothesis(self.written[: len(self.written) - finished], score, finished)


def drafts_of(names: Sequence[int], parts: Sequence[Rules]) -> Iterator[Draft]:
    """Empty drafts by the caller's numbers, those of the first rules first."""
    numbers = iter(names)
    for part in parts:
        ahead, limits = part.decoding.speculate, part.limits.tolist()
        texts = part.before.tolist() if ahead else [[]] * len(limits)
        for limit, before in zip(limits, texts, strict=True):
            yield Draft(next(numbers), part.end, limit, part.stop, ahead, before)


class Table(NamedTuple):
    """Drafts that are not done, as arrays (n,): a step of hundreds of rows is a few operations."""

    places: np.ndarray  # in the batch
    names: list[int]
    ends: np.ndarray
    limits: np.ndarray
    lengths: np.ndarray  # tokens written
    written: list[np.ndarray]  # (steps, n) what the drafts have not got yet
    stops: bool  # may a function stop one?

    @staticmethod
    def of(drafts: Sequence[Draft | None]) -> Table:
        alive = [(place, draft) for place, draft in enumerate(drafts) if draft is not None]
        columns = [(place, draft.end, draft.limit, len(draft.written)) for place, draft in alive]
        places, ends, limits, lengths = np.array(columns, np.int64).reshape(-1, 4).T.copy()
        stops = any(draft.stop is not None for _, draft in alive)
        return Table(places, [draft.name for _, draft in alive], ends, limits, lengths, [], stops)


class Loop:
    """The rows that a model is writing. To be called in `eval_mode`."""

    def __init__(self, model: protocols.Generator):
        self.model = model
        self.drafts: list[Draft | None] = []  # in the order of the batch; None: it is done, or was never wanted
        self.rows: Rows | None = None  # None: there are none, or `ahead` has them
        self.table: Table | None = None  # of the drafts
        self.ahead: RowsAhead | Lookup | None = None  # that writes them, instead of `rows`
        self.backlog: deque[Step] = deque()  # steps that were taken before the batch was changed
        self.steady = 0  # steps since then

    def __len__(self) -> int:
        """How many rows are still to be told of."""
        told_later = sum(len(step.answers) + len(step.failed) for step in self.backlog)
        return told_later + len(self._table.names)

    def join(self, source: Tensor, mask: Tensor, names: Sequence[int], parts: Sequence[Rules]) -> None:
        """Read the sources of new rows (B, ..); the next step writes their first tokens. `names` (B,) are numbers
        by which the caller knows them. The parts have their rules, those of the first rows first; the rows of a
        part have one seed. No limit may be 0."""
        self._settle()
        with graphs.started(self.model, source, mask) as (state, lent):
            new = Rows.begin(state, parts[0])
            for part in parts[1:]:
                new = new.join(Rows.begin(state, part), state)
            self.drafts += drafts_of(names, parts)
            if self.rows is None and self._go_ahead(new):  # from where the state lies
                return
            if lent:
                new = replace(new, state=state.drop(torch.arange(len(new), device=source.device)))
            self.rows = new if self.rows is None else self.rows.join(new)

    def step(self) -> Step:
        """Write the next token of every row; those that are done with it leave."""
        if not self.backlog:
            self._take()
        return self.backlog.popleft()

    def steps(self) -> list[Step]:
        """The next step, and those that need not be waited for: a graph takes several at once."""
        taken = [self.step(), *self.backlog]
        self.backlog.clear()
        return taken

    def _take(self) -> None:
        """Take the next step, or as many as a graph takes at once."""
        if self.ahead is not None and self.ahead.is_full:
            self._settle()
            self.trim()
        if self.rows is not None and not self._go_ahead(self.rows):
            outcome, self.rows = take_step(self.model, self.rows)
            steps = self._account(outcome.cpu().numpy()[None])
        else:
            assert self.ahead is not None
            steps = self._account(self.ahead.take(self.left))
        self.backlog += steps
        self.steady += len(steps)
        if any(step.answers or step.failed for step in steps):
            alive = len(self._table.names)
            if self.ahead is None or not alive or self.ahead.thins_out(alive, self.left):
                self._settle()

    def _go_ahead(self, rows: Rows) -> bool:
        """Is there something that goes on from these rows faster than step by step?"""
        self.ahead = self._look_up(rows) or RowsAhead.begin(self.model, rows, self.left)
        if self.ahead is not None:
            self.rows = None
        return self.ahead is not None

    def _look_up(self, rows: Rows) -> Lookup | None:
        """What proposes the tokens of a row that asks for it."""
        draft = next((draft for draft in self.drafts if draft is not None), None)
        if draft is None or not draft.speculate:
            return None
        self._write_down()
        text = [token for token in draft.before if token != PADDING] + draft.written
        return Lookup.begin(self.model, rows, self.left, text, draft.speculate)

    @property
    def is_open(self) -> bool:
        """Does it pay that others join now? With a graph that takes as long as some steps, so they wait a little
        and join together."""
        return self.ahead is None or self.steady >= 2 * WORTH

    @property
    def left(self) -> int:
        """How many more tokens a row may write."""
        return int((self._table.limits - self._table.lengths).max())

    @property
    def _table(self) -> Table:
        """The drafts as arrays; made again when a draft joins or leaves."""
        if self.table is None:
            self.table = Table.of(self.drafts)
        return self.table

    def _account(self, outcomes: np.ndarray) -> list[Step]:
        """What follows from outcomes of `take_step` (S, 3, N), for the rows that are not done."""
        steps: list[Step] = []
        while len(steps) < len(outcomes) and (table := self._table).names:
            tokens, totals, possible = outcomes[len(steps) :, :, table.places].swapaxes(0, 1)  # (S, n)
            tokens = tokens.astype(np.int64)
            ended = tokens == table.ends
            lengths = table.lengths + np.arange(1, len(tokens) + 1)[:, None]
            done = ended | (lengths == table.limits) | (possible == 0)
            some = done.any(1)  # with a step: the rows of later ones are others
            last = 0 if table.stops else int(some.argmax()) if some.any() else len(some) - 1
            count = last + 1
            table.written.append(tokens[:count])
            table.lengths[:] += count
            columns = zip(tokens[:count].tolist(), ended[:count].tolist(), strict=True)
            steps += [Step(table.names, own, ends, {}, []) for own, ends in columns]
            if table.stops or some[last]:
                self._end(steps[-1], totals[last], possible[last], done[last])
        return steps

    def _end(self, step: Step, totals: np.ndarray, possible: np.ndarray, done: np.ndarray) -> None:
        """The rows that are done with a step leave, and those that are told to stop."""
        places = self._table.places.tolist()
        self._write_down()
        for number, place in enumerate(places):
            draft = self.drafts[place]
            assert draft is not None
            if not possible[number]:
                step.failed.append(draft.name)
            elif done[number] or draft.is_stopped:
                step.answers[draft.name] = draft.answer(float(totals[number]))
            else:
                continue
            self.drafts[place] = self.table = None

    def _write_down(self) -> None:
        """Give the drafts what they have written."""
        table = self.table
        if table is not None and table.written:
            rows = np.concatenate(table.written).T.tolist()
            table.written.clear()
            for place, tokens in zip(table.places.tolist(), rows, strict=True):
                draft = self.drafts[place]
                if draft is not None:
                    draft.written += tokens

    def _settle(self) -> None:
        """Go on from the rows that are not done alone, with nothing computed ahead."""
        if self.ahead is not None and any(self.drafts):
            for outcomes in self.ahead.outcomes():
                self.backlog += self._account(outcomes)
        places = [place for place, draft in enumerate(self.drafts) if draft is not None]
        if self.ahead is not None:
            self.rows, self.ahead = self.ahead.leave(places), None
        elif not places:
            self.rows = None
        elif self.rows is not None and len(places) < len(self.rows):
            self.rows = self.rows.keep(places)
        self._write_down()
        self.drafts, self.table, self.steady = [self.drafts[place] for place in places], None, 0

    def leave(self, names: Collection[int]) -> None:
        """Drop rows whose answers nobody waits for."""
        self.backlog = deque(step.without(names) for step in self.backlog)
        self._write_down()
        self.drafts = [None if draft and draft.name in names else draft for draft in self.drafts]
        self.table = None
        self._settle()

    def trim(self) -> None:
        """Drop the padding that no row needs any more, after longer rows have left."""
        if self.rows is not None:
            self.rows = self.rows.trim()
