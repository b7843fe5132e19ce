"""One training at a time in a folder.

OUT/.training.lock is locked with flock (`filelock.FileLock`), which the operating system gives back when a process
ends, however it ends. On file systems without flock, the existence of OUT/.training.pid, with the process id in it,
is the lock (`filelock.SoftFileLock`); that of a dead process is taken over. Where that takes two names to be
exchanged and the file system cannot, the error says which file to delete."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from regard.base.files import read_bytes
from regard.errors import DataError, RunError

LOCK, OWNER = ".training.lock", ".training.pid"
NO_FLOCK = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
WAIT = 0.1  # seconds: long enough to try again if the file was deleted by the last owner after we had opened it
TRIES = 100
LONGEST = 1000  # bytes of a lock file; ours has less


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder, creating it if missing; RunError if it is locked, by this process or another."""
    if files := [path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()]:
        raise RunError(f"{files[0]} is a file, and a run is a folder; take another --out")
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = _take(folder)
    try:
        yield
    finally:
        if not isinstance(lock, SoftFileLock):  # which deletes its file itself
            with suppress(OSError):  # Windows deletes it when it is released
                Path(lock.lock_file).unlink()  # while it is locked, or we would delete the next owner's
        lock.release()
        with suppress(OSError):  # something is in it: it was needed
            for path in new:
                path.rmdir()


def is_locked(folder: Path) -> bool:
    """Whether a process is training there."""
    if (folder / OWNER).exists():
        return True
    path = folder / LOCK
    if path.is_symlink() or not path.is_file():
        return False
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def _take(folder: Path) -> BaseFileLock:
    for _ in range(TRIES):
        # Another process may remove a folder that it had made for its lock between two calls of ours.
        with suppress(FileNotFoundError, FileExistsError):
            folder.mkdir(parents=True, exist_ok=True)
            return _flock(folder)
    folder.mkdir(parents=True, exist_ok=True)  # raises again if that is why
    raise _busy(folder)


def _flock(folder: Path) -> BaseFileLock:
    path = folder / LOCK
    lock = FileLock(path, timeout=WAIT, thread_local=False, poll_interval=0.005, fallback_to_soft=False)
    try:
        _acquire(lock, folder)
    except OSError as error:
        if error.errno not in NO_FLOCK:
            raise
        path.unlink(missing_ok=True)
        soft = SoftFileLock(folder / OWNER, timeout=WAIT, thread_local=False, poll_interval=0.005)
        _acquire(soft, folder, f". If that process is gone, delete {soft.lock_file}")
        return soft
    with suppress(OSError):  # only for the message of _busy; the disk may be full
        flags = os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags), "w") as file:
            file.write(f"{os.getpid()}\n{socket.gethostname()}\n")  # as SoftFileLock writes it
    return lock


def _acquire(lock: BaseFileLock, folder: Path, remedy: str = "") -> None:
    path = Path(lock.lock_file)
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):  # a link is not followed, a pipe not waited for
            raise RunError(f"{path} is no file of a training; move it away, or take another --out")
    try:
        lock.acquire()
    except Timeout:
        raise _busy(folder, _owner(path), remedy) from None


def _owner(path: Path) -> str:
    """Who holds the lock, as far as the file says it."""
    try:
        pid, host, *_ = read_bytes(path, LONGEST).decode().splitlines()
    except (DataError, ValueError):
        return ""
    host = host.partition("?")[0]  # filelock adds the name space of a container's processes
    return f"process {pid} on {host}" if pid.isdecimal() and host.isprintable() else ""  # it goes to the terminal


def _busy(folder: Path, owner: str = "", remedy: str = "") -> RunError:
    return RunError(
        f"{folder} is being trained by {owner or 'another process'}; wait until it ends, stop it, or take another "
        f"--out{remedy}"
    )
