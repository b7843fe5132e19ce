"""Training leaves a run that anyone can open, and going on is the same as never having stopped."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from regard.data.artifacts import Artifacts
from regard.data.tokenizer import Tokenizer
from regard.errors import RunError
from regard.learn.loop import Report
from regard.tasks import training
from regard.tasks.measuring import total_loss
from regard.tasks.recipe import read
from regard.tasks.table import TASKS, load
from regard.tasks.translate.prepare import pair_data


def train(recipe: str, folder: Path, *changes: str, resume: bool = False) -> Report:
    job, text = read(recipe, changes)
    return training.train(job, folder, recipe=text, command="regard train tiny", resume=resume)


def losses(folder: Path) -> list[tuple[int, float]]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows if "loss" in row]


def test_a_run_is_complete(run: Any) -> None:
    names = {path.name for path in run.folder.iterdir()}
    files = {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "recipe.toml",
        "log.jsonl",
        "README.md",
        "loss.svg",
    }
    assert names == files | {"training"}
    config = json.loads((run.folder / "config.json").read_text())
    assert config["model_type"] == "regard-bahdanau"
    assert config["vocabulary"] == len(Tokenizer.load(run.folder / "tokenizer.json")) == 31  # 26, space, 4 special
    assert read(str(run.folder / "recipe.toml"))[0].config["decoder"] == 16
    assert ElementTree.parse(run.folder / "loss.svg").getroot().tag.endswith("svg")
    rows = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in rows if "valid_loss" in row] == [2, 4, 6]
    assert run.report.step == 6


def test_the_card_names_data_metric_command_and_licence(run: Any) -> None:
    card = (run.folder / "README.md").read_text()
    for part in (
        "# bahdanau on copy",
        "Bahdanau, Cho & Bengio 2015",
        "generated set `copy`, 200 training pairs",
        "made by regard, Apache-2.0",
        "`regard train tiny`",
        f"{sum(p.numel() for p in run.translator.model.parameters()):,}",
        f"valid_loss {run.report.best['valid_loss']:.4f}",
        f"best at {run.report.best_step}",
    ):
        assert part in card


def test_the_card_is_the_same_however_its_numbers_are_ordered(run: Any, recipe: str) -> None:
    job, _ = read(recipe)
    resumed = replace(run.report, best=dict(sorted(run.report.best.items())))
    first, second = (
        training.card(job, TASKS["translate"], one, run.translator.model, "regard train", "200 training pairs")
        for one in (run.report, resumed)
    )
    assert first == second


def test_the_weights_kept_are_the_best_ones(run: Any, recipe: str) -> None:
    job, _ = read(recipe)
    held = pair_data(job.data.pairs("valid"), run.translator, 512)
    nats, tokens = total_loss(run.translator.model, map(held.batch, held.order(0)))
    assert nats / tokens == pytest.approx(run.report.best["valid_loss"], abs=1e-6)


def test_loaded_twice_it_answers_the_same(run: Any) -> None:
    texts = ["a b c", "z", "q w e r t y"]
    first, second = (load(run.folder).translate(texts) for _ in range(2))
    assert first == second
    assert all(answer.text for answer in first)


def test_resumed_after_ctrl_c_it_is_as_never_stopped(run: Any, recipe: str, tmp_path: Path, interrupt: Any) -> None:
    interrupt(recipe, tmp_path / "run")
    assert [step for step, _ in losses(tmp_path / "run")] == [1, 2]
    report = train(recipe, tmp_path / "run", resume=True)
    assert report == run.report
    assert losses(tmp_path / "run") == losses(run.folder)
    for name in ("model.safetensors", "tokenizer.json", "config.json", "recipe.toml", "README.md"):
        assert (tmp_path / "run" / name).read_bytes() == (run.folder / name).read_bytes(), name


def test_a_second_training_does_not_overwrite_the_first(run: Any, recipe: str) -> None:
    before = (run.folder / "model.safetensors").read_bytes()
    with pytest.raises(RunError, match="already holds a training: use --resume to go on, or another --out"):
        train(recipe, run.folder)
    assert (run.folder / "model.safetensors").read_bytes() == before


def test_weights_without_their_training_are_not_overwritten(run: Any, recipe: str, tmp_path: Path) -> None:
    """training/ may be deleted when done, or all that is in it."""
    folder = shutil.copytree(run.folder, tmp_path / "run")
    before = (folder / "model.safetensors").read_bytes()
    shutil.rmtree(folder / "training")
    for _ in range(2):
        with pytest.raises(
            RunError, match="already holds a model, whose weights would be lost; take another --out"
        ):
            train(recipe, folder)
        (folder / "training").mkdir(exist_ok=True)
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_folder_that_is_no_run_keeps_what_it_has(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(RunError, match=r"is no run, and its README\.md would be lost; take another --out"):
        train(recipe, tmp_path)
    (tmp_path / "README.md").unlink()
    for name in ("blocks", "notes"):
        (tmp_path / name).mkdir()
    train(recipe, tmp_path, "train.steps=1")
    assert (tmp_path / "blocks").is_dir()
    assert (tmp_path / "notes").is_dir()


def test_where_nothing_is_left_to_train_the_card_stays(run: Any, recipe: str, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    job, text = read(recipe)
    training.train(job, folder, recipe=text, command="another", resume=True)
    assert (folder / "README.md").read_text() == (run.folder / "README.md").read_text()
    (folder / "README.md").unlink()  # killed just before it was written
    training.train(job, folder, recipe=text, command="another", resume=True)
    assert "another" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model.decoder=24", "model.decoder was 16, now it is 24"),
        ("train.seed=1", "train.seed was not set, now it is 1"),
        ("data.train_count=100", "data.train_count was 200, now it is 100"),
    ],
)
def test_resuming_with_other_settings_is_refused(run: Any, recipe: str, change: str, said: str) -> None:
    with pytest.raises(RunError, match=rf"was begun with other settings: {said}\. Resume with the recipe"):
        train(recipe, run.folder, change, resume=True)


def test_a_setting_moved_to_another_section_is_noticed(run: Any, recipe: str, tmp_path: Path) -> None:
    """decode.seed = 1 has the same line in a recipe as train.seed = 1."""
    folder = shutil.copytree(run.folder, tmp_path / "run")
    _, text = read(recipe, ["decode.seed=1"])
    (folder / "recipe.toml").write_text(text)
    with pytest.raises(RunError, match=r"decode\.seed was 1, now it is not set"):
        train(recipe, folder, "train.seed=1", resume=True)


def test_a_finished_training_may_go_on_for_longer(run: Any, recipe: str, tmp_path: Path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    report = train(recipe, folder, "train.steps=8", resume=True)
    assert report.step == 8
    assert [step for step, _ in losses(folder)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert losses(folder)[:6] == losses(run.folder)
    assert read(str(folder / "recipe.toml"))[0].train.steps == 8
    train(recipe, tmp_path / "at once", "train.steps=8")
    assert losses(folder) == losses(tmp_path / "at once")


def test_what_was_begun_without_a_checkpoint_is_begun_anew(recipe: str, tmp_path: Path) -> None:
    """Killed before the first checkpoint, then trained otherwise: nothing of the first settings may stay."""
    train(recipe, tmp_path, "data.made=dates", "model.max_positions=64")
    shutil.rmtree(tmp_path / "training")
    (tmp_path / "training").mkdir()
    (tmp_path / "model.safetensors").unlink()
    train(recipe, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["max_positions"], config["vocabulary"]) == (40, 31)
    assert load(tmp_path).translate("a b").text


def test_a_recipe_of_one_step_leaves_a_whole_run(recipe: str, tmp_path: Path) -> None:
    report = train(recipe, tmp_path, "train.steps=1", "model.weigh=hard", "model.cell=lstm", "tokens.kind=bpe")
    assert report.step == report.best_step == 1
    assert isinstance(load(tmp_path).translate("a b").text, str)


def test_sources_longer_than_the_model_takes_are_refused_before_training(recipe: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"the longest source has 24 tokens and model.max_positions is 10; set model"
    ):
        train(recipe, tmp_path / "run", "model.max_positions=10")
    assert not (tmp_path / "run").exists()


def test_the_first_weights_follow_from_the_seed(run: Any, recipe: str) -> None:
    job, _ = read(recipe)
    first, same = (training.build_model(job, Artifacts(run.translator.tokenizer)) for _ in range(2))
    other = training.build_model(
        replace(job, train=replace(job.train, seed=1)), Artifacts(run.translator.tokenizer)
    )
    weights, again, others = (
        torch.cat([p.flatten() for p in model.parameters()]) for model in (first, same, other)
    )
    assert torch.equal(weights, again)
    assert not torch.equal(weights, others)
