"""The runs that come with the package. No torch here, so that a shell can complete their names."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent.parent / "shipped"


def shipped() -> list[str]:
    """The names of the runs that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))
