"""Reading test data that only a run's recipe names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from regard.base.files import find_files
from regard.errors import DataError

BY_NAME = "--data FILE, in Python evaluate(FILE)"  # how data to evaluate on is named


@contextmanager
def files_of_recipe(names: Sequence[str]) -> Iterator[None]:
    """Checks that the files are there. A run from a stranger may name any of your files, so an error in reading
    them does not show what is in them."""
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
