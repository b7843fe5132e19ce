"""Names of many files at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.base.files import find_aligned, find_files
from regard.errors import DataError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return tmp_path


def make(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("a\tb\n")


def names(paths: list[Path]) -> list[str]:
    return [path.as_posix() for path in paths]


def test_a_pattern_is_its_files_in_the_order_of_their_names() -> None:
    make("s/b.txt", "s/a.txt.gz", "s/c.txt.zst", "s/.hidden.txt", "s/deep/d.txt")
    assert names(find_files("s/*.txt*")) == ["s/a.txt.gz", "s/b.txt", "s/c.txt.zst"]
    assert names(find_files("s/**/*.txt")) == ["s/b.txt", "s/deep/d.txt"]
    assert names(find_files("s/[ab]*")) == ["s/a.txt.gz", "s/b.txt"]
    assert names(find_files("s/{c,a}*")) == ["s/c.txt.zst", "s/a.txt.gz"]


def test_a_pattern_is_looked_for_under_regard_data_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("data[1]/s/a.txt", "data[1]/s/b.txt")
    monkeypatch.setenv("REGARD_DATA", str(here / "data[1]"))
    assert names(find_files("s/*.txt")) == [f"{here}/data[1]/s/a.txt", f"{here}/data[1]/s/b.txt"]


def test_a_file_whose_name_has_a_star_wins() -> None:
    make("a*.txt", "ab.txt")
    assert names(find_files("a*.txt")) == ["a*.txt"]


def test_a_pattern_without_files_and_one_of_several_forms_are_refused() -> None:
    make("s/a.jsonl.gz", "s/README.md")
    with pytest.raises(DataError, match=r"no file fits the pattern s/\*\.txt; patterns are relative"):
        find_files("s/*.txt")
    with pytest.raises(
        DataError, match=r"s/README\.md \(plain text\) and s/a\.jsonl\.gz \(jsonl\); they must be of"
    ):
        find_files("s/*")


def test_aligned_files_are_found_by_the_rest_of_their_names() -> None:
    make("s/en-2.en", "s/en-2.de", "s/en-1.en", "s/en-1.de")
    groups = find_aligned("s/*.{en,de}")
    assert [names(group) for group in groups] == [["s/en-1.en", "s/en-1.de"], ["s/en-2.en", "s/en-2.de"]]
    make("s/en-3.en")
    with pytest.raises(DataError, match=r"s/en-3\.en has no file beside it with 'de' in the place of 'en'"):
        find_aligned("s/*.{en,de}")
    make("s/en-3.de", "s/en-4.de")
    with pytest.raises(DataError, match=r"s/en-4\.de \(de\) has no file of en beside it"):
        find_aligned("s/*.{en,de}")


def test_numbers_in_braces() -> None:
    for number in range(8, 13):
        Path(f"a{number}.txt").touch()
        Path(f"a{number:03}.txt").touch()
    assert names(find_files("a{8..12}.txt")) == [f"a{number}.txt" for number in range(8, 13)]
    assert names(find_files("a{009..010}.txt")) == ["a009.txt", "a010.txt"]
    assert names(find_files("a00{8..9}*")) == ["a008.txt", "a009.txt"]
    assert find_aligned("a{8..9}.txt") == [[Path("a8.txt")], [Path("a9.txt")]]
    for wrong in ("a{9..8}.txt", "a{0..999999999}.txt"):
        with pytest.raises(DataError, match=r"the numbers in braces must rise, and be at most 100,000"):
            find_files(wrong)
    Path("a{8..9}.txt").touch()
    assert names(find_files("a{8..9}.txt")) == ["a{8..9}.txt"]
