"""The engines that compute a run's answers, and in which numbers. No torch here, so that a shell completes them."""

from __future__ import annotations

from regard.errors import BadInput

TORCH, CTRANSLATE2 = ENGINES = ("torch", "ctranslate2")
FLOAT32, INT8 = DTYPES = ("float32", "int8")


def check_engine(engine: str, dtype: str) -> None:
    """BadInput where there is no such engine, or it does not compute in these numbers."""
    if engine not in ENGINES:
        raise BadInput(f"engine must be one of {', '.join(ENGINES)}, got {engine!r:.40}")
    if dtype not in DTYPES:
        raise BadInput(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r:.40}")


def is_plain(engine: str, dtype: str) -> bool:
    """Is it the model itself, as it was trained?"""
    return (engine, dtype) == (TORCH, FLOAT32)
