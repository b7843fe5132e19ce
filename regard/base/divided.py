"""Work that consists of independent pieces, divided among the processes that torchrun started.

The pieces are those of one process (batches, or so many inputs as are answered together), and their results come in
the order of the pieces: whatever is made of these, as a sum of losses, is that of one process to the last digit."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from regard.base import processes
from regard.base.files import is_stream
from regard.base.memory import memory_error
from regard.base.signals import Abandoned
from regard.errors import DataError

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Tick = Callable[[], None]
Work = Callable[[Piece, Tick], Iterable[Result]]
Outcome = tuple[list[Result], Exception | None, str]  # results, what ended them if not the end, and its traceback


class Way:
    """How a process goes through its pieces."""

    in_step = False  # the work needs the other processes, so that each of them does as many pieces

    def run(self, work: Callable[[], Any], *, own_pace: bool) -> Any:
        """work(), or None where it was given up. `own_pace`: how often it calls the model depends on the piece."""
        return work()

    def given_up(self) -> bool:
        """Asked before each turn: if one process gives up, all of them do."""
        return False


_way: ContextVar[Way | None] = ContextVar("divided", default=None)


@contextmanager
def divided(way: Way | None = None) -> Iterator[None]:
    """In this block every process of torchrun does a part of each evaluation, and all get the whole result.

    Every process must enter it and ask the same, as they wait for each other. Without torchrun nothing changes."""
    token = _way.set(way or Way())
    try:
        yield
    finally:
        _way.reset(token)


def dividing() -> bool:
    """Whether the others do a part of the work here."""
    return _way.get() is not None and processes.launched() and processes.count() > 1


def in_step() -> bool:
    """Whether the model's weights are divided too: every forward pass needs all processes."""
    way = _way.get()
    return way is not None and way.in_step


def refuse_stream(data: str) -> None:
    """DataError where data that every process reads can be read only once."""
    if dividing() and is_stream(Path(data)):
        raise DataError(
            f"{data} can be read only once, and there are {processes.count()} processes; save it to a file first"
        )


def each(
    pieces: Iterable[Piece],
    work: Work[Piece, Result],
    *,
    tick: Tick = lambda: None,
    at_once: int = 8,
    own_pace: bool = False,
) -> Iterator[Result]:
    """The results of all pieces, in their order; `work(piece, tick)` gives those of one, and calls `tick` for each.

    If the work is divided, every process goes through the same pieces, works on its own and gets all results; they
    meet after `at_once` pieces each. `own_pace`: how often the work calls the model depends on the piece, as when
    text is written until it ends."""
    return _results(pieces, work, tick, partial(_of_all, at_once=at_once, own_pace=own_pace))


def in_parts(rows: Iterable[Piece], size: int, work: Callable[[list[Piece]], Iterable[Result]]) -> Iterator[Result]:
    """The results of work(part) for `size` rows at a time; if the work is divided, each process does some parts."""
    source = iter(rows)
    parts: Iterator[list[Piece]] = iter(lambda: list(islice(source, size)), [])
    return each(parts, lambda part, tick: work(part))


def each_of_first(
    pieces: Iterable[Piece], work: Work[Piece, Result], *, tick: Tick = lambda: None
) -> Iterator[Result]:
    """As `each`, but the pieces are those of the first process, which alone reads them, and alone gets the results;
    it holds one piece of each process. The others work, and get nothing."""
    return _results(pieces, work, tick, _of_first)


def _results(
    pieces: Iterable[Piece], work: Work[Piece, Result], tick: Tick, together: Callable[..., Iterator[Result]]
) -> Iterator[Result]:
    if dividing() or in_step():
        yield from together(iter(pieces), work, tick)
        return
    for piece in pieces:
        yield from work(piece, tick)


def _of_all(
    source: Iterator[Piece], work: Work[Piece, Result], tick: Tick, *, at_once: int, own_pace: bool
) -> Iterator[Result]:
    way = _way.get()
    assert way is not None
    while True:
        turn, error = _take(source, at_once * processes.count())
        # Agreed before the work, which may need the other processes.
        lengths, errors, given_up = zip(*processes.gather_all((len(turn), error, way.given_up())), strict=True)
        if any(given_up):
            raise Abandoned
        if len({*lengths}) > 1 and not any(errors):
            counts = ", ".join(f"rank {rank} {length}" for rank, length in enumerate(lengths))
            raise DataError(
                f"the processes read different data (batches: {counts}); give all of them the same files"
            )
        del turn[min(lengths) :]
        outcomes = processes.gather_all(_own(turn, work, way, own_pace)) if turn else []
        if any(outcome is None for outcome in outcomes):
            raise Abandoned
        yield from _in_order([outcome or [] for outcome in outcomes], len(turn), tick)
        for error in filter(None, errors):
            raise error
        if not turn:
            return


def _of_first(source: Iterator[Piece], work: Work[Piece, Result], tick: Tick) -> Iterator[Result]:
    while True:
        read = _take(source, processes.count()) if processes.is_first() else ([], None)
        turn, error = processes.broadcast(read)
        if turn and (outcomes := processes.gather(_own(turn, work, Way()))):
            try:
                yield from _in_order([outcome or [] for outcome in outcomes], len(turn), tick)
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


def _own(
    turn: list[Piece], work: Work[Piece, Result], way: Way, own_pace: bool = False
) -> list[Outcome[Result]] | None:
    """What this process makes of its pieces; an error is kept for its turn. None: they were given up."""
    outcomes: list[Outcome[Result]] = []
    for piece in turn[processes.rank() :: processes.count()]:
        outcome = way.run(partial(_outcome, piece, work), own_pace=own_pace)
        if outcome is None:
            return None
        outcomes.append(outcome)
        if outcome[1] is not None and not way.in_step:
            break  # nobody asks for what follows
    if way.in_step and len(outcomes) < -(-len(turn) // processes.count()):
        way.run(partial(_outcome, turn[-1], work), own_pace=own_pace)  # for the others alone: it does not count
    return outcomes


def _outcome(piece: Piece, work: Work[Piece, Result]) -> Outcome[Result]:
    results: list[Result] = []
    try:
        results.extend(work(piece, lambda: None))  # keeps those before an error
    except Exception as error:
        return results, _sendable(error), traceback.format_exc()
    return results, None, ""


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
