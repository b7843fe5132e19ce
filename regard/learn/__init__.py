"""From loss to weights. `fit` trains a module of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.learn.fit_module import fit as fit
    from regard.learn.loop import Report as Report

__all__ = ["Report", "fit"]


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: this package holds files that the command line reads without torch."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("regard.learn.fit_module"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
