"""Answers that are written token by token, many at once: each joins the others when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from torch import Tensor

from regard.data.text.special_tokens import Special
from regard.decode.hypothesis import Hypothesis
from regard.decode.joining import Batch, Row, Way
from regard.decode.settings import Decoding
from regard.models import protocols
from regard.tasks.core.results import Answer
from regard.tasks.shared.search import never_written
from regard.tasks.shared.text_stream import Stream

Rows = Generator[Row, Hypothesis, Hypothesis]


class Writer(Protocol):
    """A run whose answers can be written together."""

    @property
    def model(self) -> protocols.Generator: ...

    def collate(self, sources: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Sources of rows as a batch with its mask."""
        ...


@dataclass(eq=False)
class Writing:
    """One answer that is being written. `rows` yields what to write, gets what was written and returns the whole;
    a text that is longer than the model sees at once has several rows, one after the other."""

    rows: Rows
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
        self.batch = Batch(run.model, run.collate)
        self.writings: dict[Row, Writing] = {}

    def __len__(self) -> int:
        return len(self.writings)

    def join(self, writings: Sequence[Writing]) -> list[Written]:
        """Begin to write; the result are those that need no step, as nothing may be written."""
        return self._go_on([(writing, partial(next, writing.rows)) for writing in writings])

    def _go_on(self, some: Sequence[tuple[Writing, Callable[[], Row]]]) -> list[Written]:
        rows, done = [], []
        for writing, following in some:
            try:
                row = following()
                while row.done:
                    row = writing.rows.send(row.hypothesis())
            except StopIteration as end:
                answer = writing.answer(end.value)
                done.append(Written(writing, 0, writing.text.rest(getattr(answer, "text", "")), answer))
                continue
            self.writings[row] = writing
            rows.append(row)
        self.batch.join(rows)
        return done

    def step(self) -> list[Written]:
        """Write the next token of every answer."""
        rows = list(self.batch.rows)
        before = [len(row.written) for row in rows]
        self.batch.step()
        found, ready = [], []
        for row, count in zip(rows, before, strict=True):
            writing, new = self.writings[row], row.written[count:]
            if row.failed:
                found.append(Written(writing, 0, failed=row.failed))
            else:
                found.append(Written(writing, 1, writing.text.add(new) if writing.streamed else ""))
                if row.done:
                    ready.append((writing, partial(writing.rows.send, row.hypothesis())))
            if row.done:
                del self.writings[row]
        return found + self._go_on(ready)

    def leave(self, writing: Writing) -> None:
        """Stop writing an answer that is no longer wanted."""
        rows = [row for row, one in self.writings.items() if one is writing]
        self.batch.leave(rows)
        for row in rows:
            del self.writings[row]
        writing.rows.close()


def alone(row: Row) -> Rows:
    """An answer of one row."""
    return (yield row)


def is_beam(decode: Decoding) -> bool:
    """A beam knows no answer before its end: it is not written token by token."""
    return decode.temperature == 0 and decode.beam > 1


def way_of(decode: Decoding, special: Special, never: Sequence[int] = ()) -> Way:
    """How tokens are chosen, as `search` does by the same settings."""
    return Way(
        end=special.end,
        never=never_written(special, never),
        repetition_penalty=decode.repetition_penalty,
        no_repeat_ngram=decode.no_repeat_ngram,
        temperature=decode.temperature,
        top_k=decode.top_k or None,
        top_p=decode.top_p,
    )
