"""regard: attention models. A query looks at a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def load(run: str | Path) -> Any:
    """The task object of a run, by its folder (one of `transformers`, too) or the name of a shipped one:
    `regard.load("dates").translate("3 May 1979")`, `regard.load("shakespeare").generate("ROMEO:")`."""
    from regard.tasks.table import load  # here, so that `import regard` and `regard --help` do not wait for torch

    return load(run)
