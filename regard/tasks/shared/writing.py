"""Answers that are written token by token, many at once: each joins the others when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from torch import Tensor

from regard.decode.generator import eval_mode
from regard.decode.hypothesis import Hypothesis
from regard.decode.loop import Loop
from regard.decode.rules import NO_TOKEN, Target, read_rules
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
    """What a step did for an answer: new text, and the answer once it is done or why there is none."""

    writing: Writing
    tokens: int
    piece: str = ""
    answer: Answer | None = None
    failed: str = ""


class Together:
    """The answers that one run is writing."""

    def __init__(self, run: Writer) -> None:
        self.run, self.loop = run, Loop(run.model)
        self.writings: dict[int, Writing] = {}  # by the number of their row in the loop
        self.count = 0  # rows so far

    def __len__(self) -> int:
        return len(self.writings)

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
        device = device_of(self.run.model)
        names = range(self.count, self.count + len(joining))
        with eval_mode(self.run.model):
            source, mask = self.run.collate([passage.source for _, passage in joining])
            rules = [read_rules(passage.decoding, passage.target, 1, device) for _, passage in joining]
            self.loop.join(source, mask, names, rules)
        self.writings |= zip(names, (writing for writing, _ in joining), strict=True)
        self.count += len(joining)

    def step(self) -> list[Written]:
        """Write the next token of every answer."""
        with eval_mode(self.run.model):
            step = self.loop.step()
            if step.answers or step.failed:
                self.loop.trim()
        told, ready = [], []
        for row, token, ended in zip(step.rows, step.tokens, step.ended, strict=True):
            writing = self.writings[row]
            if row in step.failed:
                told.append(Written(writing, 0, failed=NO_TOKEN))
            else:
                told.append(
                    Written(writing, 1, writing.text.add([] if ended else [token]) if writing.streamed else "")
                )
            if row in step.answers:
                ready.append((writing, partial(writing.passages.send, step.answers[row])))
            if row in step.answers or row in step.failed:
                del self.writings[row]
        return told + self._go_on(ready)

    def leave(self, writing: Writing) -> None:
        """Stop writing an answer that is no longer wanted."""
        rows = [row for row, other in self.writings.items() if other is writing]
        with eval_mode(self.run.model):
            self.loop.leave(rows)
            self.loop.trim()
        for row in rows:
            del self.writings[row]
        writing.passages.close()


def alone(passage: Passage) -> Passages:
    """An answer of one passage."""
    return (yield passage)
