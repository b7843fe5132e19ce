"""The blocks of SNAIL: causal, the same step by step, and what each is said to compute."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import trace
from regard.models.snail.blocks import AttentionBlock, CausalConv, CausalStack, DenseBlock, TCBlock


def stack(length: int = 9) -> CausalStack:
    torch.manual_seed(3)
    first = AttentionBlock(5, 6, 4)
    second = TCBlock(first.width, length, 3)
    third = AttentionBlock(second.width, 7, 8)
    return CausalStack([first, second, third])


@pytest.mark.parametrize("dilation", [1, 2, 4, 16])
def test_a_causal_convolution_is_torchs_with_padding_on_the_left(dilation):
    ours, x = CausalConv(5, 3, dilation), torch.randn(2, 9, 5)
    theirs = nn.Conv1d(5, 3, 2, dilation=dilation)
    with torch.no_grad():
        theirs.weight.copy_(torch.stack(ours.weight.chunk(2, 1), -1))
        theirs.bias.copy_(ours.bias)
    wanted = theirs(F.pad(x.mT, (dilation, 0))).mT
    torch.testing.assert_close(ours(x), wanted)


def test_a_dense_block_gates_and_keeps_its_input():
    block, x = DenseBlock(5, 3, 2), torch.randn(2, 6, 5)
    found = block.conv(x)
    torch.testing.assert_close(block(x), torch.cat([x, found[..., :3].tanh() * found[..., 3:].sigmoid()], -1))


@pytest.mark.parametrize("length", [1, 2, 6, 8, 9])
def test_a_tc_block_covers_its_length_and_no_dilation_is_wasted(length):
    block = TCBlock(2, length, 3)
    assert block.width == 2 + 3 * math.ceil(math.log2(length))
    x = torch.randn(1, length, 2, requires_grad=True)
    block(x)[:, -1].square().sum().backward()
    if length > 1:
        assert (x.grad[0].abs().sum(-1) > 0).all()  # the last step depends on all
        assert all(bool(p.grad.any()) for p in block.parameters())


@pytest.mark.parametrize("length", [2, 5, 9])
def test_a_tc_block_learns_as_its_dense_blocks_one_after_another(length):
    block = TCBlock(4, 9, 3)
    x = torch.randn(2, length, 4, requires_grad=True)
    found = []
    for out in (block(x), block.layers(x)):
        wanted = torch.linspace(-1, 1, out.numel()).view_as(out)
        grads = torch.autograd.grad((out * wanted).sum() + out.square().sum(), [x, *block.parameters()])
        found.append([out, *grads])
    torch.testing.assert_close(*found)
    with torch.no_grad():
        torch.testing.assert_close(block(x), found[0][0])


def test_a_tc_block_under_autocast_gives_what_its_dense_blocks_give():
    block, x = TCBlock(4, 9, 3), torch.randn(2, 9, 4)
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = block(x), block.layers(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), wanted.float(), atol=0.03, rtol=0.03)
    found.float().square().sum().backward()
    assert all(bool(p.grad.any()) and p.grad.dtype == torch.float32 for p in block.parameters())


def test_the_future_changes_nothing():
    model, x = stack(), torch.randn(2, 9, 5)
    changed = x.clone()
    changed[:, 6:] = 7.0
    torch.testing.assert_close(model(x)[:, :6], model(changed)[:, :6])


@pytest.mark.parametrize("gradients", [True, False])
def test_steps_give_what_the_whole_gives(gradients):
    model, x = stack(), torch.randn(3, 21, 5)  # longer than the length of the TC block
    with torch.set_grad_enabled(gradients):
        states, found = model.begin(), []
        for now in x.unbind(1):
            out, states = model.step(now, states)
            found.append(out)
        torch.testing.assert_close(torch.stack(found, 1), model(x), atol=1e-6, rtol=1e-6)
    assert len(states[1]) == 8  # no more than the largest dilation is kept


def test_the_last_step_alone_is_that_of_the_whole_in_value_and_gradient():
    model, x = stack(), torch.randn(3, 7, 5)
    grads = []
    for out in (model(x)[:, -1], model.last(x)[:, 0]):
        model.zero_grad()
        out.square().sum().backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(model(x)[:, -1:], model.last(x))
    torch.testing.assert_close(grads[0], grads[1])
    assert TCBlock(5, 4, 3).last(x).shape == (3, 1, 11)


@pytest.mark.parametrize("steps", [1, 2, 5, 12])  # shorter and longer than the convolutions reach
@pytest.mark.parametrize("gradients", [True, False])
def test_alternatives_follow_the_same_past_and_do_not_see_one_another(steps: int, gradients: bool):
    model, past, ends = stack(), torch.randn(2, steps, 5), torch.randn(2, 4, 5)
    found = []
    with torch.set_grad_enabled(gradients):
        together = model.last(torch.cat([past, ends], 1), 4)
        alone = torch.cat([model.last(torch.cat([past, end], 1)) for end in ends.split(1, 1)], 1)
        for out in (together, alone):
            grads = torch.autograd.grad(out.square().sum(), list(model.parameters())) if gradients else ()
            found.append([out, *grads])
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gradients", [True, False])
def test_no_rows_give_no_rows(gradients: bool):
    model, x = stack(), torch.randn(0, 7, 5)
    with torch.set_grad_enabled(gradients):
        assert model(x).shape == (0, 7, model.width)
        found = model.last(x, 2)
        assert found.shape == (0, 2, model.width)
    if gradients:
        found.sum().backward()
        assert not any(bool(p.grad.any()) for p in model.parameters())


def test_an_attention_block_shows_where_it_looked():
    model, x = stack(), torch.randn(2, 7, 5)
    with trace(model) as whole:
        model(x)
    with trace(model) as last:
        model.last(x)
    assert whole.sites == ["0.attend", "2.attend"]
    weights = whole["2.attend"]
    assert weights.shape == (2, 7, 7)
    torch.testing.assert_close(weights, weights.tril())
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 7))
    torch.testing.assert_close(last["2.attend"], weights[:, -1:])


def test_one_look_knows_no_order_and_a_convolution_does():
    torch.manual_seed(1)
    look, x = AttentionBlock(5, 6, 4), torch.randn(2, 7, 5)
    shuffled = torch.cat([x[:, [3, 0, 5, 1, 4, 2]], x[:, 6:]], 1)
    torch.testing.assert_close(look.last(x), look.last(shuffled), atol=1e-6, rtol=1e-5)
    assert not torch.allclose(stack().last(x), stack().last(shuffled), atol=1e-4)
