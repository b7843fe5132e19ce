"""Texts that are written together: each joins a running batch when it comes and leaves it when it is done.

The tokens of a text do not depend on the others in the batch: each has its own length, rules and random numbers,
and padding is masked. What may differ is the last bit of a logit, as for every change of a batch's size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.decode.generator import at_least_float32, eval_mode
from regard.decode.greedy import likeliest
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import NO_TOKEN, Rules, Stop
from regard.decode.sample import narrow, pick_one
from regard.layers.state import State
from regard.models.protocols import Generator

Collate = Callable[[Sequence[Any]], tuple[Tensor, Tensor]]  # sources -> a batch of them and its mask


@dataclass(frozen=True)
class Way:
    """How tokens are chosen; texts with equal ways are computed at once. The options are those of `greedy` and
    `sample`; temperature 0 is greedy."""

    end: int
    never: tuple[int, ...] = ()
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None


@dataclass(eq=False)
class Row:
    """One text that is being written."""

    source: Any  # what `Collate` makes batches of
    start: int  # the first input token
    way: Way
    max_length: int  # tokens, the end token included
    min_length: int = 0
    before: Sequence[int] = ()  # the prompt before the start token, for rules about repetition
    seed: int = 0
    stop: Stop | None = None
    written: list[int] = field(default_factory=list)  # without the end token
    score: float = 0.0
    ended: bool = False  # by the end token
    failed: str = ""  # why no token could be chosen
    dice: torch.Generator | None = None

    @property
    def done(self) -> bool:
        return self.ended or bool(self.failed) or len(self.written) >= self.max_length

    def add(self, token: int, score: float) -> None:
        self.score += score
        self.ended = token == self.way.end
        if not self.ended:
            self.written.append(token)
            if self.stop is not None and self.stop(self.written):
                self.max_length = len(self.written)

    def hypothesis(self) -> Hypothesis:
        return Hypothesis(self.written, self.score, self.ended)


class Batch:
    """The texts that one model is writing. `join` and `leave` may be called between two steps."""

    def __init__(self, model: Generator, collate: Collate) -> None:
        self.model, self.collate = model, collate
        self.rows: list[Row] = []
        self.state: State | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def join(self, rows: Sequence[Row]) -> None:
        """Read the sources of new texts; the next step writes their first tokens."""
        rows = [row for row in rows if not row.done]
        if not rows:
            return
        with eval_mode(self.model):
            source, mask = self.collate([row.source for row in rows])
            state = self.model.start(source, mask)
            if self.state is not None and self.rows:
                state = self.state.join(state, (len(self.rows), len(rows)))
        self.state = state
        self.rows += rows
        for row in rows:
            row.dice = torch.Generator(source.device).manual_seed(row.seed) if row.way.temperature else None

    def step(self) -> list[Row]:
        """Write the next token of every text; those that are done with it leave."""
        if not self.rows:
            return []
        assert self.state is not None
        with eval_mode(self.model):
            device = next(self.model.parameters()).device
            last = [row.written[-1] if row.written else row.start for row in self.rows]
            logits, self.state = self.model.step(torch.tensor(last, device=device), self.state)
            logits = at_least_float32(logits)
            tokens, possible = self._choose(logits)
            found = logits.gather(1, tokens[:, None]).flatten() - logits.logsumexp(-1)
        good = (possible & found.isfinite()).tolist()
        for row, token, score, fine in zip(self.rows, tokens.tolist(), found.tolist(), good, strict=True):
            if fine:
                row.add(token, score)
            else:
                row.failed = NO_TOKEN
        done = [row for row in self.rows if row.done]
        self.leave(done)
        return done

    def leave(self, rows: Sequence[Row]) -> None:
        """Drop texts that are done, or no longer wanted."""
        gone = set(map(id, rows))
        keep = [place for place, row in enumerate(self.rows) if id(row) not in gone]
        if len(keep) == len(self.rows):
            return
        self.rows = [self.rows[place] for place in keep]
        if not self.rows:
            self.state = None
            return
        assert self.state is not None
        with torch.inference_mode():
            device = next(self.model.parameters()).device
            self.state = self.state.drop(torch.tensor(keep, device=device)).trim()

    def _choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The next tokens (N,), and of which rows there was one to choose (N,)."""
        groups: dict[Way, list[int]] = {}
        for place, row in enumerate(self.rows):
            groups.setdefault(row.way, []).append(place)
        tokens = torch.empty(len(self.rows), dtype=torch.long, device=logits.device)
        possible = torch.empty(len(self.rows), dtype=torch.bool, device=logits.device)
        for way, members in groups.items():
            places, rows = torch.tensor(members, device=logits.device), [self.rows[place] for place in members]
            scores = logits[places]
            rules_of(way, rows, logits.device).apply(scores, 0, scores.new_empty(len(rows), 0, dtype=torch.long))
            possible[places] = scores.amax(-1).isfinite()
            tokens[places] = chosen(way, rows, scores)
        return tokens, possible


def chosen(way: Way, rows: Sequence[Row], scores: Tensor) -> Tensor:
    """The next tokens (N,) by scores (N, V). Each row draws from random numbers of its own."""
    if not way.temperature:
        return likeliest(scores)
    scores = scores.nan_to_num(nan=0.0)  # a row without a token: it fails, and must not stop the others
    shares = narrow(scores, temperature=way.temperature, top_k=way.top_k, top_p=way.top_p).softmax(-1)
    return pick_one(shares.nan_to_num(1.0), [row.dice for row in rows]).clamp_max(scores.shape[1] - 1)


def rules_of(way: Way, rows: Sequence[Row], device: torch.device) -> Rules:
    """The rules for the next token of each row: what is written counts as what came before."""
    texts = [[*row.before, row.start, *row.written] for row in rows] if _looks_back(way) else [[] for _ in rows]
    longest = max(map(len, texts))
    before = torch.tensor([[-1] * (longest - len(ids)) + ids for ids in texts], dtype=torch.long, device=device)
    least = [max(0, row.min_length - len(row.written)) for row in rows]
    minimum = torch.tensor(least, device=device)
    return Rules(
        max_lengths=minimum,
        min_lengths=minimum,
        start=minimum,
        before=before.view(len(rows), longest),
        end=way.end,
        never=way.never,
        barred=torch.tensor(way.never, dtype=torch.long, device=device),
        longest_minimum=max(least),
        penalty=way.repetition_penalty,
        no_repeat_ngram=way.no_repeat_ngram,
        stop=None,
    )


def _looks_back(way: Way) -> bool:
    return way.repetition_penalty != 1 or way.no_repeat_ngram > 0
