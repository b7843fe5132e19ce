"""The shipped recipes, finding a recipe's file, and the data files that only a recipe names. No torch here, so that
a shell can complete names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.base.fields import nearest, read_toml
from regard.base.files import find_files
from regard.base.memory_rows import MemoryRows
from regard.errors import DataError, RecipeError

SCRATCH = "scratch"  # the section of what is otherwise without a run to start from
RECIPES = Path(__file__).parents[2] / "recipes"
BY_NAME = "--data FILE, in Python evaluate(FILE) or evaluate(rows)"  # how data to evaluate on is named
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


def find_recipe(name: str) -> Path:
    """A recipe by its file, else by its shipped name."""
    path = Path(name)
    if not path.is_file():
        path = RECIPES / f"{name}.toml"
        if Path(name).name != name or not path.is_file():
            near = nearest(name, recipes())
            raise RecipeError(f"there is no recipe {name!r}, neither a file nor shipped{near}")
    return path


def read_table(name: str, *, start: bool = False) -> Recipe:
    """The sections of a recipe. `start`: training begins with the weights of a run."""
    return for_beginning(read_toml(find_recipe(name)), start=start)


def for_beginning(table: Mapping[str, Any], *, start: bool) -> Recipe:
    """[scratch.train] and the like have settings for training from random weights, in place of those of [train]."""
    sections = {name: part for name, part in table.items() if name != SCRATCH}
    scratch = table.get(SCRATCH, {})
    if not isinstance(scratch, Mapping) or not all(isinstance(part, Mapping) for part in scratch.values()):
        raise RecipeError(f"{SCRATCH} must have sections, as [{SCRATCH}.train]; got {scratch!r:.80}")
    for name, part in scratch.items() if not start else ():
        sections[name] = {**sections.get(name, {}), **part}
    return sections


def recipe_text(name: str) -> str:
    """The TOML of a recipe, with its comments."""
    return find_recipe(name).read_text(encoding="utf-8")


@contextmanager
def files_of_recipe(names: Sequence[str]) -> Iterator[None]:
    """Checks that the files are there. A run from a stranger may name any of your files, so an error in reading
    them does not show what is in them."""
    if not (names := [name for name in names if not isinstance(name, MemoryRows)]):
        yield
        return
    where = "paths are relative to the current folder, as in training"
    for name in names:
        try:
            paths = find_files(name)
        except DataError as error:
            raise DataError(
                f"the test data of the recipe: {error} ({where}); or name other data: {BY_NAME}"
            ) from None
        if odd := [path for path in paths if not path.is_file() and not path.is_dir()]:
            raise DataError(f"the test data of the recipe, {odd[0]}, is no plain file; name other data: {BY_NAME}")
    try:
        yield
    except DataError:
        named = ", ".join(names)
        raise DataError(
            f"the test data of the recipe, {named}, is not what this run can be evaluated on; name it yourself to "
            f"see why, or name other data: {BY_NAME}"
        ) from None


def by_key(table: Recipe) -> dict[str, Any]:
    """The settings of a recipe by section.key."""
    return {f"{name}.{key}": value for name, part in table.items() for key, value in part.items()}


def logged(metric: str) -> str:
    """A validation metric's name in log.jsonl, where `loss` is that of the training batches."""
    return "valid_loss" if metric == "loss" else metric
