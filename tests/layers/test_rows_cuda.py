"""Rows that go on from others in one kernel: on a GPU, or by Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os

import pytest
import torch

from regard.layers import state

INTERPRETED = state.rows_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]


@pytest.mark.parametrize("count", [1, 4, 6])
@pytest.mark.parametrize("device", DEVICES)
def test_rows_go_on_from_others(device: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of tensors of several shapes and dtypes, one of which a step left as it was, and a scalar."""
    monkeypatch.setattr(state.rows_cuda, "fits", lambda old, new: old.is_contiguous() and new.is_contiguous())
    torch.manual_seed(0)
    shapes = [(6, 5), (6,), (6, 1, 1030), (6, 2, 3), (6, 7), (6, 4)][:count]
    dtypes = [torch.float32, torch.long, torch.bfloat16, torch.float16, torch.float32, torch.bool]
    static = tuple((9 * torch.randn(*shape)).to(dtype) for shape, dtype in zip(shapes, dtypes, strict=False))
    after = tuple((9 * torch.randn(*x.shape)).to(x.dtype) for x in static[:-1]) + static[-1:]
    order = torch.tensor([1, 1, 0, 3, 3, 5])
    wanted = [x[order] for x in after]
    mine = tuple(x.to(device) for x in static)
    others = tuple(x.to(device) for x in after[:-1]) + mine[-1:]
    scalar = torch.zeros((), device=device)
    state.reorder_tree((mine, (), scalar), (others, (), scalar), order.to(device), 2)
    for found, want in zip(mine, wanted, strict=True):
        assert torch.equal(found.cpu(), want)
