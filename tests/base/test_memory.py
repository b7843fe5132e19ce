"""Where memory does not suffice, the error says for what, and what to lower."""

import numpy as np
import pytest
import torch

from regard.base.memory import explain_memory
from regard.errors import OutOfMemory

HUGE = 1 << 50


@pytest.mark.parametrize(
    ("work", "amount"),
    [
        (lambda: [0] * HUGE, ""),
        (lambda: np.zeros(HUGE), r" \(8.00 PiB at once\)"),
        (lambda: torch.empty(HUGE), r" \(4503599627370496 bytes at once\)"),
    ],
    ids=["python", "numpy", "torch"],
)
def test_it_is_said(work, amount):
    said = rf"^answering needs more memory than there is{amount}; lower --beam$"
    with (
        pytest.raises(OutOfMemory, match=said) as caught,
        explain_memory("all of it", "everything"),
        explain_memory("answering", "--beam"),
    ):
        work()
    assert caught.value.__cause__ is not None


def test_of_a_gpu():
    with pytest.raises(OutOfMemory, match=r"\(2.50 GiB at once\)"), explain_memory("answering", "--beam"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ...")


def test_other_errors_stay_what_they_are():
    for error in (RuntimeError("expected 2 dimensions"), KeyError("x")):
        with pytest.raises(type(error)) as caught, explain_memory("answering", "--beam"):
            raise error
        assert caught.value is error
