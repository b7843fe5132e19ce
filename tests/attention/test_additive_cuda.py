"""Additive scores by kernels, against the same in float64: on a GPU, or by Triton's interpreter
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

from regard.attention.kernels import additive
from regard.base.shared_steps import steps_share

INTERPRETED = additive.additive_cuda is not None and os.environ.get("TRITON_INTERPRET") == "1"
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1")),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")),
]
# N, Q, K, D
SMALL = [(1, 1, 1, 1), (3, 1, 7, 33), (2, 5, 1, 8), (2, 9, 13, 50), (1, 16, 3, 64), (2, 1, 40, 130)]
LARGE = [(64, 32, 64, 512), (256, 20, 20, 512), (2, 129, 65, 1023), (256, 1, 20, 512), (3, 77, 1, 1024)]
pytestmark = pytest.mark.filterwarnings("ignore:overflow", "ignore:divide by zero", "ignore:invalid value")


def sizes() -> list[object]:
    gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
    return [*SMALL, *(pytest.param(size, marks=gpu) for size in LARGE)]


def made(size: tuple[int, ...], spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, v and the gradient of the scores, anew each time."""
    rows, count, places, dim = size
    shapes = ((rows, count, dim), (rows, places, dim), (dim,), (rows, count, places))
    q, k, v, g = (torch.randn(shape) for shape in shapes)
    return spread * q, spread * k, v * dim**-0.5, g


def exact(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
    """The scores, and the gradients of q, k and v."""
    sides = [x.double().requires_grad_() for x in (q, k, v)]
    parts = [torch.tanh(sides[0][:, [i], None] + sides[1][:, None]) @ sides[2] for i in range(q.shape[1])]
    scores = torch.cat(parts, 1)
    return [scores.detach(), *torch.autograd.grad(scores, sides, g.double())]


def near(found: Tensor, wanted: Tensor, tolerance: float = 3e-6) -> None:
    scale = max(1.0, float(wanted.abs().max()))
    assert float((found.cpu().double() - wanted).abs().max()) < tolerance * scale


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spread", [1.0, 12.0, 40.0])
@pytest.mark.parametrize("size", sizes())
def test_scores_and_gradients_are_those_of_float64(size: tuple[int, ...], spread: float, device: str) -> None:
    q, k, v, g = made(size, spread)
    limit = additive.LIMIT
    inputs = [x.to(device) for x in (q, k, v, g)]
    by_kernel = additive.additive_cuda
    sides = [by_kernel.exponentials(x, limit) for x in inputs[:2]]
    scores, for_q, for_k, for_v = exact(q.clamp(-limit, limit), k.clamp(-limit, limit), v, g)
    near(by_kernel.forward(*sides, inputs[2]), scores)
    rest = (*sides, inputs[2], inputs[3])
    apart = by_kernel.backward_of_queries(*rest), *by_kernel.backward_of_keys(*rest)
    for found in (by_kernel.backward(*rest), apart):
        for x, side, slope, wanted in zip(inputs, sides, found, (for_q, for_k), strict=False):
            inside = (x.cpu().abs() <= limit).double()
            near(by_kernel.exponentials_backward(x, side, slope, limit), wanted * inside, 1e-5)
        near(found[2], for_v, 1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_exponentials_of_half_precision(dtype: torch.dtype, device: str) -> None:
    """In float32, with gradients in the dtype of what came; 0 beyond the limit."""
    x = torch.tensor([-50.0, -43, -1, 0, 0.25, 43, 44]).to(device, dtype)
    out = additive.additive_cuda.exponentials(x, additive.LIMIT)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.cpu(), torch.exp(2 * x.cpu().float().clamp(-43, 43)), rtol=1e-5, atol=0)
    found = additive.additive_cuda.exponentials_backward(x, out, 1 / out, additive.LIMIT)
    assert found.dtype == dtype
    assert found.tolist() == pytest.approx([0, 2, 2, 2, 2, 2, 0], rel=1e-5 if dtype == torch.float32 else 8e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [*SMALL, *LARGE])
def test_on_a_gpu_autograd_takes_the_kernels(size: tuple[int, ...], dtype: torch.dtype) -> None:
    """With strides, as heads and parts of a projection have them."""
    q, k, v, g = (x.to(dtype) for x in made(size))
    wanted = exact(q, k, v, g)
    wide = [torch.cat([x, x], -1).cuda() for x in (q, k)]
    sides = [x[..., : q.shape[-1]].detach().requires_grad_() for x in wide]
    weight = v.cuda().requires_grad_()
    scores = additive.sum_of_tanh(*(additive.exponentials(x) for x in sides), weight)
    found = [scores, *torch.autograd.grad(scores, [*sides, weight], g.cuda())]
    for mine, its in zip(found, wanted, strict=True):
        assert mine.dtype == dtype
        near(mine.detach(), its, 3e-5 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize("device", DEVICES)
def test_steps_that_share_keys(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of keys and v are made once for all steps, of which the last has none."""
    monkeypatch.setattr(additive, "_fused", lambda x: x.dtype == torch.float32)
    q, k, v, g = made((2, 5, 7, 33))
    wanted = exact(q[:, :-1], k, v, g[:, :-1])
    sides = [x.to(device).requires_grad_() for x in (*q.unbind(1), k, v)]
    keys = additive.exponentials(sides[-2])
    with steps_share(keys):
        scores = [additive.sum_of_tanh(additive.exponentials(x[:, None]), keys, sides[-1]) for x in sides[:-2]]
    near(torch.cat(scores, 1).detach()[:, :-1], wanted[0])
    loss = (torch.cat(scores[:-1], 1) * g[:, :-1].to(device)).sum()
    for _ in range(2):
        found = torch.autograd.grad(loss, [*sides[:-3], *sides[-2:]], retain_graph=True)
        near(torch.stack(found[:-2], 1), wanted[1], 1e-5)
        near(found[-2], wanted[2], 1e-5)
        near(found[-1], wanted[3], 1e-5)
