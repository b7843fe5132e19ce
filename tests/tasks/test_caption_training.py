"""Where captions come from, and what a captioner's training is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regard.data.artifacts import Artifacts, Pixels
from regard.data.made.scenes import scenes
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError
from regard.tasks.caption import prepare
from regard.tasks.caption.settings import CaptionSettings
from regard.tasks.core.recipe import read
from regard.tasks.core.training import build_model

EYE = ["model.image_size=32", "model.depths=[1,1]", "model.widths=[4,8]", "model.embed=8", "model.decoder=12"]
FEW = ["data.train_count=12", "data.valid_count=6", "data.test_count=3", "data.eval_images=4", "data.batch_size=5"]


@pytest.fixture
def captions(tmp_path: Path) -> str:
    """Forty images of one colour with two captions each."""
    lines = []
    for number in range(40):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
        lines += [f"{number}.png\tred number {number}\n", f"{number}.png\tcalled {number}\n"]
    (tmp_path / "captions.tsv").write_text("".join(lines))
    return str(tmp_path / "captions.tsv")


def spoken(settings: CaptionSettings, split: str) -> list[str]:
    return [some[0] for some in settings.captions(split).captions]


def test_a_part_of_the_images_is_held_out(captions: str) -> None:
    settings = CaptionSettings(train=captions, valid_fraction=0.1)
    train, valid = spoken(settings, "train"), spoken(settings, "valid")
    assert (len(train), len(valid)) == (36, 4)
    assert sorted(train + valid) == sorted(f"red number {number}" for number in range(40))
    assert spoken(settings, "test") == valid
    assert settings.name == "captions.tsv"
    found = settings.captions("valid")
    number = int(found.captions[0][0].split()[-1])
    assert found.images.read(0)[0, 0].tolist() == [number, 0, 0]  # an image keeps its captions
    assert found.captions[0] == (f"red number {number}", f"called {number}")
    one = Path(captions).with_name("one.tsv")
    one.write_text("1.png\tone\n")
    with pytest.raises(DataError, match=r"one\.tsv has too few images to hold some out for validation"):
        CaptionSettings(train=str(one)).captions("train")


def test_parts_by_files_and_by_lists(captions: str, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("3.png\n7.png\n")
    (tmp_path / "other.tsv").write_text("5.png\tfive\n")
    other = str(tmp_path / "other.tsv")
    settings = CaptionSettings(train=captions, valid_names=str(tmp_path / "few.txt"), test=other)
    assert len(spoken(settings, "train")) == 40  # no list of its own: all
    assert spoken(settings, "valid") == ["red number 3", "red number 7"]
    assert spoken(settings, "test") == ["five"]
    assert spoken(CaptionSettings(train=captions, valid=other), "test") == ["five"]
    assert settings.test_files == (other,)
    assert settings.has_own_test
    assert not CaptionSettings(train=captions, valid=other).has_own_test


def test_generated_scenes_do_not_overlap() -> None:
    settings = CaptionSettings(made="scenes", train_count=9, valid_count=6, test_count=3)
    assert [len(spoken(settings, split)) for split in ("train", "valid", "test")] == [9, 6, 3]
    assert spoken(settings, "valid")[:3] != spoken(settings, "test")
    assert not settings.flip  # "left of" would become wrong
    assert not settings.augment.mixup


def test_what_a_training_is_made_of(tmp_path: Path) -> None:
    job: Any = read("scenes-show-attend-tell", [*EYE, *FEW])[0]
    artifacts = prepare.survey(job, None)
    assert artifacts.pixels == Pixels()
    assert len(artifacts.text) < 30
    made = prepare.prepare(job, build_model(job, artifacts), artifacts, tmp_path)
    assert made.amount == "12 images, 12 captions"
    assert (len(made.data), len(made.valid.ids), len(made.valid.subset)) == (12, 6, 4)  # type: ignore[arg-type]
    assert made.valid.ids.augment is None
    batch = made.valid.ids.batch(made.valid.ids.order(0)[0])
    assert batch.images.shape[1:] == (3, 32, 32)
    assert batch.target[0, 0] == artifacts.text.special.start


@pytest.mark.parametrize("speaks", [True, False], ids=["captioner", "senet"])
def test_what_is_taken_from_a_run_to_begin_with(speaks: bool) -> None:
    """Of a captioner the tokens and the pixels, of another network the pixels."""
    job: Any = read("scenes-show-and-tell", [*EYE, *FEW])[0]
    own = Tokenizer.train(["a b c"], kind="word", size=20, numbering="regard")
    start = Artifacts(own if speaks else None, labels=("cat", "dog"), pixels=Pixels((0.1,) * 3, (0.9,) * 3))
    found = prepare.survey(job, start)
    assert found.pixels == start.pixels
    assert (found.tokenizer is own) == speaks
    assert found.settings() == {"vocabulary": len(found.text)}  # and no labels


def test_long_captions_are_cut_in_training(capsys: pytest.CaptureFixture[str]) -> None:
    job: Any = read("scenes-show-and-tell", [*EYE, *FEW, "data.truncate=2"])[0]
    artifacts = prepare.survey(job, None)
    run = prepare.prepare(job, build_model(job, artifacts), artifacts, Path("out")).run
    assert "12 of 12 captions were cut after 2 tokens (data.truncate)" in capsys.readouterr().err
    data = prepare.build_data(job.data, scenes("train", 3), run)
    assert data.batch(data.order(0)[0]).target.shape == (3, 4)  # with start and end
