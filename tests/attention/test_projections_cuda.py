"""Linear layers of blocks in training, against the same in float64: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import nn

from regard.attention.kernels import projections
from regard.layers.block import ACTIVATIONS, KERNEL_NAMES

INTERPRETED = projections.projections_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]


def taken_anywhere(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
    """In half precision by autocast, by the interpreter too."""

    def taken(x: torch.Tensor) -> bool:
        return torch.is_grad_enabled() and torch.is_autocast_enabled(x.device.type)

    for module in modules:
        monkeypatch.setattr(module, "learns_in_half", taken)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=GPU)])
@pytest.mark.parametrize(
    "size",
    [(1, (1,)), (3, (5, 8)), (70, (65, 64, 130)), (513, (2,)), pytest.param((33_000, (1023, 512)), marks=GPU)],
)
def test_columns_are_joined_and_added_up(
    size: tuple[int, tuple[int, ...]], dtype: torch.dtype, device: str
) -> None:
    """Of contiguous matrices, and of parts of wider ones."""
    rows, widths = size
    sides = [torch.randn(rows, 2 * width)[:, :width] for width in widths]
    for given in (sides, [side.contiguous() for side in sides]):
        given = [side.to(device, dtype) for side in given]
        joined, sums = projections.projections_cuda.joined_sums(tuple(given))
        assert torch.equal(joined, torch.cat(given, 1))
        wanted = torch.cat(given, 1).double().sum(0)
        torch.testing.assert_close(sums.double(), wanted, rtol=1e-5, atol=1e-6 * rows)
        again = projections.projections_cuda.joined_sums(tuple(given))[1]
        assert torch.equal(sums, again)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("widths", [(24,), (8, 40), (3, 5)])
def test_layers_and_gradients_are_those_of_float64(
    widths: tuple[int, ...], bias: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one output is not used, and one weight does not learn."""
    taken_anywhere(monkeypatch, projections)
    torch.manual_seed(0)
    layers = [nn.Linear(12, width, bias=bias).to(device) for width in widths]
    x = torch.randn(3, 7, 12, device=device, requires_grad=True)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    with torch.autocast(device, torch.bfloat16):
        found = projections.project(x, *layers)
    torch.ones((), device=device, requires_grad=True).square().backward()  # a thread of CUDA begins with no product
    assert all(type(y.grad_fn).__name__ != "AddmmBackward0" and y.dtype == torch.bfloat16 for y in found)
    upstream = [torch.randn_like(y) for y in found]
    grads = torch.autograd.grad(found, [x, *parameters], upstream, retain_graph=True)
    exact = [layer(x).double() for layer in layers]
    wanted = torch.autograd.grad(exact, [x, *parameters], [slope.double() for slope in upstream])
    for one, other in zip((*found, *grads), (*exact, *wanted), strict=True):
        scale = float(other.detach().abs().max())
        torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=1e-2 * scale)
    (alone,) = torch.autograd.grad(found[0], x, upstream[0])
    (wanted_alone,) = torch.autograd.grad(layers[0](x), x, upstream[0].float())
    torch.testing.assert_close(alone, wanted_alone, rtol=0, atol=1e-2 * float(wanted_alone.abs().max()))
    layers[0].weight.requires_grad_(False)
    with torch.autocast(device, torch.bfloat16):
        projections.project(x, *layers)[0].sum().backward()
    assert layers[0].weight.grad is None
    assert x.grad is not None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_and_its_slope_are_those_of_float64(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_anywhere(monkeypatch, projections)
    torch.manual_seed(0)
    layer = nn.Linear(12, 70).to(device)
    x = (4 * torch.randn(9, 12, device=device)).to(torch.bfloat16).requires_grad_()
    with torch.autocast(device, torch.bfloat16):
        found = projections.expand(x, layer, ACTIVATIONS[name], KERNEL_NAMES)
        before = projections.project(x, layer)[0].detach().double().requires_grad_()
    upstream, sides = torch.randn_like(found), [x, *layer.parameters()]
    exact = ACTIVATIONS[name](before)
    (slope,) = torch.autograd.grad(exact, before, upstream.double())
    wanted = slope @ layer.weight.double(), slope.T @ x.double(), slope.sum(0)
    for one, other in zip((found, *torch.autograd.grad(found, sides, upstream)), (exact, *wanted), strict=True):
        scale = float(other.detach().abs().max())
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-2 * scale)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (3, 2, 1030), pytest.param((2049, 16, 256), marks=GPU)])
def test_rows_of_padding_are_0(shape: tuple[int, ...], device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN there too, and their gradients; of rows, and of heads side by side."""
    taken_anywhere(monkeypatch, projections)
    mask = torch.rand(shape[:-1], device=device) < 0.6
    x = torch.randn(shape, device=device).masked_fill(~mask[..., None], torch.nan).requires_grad_()
    for kind in (torch.float32, torch.bfloat16):
        given = x.to(kind)
        with torch.autocast(device, torch.bfloat16):
            found = projections.real_rows(given, mask)
        upstream = torch.randn_like(found)
        assert torch.equal(found, x.masked_fill(~mask[..., None], 0).to(kind).to(torch.bfloat16)) or device == "cpu"
        torch.testing.assert_close(found.float(), given.float().nan_to_num(0), rtol=1e-2, atol=0)
        (grad,) = torch.autograd.grad(found, x, upstream)
        assert torch.equal(grad, upstream.float() * mask[..., None])
    heads = torch.randn(3, 4, 5, 8, device=device, dtype=torch.bfloat16, requires_grad=True)
    looks = torch.tensor([True, False, True], device=device).view(3, 1, 1, 1)
    with torch.autocast(device, torch.bfloat16):
        found = projections.real_heads(heads, looks)
    wanted, upstream = heads.masked_fill(~looks, 0), torch.randn_like(heads)
    assert torch.equal(found, wanted)
    assert torch.equal(*(torch.autograd.grad(y, heads, upstream)[0] for y in (found, wanted)))


@GPU
def test_the_kernels_are_for_learning_in_half_precision_alone() -> None:
    layer, x = nn.Linear(8, 8).cuda(), torch.randn(2, 8, device="cuda", requires_grad=True)

    def taken() -> bool:
        return "Projections" in type(projections.project(x, layer)[0].grad_fn).__name__

    assert not taken()
    with torch.autocast("cuda", torch.bfloat16):
        assert projections.learns_in_half(x)
        assert not projections.learns_in_half(x.double())
        with torch.no_grad():
            assert not projections.learns_in_half(x)
        hook = layer.register_forward_hook(lambda *_: None)
        assert not taken()
        hook.remove()
        torch.func.grad(lambda x: layer(x).sum())(x.detach())
        assert torch.func.grad(lambda x: projections.project(x, layer)[0].sum())(x.detach()).any()


def test_on_a_cpu_layers_are_called() -> None:
    layer, x = nn.Linear(8, 8), torch.randn(2, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(projections.project(x, layer)[0], layer(x))
        assert not projections.learns_in_half(x)
