"""The step of a cell in one kernel, against the plain one in float64: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from small_models import WORDS, build, images
from torch import Tensor, nn

from regard.attention import attend
from regard.layers import recurrent
from regard.layers.recurrent import Cell, Encoder, Stack, gated
from regard.layers.replay import syncing_never
from regard.models.captioner import ImageCaptioner

INTERPRETED = recurrent.cell_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=GPU),
]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
# directions, rows, units, sizes of the inputs
SMALL = [(1, 3, 5, (7,)), (2, 18, 17, ()), (1, 20, 9, (40, 17))]
LARGE = [
    (1, 64, 512, (256, 512)),
    (2, 64, 256, ()),
    (1, 320, 512, (512,)),
    (1, 1, 512, (300,)),
    (1, 600, 100, (8, 8)),
]


def compare(kind: str, sizes: tuple[Any, ...], dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(0)
    directions, rows, units, widths = sizes
    gates = 4 if kind == "lstm" else 3

    def numbers(*shape: int, scale: float = 1.0) -> Tensor:
        return (scale * torch.randn(*shape)).to(dtype)

    state = [numbers(directions, rows, 2 * units)[..., units:] for _ in range(2 if kind == "lstm" else 1)]
    of_state, bias = (
        numbers(directions, gates * units, units, scale=units**-0.5),
        numbers(directions, gates * units),
    )
    ahead = None if len(widths) == 2 else numbers(rows, directions, gates * units).transpose(0, 1)
    products = [
        (numbers(rows, width), numbers(gates * units, width, scale=width**-0.5), None if place else bias[0])
        for place, width in enumerate(widths)
    ]
    sums = torch.zeros(1, dtype=torch.float64) if ahead is None else ahead.double()
    for x, weight, more in products:
        sums = sums + nn.functional.linear(*(None if y is None else y.double() for y in (x, weight, more)))
    before = torch.baddbmm(bias.double()[:, None], state[0].double(), of_state.double().mT)
    wanted = gated(kind, sums, before, tuple(part.double() for part in state))[0]
    out = [torch.full((directions, rows, 2, units), torch.nan, dtype=dtype, device=device) for _ in state]
    recurrent.cell_cuda.step(
        [part.to(device) for part in state],
        of_state.to(device),
        bias.to(device),
        None if ahead is None else ahead.to(device),
        [tuple(None if y is None else y.to(device) for y in product) for product in products],
        [part[:, :, 1] for part in out],
    )
    for part, want in zip(out, wanted, strict=True):
        torch.testing.assert_close(part[:, :, 1].cpu().double(), want, rtol=0, atol=TOLERANCE[dtype])
        assert part[:, :, 0].isnan().all()


@pytest.mark.parametrize("sizes", SMALL)
@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("device", DEVICES)
def test_the_same_states(device: str, kind: str, sizes: tuple[Any, ...]) -> None:
    compare(kind, sizes, torch.float32, device)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", LARGE)
@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("device", DEVICES[1:])
def test_the_same_states_of_many_rows(device: str, kind: str, sizes: tuple[Any, ...], dtype: torch.dtype) -> None:
    compare(kind, sizes, dtype, device)


@pytest.fixture(params=DEVICES)
def used(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[Any]]:
    """A device where the kernel is used in half precision, and its calls."""
    calls: list[Any] = []
    step = recurrent.cell_cuda.step

    def counted(*given: Any) -> None:
        calls.append(given)
        step(*given)

    monkeypatch.setattr(recurrent.cell_cuda, "step", counted)
    if request.param == "cpu":

        def fits(kind: str, state: Any, inputs: Any, weights: Any) -> bool:
            return kind != "rnn" and state[0].dtype == torch.float16 and not torch.is_grad_enabled()

        monkeypatch.setattr(recurrent.cell_cuda, "fits", fits)
    return request.param, calls


def close(found: Any, wanted: Any) -> None:
    for part, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(part.double().cpu(), want, rtol=0, atol=4e-3)


def zeros(kind: str, *shape: int) -> tuple[Tensor, ...]:
    return tuple(torch.randn(*shape).half() for _ in range(2 if kind == "lstm" else 1))


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@torch.no_grad()
def test_a_cell_and_a_stack_take_it(kind: str, used: tuple[str, list[Any]]) -> None:
    device, calls = used
    torch.manual_seed(0)
    cell, feed = Cell(kind, 5, 6).half(), nn.Linear(7, len(recurrent.KINDS[kind][1]) * 6).half()
    stack = Stack(kind, 5, 6, layers=2).half().eval()
    x, fed, state, both = (
        torch.randn(3, 5).half(),
        torch.randn(3, 7).half(),
        zeros(kind, 3, 6),
        zeros(kind, 3, 2, 6),
    )
    cell, feed, stack = cell.double(), feed.double(), stack.double()
    wide = tuple(part.double() for part in state)
    wanted = cell(None, wide, (cell.input, x.double()), (feed, fed.double()))
    of_stack, rows = stack(x.double()[:, None], tuple(part.double() for part in both))
    assert not calls
    cell, feed, stack = (part.half().to(device) for part in (cell, feed, stack))
    there = tuple(part.to(device) for part in state)
    close(cell(None, there, (cell.input, x.to(device)), (feed, fed.to(device))), wanted)
    out, after = stack(x.to(device)[:, None], tuple(part.to(device) for part in both))
    close((out, *after), (of_stack, *rows))
    assert len(calls) == (0 if kind == "rnn" else 3)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@torch.no_grad()
def test_an_encoder_that_must_not_sync_takes_it(kind: str, used: tuple[str, list[Any]]) -> None:
    device, calls = used
    torch.manual_seed(0)
    encoder = Encoder(kind, 5, 6).half().double()
    x, mask = torch.randn(2, 3, 5).half(), torch.tensor([[True] * 3, [True, False, False]])
    with syncing_never():
        states, last = encoder(x.double(), mask)
        encoder = encoder.half().to(device)
        found, ends = encoder(x.to(device), mask.to(device))
    close((found, *ends), (states, *last))
    assert len(calls) == 3


def test_gradients_take_the_plain_way(used: tuple[str, list[Any]]) -> None:
    device, calls = used
    cell = Cell("gru", 5, 6).half().to(device)
    (hidden,) = cell(
        None, (torch.zeros(2, 6, device=device).half(),), (cell.input, torch.ones(2, 5).half().to(device))
    )
    hidden.sum().backward()
    assert cell.hidden.bias.grad is not None
    assert not calls


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "name", ["luong", "bahdanau", "seq2seq", "rnnlm", "lstmn", "show_and_tell", "show_attend_tell"]
)
@GPU
@torch.no_grad()
def test_steps_of_models_in_half_precision(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernels of cells and looks, with beams that go on from others: as near to float64 as without them."""
    calls: list[Any] = []
    step = recurrent.cell_cuda.step
    monkeypatch.setattr(recurrent.cell_cuda, "step", lambda *given: calls.append(given) or step(*given))
    model = build(name, size=64).to(dtype)
    if isinstance(model, ImageCaptioner):
        source, mask = images(model).to(dtype), torch.ones(4, 1, dtype=torch.bool)
    else:
        source, mask = torch.randint(3, WORDS, (4, 6)), torch.arange(6) >= torch.arange(4)[:, None]
        mask = mask.flip(1) if model.padded_side == "right" else mask
    found = []
    for device, precision, kernels in (("cpu", torch.float64, True), ("cuda", dtype, False), ("cuda", dtype, True)):
        if not kernels:
            monkeypatch.setattr(recurrent.cell_cuda, "fits", lambda *given: False)
            monkeypatch.setattr(attend, "has_kernel_for_look", lambda *given: False)
        elif found:
            assert not calls
            monkeypatch.undo()
            monkeypatch.setattr(recurrent.cell_cuda, "step", lambda *given: calls.append(given) or step(*given))
        model = model.to(device, precision)
        inputs = source.to(device, precision if source.is_floating_point() else source.dtype)
        with syncing_never():
            state = model.start(inputs, mask.to(device)).spread(3)
        tokens, logits = torch.arange(12, device=device) % WORDS, []
        for _ in range(4):
            now, state = model.step(tokens, state)
            logits.append(now.double().cpu())
            order = torch.arange(12, device=device).unflatten(0, (4, 3))[:, [1, 1, 0]].flatten()
            tokens, state = (tokens + 3) % WORDS, state.reorder(order)
        found.append(torch.stack(logits))
    wanted, plain, fused = found
    slack = 2 * (plain - wanted).abs().max().item() + 0.01 * wanted.abs().max().item()
    torch.testing.assert_close(fused, wanted, rtol=0, atol=slack)
    assert calls


@GPU
@torch.no_grad()
def test_a_gpu_with_little_shared_memory_takes_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, state = Cell("gru", 5, 6).half().cuda(), torch.zeros(2, 6).half().cuda()
    weights = [*cell.hidden.parameters()]
    assert recurrent.has_kernel("gru", (state,), [], weights)
    monkeypatch.setattr(recurrent.cell_cuda, "shared_memory", lambda device: 64 * 1024)
    assert not recurrent.has_kernel("gru", (state,), [], weights)
