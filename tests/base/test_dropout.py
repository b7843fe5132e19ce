"""The cheap dropout: how much it drops, what is left, and that the gradient goes the same way."""

import pytest
import torch

from regard.attention import MultiHead
from regard.base.dropout import Dropout, drop

RATES = [0.05, 0.1, 0.3, 0.5, 0.9]


@pytest.mark.parametrize("rate", RATES)
def test_each_number_is_dropped_at_the_rate_and_the_mean_stays(rate):
    torch.manual_seed(0)
    count = 1_000_000
    out = drop(torch.ones(count), rate, True)
    kept = out != 0
    five_deviations = 5 * (rate * (1 - rate) / count) ** 0.5
    assert abs(kept.double().mean() - (1 - rate)) < five_deviations
    assert torch.equal(out[kept], torch.full_like(out[kept], 1 / (1 - rate)))
    assert abs(out.double().mean() - 1) < five_deviations / (1 - rate)


def test_neighbours_are_dropped_on_their_own():
    """Four decisions come of one drawn number: each pair of them must agree as often as chance has it."""
    torch.manual_seed(0)
    kept = (drop(torch.ones(200_000, 4), 0.5, True) != 0).double()
    together = kept.T @ kept / len(kept)
    wanted = torch.full((4, 4), 0.25, dtype=torch.float64) + 0.25 * torch.eye(4, dtype=torch.float64)
    assert (together - wanted).abs().max() < 0.007


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_any_shape_and_precision(dtype):
    torch.manual_seed(0)
    for shape in [(), (1,), (3,), (5, 7), (2, 3, 5), (4, 0), (0,)]:
        x = torch.ones(shape, dtype=dtype)
        out = drop(x, 0.5, True)
        assert (out.shape, out.dtype) == (x.shape, dtype)
        assert torch.equal(x, torch.ones_like(x)), shape
        assert ((out == 0) | (out == 2)).all(), shape


def test_a_tensor_that_lies_crosswise():
    torch.manual_seed(0)
    x = torch.randn(6, 5).T.requires_grad_()
    out = drop(x, 0.5, True)
    assert ((out == 0) | (out == 2 * x)).all()


def test_the_gradient_goes_through_what_was_kept():
    torch.manual_seed(0)
    x = torch.randn(37, 5, requires_grad=True)
    out = drop(x, 0.3, True)
    upstream = torch.randn_like(out)
    (slope,) = torch.autograd.grad(out, x, upstream)
    torch.testing.assert_close(slope, torch.where(out == 0, 0, upstream / 0.7))


def test_nothing_happens_at_rate_0_or_when_not_training():
    x = torch.randn(5)
    assert drop(x, 0.0, True) is x
    assert drop(x, 0.5, False) is x
    part = Dropout(0.5)
    assert not torch.equal(part(torch.ones(50)), torch.ones(50))
    assert part.eval()(x) is x


def test_a_seed_repeats_it_and_time_does_not():
    x = torch.ones(100)
    torch.manual_seed(3)
    first, second = drop(x, 0.5, True), drop(x, 0.5, True)
    torch.manual_seed(3)
    assert torch.equal(drop(x, 0.5, True), first)
    assert not torch.equal(first, second)


def test_rates_at_the_ends_are_no_accident():
    """Nearer to 0 or 1 than 2^-16: nothing is dropped, or almost nothing kept."""
    torch.manual_seed(0)
    assert drop(torch.ones(10_000), 1e-9, True).all()
    assert (drop(torch.ones(10_000), 1 - 1e-9, True) != 0).sum() < 10


@pytest.mark.parametrize("causal", [False, True])
def test_what_stands_in_the_padding_stays_there(causal):
    """0 times NaN is NaN, so it must be gone before weights are dropped."""
    torch.manual_seed(0)
    attend = MultiHead(8, 2, causal=causal, dropout=0.5)
    x, mask = torch.randn(2, 6, 8), torch.arange(6) < torch.tensor([[6], [3]])
    reads = []
    for fill in (0.0, torch.nan):
        torch.manual_seed(1)
        spoilt = x.masked_fill(~mask[..., None], fill).requires_grad_()
        read = attend(x, attend.remember(spoilt, mask=mask))
        reads.append((read, *torch.autograd.grad(read.square().sum(), [spoilt, *attend.parameters()])))
    for pure, spoilt in zip(*reads, strict=True):
        assert pure.isfinite().all()
        assert torch.equal(pure, spoilt)


@pytest.mark.parametrize("axis", [1, -1])
def test_along_a_shared_axis_all_are_dropped_or_none(axis):
    torch.manual_seed(0)
    part, x = Dropout(0.5, shared=axis), torch.ones(40, 5, 30)
    kept = part(x)
    assert torch.equal(kept, kept.narrow(axis, 0, 1).expand_as(kept))
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert 0.8 < kept.mean() < 1.2
    assert part.eval()(x) is x
