"""One training at a time in a folder.

OUT/.training.lock is locked with flock, which the operating system gives back when a process ends, however it ends.
On file systems without flock a file with the process id is used instead; that of a dead process is replaced."""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.base.files import read_bytes
from regard.errors import DataError, RunError

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

LOCK, OWNER, CLAIM = ".training.lock", ".training.pid", ".training.claim"
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)

TRIES = 100
LONGEST = 1000  # bytes of a lock file; ours has less
_mine = threading.local()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder, creating it if missing; RunError if another training holds it. A thread may nest this."""
    folders: set[Path] = _mine.__dict__.setdefault("folders", set())
    key = folder.resolve()
    if key in folders:
        yield
        return
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    release = _take(folder)
    folders.add(key)
    try:
        yield
    finally:
        folders.remove(key)
        release()
        with suppress(OSError):  # something is in it: it was needed
            for path in new:
                path.rmdir()


def _take(folder: Path) -> Callable[[], None]:
    """Returns the function that gives the folder back. Another process may delete the lock file, or a folder that
    it had made, between two calls of ours: then try again."""
    if files := [path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()]:
        raise RunError(f"{files[0]} is a file, and a run is a folder; take another --out")
    for _ in range(TRIES):
        with suppress(FileNotFoundError, FileExistsError):
            folder.mkdir(parents=True, exist_ok=True)
            if release := _lock(folder) if fcntl else _lock_by_name(folder):
                return release
    folder.mkdir(parents=True, exist_ok=True)  # raises again if that is why
    raise _busy(folder)


def _lock(folder: Path) -> Callable[[], None] | None:
    """None if the holder deleted the file after we had opened it."""
    path = folder / LOCK
    handle = os.open(path, FLAGS, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is(handle, path):
            os.close(handle)
            return None
    except BlockingIOError:
        os.close(handle)
        raise _busy(folder, _read(path)) from None
    except OSError as error:
        os.close(handle)
        if error.errno not in NO_LOCKS:
            raise
        path.unlink(missing_ok=True)
        return _lock_by_name(folder)
    with suppress(OSError):  # only for the message above; the disk may be full
        os.ftruncate(handle, 0)
        os.write(handle, _self().encode())

    def release() -> None:
        path.unlink(missing_ok=True)  # while it is locked, or we would delete the next one's
        os.close(handle)

    return release


def _is(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _self() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _read(path: Path) -> str:
    try:
        text = read_bytes(path, LONGEST).decode(errors="replace")
    except DataError:
        return ""
    return text if text.isprintable() else ""  # it goes to the terminal


def _busy(folder: Path, owner: str = "", remedy: str = "") -> RunError:
    return RunError(
        f"{folder} is being trained by {owner or 'another process'}; wait until it ends, stop it, or take another "
        f"--out{remedy}"
    )


# ---- without flock


def _lock_by_name(folder: Path) -> Callable[[], None]:
    path, claim = folder / OWNER, folder / CLAIM
    if not _create(path):
        owner = _read(path)
        # Of several that find a dead owner one replaces it; the others then find a live one.
        if _alive(owner) or not _create(claim):
            raise _busy(folder, owner, f". If that process is gone, delete {path} and {claim}")
        try:
            if _read(path) != owner:
                raise _busy(folder, _read(path))
            path.write_text(_self())
        finally:
            claim.unlink()
    return lambda: path.unlink(missing_ok=True)


def _create(path: Path) -> bool:
    try:
        handle = os.open(path, FLAGS | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    try:
        os.write(handle, _self().encode())
    finally:
        os.close(handle)
    return True


def _alive(owner: str) -> bool:
    """A process of another machine counts as alive, since nothing is known of it."""
    here = re.fullmatch(rf"process (\d+) on {re.escape(socket.gethostname())}", owner)
    if not here or os.name != "posix":
        return True
    try:
        os.kill(int(here[1]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
