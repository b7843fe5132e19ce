"""Residual connection, dropout and layer norm as one operation, and blocks that use it, against the same in
float64: on a GPU, or by Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.kernels import projections
from regard.attention.trace import trace
from regard.layers import add_norm
from regard.layers.block import Block, recompute_blocks

INTERPRETED = add_norm.add_norm_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]
HALF = torch.bfloat16


@pytest.fixture(autouse=True)
def taken_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """In half precision by autocast, by the interpreter too."""
    real = projections.learns_in_half

    def taken(x: Tensor) -> bool:
        return real(x) or (x.device.type == "cpu" and torch.is_grad_enabled() and torch.is_autocast_enabled("cpu"))

    if INTERPRETED:
        for module in (projections, add_norm):
            monkeypatch.setattr(module, "learns_in_half", taken)


def near(found: Tensor, wanted: Tensor, tolerance: float) -> None:
    scale = max(1e-3, float(wanted.detach().abs().max()))
    assert float((found.detach().cpu().double() - wanted.detach().cpu()).abs().max()) <= tolerance * scale


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", ["post", "pre", "norm", "last", "add"])
@pytest.mark.parametrize("size", [(1, 5), (3, 33), (7, 256), (19, 130), pytest.param((4099, 768), marks=GPU)])
def test_values_and_gradients_are_those_of_float64(size: tuple[int, int], way: str, device: str) -> None:
    rows, dim = size
    x, upstream, beside = (torch.randn(rows, dim) for _ in range(3))
    h, norm = torch.randn(rows, dim).to(HALF), nn.LayerNorm(dim)
    with torch.no_grad():
        norm.weight.add_(0.3 * torch.randn(dim))
        norm.bias.add_(0.3 * torch.randn(dim))
    beside = beside.to(HALF)

    def run(norm: Any, x: Tensor, h: Tensor, exactly: bool) -> list[Tensor]:
        sides = [x.requires_grad_(), h.requires_grad_(), norm.weight, norm.bias]
        if exactly:
            total = x if way == "norm" else x + h
            made = norm(total)
            out = {"post": (made, made), "last": (made, None), "add": (total, None)}.get(way, (total, made))
        elif way == "norm":
            out = add_norm.normed(x, norm)
        elif way == "add":
            out = add_norm.add(x, h, None), None
        else:
            out = add_norm.add_norm(x, h, norm, None, post=way != "pre", last=way == "last")
        outs = [part for part in out if part is not None]
        slopes = [upstream.to(outs[0]), beside.to(outs[0].device, outs[-1].dtype)][: len(outs)]
        return [*outs, *(g for g in torch.autograd.grad(outs, sides, slopes, allow_unused=True) if g is not None)]

    with torch.autocast(device, HALF):
        found = run(_copied(norm, device), x.to(device), h.to(device), False)
    wanted = run(_copied(norm, "cpu").double(), x.double(), h.double(), True)
    for one, other in zip(found, wanted, strict=True):
        near(
            one, other, (4e-3 if device == "cuda" else 8e-3) if one.dtype == HALF else 2e-5
        )  # the interpreter cuts off bits


def _copied(norm: nn.LayerNorm, device: str) -> nn.LayerNorm:
    made = nn.LayerNorm(norm.normalized_shape)
    made.load_state_dict(norm.state_dict())
    return made.to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("post", [False, True])
def test_dropout_is_the_same_in_both_passes(post: bool, device: str) -> None:
    """A seed gives the same mask, another seed another; what is left is scaled."""
    rows, dim, rate = 17, 130, 0.3
    x, h = torch.zeros(rows, dim, device=device, requires_grad=True), torch.ones(rows, dim, device=device)
    h, norm = h.to(HALF).requires_grad_(), nn.LayerNorm(dim).to(device)
    torch.manual_seed(1)
    draws = add_norm.Draws(2, rate, torch.device(device))
    one, other = draws.next(), draws.next()
    with torch.autocast(device, HALF):
        total = add_norm.add(x, h, one)
        (for_h,) = torch.autograd.grad(total.sum(), h)
        assert torch.equal(total, add_norm.add(x, h, one))
        assert not torch.equal(total, add_norm.add(x, h, other))
        made, _ = add_norm.add_norm(x, h, norm, one, post=post)
        upstream = torch.randn_like(made)
        for_x, for_h_normed = torch.autograd.grad(made, (x, h), upstream)
    kept = total != 0
    assert 0.25 < 1 - float(kept.float().mean()) < 0.35
    torch.testing.assert_close(total[kept], torch.full_like(total[kept], 1 / (1 - rate)))
    assert torch.equal(for_h != 0, kept)
    torch.testing.assert_close(for_h_normed.float(), for_x * kept / (1 - rate), rtol=1e-2, atol=1e-4)
    torch.manual_seed(1)
    assert draws.seeds is not None
    assert torch.equal(draws.seeds, add_norm.Draws(2, rate, x.device).seeds)


def passes(
    block: Block, x: Tensor, memory: Tensor, mask: Tensor | None, upstream: Tensor, half: bool
) -> list[Tensor]:
    """What comes out at real positions, and all gradients."""
    x, memory = x.clone().requires_grad_(), memory.clone().requires_grad_()
    with torch.autocast(x.device.type, HALF, enabled=half):
        source = block.cross.remember(memory) if block.cross else None
        y = block(x, mask=mask, source=source)
    if mask is not None:
        y = y * mask[..., None]
    sides = [x, *([memory] if block.cross else []), *block.parameters()]
    return [y, *torch.autograd.grad(y, sides, upstream.to(y))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_a_block_that_learns_is_that_of_float64(norm: str, cross: bool, masked: bool, device: str) -> None:
    torch.manual_seed(0)
    block = Block(24, 3, 40, norm=norm, cross=cross, causal=cross, activation="gelu", dropout=0.0)
    for parameter in block.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    x, memory, upstream = torch.randn(3, 5, 24), torch.randn(3, 4, 24), torch.randn(3, 5, 24)
    mask = torch.arange(5) < torch.tensor([[5], [2], [3]]) if masked else None
    place = None if mask is None else mask.to(device)
    found = passes(block.to(device), x.to(device), memory.to(device), place, upstream.to(device), True)
    assert found[0].dtype == torch.float32
    wanted = passes(block.cpu().double(), x.double(), memory.double(), mask, upstream.double(), False)
    names = ["output", "x", *(["memory"] if cross else []), *(name for name, _ in block.named_parameters())]
    for name, one, other in zip(names, found, wanted, strict=True):
        if name.endswith("key.bias"):  # it changes nothing
            other, one = other + 1, one.cpu().double() + 1
        near(one, other, 3e-2)


def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations of `add_norm` that are used from here on."""
    made: list[str] = []
    for name in ("add_norm", "normed", "split"):
        real = getattr(add_norm, name)
        monkeypatch.setattr(
            add_norm, name, lambda *given, name=name, real=real, **how: made.append(name) or real(*given, **how)
        )
    return made


@pytest.mark.parametrize("device", DEVICES)
def test_when_a_block_uses_it(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, x = calls(monkeypatch), torch.randn(2, 3, 16, device=device)

    def used(block: Block, *, half: bool = True) -> bool:
        made.clear()
        with torch.autocast(device, HALF, enabled=half):
            block.to(device)(x)
        return bool(made)

    assert used(Block(16, 2, 8))
    assert used(Block(16, 2, 8, norm="pre"))
    assert used(Block(16, 2, 0))
    assert not used(Block(16, 2, 8), half=False)
    for other in ({"norm": "batch"}, {"norm": "none"}, {"residual": False}, {"drop_path": 0.5}):
        assert not used(Block(16, 2, 8, **other))
    with torch.no_grad():
        assert not used(Block(16, 2, 8))
    hooked = Block(16, 2, 8)
    hooked.feed_norm.register_forward_hook(lambda *_: None)
    assert not used(hooked)
    block = Block(16, 2, 8).to(device)
    with trace(block, "attend") as seen:
        assert not used(block)
    assert seen["attend"].shape == (2, 2, 3, 3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_that_is_computed_again_has_the_same_dropout(norm: str, device: str) -> None:
    torch.manual_seed(0)
    block = Block(16, 2, 8, norm=norm, dropout=0.4).to(device)
    x, found = torch.randn(2, 3, 16, device=device, requires_grad=True), []
    for again in (False, True):
        if again:
            recompute_blocks(block)
        torch.manual_seed(2)
        with torch.autocast(device, HALF):
            y = block(x)
        found.append([y, *torch.autograd.grad(y.square().sum(), [x, *block.parameters()])])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@GPU
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_captured_step_draws_anew_and_follows_the_seed(norm: str) -> None:
    torch.manual_seed(0)
    block = Block(64, 4, 128, norm=norm, dropout=0.5).cuda()
    x = torch.randn(4, 16, 64, device="cuda")
    parameters = list(block.parameters())

    def work() -> list[Tensor]:
        with torch.autocast("cuda", HALF):
            y = block(x)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), parameters)]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = work()

    def replayed(seed: int | None = None) -> list[Tensor]:
        if seed is not None:
            torch.cuda.manual_seed(seed)
        graph.replay()
        return [part.clone() for part in out]

    first, second, again = replayed(5), replayed(), replayed(5)
    assert not torch.equal(first[0], second[0])
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    torch.cuda.manual_seed(5)
    assert all(torch.equal(one, other) for one, other in zip(first, work(), strict=True))
