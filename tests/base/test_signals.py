"""A signal ends what runs wherever it arrives, and nothing swallows it."""

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from regard.base.signals import TWICE, Delivery, aside, signals_arrive, signals_end, signals_wait

ENDS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
SPIN = 20.0  # seconds, after which a test fails that waits for an exception
# What comes first in the program: `when` is the module whose import sends signals. A signal that is never delivered
# ends in the list of commands and exit code 0.
PROGRAM = """
import importlib.abc, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
when, numbers, *sys.argv[1:] = sys.argv[1:]

class Sends(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == when:
            sys.meta_path.remove(self)
            for number in numbers.split(","):
                os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Sends())
from regard.__main__ import main
main()
"""


class Thing:
    pass


def in_a_weakref_callback(number: int) -> None:
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(number))
    del thing
    assert reference() is None


def in_del(number: int) -> None:
    class Deleted:
        def __del__(self) -> None:
            signal.raise_signal(number)

    Deleted()


def swallowed(number: int) -> None:
    with suppress(BaseException):
        signal.raise_signal(number)


def while_another_error_is_handled(number: int) -> None:
    try:
        raise ValueError
    except ValueError:
        swallowed(number)


def spin() -> None:
    end = time.monotonic() + SPIN
    while time.monotonic() < end:
        pass
    pytest.fail("the signal was lost")


def ended(work: Callable[[], None]) -> object:
    """The exit code."""
    try:
        with signals_end():
            work()
    except SystemExit as end:
        return end.code
    return 0


@pytest.mark.parametrize(("number", "code"), ENDS)
@pytest.mark.parametrize("lose", [in_a_weakref_callback, in_del, swallowed, while_another_error_is_handled])
def test_a_signal_whose_exception_is_swallowed_arrives_all_the_same(
    lose: Callable[[int], None], number: int, code: int, signals_heard: None, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number), signal.getsignal(signal.SIGALRM), sys.unraisablehook

    def work() -> None:
        lose(number)
        spin()

    assert ended(work) == code
    assert capfd.readouterr() == ("", "stopped\n" if number == signal.SIGINT else "stopped by SIGTERM\n")
    assert (signal.getsignal(number), signal.getsignal(signal.SIGALRM), sys.unraisablehook) == before
    assert signal.getitimer(signal.ITIMER_REAL)[1] == 0  # a test runner's own rings once


def test_an_import_is_not_cut(tmp_path: Path, signals_heard: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A C extension would make another error of it."""
    (tmp_path / "half_imported.py").write_text(
        "import signal, time\n"
        "try:\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    time.sleep(0.12)\n"
        "except BaseException as error:\n"
        "    raise ImportError('failed to import') from None\n"
        "whole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def work() -> None:
        import half_imported  # type: ignore[import-not-found]

        assert half_imported.whole
        spin()

    assert ended(work) == 143
    assert sys.modules.pop("half_imported").whole


@pytest.mark.parametrize(("number", "code"), ENDS)
def test_what_is_being_closed_is_closed(number: int, code: int, signals_heard: None) -> None:
    """Also where `timeout` sends SIGTERM twice, and where the closing raises and handles errors of its own."""
    closed = []

    def close() -> None:
        end = time.monotonic() + 0.15
        while time.monotonic() < end:
            try:
                raise OSError
            except OSError:
                pass
        if number == signal.SIGTERM:
            signal.raise_signal(number)
        closed.append(True)

    def work() -> None:
        try:
            signal.raise_signal(number)
            spin()
        finally:
            close()

    assert (ended(work), closed) == (code, [True])


def test_a_ctrl_c_that_was_made_an_exit_code_is_not_raised_again(
    signals_heard: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """typer returns 130 in place of KeyboardInterrupt, and the program raises another one."""
    said = []

    def work() -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            time.sleep(0.05)
            said.append(True)
            sys.exit(130)

    assert (ended(work), said, capfd.readouterr().err) == (130, [True], "")


def test_signals_that_are_ignored_or_have_a_listener_are_left_alone(signals_heard: None) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    with signals_end():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]


def test_who_listens_when_an_import_is_over_gets_the_signal(
    tmp_path: Path, signals_heard: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server, or a training, that begins meanwhile and ends in its own way."""
    heard: list[int] = []
    (tmp_path / "takes_over.py").write_text(
        "import signal\n"
        "def take_over(heard):\n"
        "    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))\n"
        "signal.raise_signal(signal.SIGTERM)\n"
        "from builtins import heard\n"
        "take_over(heard)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.heard", heard, raising=False)
    with signals_end():
        import takes_over  # type: ignore[import-not-found]  # noqa: F401

        end = time.monotonic() + SPIN
        while not heard and time.monotonic() < end:
            pass
    assert heard == [signal.SIGTERM]


def test_signals_wait_for_a_block(signals_heard: None) -> None:
    done = []

    def work() -> None:
        with signals_wait():
            signal.raise_signal(signal.SIGTERM)
            done.append(1)
        done.append(2)

    assert (ended(work), done) == (143, [1])
    signals_arrive()  # there is none


def test_another_alarm_goes_on(signals_heard: None) -> None:
    """As of a test runner that watches the time."""
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    own = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        assert ended(lambda: signal.raise_signal(signal.SIGTERM)) == 143
        end = time.monotonic() + SPIN
        while not rung and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *own)
    assert rung == [signal.SIGALRM]


def test_a_delivery_ends_twice_and_without_a_beginning() -> None:
    before = signal.getsignal(signal.SIGALRM), sys.unraisablehook
    delivery = Delivery(sys._getframe())
    delivery.end()
    delivery.end()
    assert (signal.getsignal(signal.SIGALRM), sys.unraisablehook) == before


@pytest.mark.parametrize(
    ("when", "numbers", "code", "said"),
    [
        ("regard.base.processes", "2", 130, "stopped\n"),  # nobody can answer yet
        ("typer", "2", 130, "stopped\n"),
        ("typer", "15", 143, "stopped by SIGTERM\n"),
        ("typer", "15,15", 143, "stopped by SIGTERM\n"),
        ("typer", "2,2", 130, "stopped at once\n"),
        ("rich.console", "15,2", 130, "stopped by SIGTERM\nstopped at once\n"),
    ],
)
def test_signals_in_start_up(when: str, numbers: str, code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, when, numbers, "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (code, said)


def test_a_later_sigterm_ends_at_once() -> None:
    program = (
        "import signal, time\n"
        "from regard.base.signals import signals_end\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "with signals_end():\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "    finally:\n"
        f"        time.sleep({TWICE + 0.1})\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "        time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (143, "stopped by SIGTERM\nstopped at once\n")


@pytest.mark.parametrize(("number", "code"), ENDS)
def test_a_call_that_no_signal_cuts_is_left_behind(number: int, code: int, signals_heard: None) -> None:
    """What is called aside hears nothing, as one long call into C would not."""
    begun, enough = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        enough.wait(SPIN)

    def send() -> None:
        begun.wait(SPIN)
        os.kill(os.getpid(), number)

    threading.Thread(target=send).start()
    since = time.monotonic()
    assert ended(lambda: aside(call)) == code
    assert time.monotonic() - since < SPIN / 2
    enough.set()


def test_what_is_called_aside_gives_its_result_or_its_error() -> None:
    assert aside(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 // 0)
    with ThreadPoolExecutor() as pool:  # where no signal is heard, no other thread is needed
        assert pool.submit(aside, threading.get_ident).result() != threading.get_ident()
