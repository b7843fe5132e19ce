"""What the desks of runs that are asked with images share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from regard.base.files import find_files
from regard.data.artifacts import Artifacts
from regard.runs.folder import Folder
from regard.tasks.core.card import Options
from regard.tasks.core.desk import D, Desk, S
from regard.tasks.shared.image_run import ImageRun, OpenedImage

R = TypeVar("R", bound=ImageRun)  # what a user holds


class ImageDesk(Desk[S, R, D]):
    def artifacts(self, folder: Folder) -> Artifacts:
        labels: tuple[str, ...] = getattr(folder.config, "labels", ())
        size = getattr(folder.config, "size", None)
        return Artifacts(labels=labels, pixels=folder.pixels(), image_size=size)

    def has_columns(self, settings: S) -> bool:
        """A folder has none."""
        files = settings.test_files
        return bool(files) and not any(path.is_dir() for name in files for path in find_files(name))

    def reader(self, run: R, options: Options) -> Callable[[Path], OpenedImage]:
        return run.open

    def unanswered(self, run: R, options: Options, text: str | None) -> str:
        return f"{text or ''}\t\t"  # the file, without label and probability
