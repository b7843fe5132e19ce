"""Files appear only when they are complete, and an error names the file that was asked for."""

from contextlib import suppress
from pathlib import Path

import pytest

from regard.base.files import drafted, write_file
from regard.base.line_writer import line_writer


def test_a_draft_becomes_the_file(tmp_path):
    path = tmp_path / "a.txt"
    with drafted(path) as draft:
        draft.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_draft_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with suppress(KeyError), drafted(path) as draft:
        draft.write_text("half")
        raise KeyError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [lambda path: write_file(path, b"x"), lambda path: _lines(path)])
def test_errors_name_the_file_and_not_the_draft(tmp_path, write):
    path = tmp_path / ("a" * 254)  # a longer name is too long
    with pytest.raises(OSError, match="too long") as caught:
        write(path)
    assert Path(caught.value.filename) == path


def _lines(path: Path) -> None:
    with line_writer(path) as write:
        write("x")
