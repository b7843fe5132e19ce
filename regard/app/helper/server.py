"""The helper: it has imported torch and all that commands need, and forks for each command that asks.

The process that is forked takes the command's streams, folder and environment and carries it out, so answers,
pictures and errors are those of the command; runs are opened anew each time. The helper itself computes nothing:
threads would not come along."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from regard.app.helper.client import LONGEST, tell
from regard.app.helper.place import own_folder, socket_path
from regard.errors import RunError

IDLE = 24 * 3600.0  # seconds without a question after which it ends


def serve(expected: str = "") -> None:
    """Until it is stopped, or nobody has asked for a day; only at the socket that is expected, where one is."""
    own_folder()
    path = socket_path()
    if expected not in ("", str(path)):
        raise RunError(f"the helper would be reached at {path}, and is expected at {expected}")
    before = os.umask(0o177)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        prepare()
        with suppress(FileNotFoundError):
            path.unlink()
        listening.bind(str(path))
    finally:
        os.umask(before)
    listening.listen(64)
    listening.settimeout(IDLE)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # processes that end are not waited for
    Helper(listening).run()
    with suppress(FileNotFoundError):
        path.unlink()


def prepare() -> None:
    """Import what commands import."""
    import torch

    torch.set_num_threads(1)  # no threads before a fork
    from regard.app.cli import main  # noqa: F401
    from regard.runs import folder  # noqa: F401
    from regard.show import terminal  # noqa: F401
    from regard.tasks.core.table import TASKS

    for task in TASKS.values():
        _ = task.desk
    gc.collect()
    gc.freeze()


class Helper:
    def __init__(self, listening: socket.socket) -> None:
        self.listening, self.since, self.count, self.over = listening, time.time(), 0, False

    def run(self) -> None:
        while not self.over:
            try:
                connection, _ = self.listening.accept()
            except TimeoutError:
                return
            with connection, suppress(OSError, ValueError):
                self.answer(connection)

    def answer(self, connection: socket.socket) -> None:
        if uid_of(connection) != os.getuid():
            return
        connection.settimeout(5)
        request, streams = received(connection)
        connection.settimeout(None)
        try:
            words = request.get("words", [])
            if words == ["stop"]:
                self.over = True
                tell(connection, self.state())
            elif words == ["state"]:
                tell(connection, self.state())
            elif not is_mine(words) or len(streams) != 3:
                tell(connection, {"process": 0})
            else:
                self.count += 1
                if not os.fork():
                    self.listening.close()
                    carry_out(connection, request, streams)
        finally:
            for stream in streams:
                os.close(stream)

    def state(self) -> dict[str, Any]:
        return {"process": os.getpid(), "since": self.since, "commands": self.count}


def is_mine(words: list[str]) -> bool:
    """Is it a command that asks a run?"""
    from regard.tasks.core.table import TASKS

    return bool(words) and words[0] in TASKS


def uid_of(connection: socket.socket) -> int:
    """Of the process at the other end; where the system does not tell, the socket's folder keeps others away."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid()
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", told)[1])


def received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request, and the streams that came with it."""
    line, streams, _, _ = socket.recv_fds(connection, LONGEST, 3)
    while not line.endswith(b"\n"):
        part = connection.recv(LONGEST)
        if not part or len(line) > LONGEST:
            raise ValueError("a request is one line")
        line += part
    request = json.loads(line)
    if not isinstance(request, dict):
        raise ValueError("a request is an object")
    return request, streams


def carry_out(connection: socket.socket, request: dict[str, Any], streams: list[int]) -> None:
    """In a process of its own, as the command would; it does not return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the helper was started without
        tell(connection, {"process": os.getpid()})
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(request["folder"])
        os.umask(request["umask"])
        os.environ.clear()
        os.environ.update(request["environment"])
        code = command(request["words"])
    except BaseException:
        code = 1
    finally:
        with suppress(OSError):
            tell(connection, {"code": code})
        os._exit(code)


def processors() -> int:
    """That this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def command(words: list[str]) -> int:
    """The exit code of a command in this process, as a new one would have it."""
    import torch

    from regard.app.cli.main import main
    from regard.base.signals import signals_end

    given = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(int(given) if given.isdigit() and int(given) else processors())
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    sys.argv = ["regard", *words]
    try:
        with signals_end(process=True):
            main()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    return 0
