"""Ctrl-C and SIGTERM (of `timeout`, docker, Slurm) as exceptions that arrive.

Python runs a signal handler between any two instructions of the main thread, and an exception that it raises does
not arrive from everywhere: in a weakref callback or `__del__` it is printed and forgotten, and from the import of a
C extension it comes out as another error. So it waits for imports to end, and is raised again until somebody
handles it. One call into C (a matrix product, a backward pass) is never cut: the handler runs after it. A long one
is made by `aside`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

EVERY = 0.01  # seconds until the exception is raised again
TWICE = 1.0  # seconds: `timeout` sends SIGTERM to the program and at once to its process group; that is one request
IMPORT = "<frozen importlib._bootstrap>"
HEARD = (signal.SIGINT, signal.SIGTERM)


class Abandoned(BaseException):
    """A signal came during work that is begun again when the training is resumed."""


class Delivery:
    """Raises an exception out of signal handlers until the code called from the frame `home` handles it: an
    `except`, `finally` or `with` that is at work is left to finish. The owner calls `end` when it has arrived."""

    def __init__(self, home: FrameType) -> None:
        self.home = home
        self.raised: list[BaseException] = []
        self.hook: Callable[[Any], Any] | None = None  # those before ours
        self.alarm: tuple[Any, tuple[float, float]] | None = None

    def begin(self, make: Callable[[], BaseException | None], frame: FrameType | None) -> None:
        """Called by the handler of the signal; raises unless a module is being imported. `make` gives the
        exception; None: there is nothing to raise any more."""

        def again(number: int, frame: FrameType | None) -> None:
            if not self._handled() and not self._importing(frame) and (error := make()) is not None:
                self.raised.append(error)
                raise error

        self.hook = sys.unraisablehook
        sys.unraisablehook = self._without_ours(self.hook)
        if hasattr(signal, "setitimer"):  # not on Windows
            self.alarm = signal.signal(signal.SIGALRM, again), signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
        again(0, frame)

    def end(self) -> None:
        """May be called twice: a signal may come in the first."""
        if self.alarm is not None:
            handler, timer = self.alarm
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, *timer)
        if self.hook is not None:
            sys.unraisablehook = self.hook
        self.alarm = self.hook = None

    def _handled(self) -> bool:
        """Whether ours, one in its place, or an error that came of them is being handled right now. One in its
        place: typer returns 130 where a KeyboardInterrupt came, of which the program makes another one."""
        alike = [(type(each), each.args) for each in self.raised]
        error = sys.exc_info()[1]
        while error is not None and (type(error), error.args) not in alike:
            error = error.__context__
        return error is not None

    def _importing(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self.home:
            if frame.f_code.co_filename == IMPORT:
                return True
            frame = frame.f_back
        return False

    def _is_ours(self, error: BaseException | None) -> bool:
        return any(error is each for each in self.raised)

    def _without_ours(self, hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Ours that was lost is raised again: nothing to print."""
        return lambda lost: None if self._is_ours(lost.exc_value) else hook(lost)


class Ending:
    """A program that signals end."""

    def __init__(self, home: FrameType, quiet: bool) -> None:
        self.delivery, self.quiet = Delivery(home), quiet
        self.first, self.since = 0, 0.0  # the first signal that came (0: none), and when
        self.listener: Any = None  # who listened to it: this, or one that has told this
        self.over = False  # all is done, and Python ends

    def hear(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.first and not self.over:
            self.first, self.since, self.listener = number, now, signal.getsignal(number)
            if number == signal.SIGTERM and not self.quiet:
                write_line("stopped by SIGTERM")
            self.delivery.begin(self.error, frame)
        elif not self.first or number == signal.SIGINT or now - self.since > TWICE:
            if self.first:
                show_cursor = "\x1b[?25h" if os.isatty(2) else ""  # a progress bar hides it
                write_line(f"{show_cursor}stopped at once")
            os._exit(128 + number)

    def error(self) -> BaseException | None:
        """What ends the program. A listener who came while the signal waited, as the training loop or a server,
        gets it instead."""
        number = self.first
        if signal.getsignal(number) != self.listener:
            self.first = 0
            self.delivery.end()
            signal.raise_signal(number)
            return None
        return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


@contextmanager
def signals_end(*, process: bool = False, quiet: bool = False) -> Iterator[None]:
    """In the block, Ctrl-C raises KeyboardInterrupt and SIGTERM SystemExit(143), and neither is lost; a
    KeyboardInterrupt that leaves the block becomes SystemExit(130) and the line "stopped". A second signal ends the
    program at once. A signal that is ignored, or that somebody else listens to, is left alone, so that of two such
    blocks the outer one does the work.

    process: nothing follows but the end of Python, where Ctrl-C must not print a traceback either."""
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    main = threading.current_thread() is threading.main_thread()  # no other thread may install handlers
    before = {number: usual[number] for number in HEARD if main and signal.getsignal(number) == usual[number]}
    ending = Ending(sys._getframe(2), quiet)  # contextlib calls this, and the block's own function contextlib

    def restore() -> None:
        ending.over = process
        for number, handler in before.items() if not process else ():
            signal.signal(number, handler)
        ending.delivery.end()

    try:
        try:
            for number in before:
                signal.signal(number, ending.hear)
            yield
            if ending.first and (error := ending.error()):  # the block was faster than the next attempt
                raise error
        finally:
            restore()
    except KeyboardInterrupt:
        if not before:
            raise
        restore()  # a signal may have come in the first
        if not quiet:
            write_line("stopped")
        raise SystemExit(128 + signal.SIGINT) from None


@contextmanager
def signals_wait() -> Iterator[None]:
    """Signals that come during the block arrive after it. A process started in it begins with them waiting: see
    `signals_arrive`. On Windows they do not wait."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def signals_arrive() -> None:
    """In a process that was started in `signals_wait`, when it is ready for them."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)


def aside(work: Callable[[], T]) -> T:
    """work(), in a thread of its own, for one long call into C: a signal is handled at once. The thread is then
    left to itself, and ends with the program or before."""
    if threading.current_thread() is not threading.main_thread():  # no handler runs here
        return work()
    context, results, errors = copy_context(), list[T](), list[BaseException]()

    def run() -> None:
        try:
            results.append(context.run(work))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(EVERY)  # without a limit, nothing is heard on Windows
    if errors:
        raise errors[0]
    return results[0]


def write_line(text: str) -> None:
    with suppress(OSError):  # print is not safe in a signal handler
        os.write(2, f"{text}\n".encode())
