"""Pictures reach the disk whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def suffix_of(path: str | Path, allowed: tuple[str, ...]) -> str:
    """The path's suffix in small letters, if it is one of the allowed ones."""
    suffix = Path(path).suffix.lower()
    if suffix not in allowed:
        came = f"the suffix {suffix!r}" if suffix else "no suffix"
        raise ValueError(f"cannot save {str(path)!r} with {came}: end the name in {' or '.join(allowed)}")
    return suffix


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary file beside the path, which then takes its place."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        write(draft)
        os.replace(draft, path)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
