"""The loop of greedy decoding and sampling: one token of every row at each step.

Rows that are done leave the batch, and others may join it between two steps. The tokens of a row do not depend on
the others: each has its own limits and rules, and padding is masked. What may differ is the last bit of a logit, as
for every change of a batch's size, and what rows that begin together draw.

Letters: N rows, V words."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.choice import Dice, choose
from regard.decode.generator import at_least_float32
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import NO_TOKEN, PADDING, Rules, Stop, join_padded
from regard.layers.state import State
from regard.models import protocols


class Step(NamedTuple):
    """The tokens that one step wrote, as tensors: a GPU is waited for only where somebody asks for `pairs`."""

    rows: Tensor  # (N,) by the caller's numbers
    tokens: Tensor  # (N,)
    ended: Tensor  # (N,) True: the token is the end token
    answers: dict[int, Hypothesis]  # of the rows that are done with this step
    failed: Collection[int]  # the rows that had no possible next token, and have left too

    def pairs(self) -> list[tuple[int, int]]:
        """(row, token) of every row that wrote a token, the end token left out."""
        inside = ~self.ended
        return list(zip(self.rows[inside].tolist(), self.tokens[inside].tolist(), strict=True))


def write(
    model: protocols.Generator, source: Tensor, mask: Tensor, rules: Rules
) -> Generator[Step, None, list[Hypothesis]]:
    """One answer to each sentence, greedy or sampled. Yields what each step wrote and returns the answers. Run it
    by `finish`, or by `step_by_step` to use the tokens as they are written: these set eval mode."""
    answers = [Hypothesis([], 0.0, False) for _ in source]
    live = rules.max_lengths.nonzero().flatten()
    if not len(live):
        return answers
    loop = Loop(model)
    loop.join(source[live], mask[live], live, [rules.keep(live)])
    while len(loop):
        step = loop.step()
        if step.failed:
            raise ValueError(NO_TOKEN)
        for sentence, answer in step.answers.items():
            answers[sentence] = answer
        yield step
    return answers


class Live(NamedTuple):
    """The rows that are being written, one number each."""

    names: Tensor  # (N,) the caller's numbers
    tokens: Tensor  # (N,) the last ones
    ends: Tensor  # (N,) end tokens
    begun: Tensor  # (N,) when they joined, in steps of the loop
    limits: Tensor  # (N,) their last steps
    totals: Tensor  # (N,) log-probabilities

    def keep(self, places: Tensor) -> Live:
        return Live(*(column[places] for column in self))

    def join(self, others: Live) -> Live:
        return Live(*map(torch.cat, zip(self, others, strict=True)))


class Loop:
    """The rows that a model is writing. To be called in `eval_mode`."""

    def __init__(self, model: protocols.Generator):
        self.model, device = model, next(model.parameters()).device
        self.clock = 0  # steps so far
        self.state: State | None = None
        self.groups: list[RowGroup] = []
        none = torch.empty(0, dtype=torch.long, device=device)
        self.live = Live(none, none, none, none, none, torch.empty(0, device=device))
        self.history = none[:, None][:, :0]  # (N, L) what rules look back at and what is written, behind PADDING
        self.watched: dict[int, tuple[Stop, list[int]]] = {}  # rows that a function may stop: what they wrote

    def __len__(self) -> int:
        return len(self.live.names)

    def join(self, source: Tensor, mask: Tensor, names: Tensor, parts: Sequence[Rules]) -> None:
        """Read the sources of new rows (B, ..); the next step writes their first tokens. `names` (B,) are numbers
        by which the caller knows them. The parts have their rules, those of the first rows first; the rows of a
        part draw from one random generator. No limit may be 0."""
        state = self.model.start(source, mask)
        self.state = state if self.state is None else self.state.join(state, (len(self), len(names)))
        for part, own in zip(parts, names.split([len(part) for part in parts]), strict=True):
            self._add(own, part.delayed(self.clock))

    def _add(self, names: Tensor, rules: Rules) -> None:
        if rules.stop is not None:
            self.watched |= {name: (rules.stop, []) for name in names.tolist()}
        new = RowGroup(rules, torch.arange(len(self), len(self) + len(names), device=names.device))
        if len(self.groups) == 1:
            self.groups[0].places = torch.arange(len(self), device=names.device)
        alike = next((group for group in self.groups if group.key == new.key), None)
        if alike is None:
            self.groups.append(new)
        else:
            alike.join(new)
        begun, ends = torch.full_like(names, self.clock), torch.full_like(names, rules.end)
        totals = torch.zeros(len(names), device=names.device)
        self.live = self.live.join(Live(names, rules.start, ends, begun, rules.max_lengths, totals))
        before = rules.before if rules.decoding.looks_back else rules.before[:, :0]
        self.history = join_padded(self.history, before)

    def step(self) -> Step:
        """Write the next token of every row; those that are done with it leave."""
        assert self.state is not None
        logits, self.state = self.model.step(self.live.tokens, self.state)
        logits = at_least_float32(logits)
        tokens, best = self._choose(logits)
        everything = logits.logsumexp(-1)
        totals = self.live.totals + (logits.gather(1, tokens[:, None]).flatten() - everything)
        self.live = live = self.live._replace(tokens=tokens, totals=totals)
        self.history = torch.cat([self.history, tokens[:, None]], 1)
        self.clock += 1
        ended, possible = tokens == live.ends, (best - everything).isfinite()
        done = ended | (live.limits == self.clock) | ~possible
        if self.watched:
            done |= self._stopped(ended)
        if not done.any():
            return Step(live.names, tokens, ended, {}, ())
        answers = self._answers(done & possible, ended)
        failed = live.names[~possible].tolist()
        self._keep((~done).nonzero().flatten(), [*answers, *failed])
        return Step(live.names, tokens, ended, answers, failed)

    def _choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The next tokens (N,), and the best scores (N,) that rows could choose from."""
        if len(self.groups) == 1:
            return self.groups[0].choose(logits.clone(), self.clock, self.history)
        tokens, best = torch.empty_like(self.live.tokens), logits.new_empty(len(logits))
        for group in self.groups:
            at = group.places
            tokens[at], best[at] = group.choose(logits[at], self.clock, self.history[at])
        return tokens, best

    def _stopped(self, ended: Tensor) -> Tensor:
        """Which rows (N,) end because the stop function accepts what they have written."""
        stopped = []
        for name, token, is_end in zip(*(x.tolist() for x in (*self.live[:2], ended)), strict=True):
            stop, written = self.watched.get(name, (None, []))
            written.append(token)
            stopped.append(stop is not None and not is_end and stop(written))
        return torch.tensor(stopped, device=ended.device)

    def _answers(self, done: Tensor, ended: Tensor) -> dict[int, Hypothesis]:
        """What the rows that are done (N,) wrote."""
        lengths = self.clock - self.live.begun
        columns = (self.live.names, self.history, lengths, self.live.totals, ended)
        answers = {}
        for name, history, length, score, finished in zip(*(x[done].tolist() for x in columns), strict=True):
            tokens = history[len(history) - length : len(history) - finished]
            answers[name] = Hypothesis(tokens, score, finished)
        return answers

    def leave(self, names: Collection[int]) -> None:
        """Drop rows whose answers nobody waits for."""
        staying = [place for place, name in enumerate(self.live.names.tolist()) if name not in names]
        if len(staying) < len(self):
            self._keep(torch.tensor(staying, dtype=torch.long, device=self.live.names.device), names)

    def _keep(self, places: Tensor, gone: Collection[int]) -> None:
        """Go on with the rows at these places (N',) alone."""
        assert self.state is not None
        before, self.live, self.history = len(self), self.live.keep(places), self.history[places]
        for name in gone:
            self.watched.pop(name, None)
        if not len(places):
            self.state, self.groups, self.history = None, [], self.history[:, :0]
            return
        self.state = self.state.drop(places)
        if len(self.groups) == 1:
            self.groups[0].keep(places)
            return
        moved = places.new_full((before,), -1)
        moved[places] = torch.arange(len(places), device=places.device)
        for group in self.groups:
            places = moved[group.places]
            group.keep((places >= 0).nonzero().flatten())
            group.places = places[places >= 0]
        self.groups = [group for group in self.groups if len(group.places)]

    def trim(self) -> None:
        """Drop the padding that no row needs any more, after longer rows have left."""
        if self.state is not None:
            self.state = self.state.trim()
            used = (self.history != PADDING).any(0)
            self.history = self.history[:, int(used.int().argmax()) if used.any() else len(used) :]


class RowGroup:
    """Rows whose tokens are chosen by the same settings, so that they are computed together."""

    def __init__(self, rules: Rules, places: Tensor):
        settings, self.places = rules.decoding, places  # places (n,) in the batch; unused where all are of a group
        self.rules = replace(rules, before=rules.before[:, :0])  # the loop has the history
        self.key = settings.choice, rules.end, rules.never
        self.dice = Dice(settings.seed, len(rules), places.device) if settings.temperature else None
        self.checked = False

    def choose(self, scores: Tensor, clock: int, history: Tensor) -> tuple[Tensor, Tensor]:
        """The next tokens (n,) by their scores (n, V), which are overwritten, and the best scores that rows could
        choose from (n,)."""
        if not self.checked:
            self.rules.check_tokens(scores.shape[1])
            self.checked = True
        self.rules.apply(scores, clock, history)
        return choose(scores, self.rules.decoding, self.dice)

    def join(self, others: RowGroup) -> None:
        self.rules, self.places = self.rules.join(others.rules), torch.cat([self.places, others.places])
        if self.dice is not None and others.dice is not None:
            self.dice.join(others.dice)

    def keep(self, rows: Tensor) -> None:
        """Go on with these of its rows alone."""
        self.rules = self.rules.keep(rows)
        if self.dice is not None:
            self.dice.keep(rows)
