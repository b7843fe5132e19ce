"""What the tasks of a text encoder share: they open the same kind of run, and each can be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.tasks.task import D, Run, S, Task

if TYPE_CHECKING:
    from regard.data.artifacts import Artifacts
    from regard.models.protocols import Model
    from regard.runs.folder import Folder
    from regard.tasks.reader import Reader


def reader_artifacts(folder: Folder) -> Artifacts:
    """What a reader of text needs beside the weights."""
    from regard.data.artifacts import Artifacts

    labels: tuple[str, ...] = getattr(folder.config, "labels", ())
    return Artifacts(folder.tokenizer(), labels=labels, max_length=folder.max_length())


class ReaderTask(Task[S, "Reader", D]):
    def artifacts(self, folder: Folder) -> Artifacts:
        return reader_artifacts(folder)

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> Reader:
        from regard.tasks.reader import Reader

        return Reader(model, artifacts.own_tokenizer, artifacts.max_length)

    def takes(self, run: Run) -> bool:
        from regard.tasks.reader import Reader

        return isinstance(run, Reader)
