"""The shipped recipes, and finding a recipe's file. No torch here, so that a shell can complete their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.base.fields import nearest, read_toml
from regard.errors import RecipeError

RECIPES = Path(__file__).parents[2] / "recipes"
Recipe = dict[str, dict[str, Any]]  # sections as TOML has them


def recipes() -> dict[str, str]:
    """The shipped recipes, each with its first comment line."""
    return {
        path.stem: path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        for path in sorted(RECIPES.glob("*.toml"))
    }


def model_of(name: str) -> str:
    """Which model a recipe trains."""
    return read_table(name)["model"]["name"]


def read_table(name: str) -> Recipe:
    """A recipe by its file, else by its shipped name."""
    path = Path(name)
    if not path.is_file():
        path = RECIPES / f"{name}.toml"
        if Path(name).name != name or not path.is_file():
            near = nearest(name, recipes())
            raise RecipeError(f"there is no recipe {name!r}, neither a file nor shipped{near}")
    return read_toml(path)
