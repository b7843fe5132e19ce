"""The chunked loss against torch's cross-entropy over logits written out whole."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from regard.layers import loss
from regard.layers.loss import class_loss, label_loss, token_loss

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
    states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, mask: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    logits = (states @ weight.T + bias).double()
    total = functional.cross_entropy(logits[mask], target[mask], label_smoothing=label_smoothing, reduction="sum")
    known = logits.log_softmax(-1).gather(-1, target[..., None]).squeeze(-1)
    return total, known * mask


def gradients(total: Tensor, *leaves: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(3 * total, leaves))  # 3: what comes from above must be passed on


@pytest.mark.parametrize("rows", [1, 4, 7, 21, 1024])  # 21 positions are masked in: 1, 6, 3, 1 and 1 chunks
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.9])
def test_value_and_gradients_are_those_of_cross_entropy(
    monkeypatch: pytest.MonkeyPatch, rows: int, label_smoothing: float
) -> None:
    monkeypatch.setattr(loss, "ROWS", rows)
    states, weight, bias, target, mask = parts()
    wanted, rows_wanted = reference(states, weight, bias, target, mask, label_smoothing)
    total, likelihood = token_loss(states, weight, bias, target, mask, label_smoothing=label_smoothing)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(likelihood.double(), rows_wanted, rtol=1e-5, atol=1e-5)
    assert not likelihood.requires_grad
    leaves = (states, weight, bias)
    for ours, theirs in zip(gradients(total, *leaves), gradients(wanted, *leaves), strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("label_smoothing", "r_drop"), [(0.0, 0.0), (0.1, 0.0), (0.1, 0.5)])
@pytest.mark.parametrize("biased", [True, False])
def test_words_added_for_fast_products_change_nothing(
    monkeypatch: pytest.MonkeyPatch, label_smoothing: float, r_drop: float, biased: bool
) -> None:
    states, weight, bias, target, mask = parts()
    leaves = (states, weight, bias) if biased else (states, weight)
    found = []
    for more in (0, 9):
        monkeypatch.setattr(loss, "words_missing", lambda states, size, more=more: more)
        total, known = token_loss(
            states,
            weight,
            bias if biased else None,
            target[[0, 1, 0, 1]],
            mask[[0, 1, 0, 1]],
            label_smoothing=label_smoothing,
            r_drop=r_drop,
        )
        found.append([total, known, *gradients(total, *leaves)])
    for plain, padded in zip(*found, strict=True):
        torch.testing.assert_close(padded, plain)


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
    assert torch.equal(likelihood, torch.zeros(ROWS, LENGTH))
    assert all(not slope.any() for slope in gradients(total, states, weight, bias))


def test_large_logits_do_not_overflow() -> None:
    states, weight, bias, target, mask = parts()
    with torch.no_grad():
        states *= 1e4
    total, _ = token_loss(states, weight, bias, target, mask, label_smoothing=0.1)
    wanted, _ = reference(states, weight, bias, target, mask, 0.1)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=0.0)
    assert all(slope.isfinite().all() for slope in gradients(total, states, weight, bias))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_bfloat16_autocast_is_near_and_gives_float32_gradients(label_smoothing: float) -> None:
    states, weight, bias, target, mask = parts()
    wanted, rows_wanted = reference(states, weight, bias, target, mask, label_smoothing)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, likelihood = token_loss(states, weight, bias, target, mask, label_smoothing=label_smoothing)
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
        token_loss(states, weight, bias, target, mask, label_smoothing=0.1)[0].backward()
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


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_without_a_bias_it_is_that_of_a_bias_of_0(monkeypatch: pytest.MonkeyPatch, label_smoothing: float) -> None:
    monkeypatch.setattr(loss, "ROWS", 5)
    states, weight, bias, target, mask = parts()
    zero = torch.zeros_like(bias)
    wanted, rows_wanted = reference(states, weight, zero, target, mask, label_smoothing)
    total, likelihood = token_loss(states, weight, None, target, mask, label_smoothing=label_smoothing)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(likelihood.double(), rows_wanted, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients(total, states, weight), gradients(wanted, states, weight), strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        again, _ = token_loss(states, weight, None, target, mask, label_smoothing=label_smoothing)
    assert torch.equal(again, total)


def test_without_a_bias_under_autocast() -> None:
    states, weight, bias, target, mask = parts()
    wanted, _ = reference(states, weight, torch.zeros_like(bias), target, mask, 0.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = token_loss(states, weight, None, target, mask)
    torch.testing.assert_close(total.double(), wanted, rtol=2e-2, atol=0.0)
    assert all(slope.dtype == torch.float32 for slope in gradients(total, states, weight))


# ---- agreement of two passes


def twins() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As parts(), and every row once more behind the last, its states somewhat changed: 42 positions masked in."""
    states, weight, bias, target, mask = parts()
    noise = torch.randn(states.shape, generator=torch.Generator().manual_seed(1))
    both = torch.cat([states.detach(), states.detach() + 0.5 * noise])
    return both.requires_grad_(), weight, bias, torch.cat([target, target]), torch.cat([mask, mask])


def reference_agreement(states: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
    """(KL(p || q) + KL(q || p)) / 2 over all tokens."""
    p, q = ((states @ weight.T + bias).double().log_softmax(-1)[mask]).chunk(2)
    forth = functional.kl_div(q, p, reduction="sum", log_target=True)
    back = functional.kl_div(p, q, reduction="sum", log_target=True)
    return (forth + back) / 2


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("rows", [2, 8, 42, 1024])  # 21, 6, 1 and 1 chunks
@pytest.mark.parametrize(("label_smoothing", "r_drop"), [(0.0, 1.0), (0.1, 5.0), (0.9, 0.3)])
def test_agreement_is_the_divergence_of_both_ways(
    monkeypatch: pytest.MonkeyPatch, with_bias: bool, rows: int, label_smoothing: float, r_drop: float
) -> None:
    monkeypatch.setattr(loss, "ROWS", rows)
    states, weight, bias, target, mask = twins()
    leaves = (states, weight, bias) if with_bias else (states, weight)
    shift = bias if with_bias else torch.zeros(WORDS)
    wanted, rows_wanted = reference(states, weight, shift, target, mask, label_smoothing)
    apart = reference_agreement(states, weight, shift, mask)
    assert apart > 1
    options = {"label_smoothing": label_smoothing, "r_drop": r_drop}
    total, likelihood = token_loss(states, weight, bias if with_bias else None, target, mask, **options)
    wanted = wanted + r_drop * apart
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(likelihood.double(), rows_wanted, rtol=1e-5, atol=1e-5)
    assert not likelihood.requires_grad
    for ours, theirs in zip(gradients(total, *leaves), gradients(wanted, *leaves), strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        again, likelihood_again = token_loss(states, weight, bias if with_bias else None, target, mask, **options)
    assert torch.equal(again, total)
    assert torch.equal(likelihood_again, likelihood)


def test_agreement_of_more_tokens_than_a_chunk_holds() -> None:
    """With the chunks as they are: what is said twice of a token must not be parted."""
    generator = torch.Generator().manual_seed(2)
    states = torch.randn(2 * 151, LENGTH, DIM, generator=generator).requires_grad_()
    _, weight, bias, _, _ = parts()
    target = torch.randint(WORDS, (151, LENGTH), generator=generator).repeat(2, 1)
    mask = (torch.arange(LENGTH) < torch.randint(1, LENGTH + 1, (151, 1), generator=generator)).repeat(2, 1)
    assert mask.sum() > loss.ROWS
    assert mask.sum() % loss.ROWS
    wanted, rows_wanted = reference(states, weight, bias, target, mask, 0.1)
    wanted = wanted + 2 * reference_agreement(states, weight, bias, mask)
    total, likelihood = token_loss(states, weight, bias, target, mask, label_smoothing=0.1, r_drop=2.0)
    torch.testing.assert_close(total.double(), wanted, rtol=1e-5, atol=0.0)
    torch.testing.assert_close(likelihood.double(), rows_wanted, rtol=1e-5, atol=1e-4)
    leaves = (states, weight, bias)
    for ours, theirs in zip(gradients(total, *leaves), gradients(wanted, *leaves), strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("place", [0, 1, 2], ids=["states", "weight", "bias"])
def test_gradients_with_agreement_are_differences(place: int) -> None:
    """Along three drawn directions, and along the gradient itself; computed in float32, whatever comes."""
    *leaves, target, mask = twins()

    def total(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return token_loss(states, weight, bias, target, mask, label_smoothing=0.1, r_drop=2.0)[0]

    leaf = leaves[place]
    slope = torch.autograd.grad(total(*leaves), leaf)[0]
    ways = [torch.randn(leaf.shape, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    for way in (*ways, slope):
        step = 1e-2 * way / way.norm()
        ahead, behind = (
            total(*(part + sign * step if part is leaf else part for part in leaves)).item() for sign in (1, -1)
        )
        assert (ahead - behind) / 2 == pytest.approx((slope * step).sum().item(), rel=5e-3, abs=2e-4)


def test_states_that_are_the_same_agree() -> None:
    """Then nothing is added, and there is nothing to pull at."""
    states, weight, bias, target, mask = parts()
    both, targets, masks = (torch.cat([part, part]) for part in (states, target, mask))
    total, likelihood = token_loss(states, weight, bias, target, mask, label_smoothing=0.1)
    doubled, likelihoods = token_loss(both, weight, bias, targets, masks, label_smoothing=0.1, r_drop=100.0)
    torch.testing.assert_close(doubled, 2 * total, rtol=1e-5, atol=0.0)
    torch.testing.assert_close(likelihoods, likelihood.repeat(2, 1), rtol=1e-5, atol=1e-5)
    leaves = (states, weight, bias)
    for ours, plain in zip(gradients(doubled, *leaves), gradients(total, *leaves), strict=True):
        torch.testing.assert_close(ours, 2 * plain, rtol=1e-3, atol=1e-3)


def test_agreement_of_0_changes_nothing() -> None:
    states, weight, bias, target, mask = parts()  # rows that are no twins
    total, likelihood = token_loss(states, weight, bias, target, mask, label_smoothing=0.1)
    again, likelihood_again = token_loss(states, weight, bias, target, mask, label_smoothing=0.1, r_drop=0.0)
    assert torch.equal(again, total)
    assert torch.equal(likelihood_again, likelihood)
    leaves = (states, weight, bias)
    for ours, plain in zip(gradients(again, *leaves), gradients(total, *leaves), strict=True):
        assert torch.equal(ours, plain)


@pytest.mark.parametrize("with_bias", [True, False])
def test_agreement_under_bfloat16_autocast_is_near(with_bias: bool) -> None:
    states, weight, bias, target, mask = twins()
    leaves = (states, weight, bias) if with_bias else (states, weight)
    shift = bias if with_bias else torch.zeros(WORDS)
    wanted = reference(states, weight, shift, target, mask, 0.1)[0]
    wanted = wanted + 2 * reference_agreement(states, weight, shift, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, likelihood = token_loss(
            states, weight, bias if with_bias else None, target, mask, label_smoothing=0.1, r_drop=2.0
        )
    assert total.dtype == likelihood.dtype == torch.float32
    torch.testing.assert_close(total.double(), wanted, rtol=2e-2, atol=0.0)
    for ours, theirs in zip(gradients(total, *leaves), gradients(wanted, *leaves), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.03 * theirs.norm()


def test_agreement_with_nothing_masked_in_padding_of_nan_and_large_logits() -> None:
    states, weight, bias, target, mask = twins()
    total, likelihood = token_loss(states, weight, bias, target, torch.zeros_like(mask), r_drop=1.0)
    assert total == 0
    assert torch.equal(likelihood, torch.zeros(2 * ROWS, LENGTH))
    spoiled = states.detach().masked_fill(~mask[..., None], torch.nan).requires_grad_()
    total, _ = token_loss(states, weight, bias, target, mask, r_drop=1.0)
    again, _ = token_loss(spoiled, weight, bias, target, mask, r_drop=1.0)
    assert torch.equal(total, again)
    slope = gradients(again, spoiled)[0]
    assert torch.equal(slope[~mask], torch.zeros_like(slope[~mask]))
    assert torch.equal(slope[mask], gradients(total, states)[0][mask])
    large, _ = token_loss(1e4 * states, weight, bias, target, mask, r_drop=1.0)
    wanted = reference(1e4 * states, weight, bias, target, mask, 0.0)[0]
    wanted = wanted + reference_agreement(1e4 * states, weight, bias, mask)
    torch.testing.assert_close(large.double(), wanted, rtol=1e-4, atol=0.0)
    assert all(slope.isfinite().all() for slope in gradients(large, states, weight, bias))


@pytest.mark.parametrize("rows", [2, 4, 1024])
@pytest.mark.parametrize(("label_smoothing", "r_drop"), [(0.0, 0.0), (0.1, 0.0), (0.1, 2.0)])
def test_fixed_shapes_give_the_same(
    monkeypatch: pytest.MonkeyPatch, rows: int, label_smoothing: float, r_drop: float
) -> None:
    """Padding is computed and left out; with R-Drop the second half of the rows has the targets of the first."""
    monkeypatch.setattr(loss, "ROWS", rows)
    states, weight, bias, target, mask = parts()
    if r_drop:
        target, mask = (torch.cat([side[:2], side[:2]]) for side in (target, mask))
    found = []
    for fixed in (False, True):
        total, known = token_loss(
            states,
            weight,
            bias,
            target,
            mask,
            label_smoothing=label_smoothing,
            r_drop=r_drop,
            fixed_shapes=fixed,
        )
        found.append([total, known, *gradients(total, states, weight, bias)])
    for ours, wanted in zip(*reversed(found), strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_of_labels_is_torchs_and_that_of_certain_targets(smoothing: float) -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 4), torch.tensor([0, 3, 1, 1, 2, 0])
    found = label_loss(logits, labels, label_smoothing=smoothing)
    torch.testing.assert_close(
        found.total, functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    )
    other = class_loss(logits, functional.one_hot(labels, 4), label_smoothing=smoothing)
    for name in ("total", "likelihood", "tokens"):
        torch.testing.assert_close(getattr(found, name), getattr(other, name))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_rows_that_are_not_counted_weigh_nothing(smoothing: float) -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 3, 1, 0, 0, 0])
    part = label_loss(logits[:3], labels[:3], label_smoothing=smoothing)
    found = label_loss(logits, labels, counted=torch.arange(6) < 3, label_smoothing=smoothing)
    torch.testing.assert_close(found.total, part.total)
    assert found.tokens == part.tokens == 3
    assert torch.equal(found.likelihood, functional.pad(part.likelihood, (0, 3)))
    (slope,) = torch.autograd.grad(found.total, logits)
    torch.testing.assert_close(slope, torch.autograd.grad(part.total, logits)[0])
    assert not slope[3:].any()
