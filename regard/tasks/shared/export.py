"""A run as a folder of another library alone."""

from __future__ import annotations

from pathlib import Path

from regard.runs import formats
from regard.runs.folder import Folder
from regard.tasks.core.table import task_for


def export(run: str | Path, to: Path, dtype: str = "float32", format: str = "library") -> None:
    """`regard export`."""
    folder = Folder(run)
    task = task_for(folder)
    what = formats.Export(folder, task.desk.artifacts(folder), "decode" in task.sections, dtype)
    formats.export(what, to, format)
