"""An error in the middle of a training: of the data, the loss or the validation. The last good step is saved."""

from __future__ import annotations

import pytest
import torch
from small_training import Run, Text

from regard.errors import Diverged
from regard.learn.checkpoint import checkpoints


class Trouble(Exception):
    """Of a user's own code."""


def failing(number):
    def at(count):
        if count == number:
            raise Trouble("this row")

    return at


@pytest.mark.parametrize(("number", "step"), [(6, 5), (5, 4), (2, 1)])
def test_an_error_of_the_data_leaves_a_checkpoint_of_the_step_before(tmp_path, number, step):
    whole = Run(tmp_path / "whole")
    whole.fit()
    data = Text()
    data.on_batch = failing(number)
    run = Run(tmp_path / "run", data=data)
    with pytest.raises(Trouble, match="this row") as caught:
        run.fit()
    assert checkpoints(run.folder)[0].name == f"step-{step:08d}"
    saved = "saved in" if step % 4 else "the last good checkpoint is"  # step 4 was validated, and so saved before
    note = f"Stopped by an error after step {step} of 12; {saved} {checkpoints(run.folder)[0]}"
    assert caught.value.__notes__ == [f"{note}. Go on with --resume (in Python: resume=True)"]
    assert caught.value.__notes__[0] in run.shown.getvalue()
    assert list(run.rows("loss")) == list(range(1, step + 1))
    again = Run(run.folder)
    again.fit(resume=True)
    assert again.rows("loss") == whole.rows("loss")
    assert torch.equal(again.model.out.weight, whole.model.out.weight)


def test_an_error_of_the_first_step_leaves_nothing(tmp_path):
    data = Text()
    data.on_batch = failing(1)
    run = Run(tmp_path, data=data)
    with pytest.raises(Trouble) as caught:
        run.fit()
    assert checkpoints(tmp_path) == []
    assert not hasattr(caught.value, "__notes__")


def test_an_error_of_the_validation_is_validated_again(tmp_path):
    run = Run(tmp_path, values=[])  # pop from an empty list
    with pytest.raises(IndexError):
        run.fit()
    assert checkpoints(tmp_path)[0].name == "step-00000004"
    again = Run(tmp_path)
    again.fit(resume=True)
    assert list(again.rows("valid_loss")) == [4, 8, 12]


def test_weights_that_are_no_longer_finite_are_not_saved(tmp_path):
    run = Run(tmp_path)

    def trouble(count):
        if count == 3:
            run.model.out.weight.data.fill_(float("nan"))
        if count == 4:
            raise Trouble

    run.data.on_batch = trouble
    with pytest.raises((Trouble, Diverged)):
        run.fit()
    assert checkpoints(tmp_path) == []
