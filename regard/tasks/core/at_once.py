"""Several trainings, each in a process of its own, so many of them at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from regard.base.signals import signals_arrive, signals_end, signals_wait
from regard.errors import RunError

if TYPE_CHECKING:  # Windows has no fork server
    from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess

EVERY = 0.5  # seconds between two looks

Numbered = tuple[int, tuple[Any, ...]]


def run_at_once(
    work: Callable[..., Any],
    calls: Iterable[Numbered],
    jobs: int,
    tell: Callable[[int, Any], object],
    look: Callable[[], Iterable[int]] | None = None,
) -> None:
    """`work`, a function of a module, with each of these arguments, in a process each; `tell` gets the number and
    the result of each, or the error that ended it. `calls` is gone through as processes become free, after `tell`.
    `look` is asked twice a second which of those that run, by their numbers, are to end.

    Told to end, every training saves what it has. A pool of processes would not do: a process that waits for
    work holds a lock, which stays locked if it is terminated."""
    context = new_context()
    left = iter(calls)
    running: dict[Connection, tuple[int, ForkServerProcess | SpawnProcess]] = {}
    ended: set[int] = set()  # told to end: to be told again, while it saves, would be to end at once

    def begin(count: int) -> None:
        for number, call in islice(left, count):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_send_result, args=(sender, work, call))
            with signals_wait():
                process.start()
            sender.close()
            running[receiver] = number, process

    def end(numbers: set[int]) -> None:
        for number, process in running.values():
            if number in numbers and number not in ended:
                ended.add(number)
                process.terminate()

    try:
        begin(jobs)
        while running:
            for receiver in wait(list(running), EVERY if look else None):
                assert isinstance(receiver, Connection)
                result = _received(receiver)
                number, process = running.pop(receiver)
                process.join()
                tell(number, result)
                begin(1)
            end(set(look()) if look else set())
    except (KeyboardInterrupt, SystemExit):
        end({number for number, _ in running.values()})
        raise
    finally:
        for _, process in running.values():
            process.join()


def new_context() -> ForkServerContext | SpawnContext:
    """How processes are started. On Linux torch is imported once for all of them, and by a process that does
    nothing else: forked off it, they have no threads and no GPU of another's."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    # an optimiser imports dynamo, for seconds
    context.set_forkserver_preload(["regard.tasks.core.training", "torch._dynamo"])
    return context


def _send_result(sender: Connection, work: Callable[..., Any], call: tuple[Any, ...]) -> None:
    """What a process does: the result of the work, or the error that ended it. Signals wait for its imports."""
    try:
        with signals_end(quiet=True):
            signals_arrive()
            result: Any = work(*call)
    except BaseException as error:
        result = error
    sender.send(result)


def _received(receiver: Connection) -> Any:
    try:
        return receiver.recv()
    except EOFError:
        return RunError("a training's process was killed; give the same command again to go on")
