"""regard: attention models. A query looks at a memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.tasks import Translator

__version__ = "0.1.0"


def load(run: str | Path) -> Translator:
    """The task object of a run (a folder or a shipped one): `regard.load("dates").translate("3 May 1979")`."""
    from regard.tasks import load  # here, so that `import regard` and `regard --help` do not wait for torch

    return load(run)
