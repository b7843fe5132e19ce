"""The chunked loss against torch's cross-entropy over logits written out whole."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from regard.layers import loss
from regard.layers.loss import token_loss

ROWS, LENGTH, DIM, WORDS = 4, 9, 6, 23


def parts(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """States, weight, bias (with gradient), target, and a mask with rows of several lengths, one of them 1."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(ROWS, LENGTH, DIM, generator=generator).to(dtype)
    weight = torch.randn(WORDS, DIM, generator=generator).to(dtype)
    bias = torch.randn(WORDS, generator=generator).to(dtype)
    target = torch.randint(WORDS, (ROWS, LENGTH), generator=generator)
    mask = torch.arange(LENGTH) < torch.tensor([9, 4, 1, 7])[:, None]
    return states.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), target, mask


def reference(
    states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, mask: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    logits = (states @ weight.T + bias).double()
    total = functional.cross_entropy(logits[mask], target[mask], label_smoothing=smoothing, reduction="sum")
    known = logits.log_softmax(-1).gather(-1, target[..., None]).squeeze(-1)
    return total, (known * mask).sum(1)


def gradients(total: Tensor, *leaves: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(3 * total, leaves))  # 3: what comes from above must be passed on


@pytest.mark.parametrize("rows", [1, 4, 7, 21, 1024])  # 21 positions are masked in: 1, 6, 3, 1 and 1 chunks
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_value_and_gradients_are_those_of_cross_entropy(
    monkeypatch: pytest.MonkeyPatch, rows: int, smoothing: float
) -> None:
    monkeypatch.setattr(loss, "ROWS", rows)
    states, weight, bias, target, mask = parts()
    wanted, rows_wanted = reference(states, weight, bias, target, mask, smoothing)
    total, likelihood = token_loss(states, weight, bias, target, mask, smoothing=smoothing)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(likelihood.double(), rows_wanted, rtol=1e-5, atol=1e-5)
    assert not likelihood.requires_grad
    leaves = (states, weight, bias)
    for ours, theirs in zip(gradients(total, *leaves), gradients(wanted, *leaves), strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-5)


def test_masked_positions_have_no_part_even_when_they_are_nan() -> None:
    states, weight, bias, target, mask = parts()
    spoiled = states.detach().masked_fill(~mask[..., None], torch.nan).requires_grad_()
    other = torch.where(mask, target, WORDS + 100)  # no such word: looking it up would fail
    total, likelihood = token_loss(states, weight, bias, target, mask)
    again, likelihood_again = token_loss(spoiled, weight, bias, other, mask)
    assert torch.equal(total, again)
    assert torch.equal(likelihood, likelihood_again)
    slope = gradients(again, spoiled)[0]
    assert torch.equal(slope[~mask], torch.zeros_like(slope[~mask]))
    assert slope.isfinite().all()


def test_nothing_masked_in_gives_zero_and_zero_gradients() -> None:
    states, weight, bias, target, mask = parts()
    total, likelihood = token_loss(states, weight, bias, target, torch.zeros_like(mask))
    assert total == 0
    assert torch.equal(likelihood, torch.zeros(ROWS))
    assert all(not slope.any() for slope in gradients(total, states, weight, bias))


def test_large_logits_do_not_overflow() -> None:
    states, weight, bias, target, mask = parts()
    with torch.no_grad():
        states *= 1e4
    total, _ = token_loss(states, weight, bias, target, mask, smoothing=0.1)
    wanted, _ = reference(states, weight, bias, target, mask, 0.1)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=0.0)
    assert all(slope.isfinite().all() for slope in gradients(total, states, weight, bias))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_autocast_is_near_and_gives_float32_gradients(smoothing: float) -> None:
    states, weight, bias, target, mask = parts()
    wanted, rows_wanted = reference(states, weight, bias, target, mask, smoothing)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, likelihood = token_loss(states, weight, bias, target, mask, smoothing=smoothing)
    assert total.dtype == likelihood.dtype == torch.float32
    torch.testing.assert_close(total.double(), wanted, rtol=2e-2, atol=0.0)
    torch.testing.assert_close(likelihood.double(), rows_wanted, rtol=3e-2, atol=0.1)
    leaves = (states, weight, bias)
    for ours, theirs in zip(gradients(total, *leaves), gradients(wanted, *leaves), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.03 * theirs.norm()


def test_no_logits_are_kept_for_the_backward_pass() -> None:
    """What is kept has the size of states, weight and bias; logits would be 21 x 23."""
    kept: list[torch.Size] = []
    states, weight, bias, target, mask = parts()

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        token_loss(states, weight, bias, target, mask)
    count = int(mask.sum())
    assert (count, DIM) in kept, "the states' gradient should be among them"
    assert not [shape for shape in kept if WORDS in shape and shape not in ((WORDS, DIM), (WORDS,))]


def test_a_chunk_of_logits_is_all_there_ever_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of all results of all operations, forward and backward."""
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes: list[torch.Size] = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            sizes.extend([result.shape] if isinstance(result, Tensor) else [])
            return result

    monkeypatch.setattr(loss, "ROWS", 5)
    states, weight, bias, target, mask = parts()
    with Sizes():
        token_loss(states, weight, bias, target, mask, smoothing=0.1)[0].backward()
    wide = {shape[0] for shape in sizes if len(shape) == 2 and shape[1] == WORDS and shape[0] != DIM}
    assert wide <= {5, 1}, f"only chunks of 5 rows, and the last of 1, may be {WORDS} wide, got {wide}"
    assert 5 in wide


def test_judging_costs_one_product_only() -> None:
    """Under no_grad nothing is prepared for a backward pass that will not come."""
    states, weight, bias, target, mask = parts()
    product = 2 * int(mask.sum()) * DIM * WORDS
    with FlopCounterMode(display=False) as learning:
        token_loss(states, weight, bias, target, mask)
    assert learning.get_total_flops() > product
    with FlopCounterMode(display=False) as judging, torch.no_grad():
        token_loss(states, weight, bias, target, mask)
    assert judging.get_total_flops() == product


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_without_a_bias_it_is_that_of_a_bias_of_0(monkeypatch: pytest.MonkeyPatch, smoothing: float) -> None:
    monkeypatch.setattr(loss, "ROWS", 5)
    states, weight, bias, target, mask = parts()
    zero = torch.zeros_like(bias)
    wanted, rows_wanted = reference(states, weight, zero, target, mask, smoothing)
    total, likelihood = token_loss(states, weight, None, target, mask, smoothing=smoothing)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(likelihood.double(), rows_wanted, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients(total, states, weight), gradients(wanted, states, weight), strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        again, _ = token_loss(states, weight, None, target, mask, smoothing=smoothing)
    assert torch.equal(again, total)


def test_without_a_bias_under_autocast() -> None:
    states, weight, bias, target, mask = parts()
    wanted, _ = reference(states, weight, torch.zeros_like(bias), target, mask, 0.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = token_loss(states, weight, None, target, mask)
    torch.testing.assert_close(total.double(), wanted, rtol=2e-2, atol=0.0)
    assert all(slope.dtype == torch.float32 for slope in gradients(total, states, weight))
