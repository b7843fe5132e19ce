"""The cache of tokens within a limit: those that nobody has used for the longest time are deleted first, and none
that a living process uses.

A process that uses tokens holds a lock (`filelock`) on a file in a folder for that, beside a file with their names.
A lock ends with its process, however that ends. Where a file system has no locks nothing is deleted."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from regard.base.files import draft_of
from regard.errors import BadInput

LIMIT = "REGARD_CACHE_GIB"  # environment; without it nothing is deleted
USES, LOCK = "uses", ".lock"  # a folder beside that of the tokens; how the name of a lock ends
NAME = re.compile("[0-9a-f]{64}")  # of a folder of tokens


def limit() -> int | None:
    """Bytes."""
    text = os.environ.get(LIMIT)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise BadInput(f"{LIMIT} must be a number of GiB, 0 or more, got {text!r}")
    return int(value * (1 << 30))


class Use:
    """Tokens of these names are used as long as this object lives."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.file = folder.with_name(USES) / secrets.token_hex(8)
        self.lock = FileLock(f"{self.file}{LOCK}", thread_local=False, fallback_to_soft=False)
        with _one_at_a_time(folder) as locks:
            if locks:
                self.lock.acquire()
                self.file.write_text(json.dumps(sorted({*names})))
                _used(folder)  # what killed processes left is deleted here
        for name in names:
            with suppress(OSError):
                os.utime(folder / name)  # used now

    def __del__(self) -> None:
        with suppress(Exception):
            if self.lock.is_locked:
                self.file.unlink(missing_ok=True)
                Path(self.lock.lock_file).unlink(missing_ok=True)
                self.lock.release()


def prune(folder: Path, most: int, say: Callable[[str], None]) -> None:
    """Delete the tokens that were used longest ago until those that are left take at most so many bytes."""
    with _one_at_a_time(folder) as locks:
        if not locks:
            return
        used, total, deleted = _used(folder), 0, 0
        found = []
        for place in folder.iterdir():
            if NAME.fullmatch(place.name):
                with suppress(OSError):  # another process makes it anew
                    size = sum(file.stat().st_size for file in place.iterdir())
                    found.append((place.stat().st_mtime, place, size))
                    total += size
        for _, place, size in sorted(found):
            if total <= most:
                break
            if place.name not in used:
                aside = draft_of(place)
                with suppress(OSError):
                    place.rename(aside)  # at once, so that no other process finds half of it
                    shutil.rmtree(aside, ignore_errors=True)
                    total, deleted = total - size, deleted + 1
    if deleted:
        say(f"Deleted the tokens of {deleted:,} file{'s' * (deleted > 1)} that were not used lately ({LIMIT})")


def _used(folder: Path) -> set[str]:
    """The names of tokens that living processes use. The files of dead ones are deleted."""
    used: set[str] = set()
    for path in folder.with_name(USES).glob(f"[0-9a-f]*{LOCK}"):
        names = path.with_suffix("")
        lock = FileLock(path, thread_local=False, fallback_to_soft=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            with suppress(OSError, ValueError):
                used.update(json.loads(names.read_text()))
            continue
        names.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        lock.release()
    return used


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[bool]:
    """One process at a time marks or deletes; False: there are no locks here."""
    uses = folder.with_name(USES)
    lock = FileLock(uses / f".one{LOCK}", thread_local=False, fallback_to_soft=False)
    try:
        uses.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
