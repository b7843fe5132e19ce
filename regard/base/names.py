"""Names of files that no file system has: the one check of a name, wherever it comes from."""

from __future__ import annotations

import os
from pathlib import Path

from regard.errors import DataError

LONGEST_PART, LONGEST = 255, 4095  # bytes of a file's or folder's name, and of a path, on Linux; elsewhere alike


def check_name(name: str | Path) -> None:
    """DataError for "", of which Path makes the current folder, and for a name with NUL or half a surrogate pair in
    it, or one that is too long: the operating system's own errors for these do not say what was wrong with which
    name."""
    text = str(name)
    if not text:
        raise DataError('"" names no file and no folder; the current folder is "."')
    try:
        raw = text.encode(errors="surrogateescape")  # os.fsencode knows ASCII alone in such a locale
    except UnicodeEncodeError:
        raise DataError(f"{text[:80]!r} cannot be a name: it has half a surrogate pair in it") from None
    if b"\0" in raw:
        raise DataError(f"{text[:80]!r} cannot be a name: it has a NUL character in it")
    longest = max(map(len, raw.split(os.sep.encode())))
    if len(raw) > LONGEST or longest > LONGEST_PART:
        raise DataError(
            f"{text[:40]!r}... cannot be a name: it has {len(raw):,} bytes, its longest part {longest:,}; at most "
            f"{LONGEST:,} and {LONGEST_PART} are possible"
        )
