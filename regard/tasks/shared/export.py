"""A run as a folder of another library alone."""

from __future__ import annotations

from pathlib import Path

from regard.runs import writing
from regard.runs.folder import Folder
from regard.tasks.core.table import task_for


def export(run: str | Path, to: Path, dtype: str = "float32") -> None:
    """`regard export`."""
    folder = Folder(run)
    task = task_for(folder)
    writing.export(folder, to, task.desk.artifacts(folder), "decode" in task.sections, dtype=dtype)
