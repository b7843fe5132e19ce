"""Loggers: TensorBoard gets what log.jsonl gets and pictures beside it; what fails is left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_fit import fit_small

from regard.errors import BadInput
from regard.learn.checkpoint import checkpoints
from regard.learn.loggers import loggers
from regard.learn.loggers.logger import LOGGERS, check_there
from regard.learn.loggers.loggers import KEPT, Loggers, read_kept
from regard.learn.settings import Training


class Noted:
    """A logger that keeps what it gets; `fails` names the method that raises."""

    fails = ""

    def __init__(self) -> None:
        self.numbers_of: list[tuple[int, dict[str, float]]] = []
        self.pictures_of: list[tuple[int, dict[str, np.ndarray]]] = []
        self.begun: Any = None
        self.ended = False
        every.append(self)

    def _may_fail(self, name: str) -> None:
        if name == self.fails:
            raise ConnectionError("the server is gone")

    def start(self, begun: Any) -> Any:
        self._may_fail("start")
        begun.kept.setdefault("id", begun.name)
        self.begun = begun
        return self.end

    def end(self) -> None:
        self._may_fail("end")
        self.ended = True

    def numbers(self, step: int, numbers: Any) -> None:
        self._may_fail("numbers")
        self.numbers_of.append((step, dict(numbers)))

    def pictures(self, step: int, pictures: Any) -> None:
        self._may_fail("pictures")
        self.pictures_of.append((step, dict(pictures)))


every: list[Noted] = []


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Noted]:
    every.clear()
    monkeypatch.setattr(loggers, "logger_named", lambda name: Noted())
    for name, kind in LOGGERS.items():
        monkeypatch.setitem(LOGGERS, name, kind._replace(package="json"))  # which is there
    return every


def events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder / "loggers" / "tensorboard")).Reload()


def test_tensorboard_gets_the_rows_of_the_log(tmp_path: Path) -> None:
    fit_small(tmp_path, steps=4, eval_every=2, log="tensorboard")
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    seen = events(tmp_path)
    for name in ("loss", "learning_rate", "valid_loss"):
        wanted = [(row["step"], pytest.approx(row[name])) for row in rows if name in row]
        assert [(event.step, event.value) for event in seen.Scalars(name)] == wanted
        assert wanted


def test_a_training_that_goes_on_goes_on_in_the_same_curves(tmp_path: Path) -> None:
    """Steps after the last checkpoint are taken again, and are there once."""

    def fail(step: int, training: bool) -> None:
        if training and step == 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit_small(tmp_path, fail, steps=6, eval_every=2, log="tensorboard")
    for path in checkpoints(tmp_path)[:1]:  # as if killed: that of the last step is lost
        shutil.rmtree(path)
    fit_small(tmp_path, steps=6, eval_every=2, log=["tensorboard"], resume=True)
    assert [event.step for event in events(tmp_path).Scalars("loss")] == [1, 2, 3, 4, 5, 6]


def test_loggers_are_told_the_name_and_what_they_kept(tmp_path: Path, noted: list[Noted]) -> None:
    run = tmp_path / "mine"
    fit_small(run, steps=2, eval_every=2, log=["wandb", "mlflow"])
    first = [each.begun for each in noted]
    assert [each.ended for each in noted] == [True, True]
    assert [begun.folder for begun in first] == [run / "loggers" / "wandb", run / "loggers" / "mlflow"]
    assert first[0].name == first[1].name
    assert first[0].name.startswith("mine-")
    assert (first[0].step, first[0].settings["train.steps"]) == (0, 2)
    fit_small(run, steps=4, eval_every=2, log=["wandb"], resume=True)
    again = noted[-1].begun
    assert (again.step, again.name, again.kept) == (2, first[0].name, {"id": first[0].name})
    assert [step for step, numbers in noted[-1].numbers_of if "loss" in numbers] == [3, 4]


@pytest.mark.parametrize("method", ["start", "numbers", "end"])
def test_a_logger_that_fails_loses_nothing(
    tmp_path: Path, noted: list[Noted], capfd: pytest.CaptureFixture[str], monkeypatch: Any, method: str
) -> None:
    monkeypatch.setattr(Noted, "fails", method)
    weights = fit_small(tmp_path, steps=4, eval_every=2, log="wandb")
    assert weights == fit_small(tmp_path / "plain", steps=4, eval_every=2)
    steps = [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 2, 3, 4, 4]
    said = capfd.readouterr().err
    assert (
        said.count("wandb failed, and gets nothing more of this training: ConnectionError: the server is gone") == 1
    )


def test_a_logger_that_is_not_installed_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LOGGERS, "wandb", LOGGERS["wandb"]._replace(package="no_such_package"))
    with pytest.raises(BadInput, match=r"pip install 'regard\[wandb\]'; or leave wandb out of train\.log"):
        fit_small(tmp_path / "run", steps=1, log=["wandb"])
    assert not (tmp_path / "run").exists()
    check_there(("tensorboard",))


def test_only_loggers_that_there_are() -> None:
    assert Training(steps=1, log="wandb").loggers == ("wandb",)
    assert Training(steps=1, log=["trackio", "wandb"]).loggers == ("trackio", "wandb")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="log must be one of 'tensorboard', 'trackio', 'wandb', 'mlflow', got 'aim'"):
        Training(steps=1, log=("wandb", "aim"))


def test_numbers_that_are_none_are_left_out(tmp_path: Path, noted: list[Noted]) -> None:
    several = Loggers(["wandb"])
    several.begin(tmp_path, 0)
    several.rows([{"step": 3, "loss": float("nan"), "tokens": 7, "changed_data": ["a"], "flag": True}])
    assert noted[0].numbers_of == [(3, {"tokens": 7})]


@pytest.mark.parametrize("text", ["", "[]", '{"wandb": 3, "mlflow": {"id": 4}}', "{" * 10_000])
def test_a_damaged_file_of_what_was_kept_begins_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / KEPT).write_text(text)
    assert read_kept(tmp_path / KEPT) in ({}, {"mlflow": {}})


# The real packages, each where it is installed, as they are heavy: what they write on this machine.


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    fit_small(tmp_path, steps=2, eval_every=2, log="wandb")
    fit_small(tmp_path, steps=4, eval_every=2, log="wandb", resume=True)
    names = {path.name.split("-", 3)[-1] for path in (tmp_path / "loggers/wandb/wandb").glob("offline-run-*")}
    assert names == {read_kept(tmp_path / "loggers" / KEPT)["wandb"]["id"]}


# SQLAlchemy 2.1 deprecates what mlflow 3.17 says to it.
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")
def test_mlflow_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'flow.db'}")
    fit_small(Path("run"), steps=2, eval_every=2, log="mlflow")
    fit_small(Path("run"), steps=4, eval_every=2, log="mlflow", resume=True)
    client = mlflow.MlflowClient()
    [run] = client.search_runs([client.get_experiment_by_name("regard").experiment_id])
    assert run.info.status == "FINISHED"
    assert [each.step for each in client.get_metric_history(run.info.run_id, "loss")] == [1, 2, 3, 4]
    assert run.data.params["train.steps"] == "2"


def test_trackio_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    trackio = pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    fit_small(tmp_path / "run", steps=2, eval_every=2, log="trackio")
    fit_small(tmp_path / "run", steps=4, eval_every=2, log="trackio", resume=True)
    [run] = trackio.Api().runs("regard")
    rows = SQLiteStorage.get_logs("regard", run.name, run_id=run.id)
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3, 4]
