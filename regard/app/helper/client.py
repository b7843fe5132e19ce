"""A command asks the helper, where there is one: it hands over its words, its folder, its environment and its own
streams, and waits. Only what Python has at hand is imported here."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.app.helper.place import folder, is_own, socket_path

OFF = "REGARD_HELPER"  # "0": no helper is asked
LONGEST = 1 << 20  # bytes of a message
LOST = 1  # exit code where the helper went away


def connected(path: Path | None = None) -> socket.socket | None:
    """To the helper, of this version unless its socket is given; None: there is none that may be asked."""
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid") or not is_own(folder(), stat.S_ISDIR):
        return None
    path = path or socket_path()
    if not is_own(path, stat.S_ISSOCK):
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def tell(connection: socket.socket, message: Any, streams: Sequence[int] = ()) -> None:
    """One line of JSON, with streams beside it."""
    line = json.dumps(message).encode() + b"\n"
    sent = socket.send_fds(connection, [line], list(streams)) if streams else 0
    connection.sendall(line[sent:])


def hear(connection: socket.socket) -> Any:
    """The next line; None: the other side is gone."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1) if len(line) < LONGEST else b""
        if not part:
            return None
        line += part
    return json.loads(line)


def asked(words: Sequence[str]) -> int | None:
    """The exit code of a command that the helper carries out. None: it is not its work, or there is no helper."""
    if os.environ.get(OFF) == "0" or "LOCAL_RANK" in os.environ or not words or words[0].startswith("-"):
        return None
    connection = connected()
    if connection is None:
        return None
    with connection:
        try:
            sys.stdout.flush()
            request = {
                "words": list(words), "folder": os.getcwd(), "environment": dict(os.environ), "umask": umask(),
            }  # fmt: skip
            tell(connection, request, (0, 1, 2))
            begun = hear(connection)
        except (OSError, ValueError):
            return None
        if not begun or not begun.get("process"):
            return None
        with passing_on(int(begun["process"])):
            ended = hear(connection)
    if ended is None:
        print("error: the helper of regard went away; ask again", file=sys.stderr)
        return LOST
    return int(ended["code"])


def umask() -> int:
    """Of this process: which rights the files that it writes do not have."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def passing_on(process: int) -> Iterator[None]:
    """Signals that stop this command stop the process that carries it out."""

    def pass_on(number: int, frame: Any) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, number)

    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, pass_on) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
