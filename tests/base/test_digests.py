"""Size and sha256 of what a training reads."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.base import digests as module
from regard.base.digests import differences, digests, known_as
from regard.base.memory_rows import MemoryRows
from regard.errors import DataError
from regard.tasks.caption.settings import CaptionSettings
from regard.tasks.classify.settings import LabelledSettings
from regard.tasks.fewshot.settings import EpisodeSettings
from regard.tasks.recognise.settings import ImageSettings
from regard.tasks.translate.settings import PairSettings


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_known_by_its_size_and_sha256() -> None:
    Path("a.tsv").write_bytes(b"one\ttwo\n")
    assert digests({"a.tsv": Path("a.tsv")}) == {
        "a.tsv": {"size": 8, "sha256": hashlib.sha256(b"one\ttwo\n").hexdigest()}
    }


def test_a_file_that_is_gone_or_has_an_odd_name() -> None:
    with pytest.raises(DataError, match=r"gone\.png does not exist"):
        digests({"all": [Path("gone.png")]})
    Path(os.fsdecode(b"\xff.png")).write_bytes(b"x")
    assert digests({"all": [Path(os.fsdecode(b"\xff.png"))]})["all"]["size"] == 1


def test_a_pipe_is_not_read() -> None:
    os.mkfifo("pipe")
    assert digests({"pipe": Path("pipe")}) == {}


def test_of_many_large_files_only_the_ends_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        Path(name).write_bytes(os.urandom(300))
    files = [Path(name) for name in "abc"]
    whole = digests({"all": files})["all"]
    assert (whole["files"], whole["size"], whole.keys()) == (3, 900, {"files", "size", "sha256"})
    monkeypatch.setattr(module, "MOST_READ", 500)
    monkeypatch.setattr(module, "END", 100)
    ends = digests({"all": files})["all"]
    assert ends["read"] == "100 bytes at both ends of each file"
    data = bytearray(Path("b").read_bytes())
    for place, noticed in ((150, False), (50, True), (250, True)):
        changed = bytearray(data)
        changed[place] ^= 1
        Path("b").write_bytes(changed)
        assert (digests({"all": files})["all"] != ends) == noticed
    Path("b").write_bytes(data)
    Path("b").rename("d")
    assert digests({"all": [Path("a"), Path("c"), Path("d")]})["all"] != ends


def test_differences_say_how() -> None:
    then = {"a": {"size": 1200, "sha256": "x"}, "b": {"size": 3, "sha256": "y"}, "c": {"size": 3, "sha256": "y"}}
    now = {"a": {"size": 1205, "sha256": "z"}, "b": {"size": 3, "sha256": "z"}, "d": {"size": 3, "sha256": "y"}}
    assert differences(then, now) == [
        "a: 1,200 bytes then, 1,205 now",
        "b: other contents",
        "c: no longer there",
        "d: new",
    ]


def test_below_the_data_folder_a_file_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_as(tmp_path / "sets" / "a.tsv") == str(tmp_path / "sets" / "a.tsv")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "sets"))
    assert known_as(tmp_path / "sets" / "a.tsv") == "a.tsv"


def test_rows_are_told_apart_by_all_they_hold() -> None:
    image = np.zeros((2, 3), np.uint8)
    every = [
        [("a", "b")], [("ab", "")], [["a"], ["b"]], [{"a": "b"}], ["a", "b"], [b"ab"], [("a", 1)], [("a", True)],
        [("a", None)], [(image, 1)], [(image.T, 1)], [(image + 1, 1)], [(image.astype(np.int8), 1)],
        [(Image.new("L", (2, 3)), 1)], [(Image.new("L", (3, 2)), 1)], [(Image.new("RGB", (1, 2)), 1)],
    ]  # fmt: skip
    found = [MemoryRows(rows, "data").digest() for rows in every]
    assert len(set(found)) == len(every)
    assert found == [MemoryRows(rows, "other").digest() for rows in every]


# ---- what each kind of data reads


def test_all_files_of_a_setting_are_read(here: Path) -> None:
    for name in ("t.en", "t.de", "u.tsv", "v.tsv", "vectors.txt"):
        Path(name).write_text("one\ttwo\n")
    pairs = PairSettings(train=["t.{en,de}", "u.tsv"], valid="v.tsv", test="none.tsv")  # type: ignore[arg-type]
    assert list(pairs.sources()) == ["t.en", "t.de", "u.tsv", "v.tsv"], "training does not read the test data"
    assert list(map(str, pairs.files())) == list(pairs.sources()), "what is not there cannot be written over"
    Path("none.tsv").write_text("one\ttwo\n")
    assert list(map(str, pairs.files())) == [*pairs.sources(), "none.tsv"]
    assert PairSettings(made="copy").sources() == {}
    labelled = LabelledSettings(train="u.tsv", vectors="vectors.txt")
    assert list(labelled.sources()) == ["u.tsv", "vectors.txt"] == list(map(str, labelled.files()))
    before = digests(labelled.sources())
    Path("vectors.txt").write_text("one\t2\n")
    assert differences(before, digests(labelled.sources())) == ["vectors.txt: 8 bytes then, 6 now"]
    Path("vectors.txt").unlink()
    assert differences(before, digests(labelled.sources())) == [], "only a training that begins needs them"


def test_images_of_captions_are_read_and_no_others(here: Path) -> None:
    for name in ("a", "b", "c", "d"):
        Image.new("RGB", (4, 4)).save(f"{name}.png")
    Path("train.tsv").write_text("a.png\tone\nb.png\ttwo\n")
    settings = CaptionSettings(train="train.tsv")
    assert settings.sources() == {"train.tsv": Path("train.tsv"), ".": [Path("a.png"), Path("b.png")]}
    with zipfile.ZipFile("all.zip", "w") as archive:
        for name in ("a.png", "b.png"):
            archive.write(name)
    assert settings.files() == [Path("train.tsv"), Path()], "the images are beside their captions"
    packed = CaptionSettings(train="train.tsv", images="all.zip")
    assert packed.files() == [Path("train.tsv"), Path("all.zip")]
    before = digests(packed.sources())
    assert before.keys() == {"train.tsv", "all.zip"}
    Image.new("RGB", (4, 4), "red").save("a.png")
    with zipfile.ZipFile("all.zip", "w") as archive:
        for name in ("a.png", "b.png"):
            archive.write(name)
    assert differences(before, digests(packed.sources()))[0].startswith("all.zip: ")


def test_arrays_and_lists_of_classes_are_read(here: Path) -> None:
    np.savez("a.npz", images=np.zeros((4, 2, 2), np.uint8), labels=np.array([0, 1, 2, 3]))
    assert list(ImageSettings(train="a.npz").sources()) == ["a.npz"]
    Path("few.txt").write_text("0\n1\n")
    settings = EpisodeSettings(train="a.npz", test_classes="few.txt")
    assert list(settings.sources()) == ["a.npz", "few.txt"], "its classes are none of training"
    assert settings.files() == [Path("a.npz"), Path("few.txt")]
