"""Training leaves a run that anyone can open, and going on is the same as never having stopped."""

from __future__ import annotations

import json
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from safetensors.torch import load_file

from regard.data.artifacts import Artifacts
from regard.data.text.tokenizer import Tokenizer
from regard.decode.settings import Decoding
from regard.errors import DataError, Interrupted, RunError
from regard.learn.lock import locked
from regard.learn.loop import Report
from regard.learn.watch import Watch
from regard.tasks.core import training
from regard.tasks.core.recipe import read
from regard.tasks.core.table import TASKS, load
from regard.tasks.shared.measuring import total_loss
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
    assert read(str(run.folder / "recipe.toml"))[0].config.decoder == 16
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
        training.readme(job, TASKS["translate"], one, run.translator.model, "regard train", "200 training pairs")
        for one in (run.report, resumed)
    )
    assert first == second


def test_the_weights_kept_are_the_best_ones(run: Any, recipe: str) -> None:
    job, _ = read(recipe)
    held = pair_data(job.data.pairs("valid"), run.translator, 512)
    nats, tokens = total_loss(run.translator.model, map(held.batch, held.order(0)))
    assert nats / tokens == pytest.approx(run.report.best["valid_loss"], abs=1e-6)


def test_validation_is_greedy_and_its_answers_are_as_long_as_the_recipe_allows(recipe: str, tmp_path: Path) -> None:
    job, _ = read(recipe, ["decode.max_length=3", "decode.beam=4"])
    task = TASKS[job.task].desk
    artifacts = task.survey(job, None)
    run: Any = task.prepare(job, training.build_model(job, artifacts), artifacts, tmp_path).run
    assert run.decode == Decoding(max_length=3)
    assert max(len(answer.text) for answer in run.translate(["a b c", "q w e r t y"])) <= 3  # characters


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


def test_stopped_before_the_first_validation_it_can_be_opened_and_goes_on(
    run: Any, recipe: str, tmp_path: Path, signals_heard: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the weights of its last step, which the first validation replaces. A killed one says what to do."""
    folder, add = tmp_path / "run", Watch.add

    def stop(self: Watch, row: dict[str, Any]) -> None:
        add(self, row)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Watch, "add", stop)
    for step in (1, 2):  # stopped again, it has the weights of the later step
        said = rf"after step {step} of 6.*{folder} opens with the weights of this step"
        with pytest.raises(Interrupted, match=said) as stopped:
            train(recipe, folder, resume=step > 1)
        assert stopped.value.signal == signal.SIGTERM
        state = load_file(folder / f"training/step-{step:08d}/model.safetensors")
        opened = load(folder)
        for name, tensor in opened.model.state_dict().items():
            assert torch.equal(tensor, state.get(name, tensor))
    monkeypatch.undo()
    assert opened.translate("a b c").text is not None
    (folder / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"has no model\.safetensors; .* give the same command with --resume"):
        load(folder)
    assert train(recipe, folder, resume=True) == run.report
    assert (folder / "model.safetensors").read_bytes() == (run.folder / "model.safetensors").read_bytes()


def test_a_folder_in_use_is_left_alone(recipe: str, tmp_path: Path) -> None:
    """Also before the first checkpoint, when the data are still being read."""
    with ThreadPoolExecutor(1) as pool:
        held = locked(tmp_path / "run")
        pool.submit(held.__enter__).result()
        before = sorted(tmp_path.rglob("*"))
        for resume in (False, True):
            with pytest.raises(RunError, match=r"run is being trained by process \d+ on"):
                train(recipe, tmp_path / "run", resume=resume)
        assert sorted(tmp_path.rglob("*")) == before
        pool.submit(held.__exit__, None, None, None).result()
    assert not (tmp_path / "run").exists()


def test_stopped_before_the_first_step_it_says_that_nothing_is_lost(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.tasks.core.training.build_model", stop)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run")
    assert "run holds no step yet: nothing was trained that could be lost" in capsys.readouterr().err


def test_a_training_that_fails_before_it_begins_leaves_no_folder(recipe: str, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        train(recipe, tmp_path / "deep/run", "data.made=", "data.train=nosuch.tsv")
    assert list(tmp_path.iterdir()) == []


def test_a_file_named_like_a_checkpoint_is_refused_before_anything_is_written(recipe: str, tmp_path: Path) -> None:
    """Without another checkpoint the run would be begun anew."""
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "step-00000002").write_text("mine")
    for resume in (False, True):
        with pytest.raises(RunError, match=r"step-00000002 is a file.* move it away"):
            train(recipe, tmp_path, resume=resume)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["step-00000002", "training"]


def test_beside_a_checkpoint_such_a_file_makes_way(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    train(recipe, folder, "train.steps=4")
    for step in (3, 99):
        (folder / "training" / f"step-{step:08d}").write_text("mine")
    train(recipe, folder, "train.steps=6", resume=True)
    said = capsys.readouterr().err
    assert "step-00000099 is a file and no checkpoint: it is now step-00000099.file-" in said
    assert "Resuming after step 4" in said
    kept = [path for path in (folder / "training").iterdir() if path.is_file()]
    assert sorted(path.read_text() for path in kept) == ["mine", "mine"]


def test_another_interval_of_validation_is_free(
    run: Any, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    train(recipe, folder, "train.steps=4", "train.patience=3")
    train(recipe, folder, "train.eval_every=3", "train.patience=3", resume=True)
    assert (
        "every 3 steps from here on. Counted in validations, and so other numbers of steps now: patience\n"
        in capsys.readouterr().err
    )
    assert losses(folder) == losses(run.folder)
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "valid_loss" in row] == [2, 4, 6]
    assert read(str(folder / "recipe.toml"))[0].train.eval_every == 3


def test_a_finished_run_without_its_log_and_card_gets_a_card(
    run: Any, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    for name in ("log.jsonl", "README.md"):
        (folder / name).unlink()
    train(recipe, folder, resume=True)
    assert (
        "log.jsonl lacks 6 of the 6 steps up to the checkpoint (between steps 1 and 6)" in capsys.readouterr().err
    )
    assert (folder / "README.md").read_bytes() == (run.folder / "README.md").read_bytes()


def test_a_second_training_does_not_overwrite_the_first(run: Any, recipe: str) -> None:
    before = (run.folder / "model.safetensors").read_bytes()
    with pytest.raises(
        RunError, match=r"already holds a training: use --resume \(in Python: resume=True\) to go on"
    ):
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
    train(recipe, tmp_path, "data.made=recall", "model.max_positions=64", "train.steps=1")
    assert json.loads((tmp_path / "config.json").read_text())["vocabulary"] != 31
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
