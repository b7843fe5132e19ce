"""Where what can be made again is kept: tokens, datasets, what other engines read."""

from __future__ import annotations

import os
from pathlib import Path

PLACE = "REGARD_CACHE"


def cache_folder() -> Path:
    """$REGARD_CACHE, else regard in $XDG_CACHE_HOME or ~/.cache."""
    if place := os.environ.get(PLACE):
        return Path(place)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "regard").expanduser()
