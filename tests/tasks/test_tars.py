"""Tasks that learn from tars of images."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from own_data import FILES, recipe

import regard
from regard.errors import DataError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def captions_as_tars() -> str:
    """Those of train.tsv, in their order, in three tars."""
    rows = [line.split("\t") for line in Path(FILES["caption"](Path())).read_text().splitlines()]
    for shard in range(3):
        with tarfile.open(f"train-{shard}.tar", "w") as tar:
            for image, text in rows[10 * shard : 10 * shard + 10]:
                add(tar, f"{Path(image).stem}.png", Path(image).read_bytes())
                add(tar, f"{Path(image).stem}.txt", text.encode())
    return "train-{0..2}.tar"


def test_captions_in_tars_are_learned_as_those_in_a_file_and_gone_on_with() -> None:
    tars = {"data.train": captions_as_tars()}
    four = {"train.steps": 4}
    regard.train(recipe("caption"), out="file", set={"data.train": "train.tsv", **four})
    whole: Any = regard.train(recipe("caption"), out="whole", set={**tars, **four})
    regard.train(recipe("caption"), out="parts", set=tars)
    regard.train(recipe("caption"), out="parts", set={**tars, **four}, resume=True)
    weights = Path("whole/model.safetensors").read_bytes()
    assert Path("file/model.safetensors").read_bytes() == weights
    assert Path("parts/model.safetensors").read_bytes() == weights
    assert whole.evaluate("train-*.tar").counts == {"images": 30, "captions": 30}
    with pytest.raises(DataError, match=r"has its images in it: leave data\.images"):
        regard.train(recipe("caption"), out="more", set={**tars, "data.images": "photos"})


def test_what_is_left_out_is_told_and_a_broken_image_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    name = captions_as_tars()
    with tarfile.open("train-1.tar", "a") as tar:
        add(tar, "alone.png", b"")
        add(tar, "broken.png", b"no image")
        add(tar, "broken.txt", b"a text")
    run: Any = regard.train(recipe("caption"), out="run", set={"data.train": name, "data.skip_broken": True})
    said = capsys.readouterr().err
    assert said.count("1 of 32 keys left out, without an image (KEY.jpg") == 1
    assert "is broken and left out; train-1.tar, broken.png cannot be decoded" in said
    assert run.report is not None


def test_episodes_are_drawn_from_tars() -> None:
    with tarfile.open("set.tar", "w") as tar:
        for path in sorted(Path(FILES["fewshot"](Path())).rglob("*.png")):
            add(tar, path.name, path.read_bytes())
            add(tar, f"{path.stem}.cls", path.parent.name.encode())
    run: Any = regard.train(recipe("fewshot"), out="run", set={"data.train": "set.tar"})
    assert run.evaluate("set.tar").counts["episodes"] == 4
