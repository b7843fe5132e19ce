"""Captioners begun with another run: a senet as the eye, a captioner as a whole; and gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import RecipeError
from regard.learn.loop import Report
from regard.runs.folder import Folder
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import load

SENET = """
[data]
made = "shapes"
train_count = 24
valid_count = 12
test_count = 12
batch_size = 12
mean = [0.4, 0.5, 0.6]

[model]
name = "senet"
image_size = 16
depths = [1, 1, 1]
widths = [4, 6, 8]
reduction = 2

[train]
steps = 2
eval_every = 2
"""
CAPTIONER = """
[data]
made = "scenes"
train_count = 16
valid_count = 8
batch_size = 8
flip = false

[tokens]
kind = "word"

[model]
name = "show_attend_tell"
image_size = 32
size = "resnet20"
embed = 8
decoder = 8
dropout = 0.0

[train]
steps = 2
eval_every = 1
learning_rate = 1e-12

[decode]
max_length = 6
"""


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("recipes")
    for name, text in {"senet": SENET, "captioner": CAPTIONER}.items():
        (folder / f"{name}.toml").write_text(text)
    return {name: str(folder / f"{name}.toml") for name in ("senet", "captioner")}


@pytest.fixture(scope="module")
def eye(tmp_path_factory: pytest.TempPathFactory, recipes: dict[str, str]) -> Path:
    """A run of a few steps. Tests only read it."""
    folder = tmp_path_factory.mktemp("eye") / "run"
    train(recipes["senet"], folder)
    return folder


SMALL = ("model.depths=[1,1]", "model.widths=[4,8]")


def train(recipe: str, folder: Path, *changes: str, start: Path | None = None, resume: bool = False) -> Report:
    job, text = read(recipe, changes, start)
    return training.train(job, folder, recipe=text, command="regard train tiny", resume=resume, start=start)


@pytest.mark.parametrize(("stage", "stages"), [(-1, 3), (-2, 2)])
def test_a_senet_becomes_the_eye(
    recipes: dict[str, str], eye: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: int, stages: int
) -> None:
    """Its settings win over those of the recipe; only the stages that are looked at are taken."""
    out = tmp_path / "run"
    train(recipes["captioner"], out, f"model.stage={stage}", "model.frozen=true", start=eye)
    said = capsys.readouterr().err
    run: Any = load(out)
    found, before = run.model, Folder(eye).model()
    count = sum(weight.numel() for weight in found.eye.parameters())
    assert f"Taken from {eye}, a senet: eye ({count:,} parameters)\n" in said
    assert f"Not taken from {eye}, and so initialised anew: target_embed.weight, out.weight, out.bias, " in said
    assert found.config.depths == (1, 1, 1)
    assert found.config.widths == (4, 6, 8)
    assert found.config.image_size == 32
    assert len(found.eye.stages) == stages
    theirs = before.state_dict()
    for name, weight in found.eye.state_dict().items():
        assert torch.equal(weight, theirs[name]), name  # frozen: the statistics too
    assert run.pixels.mean == (0.4, 0.5, 0.6)
    assert "size" not in Folder(out).recipe["model"]  # type: ignore[index]
    assert len(run.tokenizer) == found.config.vocabulary > 10


def test_an_eye_that_is_not_frozen_is_trained_on(recipes: dict[str, str], eye: Path, tmp_path: Path) -> None:
    train(recipes["captioner"], tmp_path / "run", "train.learning_rate=0.01", start=eye)
    theirs = Folder(eye).model().state_dict()
    found: Any = load(tmp_path / "run").model
    assert any(not torch.equal(weight, theirs[name]) for name, weight in found.eye.named_parameters())


def test_a_captioner_begins_with_a_captioner(
    recipes: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its words; soft looks may become hard."""
    recipe, first = recipes["captioner"], tmp_path / "first"
    train(recipe, first, *SMALL, "train.steps=1")
    train(recipe, tmp_path / "second", "model.weigh=hard", "train.steps=1", start=first)
    assert "anew" not in capsys.readouterr().err
    one, two = (Folder(path) for path in (first, tmp_path / "second"))
    before, after = (folder.model().state_dict() for folder in (one, two))
    for name, weight in before.items():
        if "running" not in name and "tracked" not in name:
            assert torch.allclose(after[name], weight, atol=1e-6), name
    assert two.config.weigh == "hard"  # type: ignore[attr-defined]
    assert (first / "tokenizer.json").read_bytes() == (tmp_path / "second/tokenizer.json").read_bytes()
    with pytest.raises(RecipeError, match=r"of the model only dropout and .*image_size.* may change"):
        read(recipe, ["model.decoder=16"], first)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "model.widths=[4,6,8]",
            r"model\.widths=\[4,6,8\] is not possible: with --from these are those of .*: chan",
        ),
        ("model.size=resnet56", r"model\.size=resnet56 is not possible: with --from these are those of"),
        ("model.stage=3", r"stage must lie in \[-3, 2\] for 3 stages, got 3"),
    ],
)
def test_settings_of_the_eye_follow_from_the_run(
    recipes: dict[str, str], eye: Path, change: str, told: str
) -> None:
    with pytest.raises(RecipeError, match=told):
        read(recipes["captioner"], [change], eye)


def test_what_a_captioner_cannot_begin_with(recipes: dict[str, str], eye: Path) -> None:
    said = (
        r"the recipe trains 'show_attend_tell' and .*dates has the model bahdanau; "
        r"it can start from show_attend_tell or sen"
    )
    with pytest.raises(RecipeError, match=said):
        read(recipes["captioner"], [], Path("regard/shipped/dates").resolve())
    with pytest.raises(
        RecipeError, match=r"the recipe trains 'vit' and .* has the model senet; they must be the same"
    ):
        read(recipes["senet"], ["model.name=vit"], eye)


def test_resumed_with_a_moving_baseline_it_is_as_never_stopped(recipes: dict[str, str], tmp_path: Path) -> None:
    hard = ["model.weigh=hard", "train.reinforce_baseline=moving", "train.reinforce_reward=row"]
    hard += ["train.learning_rate=0.01", *SMALL]
    train(recipes["captioner"], tmp_path / "whole", *hard)
    train(recipes["captioner"], tmp_path / "parts", *hard, "train.steps=1")
    train(recipes["captioner"], tmp_path / "parts", *hard, resume=True)
    last = "training/step-00000002"
    for name in ("model.safetensors", "optimiser.safetensors"):
        assert (tmp_path / "parts" / last / name).read_bytes() == (tmp_path / "whole" / last / name).read_bytes()
