"""Where the helper is reached: a socket in a folder that is the user's alone.

Its name is made of the version, the files of this package and the interpreter: a command asks only a helper that
would do what the command itself would."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

from regard import __version__
from regard.errors import BadInput


def folder() -> Path:
    """$XDG_RUNTIME_DIR/regard, else a folder of this user in the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "regard" if runtime else Path(tempfile.gettempdir()) / f"regard-{os.getuid()}"


def own_folder() -> Path:
    """The same, made where it is not there. BadInput where somebody else could reach what is in it."""
    path = folder()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_own(path, stat.S_ISDIR):
        raise BadInput(f"{path} must be a folder of your own that nobody else may enter: chmod 700, or remove it")
    return path


def is_own(path: Path, kind: object) -> bool:
    """Is it of this kind, no link, this user's, and closed to everybody else?"""
    try:
        found = path.lstat()
    except OSError:
        return False
    return kind(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077  # type: ignore[operator]


def socket_path() -> Path:
    """Of the helper that has this very package."""
    root = Path(__file__).parents[2]
    told = [__version__, str(root), sys.executable, sys.version]
    for at, folders, files in os.walk(root):
        folders.sort()
        told += [
            f"{name} {os.stat(os.path.join(at, name)).st_mtime_ns}"
            for name in sorted(files)
            if name.endswith(".py")
        ]
    return folder() / f"{hashlib.sha256(chr(0).join(told).encode()).hexdigest()[:16]}.sock"
