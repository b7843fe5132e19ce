"""What the desks of a reader of text share: they open the same kinds of run, and each can be asked of some."""

from __future__ import annotations

from typing import cast

from regard.data.artifacts import Artifacts
from regard.models.protocols import Encoder, LayeredEncoder, Model
from regard.runs.folder import Folder
from regard.tasks.core.desk import D, Desk, R, S
from regard.tasks.embed.run import Embedder
from regard.tasks.shared.reader import Reader
from regard.tasks.shared.text_reader import TextReader


class ReaderDesk(Desk[S, R, D]):
    def artifacts(self, folder: Folder) -> Artifacts:
        labels: tuple[str, ...] = getattr(folder.config, "labels", ())
        return Artifacts(folder.tokenizer(), labels=labels, max_length=folder.max_length())

    def open(self, folder: Folder, model: Model, artifacts: Artifacts) -> R:
        """What the model can be asked beside this task depends on what it is."""
        kinds = {Encoder: Reader, LayeredEncoder: Embedder}
        kind = next((kind for protocol, kind in kinds.items() if isinstance(model, protocol)), TextReader)
        return cast(R, kind(model, artifacts.own_tokenizer, artifacts.max_length))
