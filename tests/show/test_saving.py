"""Saved files are whole, or not there at all."""

import numpy as np
import pytest

from regard.show import Map


def some_map():
    return Map(np.eye(2), "ab", "cd")


@pytest.mark.parametrize("name", ["map.jpg", "map", "map.svg.gz"])
def test_other_suffixes_are_refused_by_name(tmp_path, name):
    with pytest.raises(ValueError, match=r"\.png or \.svg or \.html"):
        some_map().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_saving_in_no_folder_says_so(tmp_path):
    with pytest.raises(OSError, match="there is no folder"):
        some_map().save(tmp_path / "missing" / "map.svg")


@pytest.mark.parametrize("name", ["map.png", "map.svg", "map.html"])
def test_a_failed_save_leaves_nothing_behind(tmp_path, name):
    (tmp_path / name).mkdir()  # a folder in the way: the last step, the replacing, fails
    with pytest.raises(OSError, match=f"cannot write .*{name}"):
        some_map().save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_saved_files_are_whole_and_readable_by_others(tmp_path):
    picture = some_map()
    for suffix in ("png", "SVG", "html"):
        picture.save(tmp_path / f"map.{suffix}")
    assert (tmp_path / "map.SVG").read_text(encoding="utf-8") == picture.svg()
    assert (tmp_path / "map.html").read_text(encoding="utf-8") == picture.html()
    (tmp_path / "plain").touch()
    assert (tmp_path / "map.png").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert len(list(tmp_path.iterdir())) == 4
