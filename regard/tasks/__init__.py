"""What people ask for: data, model, decoding, metric and picture tied together."""

from pathlib import Path

from regard.tasks import translate
from regard.tasks.folder import RunError, find, shipped
from regard.tasks.settings import Decoding
from regard.tasks.translate import Answer, Translator

__all__ = ["Answer", "Decoding", "RunError", "Translator", "find", "load", "shipped"]


def load(run: str | Path) -> Translator:
    """The task object of a run: a folder, else the name of a shipped run."""
    return translate.load(find(run))
