"""A run's folder makes room for another run, and is refused where anything else is in it."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.base.files import DRAFT
from regard.errors import RunError
from regard.foreign.hf_files import GENERATION, PREPROCESSOR, TOKENIZER_CONFIG
from regard.learn.checkpoint import checkpoints, remove
from regard.learn.lock import LOCK, OWNER
from regard.learn.loggers.logger import FOLDER as LOGGERS
from regard.learn.restart import MARK
from regard.runs.folder import RECIPE, SOURCE_TOKENIZER, TOKENIZER
from regard.runs.weights import WEIGHTS

DATA = "data.json"  # what the training read
TRAINING = "training"
FILES = ("config.json", WEIGHTS, TOKENIZER, SOURCE_TOKENIZER, TOKENIZER_CONFIG, GENERATION, PREPROCESSOR, RECIPE)
BESIDE = (DATA, "log.jsonl", "loss.svg", "README.md")


def check_replaceable(folder: Path) -> None:
    """RunError unless the folder is a run that a training has left, with nothing else in it, or is empty."""
    folders = (TRAINING, LOGGERS)
    allowed = {*FILES, *BESIDE, *folders, LOCK, OWNER, MARK}
    entries = [path for path in sorted(folder.iterdir()) if not path.name.startswith(DRAFT)]
    if all(path.name in (LOCK, OWNER, MARK) for path in entries):
        return
    if not (folder / RECIPE).is_file():
        raise RunError(f"{folder} is no run, and is not overwritten: it has no {RECIPE}; take another --out")
    others = [path for path in entries if path.name not in allowed or (path.is_dir() != (path.name in folders))]
    own = set(checkpoints(folder))
    if (folder / TRAINING).is_dir():
        inside = sorted((folder / TRAINING).iterdir())
        others += [path for path in inside if path not in own and not path.name.startswith(DRAFT)]
    if others:
        named = ", ".join(str(path.relative_to(folder)) for path in others[:5])
        raise RunError(
            f"{folder} is not overwritten, as more than a run is in it: {named}{', ...' * (len(others) > 5)}; move "
            "that away, or take another --out"
        )


def clear_run(folder: Path) -> None:
    """Delete the files of a run, which `check_replaceable` has let pass."""
    for path in checkpoints(folder):
        remove(path)
    for name in (*FILES, *BESIDE):
        (folder / name).unlink(missing_ok=True)
    if (folder / LOGGERS).is_dir():
        shutil.rmtree(folder / LOGGERS)
