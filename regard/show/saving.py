"""Which suffixes a picture can be saved with, and saving that never leaves a half-written file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from regard.base.files import drafted
from regard.errors import BadInput


def suffix_of(path: str | Path, allowed: tuple[str, ...]) -> str:
    """The path's suffix in lower case; refuses any that is not allowed."""
    suffix = Path(path).suffix.lower()
    if suffix not in allowed:
        wrong = f"the suffix {suffix!r}" if suffix else "no suffix"
        raise BadInput(f"cannot save {str(path)!r} with {wrong}: end the name in {' or '.join(allowed)}")
    return suffix


def save(
    path: str | Path, *, png: Callable[[BinaryIO], object], svg: Callable[[], str], html: Callable[[], str]
) -> None:
    """Write a .png, .svg or .html file, by the path's suffix. `png` writes to a file, the others give its text."""
    suffix = suffix_of(path, (".png", ".svg", ".html"))
    if suffix == ".png":
        write_whole(path, png)
    else:
        text = svg() if suffix == ".svg" else html()
        write_whole(path, lambda file: file.write(text.encode()))


def write_whole(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Calls `write` with a temporary file in the same folder, then renames that file to `path`."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    try:
        with drafted(path) as file:
            write(file)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
