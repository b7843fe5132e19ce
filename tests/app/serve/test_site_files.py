"""What is left of an earlier site in its folder."""

import json
from pathlib import Path

import pytest

from regard.app.serve.site_files import LIST, tidy


def site(out: Path, *names: str) -> list[Path]:
    paths = [out / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of {path.name}")
    return paths


def left(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())


def test_files_of_an_earlier_site_are_removed_and_no_others(tmp_path: Path) -> None:
    site(tmp_path, "data/mine.js", "notes.txt")
    tidy(tmp_path, site(tmp_path, "index.html", "data/0.js", "data/1.js", "gallery/cat.html"))
    (tmp_path / "data" / "2.js").write_text("by others")
    tidy(tmp_path, site(tmp_path, "index.html", "data/0.js"))
    assert left(tmp_path) == ["data/0.js", "data/2.js", "data/mine.js", LIST, "index.html", "notes.txt"]
    assert not (tmp_path / "gallery").exists()


def test_a_file_that_was_changed_since_stays(tmp_path: Path) -> None:
    tidy(tmp_path, site(tmp_path, "index.html", "data/1.js"))
    (tmp_path / "data" / "1.js").write_text("mine now")
    assert tidy(tmp_path, site(tmp_path, "index.html")) == []
    assert left(tmp_path) == ["data/1.js", LIST, "index.html"]


@pytest.mark.parametrize("listed", ["{", "[]", '{"a": 1}', "\\udcff"])
def test_a_broken_list_removes_nothing(tmp_path: Path, listed: str) -> None:
    site(tmp_path, "a")
    (tmp_path / LIST).write_bytes(listed.encode("utf-8", "surrogatepass"))
    assert tidy(tmp_path, site(tmp_path, "index.html")) == []
    assert left(tmp_path) == ["a", LIST, "index.html"]


def test_nothing_outside_the_folder_is_removed(tmp_path: Path) -> None:
    """Neither by a hostile list nor through a link."""
    out, outside = tmp_path / "out", tmp_path / "away"
    tidy(outside, site(outside, "kept.js"))
    [tag] = json.loads((outside / LIST).read_text()).values()
    names = ("../away/kept.js", str(outside / "kept.js"), "link/kept.js", "kept.js", "a\0b")
    out.mkdir()
    (out / "link").symlink_to(outside)
    (out / "kept.js").symlink_to(outside / "kept.js")
    (out / LIST).write_text(json.dumps(dict.fromkeys(names, tag)))
    assert tidy(out, site(out, "index.html")) == []
    assert (outside / "kept.js").exists()
    assert (out / "kept.js").is_symlink()
