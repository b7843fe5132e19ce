"""Modules of this package as programs of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def program_of(module: str) -> tuple[list[str], dict[str, str]]:
    """The command that runs a module of this very package, and its environment. -P: a file in the current folder
    does not take the place of a module."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return [sys.executable, "-P", "-m", module], environment
