"""Work that consists of independent pieces, divided among the processes that torchrun started.

The pieces are those of one process (batches, or so many inputs as are answered together), and their results come in
the order of the pieces: whatever is made of these, as a sum of losses, is that of one process to the last digit."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import TypeVar

from regard.base import processes
from regard.base.files import is_stream
from regard.base.memory import memory_error
from regard.errors import DataError

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Tick = Callable[[], None]
Outcome = tuple[list[Result], Exception | None, str]  # results, what ended them if not the end, and its traceback

_wanted: ContextVar[bool] = ContextVar("divided", default=False)


@contextmanager
def divided() -> Iterator[None]:
    """In this block every process of torchrun does a part of each evaluation, and all get the whole result.

    Every process must enter it and ask the same, as they wait for each other. Without torchrun nothing changes."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def dividing() -> bool:
    """Whether the others do a part of the work here."""
    return _wanted.get() and processes.launched() and processes.count() > 1


def refuse_stream(data: str) -> None:
    """DataError where data that every process reads can be read only once."""
    if dividing() and is_stream(Path(data)):
        raise DataError(
            f"{data} can be read only once, and there are {processes.count()} processes; save it to a file first"
        )


def each(
    pieces: Iterable[Piece],
    work: Callable[[Piece, Tick], Iterable[Result]],
    *,
    tick: Tick = lambda: None,
    at_once: int = 8,
) -> Iterator[Result]:
    """The results of all pieces, in their order; `work(piece, tick)` gives those of one, and calls `tick` for each.

    If the work is divided, every process goes through the same pieces, works on its own and gets all results; they
    meet after `at_once` pieces each."""
    if not dividing():
        for piece in pieces:
            yield from work(piece, tick)
        return
    source = iter(pieces)
    while True:
        turn, error = _take(source, at_once * processes.count())
        lengths, errors, outcomes = zip(*processes.gather_all((len(turn), error, _own(turn, work))), strict=True)
        if len({*lengths}) > 1 and not any(errors):
            counts = ", ".join(f"rank {rank} {length}" for rank, length in enumerate(lengths))
            raise DataError(
                f"the processes read different data (batches: {counts}); give all of them the same files"
            )
        yield from _in_order(outcomes, min(lengths), tick)
        for error in filter(None, errors):
            raise error
        if not turn:
            return


def each_of_first(
    pieces: Iterable[Piece], work: Callable[[Piece, Tick], Iterable[Result]], *, tick: Tick = lambda: None
) -> Iterator[Result]:
    """As `each`, but the pieces are those of the first process, which alone reads them, and alone gets the results;
    it holds one piece of each process. The others work, and get nothing."""
    if not dividing():
        for piece in pieces:
            yield from work(piece, tick)
        return
    source = iter(pieces)
    while True:
        read = _take(source, processes.count()) if processes.is_first() else ([], None)
        turn, error = processes.broadcast(read)
        if turn and (outcomes := processes.gather(_own(turn, work))):
            try:
                yield from _in_order(outcomes, len(turn), tick)
            except Exception as failure:  # of the work: the others, which wait for the next pieces, end with it
                processes.broadcast(([], failure))
                raise
        if error is not None:
            raise error
        if not turn:
            return


def _take(source: Iterator[Piece], count: int) -> tuple[list[Piece], Exception | None]:
    """The next pieces, and what reading the one after them raised."""
    turn: list[Piece] = []
    try:
        for piece in islice(source, count):
            turn.append(piece)
    except Exception as error:
        return turn, _sendable(error)
    return turn, None


def _own(turn: list[Piece], work: Callable[[Piece, Tick], Iterable[Result]]) -> list[Outcome[Result]]:
    """What this process makes of its pieces; an error is kept for its turn."""
    outcomes: list[Outcome[Result]] = []
    for piece in turn[processes.rank() :: processes.count()]:
        results: list[Result] = []
        try:
            results.extend(work(piece, lambda: None))  # keeps those before an error
            outcomes.append((results, None, ""))
        except Exception as error:
            outcomes.append((results, _sendable(error), traceback.format_exc()))
            break  # nobody asks for what follows
    return outcomes


def _in_order(outcomes: Sequence[list[Outcome[Result]]], count: int, tick: Tick) -> Iterator[Result]:
    for number in range(count):
        results, error, where = outcomes[number % len(outcomes)][number // len(outcomes)]
        for result in results:
            tick()
            yield result
        if error is not None:
            raise error from Exception(where)


def _sendable(error: Exception) -> Exception:
    """The error as another process can raise it, with the rank of this one. One of a library comes as its words."""
    ours = type(error).__module__ in ("builtins", "regard.errors")
    if memory_error(error) is not None and not ours:
        error = MemoryError(str(error))
    elif not ours or not all(isinstance(part, str | int | None) for part in error.args):
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.of_rank = processes.rank()  # type: ignore[attr-defined]
    return error
