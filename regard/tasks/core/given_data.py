"""Data that is given from Python in place of a recipe's: rows in memory, or names of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.base.memory_rows import MemoryRows, rows_of
from regard.errors import RecipeError
from regard.tasks.core.recipe_files import Recipe

SPLITS = {"train": "train", "valid": "valid", "validation": "valid", "test": "test"}
Given = Mapping[str, MemoryRows | str]  # by train, valid and test


def data_of(data: Mapping[str, Any]) -> dict[str, MemoryRows | str]:
    """What `regard.train(..., data=...)` was given, by the names of splits; `validation` is what `datasets` calls
    valid."""
    if not isinstance(data, Mapping) or "train" not in data:
        raise RecipeError(f'data must be a dict with rows under "train", as {{"train": rows}}; got {data!r:.60}')
    given: dict[str, MemoryRows | str] = {}
    for key, rows in data.items():
        if key not in SPLITS or SPLITS[key] in given:
            raise RecipeError(f"data has rows under {key!r:.40}; allowed are train, valid and test, each once")
        given[SPLITS[key]] = str(rows) if isinstance(rows, str | Path) else rows_of(rows, f"data[{key!r}]")
    return given


def without_data(table: Recipe) -> Recipe:
    """The recipe without its own data: not where it is, nor which parts of it are for what."""
    parts = ("made", *SPLITS, *(f"{split}_{what}" for split in SPLITS for what in ("names", "classes")))
    return {**table, "data": {key: value for key, value in table.get("data", {}).items() if key not in parts}}


def with_data(table: Recipe, given: Given) -> Recipe:
    for split in given:
        if split in table["data"]:
            raise RecipeError(
                f"data.{split} is set to {table['data'][split]!r:.60} and given as rows too; give one"
            )
    return {**table, "data": {**table["data"], **given}}
