"""Names that no file has are refused in the same words wherever a name comes in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.base.arguments import check_argument
from regard.base.files import explain_os_errors, find_data, find_file, find_files
from regard.base.names import check_name
from regard.errors import BadInput, RunError
from regard.runs.folder import find


def as_argument(name: str) -> None:
    check_argument("out", name, str | Path)


def as_opened(name: str) -> None:
    with explain_os_errors(name):
        open(name).close()


WRONG = {
    "": '"" names no file and no folder; the current folder is "."',
    "a\0b": "has a NUL character",
    "\ud800": "half a surrogate pair",
    "a" * 256: "its longest part 256",
}


@pytest.mark.parametrize("check", [check_name, find_data, find_file, find_files, as_argument, as_opened])
@pytest.mark.parametrize("name", WRONG)
def test_no_file_has_such_a_name(check: Callable[[str], object], name: str) -> None:
    with pytest.raises(BadInput) as error:
        check(name)
    assert WRONG[name] in str(error.value)


@pytest.mark.parametrize("name", WRONG)
def test_no_run_has_such_a_name(name: str) -> None:
    with pytest.raises(RunError, match="there is no run of that name") as error:
        find(name)
    assert WRONG[name] in str(error.value)


@pytest.mark.parametrize("name", [".", "a" * 255, "a/b", Path()])
def test_others_are_names(name: str | Path) -> None:
    check_name(name)
    check_argument("out", name, str | Path)
