"""`regard log`: curves of trainings in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.app.cli import log_command
from regard.learn.lock import is_locked, locked
from regard.show import Curves
from regard.tasks.core.run_log import POINTS, RunLog, thinned


def write(folder: str, *rows: dict[str, Any], end: str = "\n") -> Path:
    path = Path(folder, "log.jsonl")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)) + end)
    return path


def steps(count: int, **more: float) -> list[dict[str, Any]]:
    return [{"step": n, "loss": 1 / n, "learning_rate": 0.1, "seconds": 0.1, **more} for n in range(1, count + 1)]


def test_the_curves_of_one_run(call: Any) -> None:
    write(
        "a", *steps(20), {"step": 10, "valid_loss": 0.2, "bleu": 3.0}, {"step": 20, "valid_loss": 0.1, "bleu": 4.0}
    )
    done = call("log", "a")
    assert (done.code, done.err) == (0, "")
    titles = [line for line in done.out.splitlines() if line and "│" not in line and not line.startswith(" ")]
    assert titles == ["loss  • training  × validation", "bleu", "learning_rate"]
    loss, bleu, _ = done.out.split("\n\n")
    assert loss.splitlines()[1].split() == ["1", "│•"]  # the highest loss is that of the first step
    assert loss.splitlines()[-1].split() == ["1", "20"]
    assert [bleu.splitlines()[place].split()[0] for place in (1, -3)] == ["4", "3"]


def test_several_runs_have_a_line_each(call: Any) -> None:
    write("a", *steps(20))
    write("b", *steps(30))
    done = call("log", "a", "b", "--only", "loss")
    assert done.out.splitlines()[0] == "loss  • a  × b"
    assert "×" in done.out.splitlines()[-3]
    assert done.out.splitlines()[-1].split() == ["1", "30"]
    told = json.loads(call("log", "a", "b", "--only", "loss", "--json").out)
    assert told["a"] == {"loss": [[n, 1 / n] for n in range(1, 21)]}
    assert len(told["b"]["loss"]) == 30


def test_what_is_not_there_is_refused(call: Any) -> None:
    write("a", *steps(3))
    assert "there is no run 'nothing'" in call("log", "nothing").err
    assert "unknown curve: 'lss'; did you mean 'loss'?" in call("log", "a", "--only", "lss").err
    Path("empty").mkdir()
    (Path("empty") / "config.json").write_text("{}")
    done = call("log", "empty")
    assert (done.code, "empty has no log.jsonl" in done.err) == (2, True)


def test_lines_that_are_no_rows_are_passed_over(tmp_path: Path) -> None:
    text = '{"step": 1, "loss": 2.0}\n[]\nnot json\n{"loss": 3}\n{"step": 2, "loss": null}\n{"step": 2, "lo'
    (tmp_path / "log.jsonl").write_text(text)
    log = RunLog(tmp_path)
    assert log.more()
    assert log.series == {"loss": [(1, 2.0)]}
    with open(log.path, "a") as file:
        file.write('ss": 1.5}\n')
    assert log.more()
    assert log.series == {"loss": [(1, 2.0), (2, 1.5)]}
    assert not log.more()


def test_a_log_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    """And so are steps that are taken again."""
    path = write(str(tmp_path), *steps(6))
    log = RunLog(tmp_path)
    log.more()
    path.write_text(path.read_text()[: len(path.read_text()) // 2])
    log.more()
    kept = [step for step, _ in log.series["loss"]]
    assert kept == list(range(1, len(kept) + 1))
    assert 1 <= len(kept) < 6
    with open(path, "a") as file:
        file.write('\n{"step": 2, "loss": 9.0}\n')
    log.more()
    assert log.series["loss"] == [(1, 1.0), (2, 9.0)]


def test_a_long_log_is_drawn_by_its_means() -> None:
    x, y = thinned([(step, float(step % 2)) for step in range(POINTS * 10)])
    assert len(x) == POINTS
    assert np.allclose(y, 0.5)


def test_following_ends_with_the_training(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a", *steps(2))
    naps = []
    lock = locked(Path("a"))
    lock.__enter__()
    assert is_locked(Path("a"))

    def nap(seconds: float) -> None:
        naps.append(seconds)
        with open(path, "a") as file:
            file.write(json.dumps({"step": 3, "loss": 0.25}) + "\n")
        if len(naps) == 2:
            lock.__exit__(None, None, None)

    monkeypatch.setattr(log_command.time, "sleep", nap)
    done = call("log", "a", "--follow", "--only", "loss")
    assert done.out.splitlines() == ["a  step 2  loss 0.5", "a  step 3  loss 0.25", "a  step 3  loss 0.25"]
    assert len(naps) == 2
    assert not is_locked(Path("a"))


def test_curves_in_a_terminal() -> None:
    line = Curves({"a": ([0, 1, 2, 3], [0.0, 1.0, None, 3.0])}, title="rising")
    text = line.terminal(colour=False, width=20, height=4)
    assert text.splitlines()[0] == "rising"
    assert max(map(len, text.splitlines())) <= 20
    assert text.splitlines()[1].startswith("3 │")
    assert text.splitlines()[1].rstrip()[-1] != "│"
    assert "\x1b" in Curves({"a": ([0, 1], [0, 1]), "b": ([0, 1], [1, 0])}).terminal(width=20)
    flat = Curves({"a": ([5], [2.0])}).terminal(colour=False, width=20, height=3)
    assert flat.splitlines()[2].strip(" │") != ""
    nothing = Curves({"a": ([1], [None])}, title="x").terminal(colour=False, width=20)
    assert nothing == "x\nno finite values"
