"""What an earlier site left in a folder: `files.json` lists what was written, so that files that nothing names any
more are removed, and no other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from regard.base.files import write_file

LIST = "files.json"


def tidy(out: Path, written: Iterable[Path]) -> list[Path]:
    """List what was written now, and remove what an earlier site wrote and this one did not. A file that was
    changed since, and what lies behind a link or outside the folder, is left alone."""
    now = {path.relative_to(out).as_posix(): digest(path) for path in written}
    before = read_list(out / LIST)
    removed = [out / name for name, tag in before.items() if name not in now and is_ours(out, name, tag)]
    for path in removed:
        path.unlink()
    for folder in {path.parent for path in removed} - {out}:
        with suppress(OSError):  # others' files are in it
            folder.rmdir()
    write_file(out / LIST, (json.dumps(now, indent=1) + "\n").encode())
    return removed


def read_list(path: Path) -> dict[str, str]:
    """Names and digests; none where the list is missing or broken."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    both = listed.items() if isinstance(listed, dict) else ()
    return {name: tag for name, tag in both if isinstance(tag, str)}


def is_ours(out: Path, name: str, tag: str) -> bool:
    """Whether a file of the list is as it was written."""
    path, root = out / name, out.resolve()
    try:
        inside = path.resolve() == root / name and path.resolve().is_relative_to(root)
        return inside and path.is_file() and digest(path) == tag
    except (OSError, ValueError):  # such as a NUL in the name
        return False


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
