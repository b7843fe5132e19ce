"""The kernels of the tape against the plain steps: on a GPU, or by Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

from regard.attention import Additive
from regard.models.lstmn import tape
from regard.models.lstmn.tape import TapeLSTM

INTERPRETED = tape.kernels is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]
# N, T, E, D, A; the last has more features than a tile
SMALL = [(3, 7, 4, 5, 6), (1, 1, 3, 2, 2), (2, 2, 3, 1, 3), (1, 3, 2, 1100, 1030)]
LARGE = [(117, 70, 632, 632, 632), (5, 300, 20, 1100, 1030), (2, 2000, 8, 33, 17)]
on_each = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(autouse=True)
def on_the_cpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    if INTERPRETED:
        monkeypatch.setattr(tape, "_fused", lambda x: x.dtype == torch.float32)


def build(sizes: tuple[int, ...], device: str) -> tuple[TapeLSTM, Tensor]:
    rows, steps, inputs, dim, attention = sizes
    torch.manual_seed(0)
    layer = TapeLSTM(inputs, dim, attention)
    x = torch.randn(rows, steps, inputs)
    return layer.to(device), x.to(device).requires_grad_()


def padding(x: Tensor) -> Tensor:
    """The first row is padded on the left, the last on the right, so that it has no place at all to look at."""
    mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    mask[0, : x.shape[1] // 2] = False
    mask[-1, x.shape[1] // 3 :] = False
    return mask


def check(found: list[Tensor], wanted: list[Tensor], tolerance: float = 5e-5) -> None:
    for one, other in zip(found, wanted, strict=True):
        near = tolerance * max(1e-3, float(other.abs().max()))
        torch.testing.assert_close(one, other, rtol=0, atol=near, check_dtype=False)


def outputs_and_gradients(layer: TapeLSTM, x: Tensor, mask: Tensor | None) -> list[Tensor]:
    hidden = layer(x, mask)
    towards = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1)).to(hidden)
    return [hidden.detach(), *torch.autograd.grad((hidden * towards).sum(), [x, *layer.parameters()])]


def compare(sizes: tuple[int, ...], device: str, masked: bool) -> None:
    """With the plain steps in float64, which are those that the kernels do not do."""
    layer, x = build(sizes, device)
    mask = padding(x) if masked else None
    found = outputs_and_gradients(layer, x, mask)
    check(found, outputs_and_gradients(layer.double(), x.detach().double().requires_grad_(), mask))


@on_each
@pytest.mark.parametrize("masked", [pytest.param(False, marks=pytest.mark.thorough), True])
@pytest.mark.parametrize(
    "sizes", [SMALL[0], *(pytest.param(sizes, marks=pytest.mark.thorough) for sizes in SMALL[1:])]
)
def test_outputs_and_gradients(sizes: tuple[int, ...], masked: bool, device: str) -> None:
    compare(sizes, device, masked)


@pytest.mark.thorough
@on_each
@pytest.mark.parametrize("masked", [False, True])
def test_more_places_than_a_tile(masked: bool, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tape.kernels is not None:
        monkeypatch.setattr(tape.kernels, "_tile", lambda rows, width, numbers: (4, 16))
    compare((2, 11, 2, 20, 19), device, masked)


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", LARGE)
def test_large_outputs_and_gradients(sizes: tuple[int, ...], masked: bool, device: str) -> None:
    compare(sizes, device, masked)


@pytest.mark.thorough
@on_each
def test_nobody_looks_where_all_is_padding(device: str) -> None:
    layer, x = build(SMALL[0], device)
    hidden = layer(x, torch.zeros(x.shape[:2], dtype=torch.bool, device=device))
    alone = layer(x.flatten(0, 1)[:, None]).view_as(hidden)  # each step as a first one
    torch.testing.assert_close(hidden, alone)
    for slope in torch.autograd.grad(hidden.sum(), [x, *layer.parameters()]):
        assert slope.isfinite().all()


@on_each
@torch.no_grad()
def test_what_a_text_leaves_for_the_steps_that_follow(device: str) -> None:
    layer, x = build(SMALL[0], device)
    mask = torch.ones(x.shape[:2], dtype=torch.bool, device=device)
    mask[0, :3] = False
    found = []
    for dtype in (torch.float32, torch.float64):
        states, (grown, last) = layer.to(dtype).read(x.to(dtype), mask)
        found.append([states, last, grown.memory.keys, layer(x.to(dtype), mask)])
    check(found[0], found[1])


@pytest.mark.thorough
@on_each
@pytest.mark.filterwarnings("ignore:overflow")  # of the interpreter; a GPU has none
def test_large_scores(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of the exponentials the tanh is flat."""
    layer, x = build(SMALL[0], device)
    with torch.no_grad():
        assert isinstance(layer.attend.score, Additive)
        layer.attend.score.query_weight.weight.mul_(1e4)
    found = outputs_and_gradients(layer, x, None)
    monkeypatch.setattr(tape, "_fused", lambda x: False)  # in float32: float64 has other queries
    check(found, outputs_and_gradients(layer, x, None), 1e-3)


@pytest.mark.thorough
@on_each
def test_two_passes_give_the_same_bits(device: str) -> None:
    layer, x = build(SMALL[0], device)
    first, second = (outputs_and_gradients(layer, x, padding(x)) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.thorough
@on_each
def test_gradients_of_any_layout(device: str) -> None:
    """A gradient may be one number for all, or have its features far apart."""
    layer, x = build(SMALL[0], device)
    hidden = layer(x)
    wide = torch.randn(5, 3, 7, device=device).permute(1, 2, 0)
    for towards in (torch.ones((), device=device).expand_as(hidden), wide):
        one, other = (
            torch.autograd.grad(hidden, x, each, retain_graph=True)[0] for each in (towards, towards.contiguous())
        )
        assert torch.equal(one, other)


@pytest.mark.parametrize("device", DEVICES[1:])
def test_a_captured_pass(device: str) -> None:
    layer, x = build((4, 20, 8, 16, 16), device)
    graph, towards = torch.cuda.CUDAGraph(), torch.ones(4, 20, 16, device=device)
    wanted = [one.clone() for one in torch.autograd.grad(layer(x), [x, *layer.parameters()], towards)]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.autograd.grad(layer(x), [x, *layer.parameters()], towards)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        found = torch.autograd.grad(layer(x), [x, *layer.parameters()], towards)
    graph.replay()
    check(list(found), wanted, 1e-6)
