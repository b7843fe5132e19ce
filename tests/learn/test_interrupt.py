"""Stopped by a signal, and resumed: nothing is lost."""

import os
import signal
import threading

import pytest
import torch
from small_training import Run

from regard.base.signals import signals_end
from regard.errors import Interrupted, RunError
from regard.learn import checkpoint


def test_a_folder_with_a_training_is_not_overwritten(tmp_path):
    (tmp_path / "training").mkdir()  # an empty one is fine
    Run(tmp_path).fit()
    with pytest.raises(
        ValueError, match=r"already holds a training: use --resume \(in Python: resume=True\) to go on"
    ):
        Run(tmp_path).fit()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_resumes_exactly(tmp_path, number, signals_heard):
    straight = Run(tmp_path / "straight", average_checkpoints=2)
    straight.fit()
    before = signal.getsignal(number)
    run = Run(tmp_path / "cut", average_checkpoints=2)
    run.data.on_batch = lambda count: count == 6 and os.kill(os.getpid(), number)
    with pytest.raises(Interrupted, match=r"after step 6 of 12, saved in .*step-00000006.*--resume") as stopped:
        run.fit()
    assert stopped.value.signal == number
    assert signal.getsignal(number) is before
    rest = Run(tmp_path / "cut", average_checkpoints=2)
    assert rest.fit(resume=True) == Run(tmp_path / "straight", average_checkpoints=2).fit(resume=True)
    assert rest.data.count == 6
    assert rest.rows("loss") == straight.rows("loss")
    assert rest.rows("valid_loss") == straight.rows("valid_loss")
    for a, b in zip(rest.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_stops_at_once(tmp_path, first, signals_heard):
    run = Run(tmp_path, accumulate_steps=3)  # batches 4, 5, 6 make step 2
    run.data.on_batch = lambda count: count > 4 and signal.raise_signal(first if count == 5 else signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    assert run.data.count == 6
    assert checkpoint.checkpoints(tmp_path) == []


def test_a_second_ctrl_c_ends_the_program(tmp_path, signals_heard, capfd):
    """Which listens too, and is told by the training."""
    run = Run(tmp_path, accumulate_steps=3)
    run.data.on_batch = lambda count: count > 4 and signal.raise_signal(signal.SIGINT)
    with pytest.raises(SystemExit) as end, signals_end():
        run.fit()
    assert (end.value.code, run.data.count) == (130, 6)
    assert capfd.readouterr().err.endswith("stopped\n")


def test_a_second_sigterm_is_no_reason_to_stop_at_once(tmp_path, signals_heard):
    """`timeout` sends it to the program and to its process group."""
    run = Run(tmp_path, accumulate_steps=3)
    run.data.on_batch = lambda count: count > 4 and signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="after step 2"):
        run.fit()
    assert [path.name for path in checkpoint.checkpoints(tmp_path)] == ["step-00000002"]


@pytest.mark.parametrize(
    ("when", "validation"), [("before", 1), ("before", 2), ("within", 1), ("within", 2), ("within", 4)]
)  # the fourth is that of the average
def test_a_signal_does_not_wait_for_a_validation_which_then_comes_first(tmp_path, when, validation, signals_heard):
    """SIGKILL follows SIGTERM within seconds, and a validation may take minutes."""
    straight = Run(tmp_path / "straight", average_checkpoints=2, schedule="plateau", plateau_patience=1)
    report = straight.fit()
    run = Run(tmp_path / "cut", average_checkpoints=2, schedule="plateau", plateau_patience=1)
    validate, seen = run.validate, []

    def interrupted(model):
        seen.append(1)
        if len(seen) == validation:
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("the validation went on")
        return validate(model)

    if when == "within":
        run.validate = interrupted
    else:
        run.data.on_batch = lambda count: count == 4 * validation and signal.raise_signal(signal.SIGTERM)
    step = min(12, 4 * validation)
    with pytest.raises(Interrupted, match=rf"after step {step} of 12, saved in .*step-{step:08d}"):
        run.fit()
    assert list(run.rows("valid_loss")) == [4, 8, 12][: validation - 1]
    assert run.model.training
    rest = Run(tmp_path / "cut", average_checkpoints=2, schedule="plateau", plateau_patience=1)
    assert rest.fit(resume=True) == report
    for key in ("loss", "learning_rate", "valid_loss", "averaged"):
        assert rest.rows(key) == straight.rows(key)
    names = sorted(path.relative_to(straight.folder) for path in straight.folder.rglob("*.safetensors"))
    assert sorted(path.relative_to(rest.folder) for path in rest.folder.rglob("*.safetensors")) == names
    for name in names:
        assert (rest.folder / name).read_bytes() == (straight.folder / name).read_bytes()


def test_a_stopped_run_is_finished_where_it_stands_by_lowering_the_steps(tmp_path, signals_heard):
    """Also the way to weights from a run that was stopped before its first validation."""
    run = Run(tmp_path, eval_every=100)
    run.data.on_batch = lambda count: count == 6 and signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="after step 6"):
        run.fit()
    rest = Run(tmp_path, steps=5, eval_every=100)
    assert rest.fit(resume=True).best_step == 6
    assert list(rest.rows("valid_loss")) == [6]
    assert len(rest.kept) == 1


def test_resumed_with_another_interval_the_steps_are_the_same(tmp_path):
    straight = Run(tmp_path / "straight", steps=16, average_checkpoints=2)
    straight.fit()
    Run(tmp_path / "changed", steps=8).fit()
    rest = Run(tmp_path / "changed", steps=16, eval_every=3, average_checkpoints=2)
    rest.fit(resume=True)
    assert rest.rows("loss") == straight.rows("loss")
    assert list(rest.rows("valid_loss")) == [4, 8, 9, 12, 15, 16]
    assert rest.rows("valid_loss")[12] == straight.rows("valid_loss")[12]
    assert [path.name for path in checkpoint.checkpoints(rest.folder)] == ["step-00000016", "step-00000015"]


def test_what_stands_in_the_place_of_a_checkpoint_is_refused_and_left_alone(tmp_path):
    Run(tmp_path, steps=8).fit()
    odd = tmp_path / "training" / "step-00000012"
    odd.symlink_to("/")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RunError, match=r"step-00000012 is a link.* move it away, then go on with --resume"):
        Run(tmp_path).fit(resume=True)
    assert sorted(tmp_path.rglob("*")) == before
    odd.unlink()
    odd.write_text("mine")  # beside a checkpoint, it is in nobody's way under another name
    assert Run(tmp_path).fit(resume=True).step == 12
    assert odd.is_dir()
    assert [path.read_text() for path in odd.parent.glob("step-00000012.file-*")] == ["mine"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "training").write_text("")
    with pytest.raises(RunError, match="training is a file"):
        Run(tmp_path / "other").fit()


def test_rows_that_are_missing_in_the_log_are_remarked(tmp_path):
    Run(tmp_path, steps=8).fit()
    log = tmp_path / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[3:]))
    cut = Run(tmp_path, steps=9)
    assert cut.fit(resume=True).step == 9
    assert "log.jsonl lacks 3 of the 8 steps up to the checkpoint (between steps 1 and 3)" in cut.shown.getvalue()
    log.unlink()
    gone = Run(tmp_path, steps=10)
    assert gone.fit(resume=True).step == 10
    assert "log.jsonl lacks 9 of the 9 steps" in gone.shown.getvalue()
    assert list(gone.rows("loss")) == [10]
    whole = Run(tmp_path / "whole", steps=4)
    whole.fit()
    assert Run(whole.folder, steps=5).fit(resume=True).step == 5
    assert "lacks" not in whole.shown.getvalue()


def test_other_threads_train_too_without_a_handler(tmp_path):
    run, seen = Run(tmp_path), []
    run.data.on_batch = lambda count: seen.append(signal.getsignal(signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=run.fit)
    thread.start()
    thread.join()
    assert list(run.rows("loss")) == list(range(1, 13))
    assert set(seen) == {before}
