"""Answers that are written token by token, many at once: each joins the others when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.decode import graphs
from regard.decode.generator import eval_mode
from regard.decode.hypothesis import Hypothesis
from regard.decode.loop import Loop, Step
from regard.decode.rules import Rules, Target, no_token, read_rules
from regard.decode.settings import Decoding
from regard.models import protocols
from regard.tasks.core.results import Answer
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.text_stream import Stream


class Writer(Protocol):
    """A run whose answers can be written together."""

    @property
    def model(self) -> protocols.Generator: ...

    def collate(self, sources: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Sources of passages as a batch with its mask."""
        ...


@dataclass(frozen=True)
class Passage:
    """A text that is written in one go: an answer, or the part of a long answer that the model can see at once."""

    source: Any  # as `Writer.collate` takes it
    decoding: Decoding
    target: Target  # of this text alone: its limits are numbers

    @property
    def part(self) -> Hashable:
        """Passages of equal parts have the same rules, which are made once for all of them."""
        target, decoding = self.target, self.decoding
        if decoding.temperature or decoding.looks_back or decoding.speculate or target.stop is not None:
            return id(self)  # rules with a seed or a text of its own
        least = decoding.min_length if target.min_length is None else target.min_length
        return decoding.choice, target.end, tuple(target.never), least


def rules_of(passages: Sequence[Passage], device: torch.device) -> Rules:
    """The rules of passages of one part."""
    first = passages[0]
    if len(passages) == 1:
        return read_rules(first.decoding, first.target, 1, device)
    starts, limits = (
        torch.tensor([getattr(passage.target, name) for passage in passages]) for name in ("start", "max_length")
    )
    target = replace(first.target, start=starts, max_length=limits, prompt=None, prompt_mask=None)
    return read_rules(first.decoding, target, len(passages), device)


Passages = Generator[Passage, Hypothesis, Hypothesis]


@dataclass(eq=False)
class Writing:
    """One answer that is being written. `passages` yields what to write, gets what was written and returns the
    whole; a text that is longer than the model sees at once has several passages, one after the other."""

    passages: Passages
    text: Stream
    answer: Callable[[Hypothesis], Answer]
    streamed: bool = True  # the text is wanted as it is written


@dataclass(frozen=True)
class Written:
    """What steps did for an answer: new text, and the answer once it is done or why there is none."""

    writing: Writing
    tokens: int
    piece: str = ""
    answer: Answer | None = None
    failed: Exception | None = None


class Together:
    """The answers that one run is writing.

    A CUDA graph chooses all its tokens in the same way. So on a GPU there is a loop for each way of choosing them:
    who samples does not keep the others from being written by a graph."""

    def __init__(self, run: Writer) -> None:
        self.run = run
        self.loops: dict[Hashable, Loop] = {}  # that write something, by the way
        self.writings: dict[int, Writing] = {}  # by the number of their row in the loop
        self.count = 0  # rows so far

    def __len__(self) -> int:
        return len(self.writings)

    @property
    def is_open(self) -> bool:
        """Does it pay that others join now?"""
        return all(loop.is_open for loop in self.loops.values())

    def join(self, writings: Sequence[Writing]) -> list[Written]:
        """Begin to write; the result are those that need no step, as nothing may be written."""
        return self._go_on([(writing, partial(next, writing.passages)) for writing in writings])

    def _go_on(self, begun: Sequence[tuple[Writing, Callable[[], Passage]]]) -> list[Written]:
        """Write the next passage of each answer, or give the answer if there is none."""
        joining, done = [], []
        for writing, following in begun:
            try:
                passage = following()
                while passage.target.max_length == 0:
                    passage = writing.passages.send(Hypothesis([], 0.0, False))
            except StopIteration as end:
                answer = writing.answer(end.value)
                done.append(Written(writing, 0, writing.text.rest(getattr(answer, "text", "")), answer))
                continue
            joining.append((writing, passage))
        if joining:
            self._join(joining)
        return done

    def _join(self, joining: Sequence[tuple[Writing, Passage]]) -> None:
        ways: dict[Hashable, list[tuple[Writing, Passage]]] = {}
        for writing, passage in joining:
            ways.setdefault(self._way(passage), []).append((writing, passage))
        for way, alike in ways.items():
            self._join_loop(self.loops.setdefault(way, Loop(self.run.model)), alike)

    def _way(self, passage: Passage) -> Hashable:
        """Passages of the same way are written by one loop."""
        if not graphs.on_gpu(next(self.run.model.parameters())):
            return ()
        return passage.decoding.choice, passage.target.end, tuple(passage.target.never)

    def _join_loop(self, loop: Loop, joining: Sequence[tuple[Writing, Passage]]) -> None:
        device = device_of(self.run.model)
        names = range(self.count, self.count + len(joining))
        parts: dict[Hashable, list[tuple[Writing, Passage]]] = {}
        for writing, passage in joining:
            parts.setdefault(passage.part, []).append((writing, passage))
        joining = [each for part in parts.values() for each in part]
        with eval_mode(self.run.model):
            source, mask = self.run.collate([passage.source for _, passage in joining])
            rules = [rules_of([passage for _, passage in part], device) for part in parts.values()]
            loop.join(source, mask, names, rules)
        self.writings |= zip(names, (writing for writing, _ in joining), strict=True)
        self.count += len(joining)

    def step(self) -> list[Written]:
        """Write the next token of every answer; more than one, where a graph has written them already."""
        told: list[Written] = []
        ready: list[tuple[Writing, Callable[[], Passage]]] = []
        for way, loop in list(self.loops.items()):
            with eval_mode(self.run.model):
                steps = loop.steps()
                if any(step.answers or step.failed for step in steps):
                    loop.trim()
            self._account(steps, told, ready)
            if not len(loop):
                del self.loops[way]
        return told + self._go_on(ready)

    def _account(
        self, steps: Sequence[Step], told: list[Written], ready: list[tuple[Writing, Callable[[], Passage]]]
    ) -> None:
        """What these steps wrote, and the answers that go on behind what is done."""
        answers = {row: answer for step in steps for row, answer in step.answers.items()}
        failed = {row for step in steps for row in step.failed}
        tokens: dict[int, list[int]] = {}
        ends = set()
        for step in steps:
            for row, token, ended in zip(step.rows, step.tokens, step.ended, strict=True):
                tokens.setdefault(row, []).append(token)
                if ended:
                    ends.add(row)
        for row, new in tokens.items():
            writing = self.writings[row]
            piece = writing.text.add(new[:-1] if row in ends else new) if writing.streamed else ""
            if row in failed:
                told.append(Written(writing, len(new) - 1, failed=no_token(self.run.model)))
            else:
                told.append(Written(writing, len(new), piece))
            if row in answers:
                ready.append((writing, partial(writing.passages.send, answers[row])))
            if row in answers or row in failed:
                del self.writings[row]

    def leave(self, writing: Writing) -> None:
        """Stop writing an answer that is no longer wanted."""
        rows = [row for row, other in self.writings.items() if other is writing]
        with eval_mode(self.run.model):
            for loop in self.loops.values():
                loop.leave(rows)
                loop.trim()
        self.loops = {way: loop for way, loop in self.loops.items() if len(loop)}
        for row in rows:
            del self.writings[row]
        writing.passages.close()


def alone(passage: Passage) -> Passages:
    """An answer of one passage."""
    return (yield passage)
