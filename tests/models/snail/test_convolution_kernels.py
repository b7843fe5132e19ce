"""The kernels of a pooled convolution against the plain layers: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.snail import pooled_convolution
from regard.models.snail.model import ImageEmbedding, SNAILConfig
from regard.models.snail.pooled_convolution import PooledConvolution

INTERPRETED = pooled_convolution.convolution_kernels is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]
on_each = pytest.mark.parametrize("device", DEVICES)
# N, H, W, filters: more places than a tile, odd sides, few pixels, filters that no tile divides
SMALL = [(5, 8, 8, 16), (3, 7, 9, 16), (1, 3, 2, 16), (1, 2, 2, 48), (2, 6, 5, 80)]
LARGE = [(1280, 28, 28, 64), (500, 27, 29, 48), (3, 301, 200, 256)]


@pytest.fixture(autouse=True)
def on_the_cpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    if INTERPRETED:
        monkeypatch.setattr(pooled_convolution, "_fused", lambda x: True)


def build(sizes: tuple[int, ...], device: str, *, training: bool = True) -> tuple[PooledConvolution, Tensor]:
    """With statistics, scales and biases that are not those of a new layer."""
    *shape, filters = sizes
    torch.manual_seed(0)
    layer, x = PooledConvolution(1, filters, 3, relu=False), torch.rand(shape)[:, None]
    for tensor in (layer.norm.weight, layer.norm.bias, layer.norm.running_mean, layer.norm.running_var):
        assert tensor is not None
        nn.init.uniform_(tensor, 0.5, 1)
    nn.init.uniform_(layer.norm.weight, -1, 1)
    return layer.train(training).to(device), x.to(device)


def states_and_gradients(layer: PooledConvolution, x: Tensor) -> list[Tensor]:
    """With the statistics that follow."""
    found = layer.pooled(x)
    towards = torch.rand(found.shape, generator=torch.Generator().manual_seed(1)).to(found)
    gradients = torch.autograd.grad((found * towards).sum(), list(layer.parameters()))
    return [found.detach(), *gradients, *layer.norm.buffers()]


def check(found: list[Tensor], wanted: list[Tensor], tolerance: float = 1e-5) -> None:
    for one, other in zip(found, wanted, strict=True):
        one, other = one.detach(), other.detach()
        assert one.shape == other.shape
        near = tolerance * max(1e-3, float(other.abs().max()))
        torch.testing.assert_close(one, other, rtol=0, atol=near, check_dtype=False)


def compare(layer: PooledConvolution, x: Tensor, tolerance: float = 1e-5) -> None:
    """With the plain layers in float64, which the kernels do not compute."""
    exact = copy.deepcopy(layer).double()
    assert pooled_convolution.convolution_kernels.fits(layer.filter, layer.norm, x)
    found = states_and_gradients(layer, x)
    assert found[0].dtype == torch.float32
    assert found[0].is_contiguous(memory_format=torch.channels_last)
    check(found, states_and_gradients(exact, x.double()), tolerance)


@on_each
@pytest.mark.parametrize("training", [True, pytest.param(False, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "sizes", [SMALL[0], *(pytest.param(sizes, marks=pytest.mark.thorough) for sizes in SMALL[1:])]
)
def test_states_gradients_and_statistics(sizes: tuple[int, ...], training: bool, device: str) -> None:
    compare(*build(sizes, device, training=training))


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("sizes", LARGE)
def test_large_batches(sizes: tuple[int, ...], training: bool, device: str) -> None:
    """A few of the largest of four places differ, where rounding decides."""
    compare(*build(sizes, device, training=training), 1e-3)


@pytest.mark.thorough
@on_each
def test_a_program_has_several_tiles(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PROGRAMS": 2, "PATCHES": 32}.items():
        monkeypatch.setattr(pooled_convolution.convolution_kernels, name, value)
    compare(*build((7, 7, 9, 16), device))


@pytest.mark.thorough
@on_each
@pytest.mark.parametrize("value", [0.0, 1.0, 1000.0])
def test_images_of_one_value(value: float, device: str) -> None:
    layer, x = build((2, 6, 6, 16), device)
    compare(layer, torch.full_like(x, value), 1e-4 if value else 1e-5)


@pytest.mark.thorough
@on_each
def test_pixels_that_hardly_vary(device: str) -> None:
    """The variance is a small difference of large sums for filters that sum to 0."""
    layer, x = build((4, 12, 12, 16), device)
    with torch.no_grad():
        layer.filter.weight.sub_(layer.filter.weight.mean((2, 3), keepdim=True))
    compare(layer, 0.9 + 0.1 * x)


@pytest.mark.thorough
@on_each
def test_images_of_lines(device: str) -> None:
    """Black and white: many places are equal."""
    layer, x = build((4, 8, 8, 16), device)
    compare(layer, (x > 0.8).float())


@pytest.mark.thorough
@on_each
@pytest.mark.parametrize("training", [True, False])
def test_autocast_gives_the_dtype_of_the_plain_layers(training: bool, device: str) -> None:
    layer, x = build((2, 6, 6, 16), device, training=training)
    plain = copy.deepcopy(layer)
    with torch.autocast(device, torch.bfloat16):
        found, wanted = layer.pooled(x), F.relu(F.max_pool2d(plain.norm(plain.filter(x)), 2))
    assert found.dtype == wanted.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, atol=0.05, rtol=0.05)
    again = layer.pooled(x)
    torch.testing.assert_close(found.float(), again, atol=0, rtol=2**-7)  # only rounded; the interpreter cuts off
    towards, parameters = torch.rand_like(found), list(layer.parameters())
    rounded = torch.autograd.grad(found, parameters, towards)
    for one, other in zip(rounded, torch.autograd.grad(again, parameters, towards.float()), strict=True):
        assert torch.equal(one, other)


@pytest.mark.thorough
@on_each
@pytest.mark.parametrize("training", [True, False])
def test_without_gradients(training: bool, device: str) -> None:
    layer, x = build(SMALL[1], device, training=training)
    for mode in (torch.no_grad, torch.inference_mode):
        one, other = copy.deepcopy(layer), copy.deepcopy(layer)
        with mode():
            found = one.pooled(x)
        assert not found.requires_grad
        assert torch.equal(found, other.pooled(x).detach())
        for ours, theirs in zip(one.norm.buffers(), other.norm.buffers(), strict=True):
            assert torch.equal(ours, theirs)


@on_each
def test_nan_is_not_hidden(device: str) -> None:
    layer, x = build((2, 4, 4, 16), device, training=False)
    x[0, 0, 1, 1] = float("nan")
    found, wanted = layer.pooled(x), copy.deepcopy(layer).double().pooled(x.double())
    assert torch.equal(found.isnan(), wanted.isnan())
    assert layer.train().pooled(x).isnan().all()


@pytest.mark.thorough
@on_each
def test_gradients_of_any_layout(device: str) -> None:
    layer, x = build(SMALL[0], device)
    states, filters = layer.pooled(x), layer.filter.weight
    for towards in (torch.ones((), device=device).expand_as(states), torch.rand(states.shape, device=device)):
        one, other = (
            torch.autograd.grad(states, filters, each, retain_graph=True)[0]
            for each in (towards, towards.contiguous(memory_format=torch.channels_last))
        )
        assert torch.equal(one, other)


@pytest.mark.thorough
@on_each
def test_two_passes_give_the_same_bits(device: str) -> None:
    layer, x = build(SMALL[0], device)
    first, second = (states_and_gradients(copy.deepcopy(layer), x) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.thorough
@on_each
@pytest.mark.parametrize("size", [(8, 8), (11, 9)])
def test_an_embedding_of_several_layers(size: tuple[int, int], device: str) -> None:
    torch.manual_seed(0)
    height, width = size
    config = SNAILConfig(image_size=height, image_width=width, conv_layers=2, conv_filters=16, embed=8)
    eye, images = ImageEmbedding(config).to(device), torch.rand(5, 1, height, width, device=device)
    exact = copy.deepcopy(eye).double()
    found, wanted = eye(images), exact(images.double())
    check([found.detach()], [wanted.detach()], 1e-4)
    found.square().sum().backward()
    wanted.square().sum().backward()
    ours, theirs = ([each.grad for each in one.parameters()] for one in (eye, exact))
    check(ours, theirs, 1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", DEVICES[1:])
def test_a_captured_step(device: str) -> None:
    layer, x = build((64, 28, 28, 64), device)
    other = copy.deepcopy(layer)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        states_and_gradients(copy.deepcopy(layer), x)
    torch.cuda.current_stream().wait_stream(stream)
    towards = torch.rand(64, 64, 14, 14, device=device)
    with torch.cuda.graph(graph):
        states = layer.pooled(x)
        gradients = torch.autograd.grad(states, list(layer.parameters()), towards)
    x.copy_(x.flip(0).square())
    graph.replay()
    again = other.pooled(x)
    wanted = torch.autograd.grad(again, list(other.parameters()), towards)
    check([states, *gradients, *layer.norm.buffers()], [again, *wanted, *other.norm.buffers()], 1e-6)


KINDS: dict[str, dict[str, Any]] = {
    "two channels": {"inside": 2},
    "5 x 5": {"kernel": 5},
    "strides": {"stride": 2},
    "17 filters": {"outside": 17},
    "too many filters": {"outside": 272},
}


@pytest.mark.skipif(pooled_convolution.convolution_kernels is None, reason="needs Triton")
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_kernels_do_not_compute(kind: str) -> None:
    sizes = {"inside": 1, "outside": 16, "kernel": 3, "stride": 1} | KINDS[kind]
    layer = PooledConvolution(sizes["inside"], sizes["outside"], sizes["kernel"], stride=sizes["stride"])
    x = torch.rand(2, sizes["inside"], 6, 6)
    assert not pooled_convolution.convolution_kernels.fits(layer.filter, layer.norm, x)
    assert torch.equal(layer.pooled(x), F.relu(F.max_pool2d(layer.norm(layer.filter(x)), 2)))


@pytest.mark.skipif(pooled_convolution.convolution_kernels is None, reason="needs Triton")
def test_images_that_the_kernels_do_not_take() -> None:
    layer, x = build(SMALL[0], "cpu")
    fits, parts = pooled_convolution.convolution_kernels.fits, (layer.filter, layer.norm)
    assert fits(*parts, x)
    assert not fits(*parts, x.clone().requires_grad_())
    assert not fits(*parts, x.double())
    assert not fits(*parts, x[:0])
    assert not fits(*parts, x[:, :, :1])
    assert not fits(layer.filter, nn.SyncBatchNorm(16), x)
    assert not fits(layer.filter, nn.BatchNorm2d(16, momentum=None), x)
    assert not fits(layer.filter, nn.BatchNorm2d(16, track_running_stats=False), x)
