"""Broken images: they stop a training that is saved, and are left out where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from own_data import FILES, recipe

import regard
from regard.errors import DataError
from regard.learn.checkpoint import checkpoints


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_broken_image_stops_a_training_that_goes_on_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    FILES["recognise"](Path())
    valid = {"data.train": "images", "data.batch_size": 1, "train.steps": 40, "train.eval_every": 40}
    broken = Path("images/c/38.png")
    broken.write_bytes(broken.read_bytes()[:-40])
    with pytest.raises(
        DataError, match=r"images/c/38\.png cannot be decoded .*; data\.skip_broken=true leaves out"
    ):
        regard.train(recipe("recognise"), out="run", set=valid)
    said = capsys.readouterr().err
    saved = checkpoints(Path("run"))[0]
    step = int(saved.name.removeprefix("step-"))
    assert 0 < step < 40
    assert f"Stopped by an error after step {step} of 40; saved in {saved}. Go on with --resume" in said
    run = regard.train(recipe("recognise"), out="run", set={**valid, "data.skip_broken": True}, resume=True)
    said = capsys.readouterr().err
    assert f"Resuming after step {step}" in said
    assert "1 of 36 images of train is broken and left out; images/c/38.png cannot be decoded" in said
    assert run.report is not None
    assert run.report.step == 40


@pytest.mark.parametrize("task", ["recognise", "caption", "fewshot"])
def test_broken_images_are_left_out_and_counted(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = FILES[task](Path())
    folder = Path("photos" if task == "caption" else "images/a")
    for path in sorted(folder.iterdir())[:2]:
        path.write_bytes(b"no image")
    changes = {"data.train": name, "data.skip_broken": True}
    run: Any = regard.train(recipe(task), out="run", set=changes)
    said = capsys.readouterr().err
    assert "broken and left out; " in said
    assert said.count("cannot be decoded as PNG") in (1, 2)  # of training, and of validation if one is in that
    counts = run.evaluate(name).counts
    wanted = {"recognise": {"images": 38}, "caption": {"images": 28, "captions": 28}, "fewshot": {"episodes": 4}}
    assert counts.items() >= wanted[task].items()


def test_if_all_are_broken_the_first_is_named() -> None:
    name = FILES["recognise"](Path())
    for path in Path(name).rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"none of the 36 images of train can be read: images/.*it is empty"):
        regard.train(recipe("recognise"), out="run", set={"data.train": name, "data.skip_broken": True})
