"""`regard` as a process of its own that need not wait for torch: it is forked off one that has imported it. Such a
process has streams, signals, an exit code and an end of Python like any other; how it starts is shown by those that
tests start as people do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any, Self

PATIENCE = 120  # seconds, after which a child is killed: what it was asked to do takes a few
PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
# Signals are heard also where these tests were started with them ignored, as in the background of a script.
PARENT = """
import os, runpy, signal, socket, sys
import regard.app.cli.main, regard.tasks.core.compare
asked = socket.socket(fileno=int(sys.argv[1]))
while True:
    words, streams, _, _ = socket.recv_fds(asked, 1 << 16, 3)
    if not words:
        break
    child = os.fork()
    if not child:
        asked.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.argv = ["regard", *words.decode().split("\\0")]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        runpy.run_module("regard", run_name="__main__")
        break
    for stream in streams:
        os.close(stream)
    asked.sendall(b"%d\\n" % child)
    asked.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Child:
    """As `subprocess.Popen` has it, as far as tests ask."""

    def __init__(self, pid: int, answers: IO[str], pipes: dict[int, IO[Any]]) -> None:
        self.pid, self._answers = pid, answers
        self.stdin, self.stdout, self.stderr = map(pipes.get, range(3))
        self.returncode: int | None = None

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


class Parent:
    """Has imported torch. One child at a time."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        self._asks, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PARENT, str(theirs.fileno())],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=DEVNULL,
                stdout=DEVNULL,
            )
        self._answers = self._asks.makefile()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._answers.close()
        self._asks.close()
        self._process.wait(self._patience)

    @contextmanager
    def start(
        self, *words: object, stdin: int = DEVNULL, stdout: int = PIPE, stderr: int = PIPE, text: bool = False
    ) -> Iterator[Child]:
        """`regard ...`, which ends with the block whatever happens in it."""
        with ExitStack() as kept:
            pipes: dict[int, IO[Any]] = {}
            with ExitStack() as given:
                streams = [stdin, stdout, stderr]
                for number, stream in enumerate(streams):
                    if stream == DEVNULL:
                        streams[number] = os.open(os.devnull, os.O_RDWR)
                    elif stream == PIPE:
                        ends = os.pipe()
                        streams[number], ours = ends if number == 0 else ends[::-1]
                        mode = ("r" if number else "w") + ("" if text else "b")
                        pipes[number] = kept.enter_context(open(ours, mode))
                    if stream < 0:
                        given.callback(os.close, streams[number])
                socket.send_fds(self._asks, ["\0".join(map(str, words)).encode()], streams)
                child = Child(int(self._answers.readline()), self._answers, pipes)
            late = threading.Timer(self._patience, child.send_signal, [signal.SIGKILL])
            late.start()
            try:
                yield child
            except BaseException:
                with suppress(ProcessLookupError):
                    child.send_signal(signal.SIGKILL)
                raise
            finally:
                child.wait()
                late.cancel()
