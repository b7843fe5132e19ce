"""`regard sweep`: settings proposed by optuna, judged by validations, ended early, gone on with."""

from __future__ import annotations

import json
import re
import signal
import time
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import BadInput, Interrupted, RecipeError, RunError
from regard.show.trials import Trials, log_ticks
from regard.tasks.core import at_once
from regard.tasks.core import sweep as sweeps
from regard.tasks.core.recipe import read
from regard.tasks.core.results import Metric
from regard.tasks.core.sweep import Sweeping, check_begun, open_study
from regard.tasks.core.table import load
from regard.tasks.core.vary import Choices, Range, read_one, read_varied

FEW = ("--set", "train.steps=2", "--set", "data.train_count=60")
VARY = ("--vary", "train.learning_rate=1e-3..1e-1:log", "--vary", "model.score=dot,additive")


def states(out: str) -> list[str]:
    return [each.state.name for each in open_study(Path(out, "study.jsonl"), "min").trials]


def test_a_sweep_is_a_table_of_trials_the_best_first(call: Any, inline: None, recipe: str) -> None:
    done = call("sweep", recipe, *VARY, *FEW, "--trials", 3, "--by", "loss", "--out", "all")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "| trial | train.learning_rate | model.score | valid_loss | steps | state |"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:5]]
    assert sorted(row[0] for row in rows) == ["0", "1", "2"]
    assert [float(row[3]) for row in rows] == sorted(float(row[3]) for row in rows)
    assert {row[5] for row in rows} == {"done"}
    for row in rows:
        model: Any = load(f"all/trial-{int(row[0]):03d}").model
        assert model.config.score == row[2]
        assert 1e-3 <= float(row[1]) <= 1e-1
        logged = [
            json.loads(line) for line in Path(f"all/trial-{int(row[0]):03d}/log.jsonl").read_text().splitlines()
        ]
        assert f"{min(each['valid_loss'] for each in logged if 'valid_loss' in each):.4f}" == row[3]
    command = re.search("the best: `regard (.*)`", done.out)
    assert command
    assert f"train.learning_rate={rows[0][1]} --set model.score={rows[0][2]}" in command[1]
    assert Path("all/table.md").read_text() == done.out.removesuffix("\n")
    assert "<svg" in Path("all/sweep.svg").read_text()
    assert [line.split("  ")[0] for line in done.err.splitlines()] == ["trial 0", "trial 1", "trial 2"]


def test_a_sweep_goes_on_where_it_was_stopped(
    call: Any, inline: None, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And proposes what it would have proposed; trials that were finished stay as they are."""
    whole = call("sweep", recipe, *VARY, *FEW, "--trials", 4, "--out", "whole")
    train, begun = sweeps.train_trial, []

    def stopped(recipe: str, changes: list[str], folder: Path, *args: Any) -> float:
        begun.append(folder.name)
        if folder.name == "trial-001" and begun.count("trial-001") == 1:
            raise KeyboardInterrupt
        return train(recipe, changes, folder, *args)

    monkeypatch.setattr(sweeps, "train_trial", stopped)
    first = call("sweep", recipe, *VARY, *FEW, "--trials", 4, "--out", "parts")
    assert (first.code, first.out) == (130, "")
    assert states("parts") == ["COMPLETE", "RUNNING"]
    again = call("sweep", recipe, *VARY, *FEW, "--trials", 4, "--out", "parts")
    assert begun == ["trial-000", "trial-001", "trial-001", "trial-002", "trial-003"]
    assert again.out == whole.out
    more = call("sweep", recipe, *VARY, *FEW, "--trials", 5, "--out", "parts")
    assert begun[5:] == ["trial-004"]
    assert more.out.count("done") == 5


def test_a_trial_that_cannot_be_is_told_and_the_sweep_goes_on(call: Any, inline: None, recipe: str) -> None:
    """Each value is fine by itself, not both together."""
    vary = ("--vary", "model.weigh=soft,local-p", "--vary", "train.learning_rate=0.01,1e30")
    done = call("sweep", recipe, *vary, *FEW, "--set", "train.max_grad_norm=0", "--trials", 6, "--out", "all")
    assert done.code == 0
    assert "| failed |" in done.out
    assert "failed: " in done.err
    assert set(states("all")) == {"FAIL", "COMPLETE"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vary", "model.score=dot,dott"], "score must be one of 'dot'"),
        (["--vary", "train.learning_rate=-1..1"], "learning_rate must be above 0, got -1.0"),
        (["--vary", "train.learning_rate=0..1:log"], "from a number above 0 and below its second"),
        (["--vary", "train.learning_rate=1..1"], "from a number below its second"),
        (["--vary", "train.learning_rate=1..b"], "--vary wants section.key=LOW..HIGH"),
        (["--vary", "train.learning_rate=1..2:lag"], "--vary wants section.key=LOW..HIGH"),
        (["--vary", "learning_rate=1..2"], "--vary wants section.key=LOW..HIGH"),
        (["--vary", "train.lerning_rate=1..2"], "did you mean 'learning_rate'?"),
        (["--vary", "model.embed=4,8", "--vary", "model.embed=4..9"], "model.embed is varied twice"),
        (["--vary", "model.embed=4,8", "--by", "blue"], "--by must be one of valid_loss, exact_match, bleu"),
    ],
)
def test_a_mistake_is_found_before_anything_is_trained(call: Any, recipe: str, words: list[str], said: str) -> None:
    done = call("sweep", recipe, *words, "--out", "all")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not Path("all").exists()


def test_what_is_varied(recipe: str) -> None:
    job, _ = read(recipe)
    assert read_one("train.learning_rate=1e-4..3e-3:log", job) == Range(
        "train.learning_rate", 1e-4, 3e-3, True, False
    )
    assert read_one("model.embed=4..9", job) == Range("model.embed", 4, 9, False, True)
    assert read_one("train.learning_rate=0..1", job).distribution().low == 0.0
    assert read_one("data.made=copy,dates", job) == Choices("data.made", ("data.made=copy", "data.made=dates"))
    assert read_one("data.train=../a.tsv,../b.tsv", job).ends == ["data.train=../a.tsv", "data.train=../b.tsv"]
    assert Range("a.b", 0.1, 0.30001, False, False).text(0.300009) == "a.b=0.3"
    assert Range("a.b", 0.12344, 1, False, False).text(0.12344) == "a.b=0.12344"  # no value is outside of it
    assert Range("a.b", 1, 5, False, True).text(3) == "a.b=3"
    python = {
        "train.learning_rate": "1e-4..1e-2",
        "model.dropout": [0.1, 0.3],
        "model.bidirectional": [True, False],
    }
    assert [each.ends for each in read_varied(python, job)] == [
        ["train.learning_rate=0.0001", "train.learning_rate=0.01"],
        ["model.dropout=0.1", "model.dropout=0.3"],
        ["model.bidirectional=true", "model.bidirectional=false"],
    ]
    with pytest.raises(RecipeError, match="varied by a text"):
        read_varied({"model.embed": 3}, job)


def test_what_falls_behind_is_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rows of its log.jsonl, as its process writes them."""
    varied = [Choices("model.embed", ("model.embed=4", "model.embed=8"))]
    work = Sweeping("r", [], varied, "valid_loss", Metric("min"), tmp_path, 1, None, prune=True)
    proposals = work.proposals(20)

    def write(number: int, step: int, value: float) -> None:
        work.folder(number).mkdir(exist_ok=True)
        with open(work.folder(number) / "log.jsonl", "a") as file:
            file.write(json.dumps({"step": step, "valid_loss": value}) + "\n")

    for number in range(4):
        assert next(proposals)[0] == number
        write(number, 10, 1.0 + number / 10)
        assert work.look() == []
        work.tell(number, 1.0)
    next(proposals), next(proposals)
    write(4, 10, 1.05)  # better than the median
    write(5, 10, 3.0)
    assert work.look() == [5]
    assert work.look() == [5]  # it takes a while
    work.tell(5, Interrupted("saved", 15))
    work.tell(4, 0.9)
    rows = {trial.number: (trial.state, trial.value, trial.step) for trial in work.results()}
    assert (rows[4], rows[5]) == (("done", 0.9, 10), ("ended early", 3.0, 10))
    assert work.results()[0].number == 4
    next(proposals)
    write(6, 10, 1.0)
    with pytest.raises(Interrupted):  # someone else ended it
        work.tell(6, Interrupted("saved", 15))
    again = Sweeping("r", [], varied, "valid_loss", Metric("min"), tmp_path, 1, None, prune=True)
    assert next(again.proposals(20))[0] == 6
    write(6, 20, 0.9)
    assert again.look() == []  # and optuna does not warn of what it has
    again.tell(6, 0.9)
    assert next(trial.step for trial in again.results() if trial.number == 6) == 20


def counts_signals(ready: Path) -> int:
    """As a training that saves: how often it is told to end."""
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    ready.touch()
    for _ in range(10):
        time.sleep(0.02)
    return len(heard)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_trial_is_told_once_to_end_however_long_it_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second signal would end it at once, and the sweep with it."""
    monkeypatch.setattr(at_once, "new_context", lambda: get_context("fork"))
    monkeypatch.setattr(at_once, "EVERY", 0.01)
    ready, told = tmp_path / "ready", {}
    calls = [(7, (ready,))]
    at_once.run_at_once(counts_signals, calls, 1, told.__setitem__, lambda: [7] if ready.exists() else [])
    assert told == {7: 1}


def test_the_trials_of_a_folder_are_those_of_one_sweep(tmp_path: Path) -> None:
    check_begun(tmp_path, {"recipe": "a", "by": "bleu"})
    check_begun(tmp_path, {"recipe": "a", "by": "bleu"})
    with pytest.raises(RecipeError, match="holds another sweep, with another recipe and by; give the same"):
        check_begun(tmp_path, {"recipe": "b", "by": "loss"})
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        check_begun(tmp_path, {})


def test_without_optuna(monkeypatch: pytest.MonkeyPatch, recipe: str, tmp_path: Path) -> None:
    monkeypatch.setattr(sweeps, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'regard\[sweep\]'"):
        regard.sweep(recipe, vary={"model.embed": [4, 8]}, out=tmp_path / "all")


def test_in_python(inline: None, recipe: str, tmp_path: Path) -> None:
    few = {"train.steps": 2, "data.train_count": 60}
    vary = {"model.embed": [4, 8], "train.learning_rate": "1e-3..1e-1:log"}
    found = regard.sweep(recipe, vary=vary, trials=2, set=few, out=tmp_path / "all")
    assert found.by == "exact_match" or found.by == "bleu"
    assert found.best.state == "done"
    assert found.best.changes[0].startswith("model.embed=")
    assert isinstance(regard.load(found.best.folder), regard.Translator)
    assert repr(found).startswith("<Sweep of ")
    assert "<svg" in found._repr_html_()
    assert found.picture().log == ("train.learning_rate",)


def test_what_was_drawn_by_its_logarithm_is_shown_by_it(tmp_path: Path) -> None:
    """Also over less than two decades; and numbers on an axis do not run into each other."""
    rates = ["0.00013", "0.00066", "0.0021", "0.0027"]
    values, done = [0.1, 0.2, 0.3, 0.4], [True] * 4
    settings = {"train.learning_rate": rates, "model.dropout": ["0.0", "0.3", "0.3", "0.0"]}
    axes = Trials(settings, values, done, "bleu", log=("train.learning_rate",)).plot()
    axes.figure.canvas.draw()
    first, second = axes.child_axes
    assert (first.get_xscale(), second.get_xscale()) == ("log", "linear")
    for panel in (first, second):
        low, high = panel.get_xlim()
        labels = [text for text in panel.get_xticklabels(which="both") if low <= text.get_position()[0] <= high]
        boxes = [text.get_window_extent() for text in labels if text.get_text()]
        assert len(boxes) > 1
        assert all(left.x1 < right.x0 for left, right in pairwise(sorted(boxes, key=lambda box: box.x0)))


@pytest.mark.parametrize(
    ("low", "high", "most", "wanted"),
    [
        (1.3e-4, 2.7e-3, 6, [2e-4, 5e-4, 1e-3, 2e-3]),
        (1.3e-4, 2.7e-3, 3, [3e-4, 1e-3]),
        (1e-5, 1e-1, 3, [1e-5, 1e-3, 1e-1]),
        (4.1e-4, 4.4e-4, 3, [4.1e-4, 4.4e-4]),
        (0.1, 0.1, 3, [0.1]),
    ],
)
def test_few_round_numbers_stand_on_a_logarithmic_axis(
    low: float, high: float, most: int, wanted: list[float]
) -> None:
    assert log_ticks(low, high, most) == pytest.approx(wanted)


def test_trials_as_a_picture() -> None:
    drawn = Trials(
        {"train.learning_rate": ["1e-4", "0.1"], "model.score": ["dot", "additive"]}, [1, 2], [True, False], "bleu"
    )
    svg = drawn.svg()
    for word in ("train.learning_rate", "model.score", "additive", "bleu", "ended early"):
        assert word in svg
    rates = Trials({"train.learning_rate": ["0.00013", "0.0027"]}, [1, 2], [True, True], "bleu")
    assert rates.plot().child_axes[0].get_xscale() == "linear"
    with pytest.raises(BadInput, match="trials need a setting"):
        Trials({}, [], [], "bleu")
