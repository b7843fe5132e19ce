"""A file that is read is not written to, under whatever name."""

import os
from pathlib import Path

import pytest

from regard.base.overwriting import refuse_overwriting
from regard.errors import BadInput


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for name in ("a.txt", "b.txt", "data/c.txt"):
        Path(name).write_text("x")
    return tmp_path


def test_other_files_may_be_written(here):
    written = [Path("b.txt"), Path("data/new.txt")]
    refuse_overwriting([Path("a.txt"), Path("data"), Path("none.txt")], written)
    assert [path.exists() for path in written] == [True, False], "nothing is touched"


@pytest.mark.parametrize(
    "name", ["a.txt", "./data/../a.txt", "link.txt", "hard.txt", "folder/a.txt", "data/c.txt", "data/hard.txt"]
)
def test_the_same_file_by_another_name_is_refused(here, name):
    Path("link.txt").symlink_to("a.txt")
    os.link("a.txt", "hard.txt")
    Path("folder").symlink_to(".")
    os.link("a.txt", "data/hard.txt")
    with pytest.raises(BadInput, match=r" one of the inputs,? and would be overwritten; take another name"):
        refuse_overwriting([Path("a.txt"), Path("data")], [Path("b.txt"), here / name])


def test_a_link_that_is_read_stands_for_its_file(here):
    Path("link.txt").symlink_to("a.txt")
    with pytest.raises(BadInput, match=r"^a.txt is the same file as link.txt, one of the inputs, and would be"):
        refuse_overwriting([Path("link.txt")], [Path("a.txt")])


def test_two_outputs_are_two_files(here):
    for name in ("b.txt", "new.txt"):
        with pytest.raises(BadInput, match=rf"{name} would be written twice, and only the last would be left"):
            refuse_overwriting([], [Path(name), here / name])
    refuse_overwriting([Path("/dev/null")], [Path("/dev/null"), Path("/dev/null")])
