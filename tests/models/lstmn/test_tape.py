"""The LSTM with a tape: a sequence at once against steps, its gradients, and what it keeps."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.base.dropout import drop
from regard.models.lstmn.tape import TapeLSTM

N, T, E, D, A = 3, 7, 4, 5, 6


def build(dtype: torch.dtype = torch.float64) -> TapeLSTM:
    torch.manual_seed(0)
    return TapeLSTM(E, D, A).to(dtype)


def inputs(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(N, T, E, dtype=dtype, generator=torch.Generator().manual_seed(1))


def padded() -> Tensor:
    """One row padded on the left, one on the right, one not at all."""
    mask = torch.ones(N, T, dtype=torch.bool)
    mask[0, :3] = mask[1, 5:] = False
    return mask


def by_steps(layer: TapeLSTM, x: Tensor) -> Tensor:
    before, found = layer.begin(x), []
    for now in x.unbind(1):
        hidden, before = layer.step(now, before)
        found.append(hidden)
    return torch.stack(found, 1)


@pytest.mark.parametrize("learning", [True, False])
def test_a_sequence_is_its_steps(learning: bool) -> None:
    layer, x = build(), inputs()
    with torch.set_grad_enabled(learning):
        torch.testing.assert_close(layer(x), by_steps(layer, x), rtol=1e-6, atol=1e-7)


def test_gradients() -> None:
    layer, x = build(), inputs().requires_grad_()
    weights = tuple(layer.parameters())
    for mask in (torch.ones_like(padded()), padded()):  # along one random direction, which is faster
        given = None if mask.all() else mask
        assert torch.autograd.gradcheck(
            lambda x, *_, mask=mask, given=given: layer(x, given)[mask], (x, *weights), fast_mode=True
        )


def test_gradients_of_large_scores() -> None:
    """Beyond the limit of the exponentials the tanh is flat."""
    layer, x = build(torch.float32), inputs(torch.float32).requires_grad_()
    with torch.no_grad():
        layer.attend.score.query_weight.weight.mul_(1e4)
    found = layer(x)
    found.sum().backward()
    torch.testing.assert_close(found, by_steps(layer, x))
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("traced", [False, True])
@torch.no_grad()
def test_nobody_looks_at_padding(traced: bool) -> None:
    """Nor in a trace, which goes step by step."""
    layer, x, mask = build(), inputs(), padded()
    with trace(layer, "attend") if traced else nullcontext():
        found = layer(x, mask)
    for row, real in enumerate((slice(3, None), slice(5), slice(None))):
        torch.testing.assert_close(found[row, real], layer(x[row : row + 1, real])[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [0, 1, 4])
@torch.no_grad()
def test_steps_go_on_where_a_text_was_read(size: int) -> None:
    layer, x = build(), inputs()
    mask = torch.ones(N, size, dtype=torch.bool)
    mask[0, :1] = False
    whole = layer(x, torch.cat([mask, torch.ones(N, T - size, dtype=torch.bool)], 1))
    found, before = layer.read(x[:, :size], mask)
    torch.testing.assert_close(found[mask], whole[:, :size][mask])
    for place in range(size, T):
        hidden, before = layer.step(x[:, place], before)
        torch.testing.assert_close(hidden, whole[:, place], rtol=1e-6, atol=1e-7)
    assert before[0].size == T


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_dtype_stays(dtype: torch.dtype) -> None:
    layer, x = build(dtype), inputs(dtype)
    assert layer(x).dtype == dtype
    with torch.no_grad():
        found, before = layer.read(x)
        assert found.dtype == dtype
        assert layer.step(x[:, 0], before)[0].dtype == dtype


def test_autocast_leaves_the_tape_in_float32() -> None:
    layer, x = build(torch.float32), inputs(torch.float32)
    wanted = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    found.sum().backward()
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.02)
    assert all(weight.grad is not None for weight in layer.parameters())


def test_two_backward_passes_give_the_same() -> None:
    layer, x = build(), inputs().requires_grad_()
    total = layer(x).square().sum()
    first, second = (torch.autograd.grad(total, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_what_is_kept_grows_with_length_but_for_the_weights() -> None:
    """Autograd alone would keep N A numbers for each pair of steps."""

    def kept(steps: int) -> int:
        sizes: dict[int, int] = {}

        def count(x: Tensor) -> Any:
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // x.element_size()
            return x

        layer, x = build(), torch.randn(N, steps, E, dtype=torch.float64)
        with torch.autograd.graph.saved_tensors_hooks(count, lambda x: x):
            layer(x)
        return sum(sizes.values())

    linear = [kept(steps) - N * steps**2 for steps in (50, 100, 200)]
    assert linear[2] - linear[1] <= 2 * (linear[1] - linear[0]) + 100
    assert linear[2] < 200 * N * 25 * D


def test_dropped_weights_are_those_of_the_gates_at_all_steps() -> None:
    torch.manual_seed(0)
    layer, plain = (TapeLSTM(3, 4, 5, weight_dropout=rate).double() for rate in (0.5, 0.0))
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    torch.manual_seed(1)
    with torch.no_grad():
        plain.cell.hidden.weight.copy_(drop(plain.cell.hidden.weight, 0.5, True))
    torch.manual_seed(1)
    torch.testing.assert_close(layer(x), plain(x), rtol=1e-12, atol=1e-12)
    assert not torch.allclose(layer.eval()(x), plain(x))
