"""Files appear only when they are complete, an error names the file that was asked for, and no link is followed."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from regard.base.files import (
    drafted,
    drafted_folder,
    open_to_append,
    write_file,
)
from regard.base.line_writer import line_writer
from regard.base.short_repr import printable
from regard.errors import BadInput, DataError


def test_a_draft_becomes_the_file(tmp_path):
    path = tmp_path / "a.txt"
    with drafted(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_draft_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with suppress(KeyError), drafted(path) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [lambda path: write_file(path, b"x"), lambda path: _lines(path)])
def test_errors_name_the_file_and_not_the_draft(tmp_path, write):
    path = tmp_path / ("a" * 255)  # a longer name is too long
    write(path)
    with pytest.raises(OSError, match="too long") as caught:
        write(tmp_path / ("a" * 256))
    assert Path(caught.value.filename) == tmp_path / ("a" * 256)
    assert list(tmp_path.iterdir()) == [path]


def test_errors_in_a_folder_name_the_folder_and_not_the_draft(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, drafted_folder(tmp_path / "run") as draft:
        write_file(draft / "none" / "model", b"x")
    assert Path(caught.value.filename) == tmp_path / "run" / "none" / "model"
    assert not list(tmp_path.iterdir())


def test_what_stands_in_the_place_of_a_draft_is_left_alone(tmp_path):
    """Links that were put where a draft may be written; the names of drafts cannot be guessed."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".tmp-a.txt").symlink_to("victim")
    (tmp_path / ".tmp-run").mkdir()
    for _ in range(2):
        write_file(tmp_path / "a.txt", b"new")
        with drafted_folder(tmp_path / "run") as draft:
            (draft / "b.txt").write_text("new")
        (tmp_path / "run" / "b.txt").unlink()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"victim", ".tmp-a.txt", ".tmp-run", "a.txt", "run"}
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "a.txt").symlink_to("victim")
    write_file(tmp_path / "a.txt", b"new")
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "a.txt").read_text() == "new"
    assert not (tmp_path / "a.txt").is_symlink()


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("victim"), os.mkfifo], ids=["link", "pipe"])
def test_nothing_is_appended_to_a_link_or_a_pipe(tmp_path, make):
    (tmp_path / "victim").write_text("precious")
    make(tmp_path / "log")
    with pytest.raises(DataError, match=r"log must be a regular file, and is a (link|pipe); move it away"):
        open_to_append(tmp_path / "log")
    assert (tmp_path / "victim").read_text() == "precious"
    for _ in range(2):
        with open_to_append(tmp_path / "new") as file:
            file.write(b"x")
    assert (tmp_path / "new").read_text() == "xx"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, RuntimeError])
def test_what_was_written_is_kept_beside_the_file(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "a.txt.partial").symlink_to("victim")
    for name, count in (("a.txt.partial-2", 1), ("a.txt.partial-3", 1200)):
        with pytest.raises(error) as caught:
            _lines(path, count, error)
        lines = f"{count:,} line{'s' if count > 1 else ''}"
        assert caught.value.__notes__ == [f"{tmp_path / name} keeps what was done, {lines}; {path} was not written"]
        assert (tmp_path / name).read_text().splitlines() == [str(number) for number in range(count)]
    assert path.read_text() == "old"
    assert (tmp_path / "victim").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize("error", [BadInput("line 2"), OSError(28, "No space left on device")])
def test_nothing_is_kept_of_a_wrong_input_or_on_a_full_disk(tmp_path, error):
    with pytest.raises(type(error)):
        _lines(tmp_path / "a.txt", 1, error)
    assert not list(tmp_path.iterdir())


def test_nothing_is_kept_of_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt) as caught, line_writer(tmp_path / "a.txt"):
        raise KeyboardInterrupt
    assert not hasattr(caught.value, "__notes__")
    assert not list(tmp_path.iterdir())


def test_control_characters_are_escaped():
    assert printable("a\tb\n\x1b[31mred\x07\r\x9b\u202e\x7f") == "a\tb\n\\x1b[31mred\\x07\\r\\x9b\\u202e\\x7f"
    plain = "naïve 日本語 👩‍👩‍👧 می‌خواهم\u3000x"
    assert printable(plain) == plain


def _lines(path, count=1, error=None):
    with line_writer(path) as write:
        for number in range(count):
            write(str(number))
        if error:
            raise error
