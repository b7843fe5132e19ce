"""What a command reads is never overwritten by what it writes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from regard.errors import BadInput

Identity = tuple[int, int]  # device and inode: the same for all names of a file


def refuse_overwriting(read: Iterable[Path], written: Iterable[Path]) -> None:
    """BadInput, before anything is done, where a file that would be written is one that is read: also by way of a
    link or a hard link, or in other case where that makes no difference. A folder stands for all files in it. Two
    outputs may not be the same file either."""
    targets: dict[Identity | Path, Path] = {}
    for path in written:
        file = identity(path)
        if file is None and path.exists():  # a device or a pipe is written to, and nothing is replaced
            continue
        key = file or path.resolve()
        if key in targets:
            raise BadInput(f"{path} would be written twice, and only the last would be left; take another name")
        targets[key] = path
    if not any(isinstance(file, tuple) for file in targets):  # nothing is there that could be lost
        return
    for path in _files(read):
        file = identity(path)
        if file is not None and (target := targets.get(file)) is not None:
            same = os.path.abspath(target) == os.path.abspath(path)
            which = "one of the inputs" if same else f"the same file as {path}, one of the inputs,"
            raise BadInput(f"{target} is {which} and would be overwritten; take another name")


def identity(path: Path) -> Identity | None:
    """Of a regular file; None: there is none of that name."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # a name with a NUL
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            for folder, _, names in os.walk(path):
                yield from (Path(folder, name) for name in names)
        else:
            yield path
